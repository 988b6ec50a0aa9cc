"""Risks: whether an outcome will happen, predicted at a moment of a stay that the task gives.

The moment is an hour of the stay (two hours or a day after its start) or its end. At the end of an emergency visit the
prediction time is the last change of the chart before it. The stay is chosen first, its answer is read afterwards; the
answer is unknown where the record never says how the stay ended. A question whose answer the chart already shows is
counted and dropped.
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
"""Prediction time after the start of a stay, in microseconds, if the stay continues then."""
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
    """The outcome of a stay.

    ``event``: when it happened. ``row_id``: the row that records it. ``of_stay``: the row of the stay, where its own
    end is the outcome.
    """

    yes: bool
    event: int | None = None
    row_id: str | None = None
    of_stay: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskQuestions:
    """The questions of one risk task on one store."""

    task: str
    rule: RiskRule
    store: Store
    seed: int

    def unavailable(self) -> str | None:
        """Return why no subject of this store can have a question; None if one can."""
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
        """Return the question about the stay with the lowest random number; None where its answer is unknown."""
        questions_or_reasons = self._span_questions(timeline)
        dropped.update(one for one in questions_or_reasons if isinstance(one, str))
        questions = [one for one in questions_or_reasons if not isinstance(one, str)]
        if not questions:
            return None
        chosen = min(
            questions, key=lambda one: derive_seed(self.seed, self.task, one.subject, "stay", one.curated_from)
        )
        if not chosen.target:
            dropped["answer_unknown"] += 1
            return None
        return chosen

    def questions(self, timeline: Timeline) -> list[StayQuestion]:
        """Return the question of every eligible stay, whether or not its answer is known."""
        return [question for question in self._span_questions(timeline) if not isinstance(question, str)]

    @property
    def deciding_columns(self) -> str:
        """The columns that decide whether and when a question exists, as text."""
        role = getattr(self.store.spec.roles, _SPAN_OF[self.rule.moment])
        return f"{role.table}.{','.join(role.ends)}"

    def _span_questions(self, timeline: Timeline) -> list[StayQuestion | str]:
        return [self._span_question(timeline, span) for span in timeline.spans(_SPAN_OF[self.rule.moment])]

    def _span_question(self, timeline: Timeline, span: Span) -> StayQuestion | str:
        """Return the question of a stay, or the reason why there is none."""
        window = _window(self.rule, timeline, span)
        if isinstance(window, str):
            return window
        since, until = window
        moments = timeline.moments
        within = moments[(moments >= since) & (moments <= until)]
        if not len(within):
            return "nothing_known_by_then"
        prediction_us = int(within[-1]) if self.rule.moment == "emergency_end" else until
        outcome = _OUTCOMES[self.rule.outcome](self.rule, timeline, span, prediction_us)
        if outcome is not None and outcome.event is not None and outcome.event <= prediction_us:
            return "already_known"
        question = partial(
            StayQuestion,
            subject=timeline.subject,
            prediction_us=prediction_us,
            curated_from=since,
            settled_us=max(span.end if self.rule.moment == "emergency_end" else until, span.known),
            stay=span.row_id,
            kind_is_late=span.kind_is_late,
        )
        if outcome is None or span.end == NO_TIME:
            return question(target=())
        ends = tuple(getattr(self.store.spec.roles, span.kind).ends)
        return question(
            target=(YES if outcome.yes else NO,),
            event=outcome.event,
            row_ids=() if outcome.row_id is None else (outcome.row_id,),
            late_cells={} if outcome.of_stay is None else {outcome.of_stay: ends},
        )


def _window(rule: RiskRule, timeline: Timeline, span: Span) -> tuple[int, int] | str:
    """Return the first and last time of the curated input, both included; or why the stay has no question."""
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
    """Return the stay after an emergency visit.

    It is the stay that the visit's row refers to, else one that began during the visit.
    """
    stays = timeline.spans("admission")
    if visit.encounter is not None:
        return next((stay for stay in stays if stay.names == visit.encounter), None)
    return next((stay for stay in stays if visit.start <= stay.start <= visit.end), None)


def _admitted(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome | None:
    stay = led_to(timeline, span)
    if stay is None and span.encounter is not None:  # the visit refers to a stay that is missing
        return None
    return StayOutcome(yes=False) if stay is None else StayOutcome(yes=True, event=stay.start, row_id=stay.row_id)


def _dies_in_stay(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome | None:
    """Return whether the person dies in the stay, or after an emergency visit in the stay that followed.

    None: the end of the stay is not on record, or on its last day it is unknown whether death or discharge came first.
    """
    stay = (led_to(timeline, span) or span) if span.kind == "emergency" else span
    if stay.end == NO_TIME:
        return None
    deaths = [time for time in timeline.deaths.tolist() if stay.start <= time <= stay.end]
    if not deaths:
        unknown = timeline.may_have_died(stay.end, stay.kind)
        return None if unknown else StayOutcome(yes=False, of_stay=span.row_id)
    return StayOutcome(yes=True, event=deaths[0], of_stay=span.row_id)


def _intensive_care(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome:
    until = span.end + rule.hours * HOUR
    unit_stay = next((stay for stay in timeline.spans("stay") if span.start <= stay.start <= until), None)
    return (
        StayOutcome(yes=False)
        if unit_stay is None
        else StayOutcome(yes=True, event=unit_stay.start, row_id=unit_stay.row_id)
    )


def _dies_or_intensive_care(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome | None:
    intensive_care = _intensive_care(rule, timeline, span, prediction_us)
    return intensive_care if intensive_care.yes else _dies_in_stay(rule, timeline, span, prediction_us)


def _returns(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome:
    """Return whether a stay of the same kind, or to be ``readmitted`` one in hospital, begins within the hours."""
    stays = timeline.spans("admission" if rule.outcome == "readmitted" else span.kind)
    until = span.end + rule.hours * HOUR
    next_stay = next((stay for stay in stays if stay.key > span.key and span.end <= stay.start < until), None)
    return (
        StayOutcome(yes=False)
        if next_stay is None
        else StayOutcome(yes=True, event=next_stay.start, row_id=next_stay.row_id)
    )


def _stays_longer(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome | None:
    """Return whether the stay is longer than the hours, as the paper's source counts.

    A stay in intensive care counts when it is as long or longer.
    """
    if span.end == NO_TIME:
        return None
    length, threshold = span.end - span.start, rule.hours * HOUR
    longer = length > threshold if span.kind == "admission" else length >= threshold
    return StayOutcome(yes=longer, event=span.end, of_stay=span.row_id)


def _dies(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome | None:
    """Return whether the person dies within the hours.

    None where the time of a death on the last day is unknown.
    """
    until = prediction_us + rule.hours * HOUR
    deaths = [time for time in timeline.deaths.tolist() if span.start <= time < until]
    if not deaths and timeline.may_have_died(until, span.kind):
        return None
    return StayOutcome(yes=True, event=deaths[0], of_stay=span.row_id) if deaths else StayOutcome(yes=False)


def _returns_to_unit(rule: RiskRule, timeline: Timeline, span: Span, prediction_us: int) -> StayOutcome | None:
    admissions = [
        one
        for one in timeline.spans("admission")
        if one.start <= span.start and (one.end == NO_TIME or span.start <= one.end)
    ]
    if span.end == NO_TIME or (admissions and admissions[0].end == NO_TIME):
        return None
    last = admissions[0].end if admissions else _FOREVER
    later = [one for one in timeline.spans("stay") if one.key > span.key and span.end <= one.start <= last]
    return StayOutcome(yes=True, event=later[0].start, row_id=later[0].row_id) if later else StayOutcome(yes=False)


_OUTCOMES: Mapping[str, Callable[[RiskRule, Timeline, Span, int], StayOutcome | None]] = {
    "admitted": _admitted,
    "dies_in_stay": _dies_in_stay,
    "intensive_care": _intensive_care,
    "dies_or_intensive_care": _dies_or_intensive_care,
    "returns": _returns,
    "readmitted": _returns,
    "stays": _stays_longer,
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
