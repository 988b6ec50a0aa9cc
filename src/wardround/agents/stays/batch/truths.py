"""Triggers over every bundle of a stream at once: where each is known to hold, where known not to (Kleene)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wardround.agents.stays.batch.facts import NEVER, BatchFacts
from wardround.agents.stays.batch.onward import Mask
from wardround.agents.stays.batch.over_time import at_rate, counted, over_time, within
from wardround.agents.stays.charted import LEVELS
from wardround.bundles import ValueLevel
from wardround.bundles.events import HOUR
from wardround.bundles.state import STEADY_SHARE
from wardround.protocols import (
    HOUR_OF_DAY,
    STAY,
    AtLevel,
    AtRate,
    AtScore,
    AtValue,
    ChangedBy,
    CountedActions,
    Held,
    HoursSince,
    Joined,
    Moving,
    Negated,
    Node,
    Stated,
    TimesBaseline,
    Within,
    conditions_of,
)
from wardround.vocabulary import RELATIONS, comparison

_LEVELS = np.array([LEVELS.get(level, "") for level in ValueLevel])


@dataclass(frozen=True, slots=True)
class Truths:
    """(b,) where something is known to hold and where it is known not to; elsewhere it is unknown."""

    yes: Mask
    no: Mask

    @classmethod
    def where(cls, known: Mask, holds: Mask) -> Truths:
        """Return what is so where it is known."""
        return cls(known & holds, known & ~holds)

    def __invert__(self) -> Truths:
        return Truths(self.no, self.yes)

    def __and__(self, other: Truths) -> Truths:
        return Truths(self.yes & other.yes, self.no | other.no)

    def __or__(self, other: Truths) -> Truths:
        return Truths(self.yes | other.yes, self.no & other.no)


def truths(node: Node, facts: BatchFacts, where: Mask | None = None, *, wanted: bool = True) -> Truths:
    """Return where a trigger holds: after which bundles ``node.holds`` is true. ``wanted``: false where it is asked
    after which it is known not to hold; ``where``: after which it is asked at all. Of anything else scores, which are
    dear, are left unknown."""
    where = np.ones(len(facts.stream), bool) if where is None else where
    match node:
        case Negated(part=part):
            return ~truths(part, facts, where, wanted=not wanted)
        case Joined():
            return _joined(node, facts, where, wanted=wanted)
        case AtValue():
            return _at_value(node, facts)
        case AtLevel():
            return _at_level(node, facts)
        case Moving():
            return _moving(node, facts)
        case HoursSince():
            return _hours_since(node, facts)
        case Stated():
            return _stated(node, facts)
        case Held() | TimesBaseline() | ChangedBy():
            return Truths(*over_time(node, facts))
        case Within():
            return Truths(*within(node, facts))
        case CountedActions():
            return Truths(*counted(node, facts))
        case AtRate():
            return Truths(*at_rate(node, facts))
        case AtScore():
            return _at_score(node, facts, where)


def _joined(node: Joined, facts: BatchFacts, where: Mask, *, wanted: bool) -> Truths:
    """Return all of, or any of some parts; those that ask for scores come last, where the others leave it open."""
    is_and = node.how == "AND"
    told = Truths(np.full(len(where), is_and), np.full(len(where), not is_and))
    for part in sorted(node.parts, key=_asks_for_scores):
        open_ = (told.yes if is_and else ~told.yes) if wanted else (~told.no if is_and else told.no)
        found = truths(part, facts, where & open_, wanted=wanted)
        told = told & found if is_and else told | found
    return told


def _at_score(node: AtScore, facts: BatchFacts, where: Mask) -> Truths:
    """As ``Bounds.holds`` has it."""
    least, most = facts.scores(node.score, node.hours, where)
    relation, known = RELATIONS[node.relation], ~np.isnan(least)
    low, high = relation(least, node.threshold), relation(most, node.threshold)
    if node.relation == "=":
        return Truths(known & low & high, known & ((least > node.threshold) | (most < node.threshold)))
    return Truths(known & low & high, known & ~low & ~high)


def _asks_for_scores(node: Node) -> bool:
    return any(isinstance(one, AtScore) for one in conditions_of(node))


def _at_value(node: AtValue, facts: BatchFacts) -> Truths:
    if node.concept == HOUR_OF_DAY:
        holds = RELATIONS[node.relation](facts.stream.hours % 24, node.threshold)
        return Truths.where(np.ones(len(holds), dtype=bool), holds)
    last, _ = facts.reading(node.concept)
    values, (code, units) = facts.stream.columns.value[last], facts.units
    yes, known = np.zeros(len(last), dtype=bool), np.zeros(len(last), dtype=bool)
    for here, charted in facts.charted_units(node.concept):
        read = here & (last >= 0)
        for number in np.unique(code[last[read]]).tolist():
            own = read & (code[last] == number)
            way = comparison(units[number] or None, node.relation, node.threshold, node.unit, node.concept, charted)
            yes[own], known[own] = way.holds_of(values[own])
    return Truths(yes & known, known & ~yes)


def _at_level(node: AtLevel, facts: BatchFacts) -> Truths:
    last, _ = facts.reading(node.concept)
    level = _LEVELS[facts.stream.columns.level[last]]
    holds = level != "normal" if node.level == "abnormal" else level == node.level
    return Truths.where((last >= 0) & (level != ""), holds)


def _moving(node: Moving, facts: BatchFacts) -> Truths:
    last, first = facts.reading(node.concept)
    value = facts.stream.columns.value
    change, least = value[last] - value[first], np.abs(value[first]) * STEADY_SHARE
    size = np.abs(change)
    # as math.isclose has it
    is_steady = (size < least) | (np.abs(size - least) <= 1e-9 * np.maximum(size, least))
    direction = np.where(is_steady, "steady", np.where(change > 0, "rising", "falling"))
    return Truths.where((last >= 0) & (last != first), direction == node.direction)


def _hours_since(node: HoursSince, facts: BatchFacts) -> Truths:
    if node.concept == STAY:
        hours = (facts.now - facts.began) / HOUR
        return Truths.where(np.ones(len(hours), dtype=bool), RELATIONS[node.relation](hours, node.threshold))
    last = facts.last_done(node.concept)
    hours = np.maximum(0.0, (facts.now - np.maximum(last, 0)) / HOUR)
    return Truths.where(last != NEVER, RELATIONS[node.relation](hours, node.threshold))


def _stated(node: Stated, facts: BatchFacts) -> Truths:
    match node.what:
        case "on":
            return Truths(*facts.taking(node.concept))
        case "done":
            since = NEVER + 1 if node.hours is None else facts.now - int(node.hours * HOUR)
            done = facts.last_done(node.concept, ever=node.ever or node.hours is not None) >= since
            return Truths(done, ~done & facts.carries(node.concept))
        case "problem":
            return Truths(facts.has_problem(node.concept, ever=node.ever), np.zeros(len(facts.stream), dtype=bool))
        case "allergy":
            return Truths(*facts.allergic_to(node.concept))
