"""The rules of the tasks, on one subject's times. Nothing is read here; what cannot be asked is counted by its reason.

All times are microseconds. A question is asked at 23:59:59 of a day, or one minute before a result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from wardround.tasks.benchmarks.encounters import DAY, NO_TIME, SECOND, Ints, Spans

LONG_STAY_DAYS, READMISSION_DAYS, DIAGNOSIS_DAYS = 7, 30, 365
UNKNOWN = -1
"""The class of a question whose answer the record does not say: asked, and never a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledQuestions:
    """Questions of one subject: when asked, which class, when the answer happened (NO_TIME: it did not), the places of
    the row of the stay they are about and of the row that gives the answer (-1: none)."""

    predictions: Ints
    values: Ints
    events: Ints
    stays: Ints
    rows: Ints

    @classmethod
    def of(cls, questions: list[tuple[int, int, int, int, int]]) -> LabelledQuestions:
        """Make it of tuples in the order of the fields."""
        columns = np.array(questions, np.int64).reshape(-1, 5).T
        predictions, values, events, stays, rows = columns
        return cls(predictions=predictions, values=values, events=events, stays=stays, rows=rows)

    def __len__(self) -> int:
        return len(self.predictions)


def end_of_day(time: int) -> int:
    """23:59:59 of the day of a time."""
    return time - time % DAY + DAY - SECOND


def long_stays(stays: Spans, dropped: Counter[str]) -> LabelledQuestions:
    """guo_los: whether a stay lasts 7 days or more, asked at the end of its first day, unless it ends on that day."""
    questions = []
    for place, (start, end) in enumerate(_pairs(stays)):
        reason = _not_over_night(start, end)
        if reason:
            dropped[reason] += 1
            continue
        if end == NO_TIME:
            questions.append((end_of_day(start), UNKNOWN, NO_TIME, int(stays.rows[place]), -1))
            continue
        long = end - start >= LONG_STAY_DAYS * DAY
        questions.append((end_of_day(start), int(long), end, int(stays.rows[place]), int(stays.stops[place])))
    return LabelledQuestions.of(questions)


def icu_transfers(stays: Spans, icu: Spans, dropped: Counter[str]) -> LabelledQuestions:
    """guo_icu: whether intensive care begins later in a stay, asked at the end of its first day.

    Not asked of a stay that ends on that day, nor where the person is or was in intensive care by then. Intensive care
    that began before the stay (in the emergency room) and goes on in it, or has no end on record, belongs to it.
    """
    questions = []
    for place, (start, end) in enumerate(_pairs(stays)):
        reason = _not_over_night(start, end)
        asked = end_of_day(start)
        left_before = int(stays.ends[:place].max(initial=NO_TIME))
        goes_on = (icu.ends > start) | ((icu.ends == NO_TIME) & (icu.starts > left_before))
        within = ((icu.starts <= end) | (end == NO_TIME)) & ((icu.starts >= start) | goes_on)
        if not reason and bool(np.any(within & (icu.starts <= asked))):
            reason = "icu_on_admission_day"
        if reason:
            dropped[reason] += 1
            continue
        if end == NO_TIME:
            questions.append((asked, UNKNOWN, NO_TIME, int(stays.rows[place]), -1))
            continue
        later = np.flatnonzero(within)
        event, row = (int(icu.starts[later[0]]), int(icu.rows[later[0]])) if len(later) else (NO_TIME, -1)
        questions.append((asked, int(len(later) > 0), event, int(stays.rows[place]), row))
    return LabelledQuestions.of(questions)


def readmissions(stays: Spans, death: int, dropped: Counter[str]) -> LabelledQuestions:
    """guo_readmission: whether a new stay begins within 30 days, asked at the end of the day of discharge.

    Who is back in hospital before that (a new stay on the day of discharge) is not asked about, as EHRSHOT's documents
    say and its code does not do; nor is who has died (``death``, NO_TIME: not, or EHRSHOT's way, which asks).
    """
    questions = []
    for place, (start, end) in enumerate(_pairs(stays)):
        asked = end_of_day(end) if end != NO_TIME else NO_TIME
        others = np.arange(len(stays)) != place
        back = others & (stays.starts <= asked) & ((stays.starts >= end) | (stays.ends > asked))
        reason = _no_end(start, end) or _dead(death, asked) or ("back_on_the_same_day" if np.any(back) else "")
        if reason:
            dropped[reason] += 1
            continue
        later = np.flatnonzero(stays.starts > asked)
        event, row = (int(stays.starts[later[0]]), int(stays.rows[later[0]])) if len(later) else (NO_TIME, -1)
        positive = len(later) > 0 and event <= asked + READMISSION_DAYS * DAY
        stay = int(stays.rows[place])
        questions.append((asked, 1, event, stay, row) if positive else (asked, 0, NO_TIME, stay, -1))
    return LabelledQuestions.of(questions)


def new_diagnoses(stays: Spans, first: int, row: int, death: int, dropped: Counter[str]) -> LabelledQuestions:
    """new_*: whether the first diagnosis (at ``first``, NO_TIME: never) comes within 1 to 365 days of a discharge.

    Asked at the end of the day of discharge, only before the first diagnosis, once for discharges of one day. Nothing
    is censored: without a diagnosis the answer is no, however short the follow-up. A first diagnosis in the first of
    these days is a no, and counted.
    """
    questions: dict[int, tuple[int, int, int, int, int]] = {}
    for place, (start, end) in enumerate(_pairs(stays)):
        asked = end_of_day(end) if end != NO_TIME else NO_TIME
        diagnosed = "diagnosed_before" if NO_TIME < first <= asked else ""
        reason = _no_end(start, end) or diagnosed or _dead(death, asked)
        if asked in questions and not reason:
            reason = "another_discharge_that_day"
        if reason:
            dropped[reason] += 1
            continue
        dropped["diagnosed_within_a_day_is_no"] += asked < first < asked + DAY
        positive = first != NO_TIME and asked + DAY <= first <= asked + DIAGNOSIS_DAYS * DAY
        stay = int(stays.rows[place])
        questions[asked] = (asked, 1, first, stay, row) if positive else (asked, 0, NO_TIME, stay, -1)
    return LabelledQuestions.of(list(questions.values()))


def _pairs(stays: Spans) -> list[tuple[int, int]]:
    return list(zip(stays.starts.tolist(), stays.ends.tolist(), strict=True))


def _no_end(start: int, end: int) -> str:
    """Why a stay has no length, if it has none: EHRSHOT leaves out those that end as they begin."""
    if end == NO_TIME:
        return "no_discharge"
    if end == start:
        return "ends_as_it_begins"
    return "ends_before_it_begins" if end < start else ""


def _not_over_night(start: int, end: int) -> str:
    if end == NO_TIME:
        return ""
    return _no_end(start, end) or ("ends_on_the_day_of_admission" if end - end % DAY <= start else "")


def _dead(death: int, asked: int) -> str:
    return "dead_by_then" if NO_TIME < death <= asked else ""
