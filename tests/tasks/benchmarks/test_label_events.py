"""Label events from hand-made rows: grouping, the moment asked, and every reason to drop."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core import from_microseconds, to_microseconds
from wardround.records import Policy, SpanRole, load_source_spec
from wardround.tasks.benchmarks import get_task
from wardround.tasks.benchmarks.drawing import choose_event
from wardround.tasks.benchmarks.encounters import Encounters
from wardround.tasks.benchmarks.label_events import EventFinder, LabelEvent, LabelSource, label_source

TIME = pa.timestamp("us")


def at(day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2150, 3, day, hour, minute, second)


ADMISSION = SpanRole(table="admissions", id="hadm_id", start="admittime", ends=("dischtime", "deathtime"))
STAYS = Encounters.read(
    ADMISSION,
    pa.record_batch(
        {
            "_event": pa.array([at(10, 8), at(1, 9, 30)], TIME),
            "hadm_id": pa.array([20, 10], pa.int64()),
            "admittime": pa.array([at(10, 8), at(1, 9, 30)], TIME),
            "dischtime": pa.array([at(12, 12), at(5, 15)], TIME),
            "deathtime": pa.array([at(12, 15), None], TIME),
        }
    ),
)
Row = tuple[str | None, int | None, datetime | None, datetime | None]


def table(*rows: Row, published: datetime | None = None) -> pa.RecordBatch:
    """Rows of (name, hadm_id, event, available)."""
    events = [row[2] for row in rows]
    return pa.record_batch(
        {
            "name": pa.array([row[0] for row in rows], pa.string()),
            "hadm_id": pa.array([row[1] for row in rows], pa.int64()),
            "_event": pa.array(events, TIME),
            "_available": pa.array([row[3] for row in rows], TIME),
            "_published": pa.array([published or event for event in events], TIME),
        }
    )


def finder(policy: Policy = "known_at", *, by_encounter: bool = False, from_day_start: bool = False) -> EventFinder:
    source = LabelSource(
        table="t",
        columns=("name",),
        label=lambda name: name,
        encounter="hadm_id",
        by_encounter=by_encounter,
        from_day_start=from_day_start,
    )
    return EventFinder(source=source, policy=policy)


def find(batch: pa.RecordBatch, found: EventFinder | None = None) -> tuple[list[LabelEvent], dict[str, int]]:
    found = found or finder()
    events = found.events(7, batch, STAYS)
    return events, {reason: count for reason, count in found.dropped.items() if count}


def test_labels_of_one_moment_are_one_question_asked_a_minute_before() -> None:
    moment, later = at(2, 6), at(2, 8)
    rows = [("Sodium", 10, moment, later), ("Glucose", 10, moment, later), ("Glucose", 10, moment, later)]
    events, dropped = find(table(*rows, (None, 10, moment, later), ("Urea", 10, at(2, 7), later)))
    assert dropped == {}
    assert [event.target for event in events] == [("Glucose", "Sodium"), ("Urea",)]
    assert events[0].unmapped == 1
    assert events[0].encounter == 10
    assert from_microseconds(events[0].prediction_us) == moment - timedelta(minutes=1)


def test_orders_less_than_a_minute_apart_are_one_act() -> None:
    times = [at(2, 6), at(2, 6, 0, 59), at(2, 6, 1, 58), at(2, 6, 2, 58)]
    batch = table(*[(name, 10, moment, moment) for name, moment in zip("abcd", times, strict=True)])
    source = LabelSource(table="t", columns=("name",), label=lambda name: name, encounter="hadm_id", by_session=True)
    events, _ = find(batch, EventFinder(source=source, policy="known_at"))
    assert [event.target for event in events] == [("a", "b", "c"), ("d",)]
    assert from_microseconds(events[0].prediction_us) == times[0] - timedelta(minutes=1)
    published, _ = find(batch, finder("published"))
    assert [event.target for event in published] == [("a",), ("b",), ("c",), ("d",)]


def test_a_move_seconds_after_another_cannot_be_asked_a_minute_before() -> None:
    batch = table(("PACU", 10, at(2, 6), at(2, 6)), ("Ward", 10, at(2, 6, 0, 40), at(2, 6, 0, 40)))
    events, dropped = find(batch)
    assert [event.target for event in events] == [("PACU",)]
    assert dropped == {"within_a_minute_of_another": 1}


def test_a_row_without_an_encounter_belongs_to_the_stay_that_covers_it() -> None:
    events, _ = find(table(("Sodium", None, at(11), at(11, 1))))
    assert events[0].encounter == 20


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("Sodium", None, at(7), at(7, 1)), "no_admission"),
        (("Sodium", 99, at(2), at(2, 1)), "no_admission"),
        (("Sodium", 10, at(1, 9), at(1, 10)), "before_admission"),
        (("Sodium", 10, at(1, 9, 30), at(1, 10)), "before_admission"),
        (("Sodium", 10, at(5, 15, 1), at(5, 16)), "after_discharge"),
        (("Sodium", 10, at(2, 6), None), None),
        ((None, 10, at(2, 6), at(2, 7)), "no_label"),
        (("Sodium", 10, None, at(2, 7)), "row_without_time"),
    ],
)
def test_what_cannot_be_asked_is_dropped_with_its_reason(row: Row, reason: str | None) -> None:
    events, dropped = find(table(row))
    assert dropped == ({} if reason is None else {reason: 1})
    assert len(events) == (reason is None)


def test_the_first_minute_after_admission_can_be_asked() -> None:
    events, dropped = find(table(("Sodium", 10, at(1, 9, 31), at(1, 10))))
    assert dropped == {}
    assert from_microseconds(events[0].prediction_us) == at(1, 9, 30)


def test_procedures_are_asked_at_the_start_of_their_day_or_at_admission() -> None:
    day_end = (at(1, 23, 59, 59), at(3, 23, 59, 59))
    rows = [("Biopsy", 10, day_end[0], at(5, 15)), ("Repair", 10, day_end[1], at(5, 15))]
    events, _ = find(table(*rows), finder(by_encounter=True, from_day_start=True))
    assert [from_microseconds(event.prediction_us) for event in events] == [at(1, 9, 30), at(3)]
    published, _ = find(table(*rows), finder("published", by_encounter=True, from_day_start=True))
    assert [from_microseconds(event.prediction_us) for event in published] == [at(1, 23, 58, 59), at(3, 23, 58, 59)]


def test_two_stays_with_the_same_moment_are_two_questions_where_encounters_count() -> None:
    rows = [("Biopsy", 10, at(4), at(5, 15)), ("Repair", 20, at(4), at(12, 12))]
    apart, dropped = find(table(*rows), finder(by_encounter=True))
    assert [(event.encounter, event.target) for event in apart] == [(10, ("Biopsy",))]
    assert dropped == {"before_admission": 1}


def test_the_published_policy_uses_the_published_clock() -> None:
    discharge = at(5, 15)
    batch = table(("Sepsis", 10, discharge, discharge), published=discharge - timedelta(minutes=1))
    known, _ = find(batch, finder(by_encounter=True))
    published, _ = find(batch, finder("published", by_encounter=True))
    assert from_microseconds(known[0].prediction_us) == discharge - timedelta(minutes=1)
    assert from_microseconds(published[0].prediction_us) == discharge - timedelta(minutes=2)


def test_a_label_already_on_the_chart_is_not_asked() -> None:
    day = at(3, 23, 59, 59)
    early = table(("Biopsy", 10, at(2), at(2)))
    source = finder(from_day_start=True)
    events, dropped = find(early, source)
    assert dropped == {"already_known": 1}
    assert events == []
    assert find(table(("Biopsy", 10, day, day)), finder(from_day_start=True))[1] == {}


def test_rows_that_do_not_count_are_left_out_before_anything_is_counted() -> None:
    source = LabelSource(
        table="t",
        columns=("name",),
        label=lambda name: name,
        encounter="hadm_id",
        keep_column="name",
        keep=lambda name: name == "Ward A",
    )
    rows = [("Ward A", 10, at(2), at(2)), ("Discharge lounge", 10, at(2), at(2)), ("ED", None, None, None)]
    events, dropped = find(table(*rows), EventFinder(source=source, policy="known_at"))
    assert [event.target for event in events] == [("Ward A",)]
    assert dropped == {}
    named = replace(source, left_out="row_of_another_kind")
    assert find(table(*rows), EventFinder(source=named, policy="known_at"))[1] == {"row_of_another_kind": 2}


def test_a_row_with_only_a_date_has_no_moment_to_ask_at() -> None:
    source = LabelSource(
        table="t", columns=("name",), label=lambda name: name, encounter="hadm_id", clock_column="charttime"
    )
    batch = table(("Sodium", 10, at(2, 6), at(3)), ("Urea", 10, at(2, 9), at(3)))
    batch = batch.append_column("charttime", pa.array([at(2, 6), None], TIME))
    events, dropped = find(batch, EventFinder(source=source, policy="known_at"))
    assert [event.target for event in events] == [("Sodium",)]
    assert dropped == {"row_without_time": 1}


@pytest.mark.parametrize(
    ("policy", "asked", "dropped"),
    [
        ("known_at", {"Blood Culture, Routine"}, {"row_of_reflex_test": 1, "row_without_time": 1}),
        ("published", {"Blood Culture, Routine", "Urine Culture", "Aerobic Bottle Gram Stain"}, {}),
    ],
)
def test_which_cultures_of_a_hospital_are_asked_for(policy: Policy, asked: set[str], dropped: dict[str, int]) -> None:
    """Under ``known_at`` neither what the laboratory added because of a result, nor what has only a day."""
    spec = load_source_spec("mimiciv")
    role = spec.roles.first("culture")
    assert role is not None
    source = label_source(get_task("microbiology"), role, spec, policy, None)
    rows = [("Blood Culture, Routine", 10, at(2, 6), at(4)), ("Urine Culture", 10, at(3, 6), at(4))]
    batch = table(*rows, ("Aerobic Bottle Gram Stain", 10, at(3, 9), at(4)))
    batch = batch.rename_columns({"name": "test_name"})
    batch = batch.append_column("charttime", pa.array([at(2, 6), None, at(3, 9)], TIME))
    events, left_out = find(batch, EventFinder(source=source, policy=policy))
    assert {label for event in events for label in event.target} == asked
    assert left_out == dropped


def test_a_label_is_mapped_once_per_code() -> None:
    asked: list[str | None] = []
    source = LabelSource(
        table="t", columns=("name",), label=lambda name: asked.append(name) or name, encounter="hadm_id"
    )
    one = EventFinder(source=source, policy="known_at")
    one.events(1, table(*[("Sodium", 10, at(2, hour), at(3)) for hour in range(9)]), STAYS)
    assert asked == ["Sodium"]


def test_a_subject_without_admissions_has_no_questions() -> None:
    one = finder()
    assert one.events(1, table(("Sodium", 10, at(2), at(3))), Encounters.none()) == []
    assert one.dropped["no_admission"] == 1
    assert one.events(1, table(), STAYS) == []


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30, unique=True), st.integers(1, 30), st.integers(0, 9))
def test_later_events_have_no_part_in_which_of_the_earlier_ones_is_asked(
    times: list[int], earlier: int, seed: int
) -> None:
    """A person who lives on has more events: what is asked of the days before may not depend on that."""
    events = [
        LabelEvent(subject_id=7, encounter=1, event_us=one, prediction_us=one - 1, target=("x",), unmapped=0)
        for one in sorted(times)
    ]
    whole, part = choose_event(events, seed, "labevents"), choose_event(events[:earlier], seed, "labevents")
    assert whole in events
    assert part == whole or whole in events[earlier:]


def test_every_event_may_be_the_one() -> None:
    events = [
        LabelEvent(subject_id=7, encounter=1, event_us=one, prediction_us=one - 1, target=("x",), unmapped=0)
        for one in range(6)
    ]
    drawn = Counter(choose_event(events, seed, "labevents").event_us for seed in range(600))
    assert set(drawn) == set(range(6))
    assert max(drawn.values()) < 150, "each about 100 times"


def test_stays_are_named_by_texts_or_by_nothing() -> None:
    rows = pa.record_batch(
        {
            "_event": pa.array([at(1, 9), at(10, 8)], TIME),
            "fall": pa.array(["F-1", "F-2"]),
            "ende": pa.array([at(5, 15), at(12, 12)], TIME),
        }
    )
    named = Encounters.read(SpanRole(table="faelle", id="fall", start="_event", ends=("ende",)), rows)
    times = np.array([to_microseconds(at(2)), to_microseconds(at(2)), to_microseconds(at(11)), to_microseconds(at(7))])
    cells = pa.array(["F-2", "F-9", "", None])
    assert named.position_of(cells, times).tolist() == [1, -1, 1, -1]
    assert named.name(1) == "F-2"
    nameless = Encounters.read(SpanRole(table="faelle", start="_event", ends=("ende",)), rows)
    assert nameless.position_of(None, times).tolist() == [0, 0, 1, -1]
    assert nameless.name(0) == to_microseconds(at(1, 9))


def test_what_has_only_a_day_belongs_to_a_stay_of_that_day() -> None:
    midnight = np.array([to_microseconds(at(10)), to_microseconds(at(9))])
    evening = midnight + 86_399_000_000
    assert STAYS.position_of(None, midnight).tolist() == [-1, -1]
    assert STAYS.position_of(None, midnight, evening).tolist() == [1, -1]


def test_the_rows_of_a_stay_are_one_question_at_its_discharge_without_what_is_known_by_then() -> None:
    """Also of a person who died after the recorded discharge: it is asked when that is, not when the death was."""
    source = replace(finder(by_encounter=True).source, at_stay_end=True)
    batch = table(
        ("Sepsis", 20, at(10, 9), at(13)),
        ("Gout", 20, None, at(13)),
        ("Chest pain", 20, at(10, 8), at(10, 9)),
        ("Fever", 10, at(3), at(6)),
    )
    events, dropped = find(batch, EventFinder(source=source, policy="known_at"))
    assert [event.target for event in events] == [("Fever",), ("Gout", "Sepsis")]
    asked = [from_microseconds(event.prediction_us) for event in events]
    assert asked == [at(5, 15) - timedelta(minutes=1), at(12, 12) - timedelta(minutes=1)]
    assert dropped == {"row_known_before_the_end": 1}
