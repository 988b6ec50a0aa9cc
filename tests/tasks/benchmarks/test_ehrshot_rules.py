"""The rules of EHRSHOT's tasks, every edge by hand. Times are written as the records write them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core import format_time, from_microseconds, parse_time, to_microseconds
from wardround.records import Policy
from wardround.records.specs import CodedRows
from wardround.tasks.benchmarks.ehrshot.concepts import load_concepts, load_places
from wardround.tasks.benchmarks.ehrshot.record import (
    UNKNOWN,
    LabelledQuestions,
    end_of_day,
    first_event,
    icu_transfers,
    long_stays,
    new_diagnoses,
    readmissions,
)
from wardround.tasks.benchmarks.encounters import DAY, MINUTE, NO_TIME, Spans


def us(text: str | None) -> int:
    return NO_TIME if text is None else to_microseconds(parse_time(text))


def spans(*pairs: tuple[str, str | None]) -> Spans:
    starts = np.array([us(start) for start, _ in pairs], np.int64)
    ends = np.array([us(end) for _, end in pairs], np.int64)
    rows = np.arange(len(pairs), dtype=np.int64) * 10
    return Spans(starts=starts, ends=ends, rows=rows, stops=rows + 1)


def shown(asked: LabelledQuestions) -> list[tuple[str, int]]:
    times = (format_time(from_microseconds(time)) for time in asked.predictions.tolist())
    return list(zip(times, asked.values.tolist(), strict=True))


@pytest.mark.parametrize(
    ("start", "end", "label"),
    [
        ("2150-01-01 10:00:00", "2150-01-08 10:00:00", 1),  # seven days to the second
        ("2150-01-01 10:00:00", "2150-01-08 09:59:59", 0),
        ("2150-01-01 00:00:00", "2150-01-02 00:00:00", 0),  # midnight is a time: the stay ends on the next day
        ("2150-01-01 23:59:59", "2150-01-02 00:00:01", 0),
    ],
)
def test_length_of_stay(start: str, end: str, label: int) -> None:
    asked = long_stays(spans((start, end)), Counter())
    assert shown(asked) == [(f"{start[:10]} 23:59:59", label)]
    assert asked.events.tolist() == [us(end)]
    assert (asked.stays.tolist(), asked.rows.tolist()) == ([0], [1])


def test_a_stay_without_an_end_is_asked_about_and_its_answer_is_unknown() -> None:
    """Whether its end will be recorded is not known on its first day."""
    for rule in (long_stays, lambda stays, dropped: icu_transfers(stays, Spans.none(), dropped)):
        dropped: Counter[str] = Counter()
        assert shown(rule(spans(("2150-01-01 10:00:00", None)), dropped)) == [("2150-01-01 23:59:59", UNKNOWN)]
        assert not dropped.total()


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        ("2150-01-01 00:00:00", "2150-01-01 23:59:59", "ends_on_the_day_of_admission"),
        ("2150-01-01 10:00:00", "2150-01-01 10:00:00", "ends_as_it_begins"),
        ("2150-01-01 10:00:00", "2149-12-30 10:00:00", "ends_before_it_begins"),
    ],
)
def test_stays_that_cannot_be_asked_about_are_counted(start: str, end: str | None, reason: str) -> None:
    for rule in (long_stays, lambda stays, dropped: icu_transfers(stays, Spans.none(), dropped)):
        dropped: Counter[str] = Counter()
        assert not len(rule(spans((start, end)), dropped))
        assert dropped == {reason: 1}


def test_intensive_care_after_the_first_day_is_a_transfer() -> None:
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"), ("2150-03-01 10:00:00", "2150-03-05 10:00:00"))
    icu = spans(("2150-01-02 00:00:00", "2150-01-03 00:00:00"))
    asked = icu_transfers(stays, icu, Counter())
    assert shown(asked) == [("2150-01-01 23:59:59", 1), ("2150-03-01 23:59:59", 0)]
    assert asked.events.tolist() == [us("2150-01-02 00:00:00"), NO_TIME]
    assert asked.rows.tolist() == [0, -1]


@pytest.mark.parametrize(
    "icu",
    [
        ("2150-01-01 23:59:59", "2150-01-03 00:00:00"),  # still the day of admission
        ("2150-01-01 02:00:00", "2150-01-01 12:00:00"),  # began in the emergency room, goes on in the stay
        ("2150-01-01 10:00:00", None),
    ],
)
def test_intensive_care_on_the_day_of_admission_is_not_asked_about(icu: tuple[str, str | None]) -> None:
    dropped: Counter[str] = Counter()
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"))
    assert not len(icu_transfers(stays, spans(icu), dropped))
    assert dropped == {"icu_on_admission_day": 1}


def test_intensive_care_without_an_end_belongs_to_the_stay_that_follows_and_to_no_later_one() -> None:
    """Whether its end is recorded later must not decide who is asked."""
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"), ("2150-03-01 10:00:00", "2150-03-05 10:00:00"))
    asked = icu_transfers(stays, spans(("2150-01-01 09:00:00", None)), Counter())
    assert shown(asked) == [("2150-03-01 23:59:59", 0)]


@pytest.mark.parametrize(
    "icu",
    [
        ("2149-12-30 10:00:00", "2150-01-01 09:00:00"),  # another stay's, over when this one begins
        ("2150-01-05 10:00:01", "2150-01-06 10:00:00"),  # after it
    ],
)
def test_intensive_care_outside_the_stay_says_nothing(icu: tuple[str, str]) -> None:
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"))
    assert shown(icu_transfers(stays, spans(icu), Counter())) == [("2150-01-01 23:59:59", 0)]


@pytest.mark.parametrize(
    ("back", "label"),
    [
        ("2150-02-04 23:59:59", 1),  # thirty days to the second
        ("2150-02-05 00:00:00", 0),
        ("2150-01-06 00:00:00", 1),  # the midnight after: a second later
    ],
)
def test_readmission_within_thirty_days(back: str, label: int) -> None:
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"), (back, "2150-02-20 10:00:00"))
    asked = readmissions(stays, NO_TIME, Counter())
    assert shown(asked) == [("2150-01-05 23:59:59", label), ("2150-02-20 23:59:59", 0)]
    assert asked.rows.tolist() == [10 if label else -1, -1]
    assert asked.stays.tolist() == [0, 10]


def test_who_is_back_on_the_day_of_discharge_is_not_asked_about() -> None:
    dropped: Counter[str] = Counter()
    stays = spans(
        ("2150-01-01 10:00:00", "2150-01-05 10:00:00"),
        ("2150-01-05 10:00:00", "2150-01-07 12:00:00"),
        ("2150-01-20 10:00:00", "2150-01-21 12:00:00"),
    )
    assert shown(readmissions(stays, NO_TIME, dropped)) == [("2150-01-07 23:59:59", 1), ("2150-01-21 23:59:59", 0)]
    assert dropped == {"back_on_the_same_day": 1}


def test_who_is_still_in_another_stay_is_not_asked_about() -> None:
    dropped: Counter[str] = Counter()
    stays = spans(("2150-01-01 10:00:00", "2150-01-20 10:00:00"), ("2150-01-02 10:00:00", "2150-01-04 10:00:00"))
    assert shown(readmissions(stays, NO_TIME, dropped)) == [("2150-01-20 23:59:59", 0)]
    assert dropped == {"back_on_the_same_day": 1}


def test_the_dead_are_asked_about_only_the_published_way() -> None:
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"))
    dropped: Counter[str] = Counter()
    death = us("2150-01-05 23:59:59")
    assert not len(readmissions(stays, death, dropped))
    assert not len(new_diagnoses(stays, NO_TIME, -1, death, dropped))
    assert dropped["dead_by_then"] == 2
    assert shown(readmissions(stays, us("2150-01-06 00:00:00"), Counter())) == [("2150-01-05 23:59:59", 0)]
    assert shown(readmissions(stays, NO_TIME, Counter())) == [("2150-01-05 23:59:59", 0)]


@pytest.mark.parametrize(
    ("first", "label"),
    [
        ("2150-01-06 23:59:59", 1),  # one day later to the second
        ("2151-01-05 23:59:59", 1),  # 365 days later
        ("2151-01-06 00:00:00", 0),
        ("2150-01-06 23:59:58", 0),  # within the first day
        (None, 0),
    ],
)
def test_a_first_diagnosis_within_a_year_of_discharge(first: str | None, label: int) -> None:
    dropped: Counter[str] = Counter()
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"))
    asked = new_diagnoses(stays, us(first), 77, NO_TIME, dropped)
    assert shown(asked) == [("2150-01-05 23:59:59", label)]
    assert asked.rows.tolist() == [77 if label else -1]
    assert dropped["diagnosed_within_a_day_is_no"] == (first == "2150-01-06 23:59:58")


def test_only_discharges_before_the_first_diagnosis_are_asked_about() -> None:
    dropped: Counter[str] = Counter()
    stays = spans(
        ("2150-01-01 10:00:00", "2150-01-05 10:00:00"),
        ("2150-05-01 10:00:00", "2150-05-05 10:00:00"),  # diagnosed at this discharge
        ("2150-08-01 10:00:00", "2150-08-05 10:00:00"),
    )
    asked = new_diagnoses(stays, us("2150-05-05 10:00:00"), 3, NO_TIME, dropped)
    assert shown(asked) == [("2150-01-05 23:59:59", 1)]
    assert +dropped == {"diagnosed_before": 2}


def test_two_discharges_of_one_day_are_one_question_about_diagnoses() -> None:
    dropped: Counter[str] = Counter()
    stays = spans(("2150-01-01 10:00:00", "2150-01-05 10:00:00"), ("2150-01-05 11:00:00", "2150-01-05 20:00:00"))
    assert shown(new_diagnoses(stays, NO_TIME, -1, NO_TIME, dropped)) == [("2150-01-05 23:59:59", 0)]
    assert +dropped == {"another_discharge_that_day": 1}


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("lab_anemia", {69.9: 3, 70: 2, 109.9: 2, 110: 1, 119.9: 1, 120: 0, 150: 0}),
        ("lab_thrombocytopenia", {49: 3, 50: 2, 99: 2, 100: 1, 149: 1, 150: 0}),
        ("lab_hyperkalemia", {7.1: 3, 7: 2, 6.1: 2, 6: 1, 5.6: 1, 5.5: 0, 3: 0}),
        ("lab_hypoglycemia", {2.99: 3, 3: 2, 3.49: 2, 3.5: 1, 3.9: 1, 3.91: 0}),
        ("lab_hyponatremia", {124: 3, 125: 2, 129: 2, 130: 1, 135: 1, 135.1: 0}),
    ],
)
def test_thresholds(task: str, values: dict[float, int]) -> None:
    concept = load_concepts()[task]
    assert concept.classes(np.array(list(values), float)).tolist() == list(values.values())
    narrow = np.array(list(values), np.float32).astype(float)  # as MEDS stores them: 3.9 reads as 3.9000001
    assert concept.classes(narrow).tolist() == list(values.values())


days = st.integers(0, 2000)
stays_drawn = st.lists(st.tuples(days, st.integers(1, 400)), max_size=8)


def drawn_spans(pairs: list[tuple[int, int]]) -> Spans:
    base, hour = us("2150-01-01 00:00:00"), 60 * MINUTE
    starts = np.array([base + day * DAY // 3 + 10 * hour for day, _ in pairs], np.int64)
    ends = starts + np.array([length * hour for _, length in pairs], np.int64)
    order = np.argsort(starts, kind="stable")
    rows = np.arange(len(pairs), dtype=np.int64)
    return Spans(starts=starts[order], ends=ends[order], rows=rows, stops=rows)


@given(stays_drawn, st.one_of(st.none(), days))
def test_every_stay_is_asked_about_or_counted_and_nothing_before_its_answer(
    pairs: list[tuple[int, int]], diagnosed: int | None
) -> None:
    stays = drawn_spans(pairs)
    first = NO_TIME if diagnosed is None else us("2150-01-01 00:00:00") + diagnosed * DAY // 3
    for rule in (
        long_stays,
        lambda one, dropped: icu_transfers(one, one, dropped),
        lambda one, dropped: readmissions(one, NO_TIME, dropped),
        lambda one, dropped: new_diagnoses(one, first, 0, NO_TIME, dropped),
    ):
        dropped: Counter[str] = Counter()
        asked = rule(stays, dropped)
        counted = sum(count for reason, count in dropped.items() if not reason.endswith("_is_no"))
        assert len(asked) + counted == len(stays)
        told = asked.events != NO_TIME
        assert np.all(asked.events[told] > asked.predictions[told])
        assert np.all(asked.predictions % DAY == DAY - 1_000_000)


@given(st.datetimes(min_value=parse_time("1900-01-01 00:00:00"), max_value=parse_time("2250-01-01 00:00:00")))
def test_the_end_of_a_day_is_its_last_second(moment) -> None:  # type: ignore[no-untyped-def]
    found = from_microseconds(end_of_day(to_microseconds(moment)))
    assert found.date() == moment.date()
    assert found + timedelta(seconds=1) == parse_time(f"{found.date() + timedelta(days=1)} 00:00:00")


@pytest.mark.parametrize(
    ("policy", "first"), [("known_at", "2150-01-02 08:30:00"), ("published", "2150-01-02 00:00:00")]
)
def test_the_record_begins_with_what_was_known_first(policy: Policy, first: str) -> None:
    """A procedure coded after the discharge stands at the midnight before a result that is known half an hour late;
    an order without a time is no beginning."""
    columns = {
        "_event": ["2150-01-02 00:00:00", "2150-01-02 08:00:00", None],
        "_available": ["2150-01-06 12:00:00", "2150-01-02 08:30:00", None],
    }
    times = {
        name: pa.array([None if time is None else us(time) for time in column], pa.timestamp("us"))
        for name, column in columns.items()
    }
    rows = CodedRows(batch=pa.RecordBatch.from_pydict(times))
    assert first_event(load_places("mimiciv"), rows, policy) == us(first)
