"""Stays and other intervals of a subject, and which of them a row belongs to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import RecordError
from wardround.records import SpanRole
from wardround.records.rules import ALWAYS_TIME
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import CodedRows

# Columns of stored rows as numbers and texts. Times are whole microseconds, NO_TIME where there is none.


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NO_TIME = np.iinfo(np.int64).min
SECOND, MINUTE, DAY = 1_000_000, 60_000_000, 86_400_000_000
_MICROSECONDS = pa.timestamp("us")
EVENT, AVAILABLE, PUBLISHED = "_event", "_available", "_published"


def microseconds(column: pa.Array) -> Ints:
    """Return a time column as integers, NO_TIME where it is null."""
    if pa.types.is_null(column.type):
        return np.full(len(column), NO_TIME, np.int64)
    if not (pa.types.is_timestamp(column.type) or pa.types.is_int64(column.type)):
        raise RecordError(f"expected a time column, not {column.type}")
    exact = column if column.type in (pa.int64(), _MICROSECONDS) else column.cast(_MICROSECONDS)
    plain = exact.cast(pa.int64())
    filled = plain.fill_null(NO_TIME) if plain.null_count else plain
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def integers(column: pa.Array) -> Ints:
    """Return an id column as integers, -1 where it is null."""
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def texts(column: pa.Array) -> list[Any]:
    """Return a column as texts and None."""
    return list(column.cast(pa.string()).to_pylist())


def event_times(batch: pa.RecordBatch) -> Ints:
    """Return when each row happened, NO_TIME where it has no time."""
    times = microseconds(batch.column(EVENT))
    return np.where((times <= ALWAYS_TIME) | (times >= NEVER_TIME), NO_TIME, times)


def cell_times(column: pa.Array) -> Ints:
    """Return the times of a column; a date without a time is the end of its day."""
    if not pa.types.is_date(column.type):
        return microseconds(column)
    midnights = microseconds(column.cast(pa.timestamp("us")))
    return np.where(midnights == NO_TIME, NO_TIME, midnights + (DAY - SECOND))


# Intervals of one subject, stays in hospital or in intensive care, read from the rows that play that role.


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
    opening = opening[np.unique(times[opening], return_index=True)[1]]  # a start recorded twice is one start
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


# A subject's stays in hospital, and to which of them a row belongs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounters:
    """The stays of one subject in order of admission, times in microseconds.

    A stay may go on after its recorded discharge; one without an end goes on until the next begins, or for ever.
    ``ids``: what other rows call them; None where the source does not say.
    """

    starts: Ints
    ends: Ints
    discharges: Ints
    ids: pa.Array | None = None

    @classmethod
    def read(cls, role: SpanRole, batch: pa.RecordBatch, *, open_ended: bool = True) -> Encounters:
        """Read a subject's rows of the table of admissions. The first of the role's ends is the discharge. Unless
        ``open_ended``, a stay without an end has none, and nothing is in it."""
        rows, times = CodedRows(batch=batch), event_times(batch)
        spans = read_spans(role, times, rows)
        ids = None if role.id is None else batch.column(role.id).take(pa.array(spans.rows))
        left = dict(zip(*_discharges(role, times, rows), strict=True))
        known = np.array([left.get(row, NO_TIME) for row in spans.rows.tolist()], np.int64)
        following = np.append(spans.starts[1:], NEVER_TIME)[: len(spans)]
        ends = np.where((spans.ends == NO_TIME) & open_ended, following, spans.ends)
        return cls(starts=spans.starts, ends=ends, discharges=np.where(known == NO_TIME, spans.ends, known), ids=ids)

    @classmethod
    def none(cls) -> Encounters:
        """A subject without any."""
        empty = np.empty(0, np.int64)
        return cls(starts=empty, ends=empty, discharges=empty)

    def name(self, place: int) -> Any:
        """Return the name of a stay: its id, or its start."""
        return int(self.starts[place]) if self.ids is None else self.ids[place].as_py()

    def position_of(self, named: pa.Array | None, times: Ints, until: Ints | None = None) -> Ints:
        """Which stay each row belongs to: the one it names, else the one that covers its time, or some of the time from
        there to ``until``, else -1."""
        if not len(self.starts):
            return np.full(len(times), -1, np.int64)
        latest = np.searchsorted(self.starts, times if until is None else until, side="right") - 1
        covered = np.where((latest >= 0) & (times != NO_TIME) & (times <= self.ends[latest]), latest, -1)
        if named is None or self.ids is None:
            return covered
        named = named.cast(self.ids.type)
        found = np.asarray(pc.fill_null(pc.index_in(named, value_set=self.ids), -1), np.int64)
        return np.where(_names_one(named), found, covered)


def _discharges(role: SpanRole, times: Ints, rows: CodedRows) -> tuple[list[int], list[int]]:
    """The rows of stays, and when each says that the person left."""
    spans = read_spans(replace(role, ends=role.ends[:1]), times, rows)
    return spans.rows.tolist(), spans.ends.tolist()


def _names_one(cells: pa.Array) -> Any:
    """Say which cells name something: an empty one does not, nor does a 0, as OMOP writes."""
    nothing = pa.scalar("" if pa.types.is_string(cells.type) else 0, cells.type)
    return np.asarray(pc.fill_null(pc.not_equal(cells, nothing), False))
