"""What is wrong with a protocol, or may be: triggers not compiled, duplicates, contradictions, long rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from wardround.protocols.conditions import AtScore, Node, conditions_of
from wardround.protocols.index import CompiledRule, RuleIndex
from wardround.protocols.meaning import can_hold_together, implies, is_same
from wardround.protocols.rules import FORBIDDING, GlobalProtocol, RuleAction

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
        """Whether a protocol should not be used with it."""
        return self.fault in ("duplicate", "contradiction", "never-holds")


def lint_protocol(protocol: GlobalProtocol) -> tuple[ProtocolFault, ...]:
    """Return everything found, rule by rule and then pair by pair."""
    index = RuleIndex(protocol)
    return (*_single(index), *_pairs(index))


def unknown_in_streams(protocol: GlobalProtocol) -> Iterator[tuple[str, str]]:
    """Yield, as (rule, words), what a live stream cannot know: scores, which need a chart."""
    for one in RuleIndex(protocol).rules:
        conditions = () if one.trigger.node is None else conditions_of(one.trigger.node)
        scores = sorted({str(each) for each in conditions if isinstance(each, AtScore)})
        if scores:
            yield one.rule.id, f"{', '.join(scores)}: worked out on charts; in a live stream it is unknown"


def _single(index: RuleIndex) -> Iterator[ProtocolFault]:
    for one in index.rules:
        if one.trigger.node is None:
            text = f"its trigger is not compiled: {one.trigger.problem}; only a model's router can select it"
            yield ProtocolFault(fault="not-compiled", rules=(one.rule.id,), text=text)
        elif not can_hold_together(one.trigger.node, one.trigger.node):
            text = f"its trigger can never hold: {one.rule.trigger}"
            yield ProtocolFault(fault="never-holds", rules=(one.rule.id,), text=text)
        words = len(one.rule.said.split())
        if words > MOST_WORDS:
            yield ProtocolFault(fault="long", rules=(one.rule.id,), text=f"it has {words} words")


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
        if any(_touch(one, other) for one in first.actions for other in second.actions):
            yield first, second


def _touch(one: RuleAction, other: RuleAction) -> bool:
    return one.key == other.key or one.names(other.name) or other.names(one.name)


def _opposed(first: CompiledRule, second: CompiledRule) -> str | None:
    """What one asks for and the other forbids, in words."""
    for one in first.actions:
        for other in second.actions:
            if (one.verb in FORBIDDING) != (other.verb in FORBIDDING) and _touch(one, other):
                return f"{str(one)!r} and {str(other)!r}"
    return None


def _is_within(first: CompiledRule, second: CompiledRule) -> bool:
    """Whether everything the first asks for the second asks for too."""
    asked = {(action.verb, action.key) for action in second.actions}
    return {(action.verb, action.key) for action in first.actions} <= asked


def _fault(fault: Fault, first: CompiledRule, second: CompiledRule, text: str) -> ProtocolFault:
    return ProtocolFault(fault=fault, rules=(first.rule.id, second.rule.id), text=text)
