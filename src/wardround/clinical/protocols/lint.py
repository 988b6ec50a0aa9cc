"""Check a protocol: duplicates, contradictions, implications between triggers; worked examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Literal

from wardround.clinical.protocols.conditions import (
    AndOr,
    AtLevel,
    AtRate,
    AtScore,
    AtValue,
    Condition,
    CountedActions,
    HoursSince,
    Moving,
    Negated,
    Node,
    Stated,
    TimesBaseline,
    conditions_of,
)
from wardround.clinical.protocols.facts import GivenFacts
from wardround.clinical.protocols.index import CompiledRule, RuleIndex
from wardround.clinical.protocols.rules import FORBIDDING, GlobalProtocol, RuleAction
from wardround.clinical.vocabulary import clinical_name, convert, drug_name, usual_units
from wardround.core import UserError, read_toml, strict

# What triggers mean beside each other: whether one implies another, whether both can hold.
#
# A trigger is brought to an OR of ANDs of literals. What is said is right, and not everything that is so is found: a
# trigger that implies another by arithmetic over two concepts is not seen.


_MOST = 64
"""Alternatives of a trigger beyond which it is not compared: none that people write has so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Literal:
    """A condition or its negation, in the form in which it is compared."""

    about: tuple[str, str]
    """What kind of condition, of which concept."""
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    states: frozenset[str] = frozenset()
    """Of a condition without numbers: the states in which it holds."""


Alternative = tuple[_Literal, ...]
_STATES = {
    "level": frozenset({"low", "normal", "high"}),
    "trend": frozenset({"rising", "falling", "steady"}),
    "stated": frozenset({"yes", "no"}),
}


def alternatives(node: Node) -> tuple[Alternative, ...]:
    """Return the trigger as an OR of ANDs; empty if it has too many to compare."""
    found = _expand(node, positive=True)
    return tuple(found) if len(found) <= _MOST else ()


def implies(first: Node, second: Node) -> bool:
    """Return whether the second trigger holds wherever the first does."""
    stronger, weaker = alternatives(first), alternatives(second)
    return bool(stronger) and all(any(_follows(one, other) for other in weaker) for one in stronger)


def is_same(first: Node, second: Node) -> bool:
    """Return whether both hold in the same cases."""
    return implies(first, second) and implies(second, first)


def can_hold_together(first: Node, second: Node) -> bool:
    """Return whether some case makes both hold that says something of a concept they share."""
    return any(
        _share(one, other) and _possible((*one, *other))
        for one, other in product(alternatives(first), alternatives(second))
    )


def excludes(first: Node, second: Node) -> bool:
    """Return whether no case makes both hold."""
    pairs = product(alternatives(first), alternatives(second))
    return not any(_possible((*one, *other)) for one, other in pairs)


def _expand(node: Node, *, positive: bool) -> list[Alternative]:
    if isinstance(node, Negated):
        return _expand(node.part, positive=not positive)
    if not isinstance(node, AndOr):
        return [(literal,) for literal in _literals(node, positive=positive)]
    parts = [_expand(part, positive=positive) for part in node.parts]
    if (node.how == "OR") == positive:
        return [alternative for part in parts for alternative in part]
    joined: list[Alternative] = [()]
    for part in parts:
        joined = [(*left, *right) for left in joined for right in part][: _MOST + 1]
    return joined


def _literals(condition: Condition, *, positive: bool) -> list[_Literal]:
    concept = clinical_name(condition.concept)
    if isinstance(condition, AtValue | HoursSince | TimesBaseline | AtScore | AtRate | CountedActions):
        about, threshold = _numbered(condition)
        return [
            _Literal(about=about, low=low, low_open=low_open, high=high, high_open=high_open)
            for low, low_open, high, high_open in _ranges(condition.relation, threshold, positive)
        ]
    if isinstance(condition, AtLevel):
        wanted = {"low", "high"} if condition.level == "abnormal" else {condition.level}
        states, kind, what = frozenset(wanted), "level", concept
    elif isinstance(condition, Moving):
        states, kind, what = frozenset({condition.direction}), "trend", concept
    elif isinstance(condition, Stated):
        when = "ever " if condition.ever else ""
        within = "" if condition.hours is None else f" in {condition.hours:g}"
        states, kind, what = frozenset({"yes"}), "stated", f"{when}{condition.what} {concept}{within}"
    else:
        states, kind, what = (
            frozenset({"yes"}),
            "stated",
            str(condition).replace(condition.concept, clinical_name(condition.concept)),
        )
    return [_Literal(about=(kind, what), states=states if positive else _STATES[kind] - states)]


