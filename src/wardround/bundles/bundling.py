"""From a chart or a store to bundles. A bundle is the clock hour of the later of event time and availability."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np

from wardround.bundles.events import BundleStream, cut
from wardround.bundles.levels import with_levels
from wardround.bundles.playing import played_rows
from wardround.bundles.reading import read_events
from wardround.core import UserError, to_microseconds
from wardround.records import Chart, SourceSpec, Store
from wardround.records.chart.chart import stored_rows
from wardround.records.pieces import ROWS_AT_ONCE, StoredTable, stored_pieces

END_OF_TIME = datetime(9998, 12, 31)
"""A moment after all records."""


def store_bundles(store: Store, *, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[BundleStream]:
    """Yield the bundles of a whole store, some subjects at a time. Trusted: nothing is cut at a moment.

    UserError: the source's roles give no events.
    """
    _check(store.spec)
    for shard in range(store.shard_count):
        for piece in stored_pieces(store, shard, rows_at_once):
            stream = cut(with_levels(read_events(store.spec, piece)))
            if len(stream):
                yield stream


def subject_bundles(store: Store, subject_id: int) -> BundleStream:
    """Return all bundles of one subject. Trusted: the record to its end."""
    return bundles_of(store.chart(subject_id, END_OF_TIME))


def bundles_of(chart: Chart) -> BundleStream:
    """Return the bundles of a chart: everything known at its moment, each row where it became known.

    UserError: the source's roles give no events.
    """
    _check(chart.spec)
    if chart.policy != "known_at":
        raise UserError("bundles follow the clock of knowledge: a chart with the papers' clocks has none")
    events = read_events(chart.spec, _stored(chart))
    known = events.known <= to_microseconds(chart.as_of)
    return cut(with_levels(events if known.all() else events.take(known)))


def _stored(chart: Chart) -> Iterator[StoredTable]:
    for name, layout in chart.layouts.items():
        rows = stored_rows(chart, name)
        if rows is not None:
            yield StoredTable(layout=layout, subject=np.full(rows.num_rows, chart.subject_id), stored=rows)


def _check(spec: SourceSpec) -> None:
    if not played_rows(spec):
        raise UserError(f"{spec.title} has no bundles: no table plays a role that gives events (docs/roles.md)")
