"""Risks: whether something will have come about, asked at a moment of a stay that the task gives.

The moment is an hour of the stay (two hours, a day after its beginning) or its end; the end of an emergency visit is
asked about at the last change of the chart before it. A question exists whatever follows: the stay is chosen first, its
answer is looked up afterwards, and is unknown where the record never says how the stay ended. What of the answer the
chart shows by the moment makes the question void: it is counted and not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from wardround.core import derive_seed
from wardround.records import Store, unplayed
from wardround.tasks.benchmarks.clinseek.definitions import Anchor, RiskRule, SpanName
from wardround.tasks.benchmarks.clinseek.timeline import HOUR, Span, StayQuestion, Timeline
from wardround.tasks.benchmarks.encounters import NO_TIME

YES, NO = "1", "0"
_DAY = 24 * HOUR
_BEGUN: Mapping[Anchor, int] = {"emergency_begun": 2 * HOUR, "first_day": _DAY, "first_unit_day": _DAY}
"""How long after its beginning a stay is asked about, if it goes on then."""
_FOREVER = np.iinfo(np.int64).max
_SPAN_OF: Mapping[Anchor, SpanName] = {
    "emergency_begun": "emergency",
    "emergency_end": "emergency",
    "first_day": "admission",
    "first_unit_day": "stay",
    "discharge": "admission",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StayOutcome:
    """What became of a stay. ``event``: when that came about; ``row_id``: the row that says so; ``of_stay``: it is the
    end of the stay itself that does."""

    yes: bool
    event: int | None = None
    row_id: str | None = None
    of_stay: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskAsking:
    """One risk task on one store."""

    task: str
    rule: RiskRule
    store: Store
    seed: int

    def unavailable(self) -> str | None:
        """Say why no subject of this store can be asked."""
        roles = self.store.spec.roles
        needed: tuple[SpanName, ...] = (_SPAN_OF[self.rule.moment], *_NEEDED.get(self.rule.outcome, ()))
        for kind in needed:
            role = getattr(roles, kind)
            if role is None:
                return unplayed(kind)
            if role.table not in self.store.table_names:
                return f"the store has no table {role.table!r}, which plays the role `{kind}`"
        return None

    def question(self, timeline: Timeline, dropped: Counter[str]) -> StayQuestion | None:
        """Ask about the stay whose own number is the least; None where the record does not say what became of it."""
        made = self._of_spans(timeline)
        dropped.update(one for one in made if isinstance(one, str))
        found = [one for one in made if not isinstance(one, str)]
        if not found:
            return None
        chosen = min(found, key=self._number)
        if not chosen.target:
            dropped["answer_unknown"] += 1
            return None
        return chosen

    def questions(self, timeline: Timeline) -> list[StayQuestion]:
        """Return the question of every stay that can be asked about, whether or not its answer is known."""
        return [one for one in self._of_spans(timeline) if not isinstance(one, str)]

    @property
    def hangs_on(self) -> str:
        """The columns that decide whether and when a stay is asked about."""
        role = getattr(self.store.spec.roles, _SPAN_OF[self.rule.moment])
        return f"{role.table}.{','.join(role.ends)}"

    def _of_spans(self, timeline: Timeline) -> list[StayQuestion | str]:
        return [self._of_span(timeline, span) for span in timeline.spans(_SPAN_OF[self.rule.moment])]

    def _number(self, one: StayQuestion) -> int:
        return derive_seed(self.seed, self.task, one.subject, "stay", one.curated_from)

    def _of_span(self, timeline: Timeline, span: Span) -> StayQuestion | str:
        """The question of a stay, or why it has none."""
        window = _window(self.rule, timeline, span)
        if isinstance(window, str):
            return window
        since, until = window
        moments = timeline.moments
        within = moments[(moments >= since) & (moments <= until)]
        if not len(within):
            return "nothing_known_by_then"
        asked = int(within[-1]) if self.rule.moment == "emergency_end" else until
        outcome = _OUTCOMES[self.rule.outcome](self.rule, timeline, span, asked)
        if outcome is not None and outcome.event is not None and outcome.event <= asked:
            return "already_known"
        asks = partial(
            StayQuestion,
            subject=timeline.subject,
            asked=asked,
            curated_from=since,
            settled=max(span.end if self.rule.moment == "emergency_end" else until, span.known),
            stay=span.row_id,
            told_late=span.told_late,
        )
        if outcome is None or span.end == NO_TIME:
            return asks(target=())
        return asks(
            target=(YES if outcome.yes else NO,),
            event=outcome.event,
            row_ids=() if outcome.row_id is None else (outcome.row_id,),
            late_cells={} if outcome.of_stay is None else {outcome.of_stay: self._ends(span)},
        )

    def _ends(self, span: Span) -> tuple[str, ...]:
        return tuple(getattr(self.store.spec.roles, span.kind).ends)


def _window(rule: RiskRule, timeline: Timeline, span: Span) -> tuple[int, int] | str:
    """From when to when the curated input may reach, both included; or why the stay is not asked about."""
    if rule.moment in _BEGUN:
        until = span.start + _BEGUN[rule.moment]
        goes_on = span.end == NO_TIME or span.left > until
        return (span.start, until) if goes_on else "left_before_the_hour"
    if span.end == NO_TIME or span.end <= span.start:
        return "stay_without_end"
    if rule.moment == "emergency_end":
        return span.start, span.end - 1
    if any(span.start <= death <= span.left for death in timeline.deaths.tolist()):
        return "died_before"
    return max(span.start, span.end - _DAY), span.left


def led_to(timeline: Timeline, visit: Span) -> Span | None:
    """Return the stay that an emergency visit led to: the one that its row names, else one that began in it."""
    stays = timeline.spans("admission")
    if visit.encounter is not None:
        return next((stay for stay in stays if stay.names == visit.encounter), None)
    return next((stay for stay in stays if visit.start <= stay.start <= visit.end), None)


def _admitted(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome | None:
    stay = led_to(timeline, span)
    if stay is None and span.encounter is not None:  # it names a stay that the record does not hold
        return None
    return StayOutcome(yes=False) if stay is None else StayOutcome(yes=True, event=stay.start, row_id=stay.row_id)


def _death_in(timeline: Timeline, span: Span) -> int | None:
    found = [time for time in timeline.deaths.tolist() if span.start <= time <= span.end]
    return found[0] if found else None


def _dies_in_stay(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome | None:
    """Of an emergency visit: in the stay that it led to, or in the visit itself. None: nobody wrote how it
    ended, or of a death on the day on which it ended which was first."""
    stay = (led_to(timeline, span) or span) if span.kind == "emergency" else span
    if stay.end == NO_TIME:
        return None
    death = _death_in(timeline, stay)
    if death is None:
        unknown = timeline.may_have_died(stay.end, stay.kind)
        return None if unknown else StayOutcome(yes=False, of_stay=span.row_id)
    return StayOutcome(yes=True, event=death, of_stay=span.row_id)


def _intensive_care(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome:
    until = span.end + rule.hours * HOUR
    found = next((stay for stay in timeline.spans("stay") if span.start <= stay.start <= until), None)
    return StayOutcome(yes=False) if found is None else StayOutcome(yes=True, event=found.start, row_id=found.row_id)


def _dies_or_intensive_care(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome | None:
    moved = _intensive_care(rule, timeline, span, asked)
    return moved if moved.yes else _dies_in_stay(rule, timeline, span, asked)


def _returns(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome:
    return _next_within(timeline.spans(span.kind), span, rule)


def _readmitted(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome:
    return _next_within(timeline.spans("admission"), span, rule)


def _next_within(stays: tuple[Span, ...], span: Span, rule: RiskRule) -> StayOutcome:
    until = span.end + rule.hours * HOUR
    found = next((stay for stay in stays if stay.key > span.key and span.end <= stay.start < until), None)
    return StayOutcome(yes=False) if found is None else StayOutcome(yes=True, event=found.start, row_id=found.row_id)


def _stays(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome | None:
    """In hospital more than the hours, in intensive care as many or more: as the paper's source counts them."""
    if span.end == NO_TIME:
        return None
    length, asked_length = span.end - span.start, rule.hours * HOUR
    longer = length > asked_length if span.kind == "admission" else length >= asked_length
    return StayOutcome(yes=longer, event=span.end, of_stay=span.row_id)


