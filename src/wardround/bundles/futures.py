"""Bundles and state in another future of the same past: they must be the same. For the leak audits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from wardround.bundles.batch import batch_states
from wardround.bundles.bundling import bundles_of
from wardround.bundles.events import BundleStream
from wardround.bundles.playing import played_rows
from wardround.records import Chart


def differing_bundles(shown: Chart, other: Chart) -> Iterator[str]:
    """Yield, in words, the first bundle in which two charts differ, and whether the state after the last one does.

    Charts with the papers' clocks, and sources without events, have no bundles.
    """
    if shown.policy != "known_at" or not played_rows(shown.spec):
        return
    here, there = bundles_of(shown), bundles_of(other)
    for first, second in zip_longest(here, there):
        if first is None or second is None or (first.hour, first.events) != (second.hour, second.events):
            hour = (first or second).hour
            yield f"the bundle of {hour} differs"
            break
    if _states(here, shown.subject_id) != _states(there, shown.subject_id):
        yield "the state differs"


def _states(stream: BundleStream, subject: int) -> object:
    return batch_states(stream).of(subject) if len(stream) else None