def _numbered(
    condition: AtValue | HoursSince | TimesBaseline | AtScore | AtRate | CountedActions,
) -> tuple[tuple[str, str], float]:
    """Return the subject and threshold of a numeric condition; a measurement is in its usual unit, if it has one."""
    concept = clinical_name(condition.concept)
    match condition:
        case AtValue(unit=None):
            return ("measured", concept), condition.threshold
        case AtValue(unit=unit):
            unit = str(unit)
            usual = next((usual_unit.unit for usual_unit in usual_units(concept)), None) or unit
            inside = convert(condition.threshold, unit, usual, concept)
            return (("measured", concept), inside) if inside is not None else ((unit, concept), condition.threshold)
        case TimesBaseline():
            return ("times baseline", concept), condition.times
        case AtRate():
            return (f"rate in {condition.unit}", drug_name(condition.concept)), condition.threshold
        case CountedActions():
            return (f"count in {condition.hours:g}", concept), condition.threshold
        case AtScore():
            return (f"score of {condition.hours}", concept), condition.threshold
        case HoursSince():
            return ("hours", concept), condition.threshold


def _ranges(relation: str, threshold: float, positive: bool) -> list[tuple[float, bool, float, bool]]:
    """Low end, whether it is outside, high end, whether it is outside."""
    opposite = {">": "<=", "<=": ">", "<": ">=", ">=": "<"}
    if relation == "=":
        below, above = (-math.inf, True, threshold, True), (threshold, True, math.inf, True)
        return [(threshold, False, threshold, False)] if positive else [below, above]
    stated = relation if positive else opposite[relation]
    if stated in (">", ">="):
        return [(threshold, stated == ">", math.inf, True)]
    return [(-math.inf, True, threshold, stated == "<")]


def _follows(stronger: Alternative, weaker: Alternative) -> bool:
    return all(any(_covers(wanted, literal) for literal in stronger) for wanted in weaker)


def _covers(wanted: _Literal, literal: _Literal) -> bool:
    if wanted.about != literal.about:
        return False
    if wanted.states or literal.states:
        return literal.states <= wanted.states
    low = literal.low > wanted.low or (literal.low == wanted.low and (literal.low_open or not wanted.low_open))
    high = literal.high < wanted.high or (literal.high == wanted.high and (literal.high_open or not wanted.high_open))
    return low and high


def _share(first: Alternative, second: Alternative) -> bool:
    return bool({literal.about for literal in first} & {literal.about for literal in second})


def _possible(literals: Alternative) -> bool:
    """Return whether all of them can hold at once."""
    for about in {literal.about for literal in literals}:
        about_same = [literal for literal in literals if literal.about == about]
        if about_same[0].states and not frozenset.intersection(*(one.states for one in about_same)):
            return False
        low, high = max(one.low for one in about_same), min(one.high for one in about_same)
        touching = any(one.low == low and one.low_open for one in about_same) or any(
            one.high == high and one.high_open for one in about_same
        )
        if low > high or (low == high and touching):
            return False
    return True


# Possible errors of a protocol: triggers that are not compiled, duplicates, contradictions, long rules.


