"""Two protocols become one, or are laid side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from wardround.clinical.protocols.conditions import AtLevel, AtValue, Condition, Node, conditions_of
from wardround.clinical.protocols.index import CompiledRule, compile_rule
from wardround.clinical.protocols.lint import excludes, is_same
from wardround.clinical.protocols.rules import FORBIDDING, GlobalProtocol, ProtocolRule
from wardround.clinical.vocabulary import clinical_name


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedProtocol:
    """The merged protocol. ``same``: ids of rules of the second that the first contains already, with the first's rule.
    ``renamed``: ids of the second that the first used for another rule."""

    protocol: GlobalProtocol
    same: dict[str, str]
    renamed: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolDiff:
    """What differs: ids only in one of them, and by id the fields that changed, as (before, after)."""

    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: dict[str, dict[str, tuple[object, object]]]

    @property
    def is_empty(self) -> bool:
        """Return whether both say the same."""
        return not (self.removed or self.added or self.changed)


def merge_protocols(first: GlobalProtocol, second: GlobalProtocol) -> MergedProtocol:
    """Return the rules of both. A rule that both have is kept once, with the cases of both counted together.

    Weights were fitted together with the other rules of their own protocol, so they are summed only where one protocol
    brings any; where both do, all go, and rules count by their shares.
    """
    if all(any(rule.weights for rule in one.rules) for one in (first, second)):
        first, second = _without_weights(first), _without_weights(second)
    rules = {rule.id: rule for rule in first.rules}
    compiled = {rule.id: compile_rule(rule) for rule in first.rules}
    same: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for rule in second.rules:
        known = _duplicate_of(compile_rule(rule), compiled.values())
        if known is not None:
            same[rule.id] = known
            rules[known] = _counted_together(rules[known], rule)
            continue
        name = _free(rule.id, rules)
        if name != rule.id:
            renamed[rule.id] = name
        rules[name] = replace(rule, id=name)
        compiled[name] = compile_rule(rules[name])
    return MergedProtocol(protocol=first.with_rules(tuple(rules.values())), same=same, renamed=renamed)


def diff_protocols(before: GlobalProtocol, after: GlobalProtocol) -> ProtocolDiff:
    """Return what the second says otherwise than the first."""
    old = {rule.id: rule for rule in before.rules}
    new = {rule.id: rule for rule in after.rules}
    changed = {name: _changes(old[name], new[name]) for name in old if name in new}
    return ProtocolDiff(
        removed=tuple(name for name in old if name not in new),
        added=tuple(name for name in new if name not in old),
        changed={name: found for name, found in changed.items() if found},
    )


def found_rules(protocol: GlobalProtocol, wanted: GlobalProtocol) -> dict[str, tuple[str, ...]]:
    """Return, by rule of the second protocol, the rules of the first that ask for one of its actions where it holds:
    their triggers can hold together, and say the same of a concept: both that it is high, or low."""
    compiled = [compile_rule(rule) for rule in protocol.rules]
    wanted_rules = [compile_rule(rule) for rule in wanted.rules]
    return {
        wanted_rule.rule.id: tuple(other.rule.id for other in compiled if _says_too(other, wanted_rule))
        for wanted_rule in wanted_rules
        if any(action.verb not in FORBIDDING for action in wanted_rule.actions)
    }


def _says_too(found: CompiledRule, wanted: CompiledRule) -> bool:
    if found.trigger.node is None or wanted.trigger.node is None:
        return False
    shared = _statements(wanted.trigger.node) & _statements(found.trigger.node)
    positive = [action for action in wanted.actions if action.verb not in FORBIDDING]
    same = any(action.verb == other.verb and action.names(other.name) for action in positive for other in found.actions)
    return bool(shared) and same and not excludes(found.trigger.node, wanted.trigger.node)


def _statements(node: Node) -> set[tuple[str, str]]:
    """Return a trigger's statements on concepts, without the numbers: lactate is high, whether above 2 or above 2.1."""
    return {(clinical_name(condition.concept), _direction(condition)) for condition in conditions_of(node)}


def _direction(condition: Condition) -> str:
    if isinstance(condition, AtValue):
        return "high" if condition.relation.startswith(">") else "low"
    return condition.level if isinstance(condition, AtLevel) else type(condition).__name__


def _changes(before: ProtocolRule, after: ProtocolRule) -> dict[str, tuple[object, object]]:
    names = (field.name for field in fields(ProtocolRule))
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _duplicate_of(rule: CompiledRule, known: Iterable[CompiledRule]) -> str | None:
    actions = {(action.verb, action.key, action.dose) for action in rule.actions}
    for candidate in known:
        if {(action.verb, action.key, action.dose) for action in candidate.actions} == actions and _same_trigger(
            candidate, rule
        ):
            return candidate.rule.id
    return None


def _same_trigger(first: CompiledRule, second: CompiledRule) -> bool:
    if first.trigger.node is None or second.trigger.node is None:
        return first.rule.trigger == second.rule.trigger
    return is_same(first.trigger.node, second.trigger.node)


def _counted_together(first: ProtocolRule, second: ProtocolRule) -> ProtocolRule:
    """Add supports and weight precisions by them. Shares of single actions have no supports and are dropped. If one
    rule was not counted, the other's figures are used."""
    both = (first, second)
    first = replace(first, weights=first.weights or second.weights)
    counted = [(rule.support, rule.precision) for rule in both if rule.support and rule.precision is not None]
    if not counted:
        return first
    support = sum(cases for cases, _ in counted)
    precision = sum(cases * share for cases, share in counted) / support
    return replace(first, support=support, precision=precision, shares=())


def _without_weights(protocol: GlobalProtocol) -> GlobalProtocol:
    return protocol.with_rules(tuple(replace(rule, weights={}) for rule in protocol.rules))


def _free(name: str, rules: dict[str, ProtocolRule]) -> str:
    number, free = 2, name
    while free in rules:
        free, number = f"{name}-{number}", number + 1
    return free
