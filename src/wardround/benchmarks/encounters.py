"""A subject's stays in hospital, and to which of them a row belongs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wardround.benchmarks.columns import NO_TIME, Ints, event_times
from wardround.benchmarks.spans import read_spans
from wardround.records import SpanRole
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.coded_rows import CodedRows


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
        """What a stay is called: its id, or when it began."""
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
