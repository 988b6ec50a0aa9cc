"""Targets: what was decided after one bundle and until the next, when it was decided, and not what was seen already."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import numpy as np
import pytest

from wardround.clinical.bundles import (
    ActionType,
    BundleEvent,
    EventKind,
    event_of,
    step_targets,
    store_bundles,
    stream_of,
    untimed_types,
)
from wardround.clinical.bundles.targets import DECIDED
from wardround.records import Store, load_source_spec


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2150, 3, 1, hour, minute)


def lab(name: str, taken: datetime, known: datetime) -> BundleEvent:
    return event_of(EventKind.LAB, name, known, time=taken, value=1.0)


def order(name: str, known: datetime, row: str = "") -> BundleEvent:
    return event_of(EventKind.MEDICATION_START, name, known, row_id=row)


def test_a_result_is_a_target_where_its_specimen_was_taken() -> None:
    stream = stream_of(
        1, [lab("Sodium", at(7), at(8)), lab("Lactate", at(9, 30), at(12)), order("Vancomycin", at(10, 5))]
    )
    targets = step_targets(stream)
    assert [bundle.hour.hour for bundle in stream] == [8, 10, 12]
    assert targets.of(0) == {ActionType.LABS: ("Lactate",), ActionType.MEDICATIONS: ("Vancomycin",)}
    assert targets.of(1) == {}
    assert targets.skipped == {ActionType.MEDICATIONS: 1, ActionType.LABS: 1, ActionType.PROCEDURES: 2}


def test_what_was_decided_within_the_bundles_own_hour_is_over() -> None:
    stream = stream_of(1, [lab("Sodium", at(7), at(8)), lab("Lactate", at(8, 50), at(9, 40))])
    assert step_targets(stream).of(0) == {}


def test_a_concept_is_a_target_once_however_often_it_was_ordered() -> None:
    stream = stream_of(
        1, [lab("Sodium", at(7), at(8)), *(lab("Glucose", at(9, each), at(10, each)) for each in range(5))]
    )
    assert step_targets(stream).of(0) == {ActionType.LABS: ("Glucose",)}


@pytest.mark.parametrize("end", [EventKind.MEDICATION_STOP, EventKind.DISCHARGE])
def test_an_order_that_runs_is_no_target_again_until_it_has_ended(end: EventKind) -> None:
    first, again = order("Heparin", at(8), "a"), order("Heparin", at(12), "b")
    between = lab("Sodium", at(9), at(10))
    running = step_targets(stream_of(1, [first, between, again]))
    assert (running.of(1), running.visible[ActionType.MEDICATIONS]) == ({}, 1)
    stop = event_of(end, "Heparin", at(10, 30), row_id="a" if end is EventKind.MEDICATION_STOP else "stay")
    stopped = step_targets(stream_of(1, [first, between, stop, again]))
    assert (stopped.of(1), stopped.visible[ActionType.MEDICATIONS]) == ({ActionType.MEDICATIONS: ("Heparin",)}, 0)


def test_a_pending_culture_is_no_target_and_its_result_is_none_later() -> None:
    events = [
        lab("Sodium", at(7), at(8)),
        event_of(EventKind.CULTURE_TAKEN, "Blood Culture", at(9)),
        lab("Sodium", at(9, 30), at(10)),
        event_of(EventKind.CULTURE, "Blood Culture", at(13), time=at(9), text="STAPH AUREUS"),
    ]
    targets = step_targets(stream_of(1, events))
    assert targets.of(0) == {ActionType.LABS: ("Blood Culture", "Sodium")}
    assert [targets.of(step) for step in (1, 2, 3)] == [{}, {}, {}]


def test_every_decision_of_a_hospital_is_a_target_of_the_step_before_it(synthetic_store: Store) -> None:
    """Counted event by event, as columns are not."""
    stream = next(iter(store_bundles(synthetic_store)))
    targets = step_targets(stream)
    for subject in np.unique(stream.subjects)[:5].tolist():
        bundles = [(place, bundle) for place, bundle in enumerate(stream) if bundle.subject_id == subject]
        decided = [
            event for _, bundle in bundles for event in bundle.events if event.kind in DECIDED and not event.revision
        ]
        for (place, bundle), (_, following) in pairwise(bundles):
            end = following.hour.timestamp() + 3600
            told = {name for names in targets.of(place).values() for name in names}
            own = [each for each in decided if bundle.hour.timestamp() + 3600 <= each.time.timestamp() < end]
            assert told <= {event.concept for event in own}
            labs = {event.concept for event in own if event.kind is EventKind.LAB}
            assert labs <= set(targets.of(place).get(ActionType.LABS, ()))


def test_a_source_that_knows_only_days_says_so() -> None:
    assert untimed_types(load_source_spec("mimiciv")) == {}
    assert untimed_types(load_source_spec("mimiciii")) == {
        ActionType.MEDICATIONS: "prescriptions: known to the day only"
    }