Fault = Literal["not-compiled", "duplicate", "subsumed", "contradiction", "may-conflict", "never-holds", "long"]
MOST_WORDS = 60
"""Words of a rule beyond which it is called long; the paper's have 21 on average (section 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFault:
    """One thing found: which, of which rules, in words."""

    fault: Fault
    rules: tuple[str, ...]
    text: str

    @property
    def is_error(self) -> bool:
        """Return whether a protocol should not be used with it."""
        return self.fault in ("duplicate", "contradiction", "never-holds")


def lint_protocol(protocol: GlobalProtocol) -> tuple[ProtocolFault, ...]:
    """Return everything found, rule by rule and then pair by pair."""
    index = RuleIndex(protocol)
    return (*_single(index), *_pairs(index))


def unknown_in_streams(protocol: GlobalProtocol) -> Iterator[tuple[str, str]]:
    """Yield, as (rule, words), what a live stream cannot know: scores, which need a chart."""
    for rule in RuleIndex(protocol).rules:
        conditions = () if rule.trigger.node is None else conditions_of(rule.trigger.node)
        scores = sorted({str(condition) for condition in conditions if isinstance(condition, AtScore)})
        if scores:
            yield rule.rule.id, f"{', '.join(scores)}: worked out on charts; in a live stream it is unknown"


def _single(index: RuleIndex) -> Iterator[ProtocolFault]:
    for rule in index.rules:
        if rule.trigger.node is None:
            text = f"its trigger is not compiled: {rule.trigger.problem}; only a model's router can select it"
            yield ProtocolFault(fault="not-compiled", rules=(rule.rule.id,), text=text)
        elif not can_hold_together(rule.trigger.node, rule.trigger.node):
            text = f"its trigger can never hold: {rule.rule.trigger}"
            yield ProtocolFault(fault="never-holds", rules=(rule.rule.id,), text=text)
        words = len(rule.rule.wording.split())
        if words > MOST_WORDS:
            yield ProtocolFault(fault="long", rules=(rule.rule.id,), text=f"it has {words} words")


def _pairs(index: RuleIndex) -> Iterator[ProtocolFault]:
    for first, second in _that_share_an_action(index.rules):
        if first.trigger.node is None or second.trigger.node is None:
            if first.rule.trigger == second.rule.trigger and _is_within(first, second) and _is_within(second, first):
                yield _fault("duplicate", first, second, "the same trigger, word by word, and the same actions")
            continue
        yield from _of_pair(first, second, first.trigger.node, second.trigger.node)


def _of_pair(first: CompiledRule, second: CompiledRule, one: Node, other: Node) -> Iterator[ProtocolFault]:
    against = _opposed(first, second)
    if against is not None:
        if implies(one, other) or implies(other, one):
            yield _fault("contradiction", first, second, f"where both hold they say {against}")
        elif can_hold_together(one, other):
            yield _fault("may-conflict", first, second, f"both may hold, and then they say {against}")
        return
    within, without = _is_within(first, second), _is_within(second, first)
    if within and without and is_same(one, other):
        yield _fault("duplicate", first, second, "they hold in the same cases and ask for the same")
    elif within and implies(one, other):
        yield _fault("subsumed", first, second, f"{second.rule.id} holds wherever {first.rule.id} does and asks for it")
    elif without and implies(other, one):
        yield _fault("subsumed", second, first, f"{first.rule.id} holds wherever {second.rule.id} does and asks for it")


def _that_share_an_action(rules: tuple[CompiledRule, ...]) -> Iterator[tuple[CompiledRule, CompiledRule]]:
    """Yield the pairs that name one thing; classes and their drugs are tried against each other."""
    for first, second in combinations(rules, 2):
        if any(_touch(action, other) for action in first.actions for other in second.actions):
            yield first, second


def _touch(one: RuleAction, other: RuleAction) -> bool:
    return one.key == other.key or one.names(other.name) or other.names(one.name)


def _opposed(first: CompiledRule, second: CompiledRule) -> str | None:
    """Return in words what one rule asks for and the other forbids."""
    for action in first.actions:
        for other in second.actions:
            if (action.verb in FORBIDDING) != (other.verb in FORBIDDING) and _touch(action, other):
                return f"{str(action)!r} and {str(other)!r}"
    return None


def _is_within(first: CompiledRule, second: CompiledRule) -> bool:
    """Return whether everything the first asks for the second asks for too."""
    second_actions = {(action.verb, action.key) for action in second.actions}
    return {(action.verb, action.key) for action in first.actions} <= second_actions


def _fault(fault: Fault, first: CompiledRule, second: CompiledRule, text: str) -> ProtocolFault:
    return ProtocolFault(fault=fault, rules=(first.rule.id, second.rule.id), text=text)


# Worked examples of a protocol: written cases, and the rules that must hold in them.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolExample:
    """One case. ``holds``: ids of the rules that must hold in it, all of them and no other."""

    name: str
    facts: GivenFacts = field(default_factory=GivenFacts)
    holds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleResult:
    """The result of a case: rules that should hold and do not, and rules that should not hold and do."""

    name: str
    missing: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Return whether exactly the expected rules hold."""
        return not self.missing and not self.wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    case: tuple[ProtocolExample, ...]


def read_examples(path: Path) -> tuple[ProtocolExample, ...]:
    """Read ``[[case]]`` tables. Raises UserError without a case, or for an invalid one."""
    cases = strict(_Body, read_toml(path), str(path)).case
    if not cases:
        raise UserError(f"{str(path)!r} holds no [[case]]; write one with a name, facts and the rules that hold")
    return cases


def check_examples(index: RuleIndex, examples: tuple[ProtocolExample, ...]) -> tuple[ExampleResult, ...]:
    """Return what came of every case; UserError if one names a rule that the protocol has not."""
    return tuple(_check(index, example) for example in examples)


def _check(index: RuleIndex, example: ProtocolExample) -> ExampleResult:
    unknown = [name for name in example.holds if name not in index.by_id]
    if unknown:
        raise UserError(f"case {example.name!r}: the protocol has no rule {', '.join(unknown)}")
    satisfied = {rule.rule.id for rule in index.rules if rule.holds(example.facts)}
    return ExampleResult(
        name=example.name,
        missing=tuple(name for name in example.holds if name not in satisfied),
        wrong=tuple(sorted(satisfied - set(example.holds))),
    )
