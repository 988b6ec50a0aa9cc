"""For the leak audits: bundles, targets and states of two charts with the same past must be equal."""

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
    """Yield, in words, the first differing bundle of two charts, or the first step with other targets or another state,
    and whether the last states differ.

    Charts with the papers' clocks, and sources without events, have no bundles.
    """
    if shown.policy != "known_at" or not played_rows(shown.spec):
        return
    own, others = bundles_of(shown), bundles_of(other)
    yield from _differing(own, others)
    if _last_state(own, shown.subject_id) != _last_state(others, shown.subject_id):
        yield "the state differs"


def differing_records(store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
    """Compare the bundles of whole records up to each subject's moment, as stays are run on them (not a chart's).

    Bundles are cut from records that have all later rows."""
    found = Compared()
    if not played_rows(store.spec):
        found.left_out["bundles of whole records"] = "no table plays a role that gives events"
        return found
    for subject, as_of in moments.items():
        own, others = (_until(each, subject, as_of) for each in (store, other))
        found.compared["bundles of whole records"] += len(own)
        differing = [f"{subject} by {as_of}, whole record: {difference}" for difference in _differing(own, others)]
        found.differences += differing
        found.places["bundles of whole records"] += len(differing)
    return found


def _until(store: Store, subject: int, as_of: datetime) -> BundleStream:
    """Return the events of a whole record that were known by a moment, as bundles."""
    if subject not in store.subjects:
        return cut(subject_bundles(store, int(store.subjects[0])).columns.slice(0, 0))
    events = subject_bundles(store, subject).columns
    return cut(events.take(events.known <= to_microseconds(as_of)))


def _differing(own: BundleStream, others: BundleStream) -> Iterator[str]:
    """Yield the first difference of bundles, else of targets or states."""
    for first, second in zip_longest(own, others):
        if first is None or second is None or (first.hour, first.events) != (second.hour, second.events):
            hour = (first or second).hour
            yield f"the bundle of {hour} differs"
            return
    targets = step_targets(own), step_targets(others)
    after = zip(own, states(own), states(others), strict=True)
    for place, (bundle, state, other) in enumerate(after):
        if targets[0].of(place) != targets[1].of(place):
            yield f"the targets of the step after the bundle of {bundle.hour} differ"
            return
        if state != other:
            yield f"the state after the bundle of {bundle.hour} differs"
            return


def _last_state(stream: BundleStream, subject: int) -> object:
    return batch_states(stream).of(subject) if len(stream) else None