def _dies(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome | None:
    """Within the hours. None: on the day on which they end, nobody wrote when."""
    until = asked + rule.hours * HOUR
    found = [time for time in timeline.deaths.tolist() if span.start <= time < until]
    if not found and timeline.may_have_died(until, span.kind):
        return None
    return StayOutcome(yes=True, event=found[0], of_stay=span.row_id) if found else StayOutcome(yes=False)


def _returns_to_unit(rule: RiskRule, timeline: Timeline, span: Span, asked: int) -> StayOutcome | None:
    around = [one for one in timeline.spans("admission") if _is_in(span.start, one)]
    if span.end == NO_TIME or (around and around[0].end == NO_TIME):
        return None
    last = around[0].end if around else _FOREVER
    later = [one for one in timeline.spans("stay") if one.key > span.key and span.end <= one.start <= last]
    return StayOutcome(yes=True, event=later[0].start, row_id=later[0].row_id) if later else StayOutcome(yes=False)


def _is_in(moment: int, span: Span) -> bool:
    return span.start <= moment and (span.end == NO_TIME or moment <= span.end)


_OUTCOMES: Mapping[str, Callable[[RiskRule, Timeline, Span, int], StayOutcome | None]] = {
    "admitted": _admitted,
    "dies_in_stay": _dies_in_stay,
    "intensive_care": _intensive_care,
    "dies_or_intensive_care": _dies_or_intensive_care,
    "returns": _returns,
    "readmitted": _readmitted,
    "stays": _stays,
    "dies": _dies,
    "returns_to_unit": _returns_to_unit,
}
_NEEDED: Mapping[str, tuple[SpanName, ...]] = {
    "admitted": ("admission",),
    "intensive_care": ("stay",),
    "dies_or_intensive_care": ("stay",),
    "dies_in_stay": ("admission",),
    "returns_to_unit": ("admission",),
}
