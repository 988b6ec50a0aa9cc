"""Intervals of one subject, stays in hospital or in intensive care, read from the rows that play that role."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from wardround.benchmarks.columns import AVAILABLE, DAY, EVENT, NO_TIME, SECOND, Ints, cell_times
from wardround.records import SpanRole
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.coded_rows import CodedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Intervals of one subject in order of their starts. ``rows`` are the places of their rows, ``stops`` those of the
    rows that tell their ends (the same where one row tells both). An open end is NO_TIME."""

    starts: Ints
    ends: Ints
    rows: Ints
    stops: Ints

    @classmethod
    def none(cls) -> Spans:
        """No intervals."""
        empty = np.empty(0, np.int64)
        return cls(starts=empty, ends=empty, rows=empty, stops=empty)

    def __len__(self) -> int:
        return len(self.starts)


def read_spans(place: SpanRole, times: Ints, rows: CodedRows) -> Spans:
    """Read a subject's intervals, one row each or as pairs of events."""
    return _row_spans(place, times, rows) if place.start is not None else _paired_spans(place, times, rows)


def _row_spans(place: SpanRole, times: Ints, rows: CodedRows) -> Spans:
    starts = times if place.start == EVENT else cell_times(rows.batch.column(place.start))
    ends = _ends(place, rows.batch)
    if place.start == AVAILABLE:  # a stay never known has no start, one known afterwards begins a second before its end
        starts = np.where(starts >= NEVER_TIME, NO_TIME, starts)
        afterwards = (ends != NO_TIME) & (starts >= ends)
        starts = np.where(afterwards, np.where(times < ends, ends - SECOND, times), starts)
    found = np.flatnonzero((starts != NO_TIME) & rows.meet(place.where))
    found = found[np.lexsort((ends[found], starts[found]))]
    return Spans(starts=starts[found], ends=ends[found], rows=found, stops=found)


def _paired_spans(place: SpanRole, times: Ints, coded: CodedRows) -> Spans:
    """Pair each start with the first stop from it on, if that is not after the next start; a start that tells its own
    end needs none."""
    assert place.code is not None
    opening = np.flatnonzero(coded.fits(place.code, place.starts) & (times != NO_TIME))
    closing = np.flatnonzero(coded.fits(place.code, place.stops) & (times != NO_TIME))
    opening = opening[np.unique(times[opening], return_index=True)[1]]  # a start told twice is one start
    closing = closing[np.argsort(times[closing], kind="stable")]
    starts, stops = times[opening], times[closing]
    ends = _ends(place, coded.batch)[opening]
    rows = np.where(ends == NO_TIME, -1, opening)
    used = -1
    for place_, start in enumerate(starts.tolist()):
        found = max(int(np.searchsorted(stops, start)), used + 1)
        following = starts[place_ + 1] if place_ + 1 < len(starts) else NEVER_TIME
        if ends[place_] == NO_TIME and found < len(stops) and stops[found] <= following:
            ends[place_], rows[place_], used = stops[found], closing[found], found
    return Spans(starts=starts, ends=ends, rows=opening, stops=rows)


def _ends(place: SpanRole, batch: pa.RecordBatch) -> Ints:
    """Return the latest of a place's ends for every row."""
    ends = np.full(batch.num_rows, NO_TIME, np.int64)
    for named in place.ends:
        time, _, day = named.partition("|")
        if time in batch.schema.names:
            times = cell_times(batch.column(time))
            ends = np.maximum(ends, _dated(times, cell_times(batch.column(day))) if day else times)
    return ends


def _dated(times: Ints, days: Ints) -> Ints:
    """A time, or the end of its day where the time is empty or midnight and may stand for a day."""
    only_day = (times == NO_TIME) | (times % DAY == 0)
    return np.where(only_day & (days != NO_TIME), days, times)


def count_kinds(place: SpanRole, rows: CodedRows, kinds: dict[str, Counter[str]]) -> None:
    """Count the rows of each kind that are stays, that are declared to be none, and that are neither."""
    if place.kind is None or not rows.has([place.kind]):
        return
    index, texts = rows.encoded(place.kind)
    is_stay = rows.meet(place.where)
    for kind, stay in zip(index.tolist(), is_stay.tolist(), strict=True):
        what = "stays" if stay else "no stays" if texts[kind] in place.no_stays else "undeclared"
        kinds.setdefault(texts[kind], Counter())[what] += 1
