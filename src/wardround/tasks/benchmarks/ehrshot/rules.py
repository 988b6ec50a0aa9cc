"""The rules of the EHRSHOT tasks, on the times of one subject.

Nothing is read from a store here. Cases without a question are counted by reason. All times are microseconds. The
prediction time is 23:59:59 of a day, or one minute before a result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from wardround.tasks.benchmarks.encounters import DAY, NO_TIME, SECOND, Ints, Spans

LONG_STAY_DAYS, READMISSION_DAYS, DIAGNOSIS_DAYS = 7, 30, 365
UNKNOWN = -1
"""The class of a question without a known answer; it never becomes a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledQuestions:
    """Questions of one subject, one array item per question.

    ``predictions``: prediction times. ``values``: classes. ``events``: when the answer happened (NO_TIME: never).
    ``stays``: row index of the stay. ``rows``: row index of the answer (-1: none).
    """

    predictions: Ints
    values: Ints
    events: Ints
    stays: Ints
    rows: Ints

    @classmethod
    def of(cls, questions: list[tuple[int, int, int, int, int]]) -> LabelledQuestions:
        """Build the arrays from tuples in the order of the fields."""
        columns = np.array(questions, np.int64).reshape(-1, 5).T
        predictions, values, events, stays, rows = columns
        return cls(predictions=predictions, values=values, events=events, stays=stays, rows=rows)

    def __len__(self) -> int:
        return len(self.predictions)


def end_of_day(time: int) -> int:
    """Return 23:59:59 of the day of a time."""
    return time - time % DAY + DAY - SECOND


def long_stays(stays: Spans, dropped: Counter[str]) -> LabelledQuestions:
    """guo_los: predict at the end of the first day whether a stay lasts 7 days or more.

    There is no question about a stay that ends on its first day.
    """
    questions = []
    for index, (start, end) in enumerate(_pairs(stays)):
        reason = _same_day_reason(start, end)
        if reason:
            dropped[reason] += 1
            continue
        if end == NO_TIME:
            questions.append((end_of_day(start), UNKNOWN, NO_TIME, int(stays.rows[index]), -1))
            continue
        long = end - start >= LONG_STAY_DAYS * DAY
        questions.append((end_of_day(start), int(long), end, int(stays.rows[index]), int(stays.stops[index])))
    return LabelledQuestions.of(questions)


def icu_transfers(stays: Spans, icu: Spans, dropped: Counter[str]) -> LabelledQuestions:
    """guo_icu: predict at the end of the first day whether intensive care begins later in the stay.

    There is no question about a stay that ends on that day, nor about a person who is or was in intensive care by
    then. Intensive care that began before the stay (in the emergency room) and continues in it, or has no end on
    record, belongs to it.
    """
    questions = []
    for index, (start, end) in enumerate(_pairs(stays)):
        reason = _same_day_reason(start, end)
        prediction_us = end_of_day(start)
        left_before = int(stays.ends[:index].max(initial=NO_TIME))
        goes_on = (icu.ends > start) | ((icu.ends == NO_TIME) & (icu.starts > left_before))
        within = ((icu.starts <= end) | (end == NO_TIME)) & ((icu.starts >= start) | goes_on)
        if not reason and bool(np.any(within & (icu.starts <= prediction_us))):
            reason = "icu_on_admission_day"
        if reason:
            dropped[reason] += 1
            continue
        if end == NO_TIME:
            questions.append((prediction_us, UNKNOWN, NO_TIME, int(stays.rows[index]), -1))
            continue
        later = np.flatnonzero(within)
        event, row = (int(icu.starts[later[0]]), int(icu.rows[later[0]])) if len(later) else (NO_TIME, -1)
        questions.append((prediction_us, int(len(later) > 0), event, int(stays.rows[index]), row))
    return LabelledQuestions.of(questions)


def readmissions(stays: Spans, death: int, dropped: Counter[str]) -> LabelledQuestions:
    """guo_readmission: predict at the end of the discharge day whether a stay begins within 30 days.

    There is no question about a person who is back in hospital on the day of discharge, as EHRSHOT's documents say
    (its code differs), nor about a person who has died (``death``; NO_TIME: alive, or EHRSHOT's rule, which includes
    the dead).
    """
    questions = []
    for index, (start, end) in enumerate(_pairs(stays)):
        prediction_us = end_of_day(end) if end != NO_TIME else NO_TIME
        others = np.arange(len(stays)) != index
        back = others & (stays.starts <= prediction_us) & ((stays.starts >= end) | (stays.ends > prediction_us))
        reason = (
            _no_length_reason(start, end)
            or _death_reason(death, prediction_us)
            or ("back_on_the_same_day" if np.any(back) else "")
        )
        if reason:
            dropped[reason] += 1
            continue
        later = np.flatnonzero(stays.starts > prediction_us)
        event, row = (int(stays.starts[later[0]]), int(stays.rows[later[0]])) if len(later) else (NO_TIME, -1)
        positive = len(later) > 0 and event <= prediction_us + READMISSION_DAYS * DAY
        stay = int(stays.rows[index])
        questions.append((prediction_us, 1, event, stay, row) if positive else (prediction_us, 0, NO_TIME, stay, -1))
    return LabelledQuestions.of(questions)


def new_diagnoses(stays: Spans, first: int, row: int, death: int, dropped: Counter[str]) -> LabelledQuestions:
    """new_*: predict whether the first diagnosis comes within 1 to 365 days of a discharge.

    ``first`` is the time of the first diagnosis (NO_TIME: never). The prediction time is the end of the day of
    discharge; questions exist only before the first diagnosis, one per day. Nothing is censored: without a diagnosis
    the answer is no, however short the follow-up. A first diagnosis on the first of these days is a no, and counted.
    """
    questions: dict[int, tuple[int, int, int, int, int]] = {}
    for index, (start, end) in enumerate(_pairs(stays)):
        prediction_us = end_of_day(end) if end != NO_TIME else NO_TIME
        diagnosed = "diagnosed_before" if NO_TIME < first <= prediction_us else ""
        reason = _no_length_reason(start, end) or diagnosed or _death_reason(death, prediction_us)
        if prediction_us in questions and not reason:
            reason = "another_discharge_that_day"
        if reason:
            dropped[reason] += 1
            continue
        dropped["diagnosed_within_a_day_is_no"] += prediction_us < first < prediction_us + DAY
        positive = first != NO_TIME and prediction_us + DAY <= first <= prediction_us + DIAGNOSIS_DAYS * DAY
        stay = int(stays.rows[index])
        questions[prediction_us] = (
            (prediction_us, 1, first, stay, row) if positive else (prediction_us, 0, NO_TIME, stay, -1)
        )
    return LabelledQuestions.of(list(questions.values()))


def _pairs(stays: Spans) -> list[tuple[int, int]]:
    return list(zip(stays.starts.tolist(), stays.ends.tolist(), strict=True))


def _no_length_reason(start: int, end: int) -> str:
    """Return why a stay has no length, if it has none; EHRSHOT drops stays that end as they begin."""
    if end == NO_TIME:
        return "no_discharge"
    if end == start:
        return "ends_as_it_begins"
    return "ends_before_it_begins" if end < start else ""


def _same_day_reason(start: int, end: int) -> str:
    if end == NO_TIME:
        return ""
    return _no_length_reason(start, end) or ("ends_on_the_day_of_admission" if end - end % DAY <= start else "")


def _death_reason(death: int, prediction_us: int) -> str:
    return "dead_by_then" if NO_TIME < death <= prediction_us else ""
