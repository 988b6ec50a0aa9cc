"""Bundles, targets and states in another future of the same past: they must be the same. For the leak audits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import zip_longest

from wardround.audits import Compared
from wardround.clinical.bundles.batch import batch_states
from wardround.clinical.bundles.events import BundleStream, cut
from wardround.clinical.bundles.files import bundles_of, subject_bundles
from wardround.clinical.bundles.fold import states
from wardround.clinical.bundles.reading import played_rows
from wardround.clinical.bundles.targets import step_targets
from wardround.core import to_microseconds
from wardround.records import Chart, Store


def differing_bundles(shown: Chart, other: Chart) -> Iterator[str]:
    """Yield, in words, the first bundle in which two charts differ, the first step with other targets, the first bundle
    after which the state is another, and whether the state after the last one is.

    Charts with the papers' clocks, and sources without events, have no bundles.
    """
    if shown.policy != "known_at" or not played_rows(shown.spec):
        return
    here, there = bundles_of(shown), bundles_of(other)
    yield from _differing(here, there)
    if _last_state(here, shown.subject_id) != _last_state(there, shown.subject_id):
        yield "the state differs"


def differing_records(store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
    """Compare what whole records, with all that came later, are cut into up to each subject's moment: the bundles that
    stays are played by, not a chart's."""
    found = Compared()
    if not played_rows(store.spec):
        found.left_out["bundles of whole records"] = "no table plays a role that gives events"
        return found
    for subject, as_of in moments.items():
        here, there = (_until(each, subject, as_of) for each in (store, other))
        found.compared["bundles of whole records"] += len(here)
        differing = [f"{subject} by {as_of}, whole record: {what}" for what in _differing(here, there)]
        found.differences += differing
        found.places["bundles of whole records"] += len(differing)
    return found


def _until(store: Store, subject: int, as_of: datetime) -> BundleStream:
    """Return of a whole record's bundles what was known by a moment."""
    if subject not in store.subjects:
        return cut(subject_bundles(store, int(store.subjects[0])).columns.slice(0, 0))
    events = subject_bundles(store, subject).columns
    return cut(events.take(events.known <= to_microseconds(as_of)))


def _differing(here: BundleStream, there: BundleStream) -> Iterator[str]:
    """Yield the first bundle, step and state that differ."""
    for first, second in zip_longest(here, there):
        if first is None or second is None or (first.hour, first.events) != (second.hour, second.events):
            hour = (first or second).hour
            yield f"the bundle of {hour} differs"
            return
    targets = step_targets(here), step_targets(there)
    after = zip(here, states(here), states(there), strict=True)
    for place, (bundle, state, other) in enumerate(after):
        if targets[0].of(place) != targets[1].of(place):
            yield f"the targets of the step after the bundle of {bundle.hour} differ"
            return
        if state != other:
            yield f"the state after the bundle of {bundle.hour} differs"
            return


def _last_state(stream: BundleStream, subject: int) -> object:
    return batch_states(stream).of(subject) if len(stream) else None
