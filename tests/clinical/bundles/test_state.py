"""The state: each event changes it in one way, the columns of a batch come to the same, nothing grows without end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from wardround.clinical.bundles import (
    BundleEvent,
    EventKind,
    PatientState,
    StateLimits,
    batch_states,
    event_of,
    fold,
    states,
    store_bundles,
    stream_of,
)
from wardround.records import Store

SECTIONS = ("problems", "medications", "trends", "allergies", "actions")
START = datetime(2150, 3, 1)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def last_state(events: list[BundleEvent], limits: StateLimits | None = None) -> PatientState:
    start = PatientState(subject_id=1, limits=limits or StateLimits())
    *_, last = states(stream_of(1, events), start)
    return last


def lactate(hours: float, value: float, **changed: object) -> BundleEvent:
    return event_of(EventKind.LAB, "Lactate", at(hours), value=value, unit="mmol/L", **changed)  # type: ignore[arg-type]


def test_a_stopped_order_leaves_and_the_history_says_on_which_row() -> None:
    start = event_of(EventKind.MEDICATION_START, "Heparin", at(1), text="5000", unit="UNIT", row_id="p:1")
    more = event_of(EventKind.MEDICATION_START, "Heparin", at(3), text="7500", unit="UNIT", row_id="p:2")
    stops = [event_of(EventKind.MEDICATION_STOP, "Heparin", at(4 + n), row_id=f"p:{n + 1}") for n in range(2)]
    both = last_state([start, more])
    assert [(each.dose, each.row_id) for each in both.medications.values()] == [("5000", "p:1"), ("7500", "p:2")]
    assert list(last_state([start, more, stops[0]]).medications) == ["p:2"]
    over = last_state([start, more, *stops])
    assert over.medications == {}
    assert [(change.what, change.row_id) for change in over.history] == [
        ("started", "p:1"),
        ("dose 5000 UNIT -> 7500 UNIT", "p:2"),
        ("stopped", "p:2"),
    ]


def test_a_trend_has_the_readings_of_its_window_by_their_own_time() -> None:
    late = lactate(6, 3.0, time=at(2))
    trend = last_state([lactate(0, 1.0), lactate(1, 2.0), lactate(5, 4.0), late, lactate(25, 5.0)]).trend("Lactate")
    assert trend is not None
    assert [(reading.time, reading.value) for reading in trend.readings] == [
        (at(1), 2.0),
        (at(2), 3.0),
        (at(5), 4.0),
        (at(25), 5.0),
    ]
    assert (trend.change, trend.hours, trend.unit, trend.direction) == (3.0, 24.0, "mmol/L", "rising")


@pytest.mark.parametrize(
    ("values", "direction"), [((2.0, 2.1), "steady"), ((2.0, 2.11), "rising"), ((2.0, 1.8), "falling")]
)
def test_a_twentieth_is_no_change(values: tuple[float, float], direction: str) -> None:
    trend = last_state([lactate(place, value) for place, value in enumerate(values)]).trend("Lactate")
    assert trend is not None
    assert trend.direction == direction


def test_a_discharge_ends_what_runs() -> None:
    events = [
        event_of(EventKind.INFUSION_START, "Norepinephrine", at(1), value=0.1, unit="mcg/kg/min"),
        event_of(EventKind.DISCHARGE, "EW EMER.", at(9)),
    ]
    assert [change.what for change in last_state(events).history] == ["started", "ended at discharge"]
    assert last_state(events).medications == {}


def test_what_is_over_the_limit_is_evicted_oldest_first_and_counted() -> None:
    events = [event_of(EventKind.LAB, f"Test {number}", at(number), value=1.0) for number in range(6)]
    again = event_of(EventKind.LAB, "Test 3", at(7), value=2.0)
    state = last_state([*events, again], StateLimits(trends=3, actions=4))
    assert [trend.concept for trend in state.trends.values()] == ["Test 4", "Test 5", "Test 3"]
    assert (state.evicted["trends"], state.evicted["actions"]) == (3, 2)


def test_the_batch_state_is_the_folded_state(synthetic_store: Store) -> None:
    for stream in store_bundles(synthetic_store, rows_at_once=60_000):
        batch = batch_states(stream)
        for subject in np.unique(stream.subjects)[::12].tolist():
            *_, folded = states(bundle for bundle in stream if bundle.subject_id == subject)
            made = batch.of(subject)
            assert made == replace(folded, history=(), evicted={})
            assert set(folded.evicted) <= {"history"}
            assert all(list(getattr(made, name)) == list(getattr(folded, name)) for name in SECTIONS)


def test_a_corrected_row_is_as_if_it_had_always_been_so() -> None:
    """Three results, one corrected and one withdrawn: the state follows at once."""
    events = [lactate(0, 1.0, row_id="l:1"), lactate(1, 9.0, row_id="l:2"), lactate(2, 1.2, row_id="l:3")]
    corrected = lactate(3, 1.1, row_id="l:2", time=at(1), revision=1)
    withdrawn = event_of(EventKind.RETRACTION, "Lactate", at(4), row_id="l:3", revision=1)
    seen = [state.trend("Lactate") for state in states(stream_of(1, [*events, corrected, withdrawn]))]
    values = [[reading.value for reading in trend.readings] for trend in seen if trend is not None]
    assert values == [[1.0], [1.0, 9.0], [1.0, 9.0, 1.2], [1.0, 1.1, 1.2], [1.0, 1.1]]
    always = [events[0], lactate(1, 1.1, row_id="l:2")]
    assert replace(last_state([*events, corrected, withdrawn]), hour=None) == replace(last_state(always), hour=None)


def test_an_amendment_without_the_past_is_folded_from_what_is_given() -> None:
    stream = list(stream_of(1, [lactate(0, 1.0, row_id="l:1"), lactate(1, 2.0, row_id="l:1", revision=1, time=at(0))]))
    first = fold(PatientState(subject_id=1), stream[0])
    assert [
        reading.value
        for reading in fold(first, stream[1], [stream[0]]).trends[EventKind.LAB, "Lactate", "mmol/L"].readings
    ] == [2.0]
