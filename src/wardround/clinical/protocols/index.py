"""Rules found by the concepts that are on the page, so that a step asks a handful of triggers and not all 441."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from wardround.clinical.protocols.conditions import (
    AndOr,
    AtScore,
    ChangedBy,
    Condition,
    CountedActions,
    HeldFor,
    InWindow,
    Negated,
    Node,
    Stated,
    TimesBaseline,
    conditions_of,
)
from wardround.clinical.protocols.facts import Facts
from wardround.clinical.protocols.language import Trigger, compile_trigger
from wardround.clinical.protocols.rules import GlobalProtocol, ProtocolRule, RuleAction
from wardround.clinical.vocabulary import (
    clinical_name,
    drug_class,
    drug_groups,
    drug_name,
    is_test_and_drug,
    names_a_drug,
)

_NAMES = 65_536
"""So many names are remembered with the rules that ask for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRule:
    """A rule with its trigger and actions read."""

    rule: ProtocolRule
    trigger: Trigger
    actions: tuple[RuleAction, ...]
    shares: Mapping[RuleAction, float]
    """How often each action followed in training, where that was counted."""
    weights: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By type and name of an action, what the rule adds to its probability."""

    def share(self, action: RuleAction) -> float:
        """Return how often its action followed in training; 1 for a rule without counts."""
        if self.shares:
            return self.shares[action]
        return 1.0 if self.rule.precision is None else self.rule.precision

    def holds(self, facts: Facts) -> bool:
        """Return whether the trigger is known to hold. An unknown or uncompiled trigger does not hold."""
        return self.trigger.node is not None and self.trigger.node.holds(facts) is True


class RuleIndex:
    """A compiled protocol. ``find`` returns the rules that hold, in the protocol's order.

    ``courses``: clinical name -> hours of readings that its rules need. ``counted``: key of a counted action -> hours.
    """

    def __init__(self, protocol: GlobalProtocol) -> None:
        self.protocol = protocol
        self.rules = tuple(compile_rule(rule) for rule in protocol.rules)
        self.by_id = {compiled.rule.id: compiled for compiled in self.rules}
        self._by_concept: dict[str, list[int]] = {}
        self._asking: dict[str, tuple[int, ...]] = {}
        self._always: list[int] = []
        self.courses = _courses(self.rules)
        self.counted = _counted(self.rules)
        for place, compiled in enumerate(self.rules):
            self._enter(place, compiled.trigger.node)

    @property
    def not_compiled(self) -> tuple[CompiledRule, ...]:
        """The rules that only a model can judge."""
        return tuple(rule for rule in self.rules if rule.trigger.node is None)

    def candidates(self, names: Iterable[str]) -> tuple[CompiledRule, ...]:
        """Return the rules that the named facts could satisfy, in the protocol's order."""
        if len(self._asking) > _NAMES:
            self._asking = {}
        places = set(self._always)
        for name in names:
            asking = self._asking.get(name)
            if asking is None:  # names are few and repeat, and most occur in no rule
                own = (place for key in keys_of(name) for place in self._by_concept.get(key, ()))
                asking = self._asking[name] = tuple(own)
            if asking:
                places.update(asking)
        return tuple(self.rules[place] for place in sorted(places))

    def find(self, facts: Facts, names: Iterable[str]) -> tuple[CompiledRule, ...]:
        """Return the rules that hold. ``names``: everything the facts could know something of."""
        return tuple(candidate for candidate in self.candidates(names) if candidate.holds(facts))

    def _enter(self, place: int, node: Node | None) -> None:
        if node is None:
            return
        needed = _needed(node)
        if needed is None:
            self._always.append(place)
            return
        for key in {key for condition in needed for key in lookup_keys(condition.concept)}:
            self._by_concept.setdefault(key, []).append(place)


