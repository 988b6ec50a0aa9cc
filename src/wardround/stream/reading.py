"""Lines that say when they became known, as events of bundles: table by table, with the code that reads a store's rows.

What a cell plans, an end that lies ahead, is known when the source's own late clock says, by the row's cells alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.bundles import BundleEvent
from wardround.bundles.events import BundleEvents, Integers
from wardround.bundles.levels import levels_by_limits
from wardround.bundles.playing import PlayedRows
from wardround.bundles.reading import KindCells, gathered, read_revision
from wardround.core import to_microseconds
from wardround.records import TableSpec
from wardround.records.chart.censor import Mask
from wardround.records.chart.revisions import Revisions
from wardround.records.ingest.clocks import ShardClocks
from wardround.records.rules.language import NO_TIME, Times
from wardround.records.specs.arrow_types import microseconds, valid
from wardround.stream.cells import FIRST_YEAR, LAST_YEAR, column, line_time, subject_of
from wardround.stream.lines import DECODER, StreamLine
from wardround.stream.source_rules import SourceRules
from wardround.stream.taken import TakenEvents

_FIRST, _LAST = (to_microseconds(datetime(year, 1, 1)) for year in (FIRST_YEAR, LAST_YEAR))


@dataclass(slots=True)
class ReadLines:
    """The events of lines, by the places of these; ``refused``: why a line was, by its place."""

    events: dict[int, TakenEvents] = field(default_factory=lambda: defaultdict(list))
    refused: dict[int, str] = field(default_factory=dict)


class LineReader:
    """Reads lines of one source that say when they became known."""

    def __init__(self, rules: SourceRules) -> None:
        self.spec = rules.spec
        self.played = rules.played
        self._clocks = ShardClocks(spec=rules.spec, settings=rules.settings, load=_nothing)

    def decode(self, text: bytes) -> StreamLine:
        """Read a line. ValueError and others: it is none, or of a table that the source does not have."""
        line = DECODER.decode(text)
        if line.clock is not None:
            line_time(line.clock, "clock")
        elif line.table not in self.spec.tables:
            raise ValueError(f"no table {line.table!r:.40}")
        elif line.known is None and (line.revision or line.withdrawn or line.pending or line.time):
            raise ValueError("revision, withdrawn, pending and time need known: when it became known")
        if line.known is not None:
            line_time(line.known, "known")
        if line.time is not None:
            line_time(line.time, "time")
        if not 0 <= line.revision < 1 << 31:
            raise ValueError(f"revision {line.revision} is no count")
        return line

    def subject_of(self, line: StreamLine) -> int:
        """Return whose row it is. ValueError: it does not say."""
        return subject_of(self.spec, self.spec.tables[line.table], line.row)

    def has_events(self, table: str) -> bool:
        """Whether rows of a table are events of bundles."""
        return table in self.played

    def read(self, lines: Mapping[int, StreamLine]) -> ReadLines:
        """Read some lines; those with a cell that cannot be read are refused, and the others kept."""
        tables: dict[str, list[int]] = defaultdict(list)
        for place, line in lines.items():
            if self.has_events(line.table):
                tables[line.table].append(place)
        found = ReadLines()
        parts: list[tuple[KindCells, Integers]] = []
        for name, places in tables.items():
            parts += self._of_table(self.spec.tables[name], lines, places, found.refused)
        if parts:
            events = gathered([cells for cells, _ in parts])
            line_of = np.concatenate([places[cells.rows] for cells, places in parts])
            timely = is_timely(events)
            for place, pair in zip(line_of[timely].tolist(), taken(events.take(timely)), strict=True):
                found.events[place].append(pair)
        return found

    def _of_table(
        self, spec: TableSpec, lines: Mapping[int, StreamLine], places: list[int], refused: dict[int, str]
    ) -> list[tuple[KindCells, Integers]]:
        try:
            return self._cells(spec, self.played[spec.name], lines, places)
        except Exception as error:  # one line at a time says which of them cannot be read, whatever it holds
            if len(places) == 1:
                refused[places[0]] = f"{spec.name}: {error or type(error).__name__}"
                return []
            return [each for place in places for each in self._of_table(spec, lines, [place], refused)]

    def _cells(
        self, spec: TableSpec, played: Sequence[PlayedRows], lines: Mapping[int, StreamLine], places: list[int]
    ) -> list[tuple[KindCells, Integers]]:
        found: list[tuple[KindCells, Integers]] = []
        for said in product((False, True), repeat=2):
            chosen = [place for place in places if (lines[place].withdrawn, lines[place].pending) == said]
            if chosen:
                revision = self._revision(spec, [lines[place] for place in chosen], *said)
                own = np.array(chosen, np.int64)
                found += [(cells, own) for cells in self._of_revision(spec, played, revision, is_plain=not any(said))]
        return found

    def _of_revision(
        self, spec: TableSpec, played: Sequence[PlayedRows], revision: Revisions, *, is_plain: bool
    ) -> Iterator[KindCells]:
        """Yield what rows say now, and then what ends that they plan come to."""
        ends, planned = {}, []
        for each in played if is_plain else ():
            if each.stop_kind is not None and each.role.stop in spec.late:
                known = self._end_known(spec, revision, each)
                ends[each] = (known != NO_TIME) & (known <= revision.known)
                planned.append((each, np.where(known > revision.known, known, NO_TIME)))
        yield from read_revision(spec, played, revision, ends)
        for each, known in planned:
            later = known != NO_TIME
            if later.any():
                number = np.maximum(revision.number, 1)
                ending = replace(revision, known=np.where(later, known, revision.known), number=number)
                for cells in read_revision(spec, played, ending, {each: later}):
                    if cells.kind == each.stop_kind:
                        yield cells

    def _end_known(self, spec: TableSpec, revision: Revisions, played: PlayedRows) -> Times:
        """Return when the ends of rows are known, as far as each row alone says; ``NO_TIME`` where it has none."""
        place = revision.batch.schema.get_field_index(played.role.stop or "")
        if place < 0:
            return np.full(revision.batch.num_rows, NO_TIME)
        assert played.role.stop is not None
        cells = revision.batch.column(place)
        known = self._clocks.evaluate(spec.late[played.role.stop], spec, revision.batch)
        if pa.types.is_timestamp(cells.type):  # what the row alone does not say is known with its own time
            known = np.where(known == NO_TIME, microseconds(cells), known)
        known = np.where(known == NO_TIME, revision.known, known)
        filled: Mask = valid(cells)
        return np.where(filled, known, NO_TIME)

    def _revision(self, spec: TableSpec, lines: list[StreamLine], withdrawn: bool, pending: bool) -> Revisions:
        batch = _batch(spec, lines)
        known = np.array([to_microseconds(line_time(line.known or "", "known")) for line in lines], np.int64)
        event = np.array(
            [NO_TIME if line.time is None else to_microseconds(line_time(line.time, "time")) for line in lines],
            np.int64,
        )
        if (event == NO_TIME).any():
            event = np.where(event == NO_TIME, self._clocks.evaluate(spec.event_time, spec, batch), event)
        return Revisions(
            batch=batch,
            subject=np.array([self.subject_of(line) for line in lines], np.int64),
            event=np.where(event == NO_TIME, known, np.minimum(event, known)),
            known=known,
            number=np.array([line.revision for line in lines], np.int64),
            rows=np.arange(len(lines)),
            is_withdrawn=withdrawn,
            is_pending=pending,
        )


def is_timely(events: BundleEvents) -> Mask:
    """Say which events are of a time in which anything can be known: others stand for never and always."""
    return np.asarray((events.known < _LAST) & (events.known > _FIRST) & (events.event > _FIRST))


def timely_events(events: BundleEvents) -> BundleEvents:
    """Return the events of a time in which anything can be known."""
    return events.take(is_timely(events))


def taken(events: BundleEvents) -> Iterator[tuple[BundleEvent, bool]]:
    """Yield events with their levels by limits, and whether only the person's own values can tell a level."""
    levels, alone = levels_by_limits(events)
    yield from zip(replace(events, level=levels), alone.tolist(), strict=True)


def _nothing(_table: str, _columns: tuple[str, ...]) -> None:
    return None


def _batch(spec: TableSpec, lines: list[StreamLine]) -> pa.RecordBatch:
    """Return rows as a chart hands them out, ``row_id`` first; columns that no row has are left out."""
    present = {name for line in lines for name in line.row}
    arrays = {"row_id": pa.array([row_id(spec, line.row) for line in lines], pa.string())}
    for name, kind in spec.public_columns.items():
        if name in present and name != "row_id":
            arrays[name] = column([line.row.get(name) for line in lines], kind, spec.files)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def row_id(spec: TableSpec, row: Mapping[str, Any]) -> str:
    """Return what names a row: its own id, or its key; without either it cannot be told again."""
    if "row_id" in row and "row_id" not in spec.columns:
        return str(row["row_id"])
    if not spec.key or any(row.get(name) is None for name in spec.key):
        raise ValueError("the row has neither row_id nor a key")
    return f"{spec.name}:" + "-".join(str(row[name]) for name in spec.key)