def compile_rule(rule: ProtocolRule) -> CompiledRule:
    """Read a rule's trigger and actions."""
    actions = tuple(RuleAction.parse(action) for action in rule.actions)
    shares = dict(zip(reversed(actions), reversed(rule.shares), strict=True)) if rule.shares else {}
    weighted_actions = ((RuleAction.parse(action), weight) for action, weight in rule.weights.items())
    weights = {(str(action.kind), action.name): weight for action, weight in weighted_actions}
    trigger = compile_trigger(rule.trigger)
    return CompiledRule(rule=rule, trigger=trigger, actions=actions, shares=shares, weights=weights)


def _courses(rules: Iterable[CompiledRule]) -> dict[str, float]:
    found: dict[str, float] = {}
    for condition in _conditions(rules):
        if isinstance(condition, HeldFor | InWindow | TimesBaseline | ChangedBy):
            name = clinical_name(condition.concept)
            found[name] = max(found.get(name, 0.0), condition.hours)
    return found


def _counted(rules: Iterable[CompiledRule]) -> dict[DoneKey, float]:
    found: dict[DoneKey, float] = {}
    for condition in _conditions(rules):
        if isinstance(condition, CountedActions):
            keys = lookup_done_keys(condition.concept)
            if is_test_and_drug(condition.concept):
                keys |= lookup_done_keys(condition.concept, is_drug=True)
            for key in keys:
                found[key] = max(found.get(key, 0.0), condition.hours)
    return found


def _conditions(rules: Iterable[CompiledRule]) -> Iterator[Condition]:
    for rule in rules:
        if rule.trigger.node is not None:
            yield from conditions_of(rule.trigger.node)


@lru_cache(maxsize=65_536)
def keys_of(name: str) -> frozenset[str]:
    """Return every key under which a rule may look up this name: its own, its substance's and its classes'."""
    return frozenset({clinical_name(name), drug_name(name), *drug_groups(name)})


@lru_cache(maxsize=65_536)
def lookup_keys(name: str) -> frozenset[str]:
    """Return the keys under which a rule looks up a name: the class if it is one, else as a test or as a drug."""
    named = drug_class(name)
    spelt = {clinical_name(name), drug_name(name)}
    return frozenset({named} if named is not None else spelt)


DoneKey = tuple[bool, str]
"""A key of an action: whether it is a drug, and a name. To measure glucose is not to give dextrose."""


@lru_cache(maxsize=65_536)
def done_keys(name: str, *, is_drug: bool) -> frozenset[DoneKey]:
    """Return every key under which a rule may look up an action that was done."""
    return frozenset((is_drug, key) for key in (keys_of(name) if is_drug else (clinical_name(name),)))


def lookup_done_keys(name: str, *, is_drug: bool | None = None) -> frozenset[DoneKey]:
    """Return the keys under which a rule looks up an action by name.

    ``is_drug``: whether it is a drug. None: what the name means first, or both if no table has the name.
    """
    return _lookup_done_keys(name, names_a_drug(name) if is_drug is None else is_drug)


@lru_cache(maxsize=65_536)
def _lookup_done_keys(name: str, is_drug: bool | None) -> frozenset[DoneKey]:
    as_drug = {(True, key) for key in lookup_keys(name)} if is_drug is not False else set()
    as_other = {(False, clinical_name(name))} if is_drug is not True else set()
    return frozenset(as_drug | as_other)


def _needed(node: Node) -> tuple[Condition, ...] | None:
    """Conditions of which one must say something for the trigger to hold; None if it may hold without any."""
    if isinstance(node, Negated):
        return None
    if isinstance(node, AndOr):
        needs = [_needed(part) for part in node.parts]
        if node.how == "AND":
            known = [need for need in needs if need is not None]
            return min(known, key=len) if known else None
        if any(need is None for need in needs):
            return None
        return tuple(condition for need in needs if need is not None for condition in need)
    if isinstance(node, AtScore | InWindow | CountedActions) or (
        isinstance(node, Stated) and node.what in ("problem", "allergy")
    ):
        return None
    return (node,)
