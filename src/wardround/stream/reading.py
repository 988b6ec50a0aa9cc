"""Lines of a stream as events of bundles: table by table, with the code that reads a store's rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from wardround.bundles.events import HOUR, BundleEvent, BundleEvents, Integers
from wardround.bundles.levels import levels_by_limits
from wardround.bundles.playing import PlayedRows, played_rows
from wardround.bundles.reading import KindCells, gathered, read_revision
from wardround.core import to_microseconds
from wardround.core.time import parse_time
from wardround.records import SourceSpec, TableSpec
from wardround.records.chart.revisions import Revisions
from wardround.records.ingest.clocks import ClockSettings, ShardClocks
from wardround.records.reading.subject_keys import subject_number
from wardround.records.rules.language import NO_TIME, Times
from wardround.records.specs.arrow_types import ARROW_TYPES, valid
from wardround.stream.lines import DECODER, StreamLine

_DAY = 86_400_000_000
TakenEvents = list[tuple[BundleEvent, bool]]
"""Events with, of each, whether only the person's own values can tell its level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLines:
    """Events in order of their lines. ``line``: (n,) the place of each one's line; ``refused``: places and reasons."""

    events: BundleEvents
    line: Integers
    refused: Mapping[int, str]

    def hours(self, lines: int, least: int) -> Integers:
        """Return the hour of which each of so many lines is told: its own, but none is before that of a line before it
        nor before ``least``. A line without events does not count."""
        own = np.full(lines, least, np.int64)
        np.maximum.at(own, self.line, self.events.hour)
        return np.maximum.accumulate(own)

    def by_line(self, hours: Integers) -> list[TakenEvents]:
        """Return the events of every line, none known before the line's hour, with their levels by limits."""
        events = self.placed(hours)
        levels, alone = levels_by_limits(events)
        found: list[TakenEvents] = [[] for _ in range(len(hours))]
        pairs = zip(replace(events, level=levels), alone.tolist(), strict=True)
        for place, pair in zip(self.line.tolist(), pairs, strict=True):
            found[place].append(pair)
        return found

    def placed(self, hours: Integers) -> BundleEvents:
        """Return the events, none of them known before the hour of its line."""
        return replace(self.events, known=np.maximum(self.events.known, hours[self.line] * HOUR))


class LineReader:
    """Reads lines of one source. ``subject_of`` says whose a line is before anything else is read of it."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self._played = played_rows(spec)
        settings = ClockSettings(lags=dict.fromkeys(("coding_lag", "result_lag", "culture_lag"), _DAY), medians={})
        self._clocks = ShardClocks(spec=spec, settings=settings, load=_nothing)

    def decode(self, text: bytes) -> StreamLine:
        """Read a line. ValueError: it is none, or of a table that the source does not have."""
        line = DECODER.decode(text)
        if line.table not in self.spec.tables:
            raise ValueError(f"no table {line.table!r}")
        return line

    def subject_of(self, line: StreamLine) -> int:
        """Return whose row it is. ValueError: it does not say."""
        key = line.row.get(self.spec.tables[line.table].subject or "subject_id")
        if key is None:
            raise ValueError("the row does not say whose it is")
        return key if isinstance(key, int) else subject_number(str(key))

    def read(self, lines: Sequence[StreamLine]) -> ReadLines:
        """Read some lines; those with a cell that cannot be read are refused, and the others kept."""
        tables: dict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(lines):
            tables[line.table].append(place)
        parts: list[tuple[KindCells, Integers]] = []
        refused: dict[int, str] = {}
        for name, places in tables.items():
            parts += self._of_table(self.spec.tables[name], lines, places, refused)
        events = gathered([cells for cells, _ in parts])
        line_of = np.concatenate([places[cells.rows] for cells, places in parts]) if parts else np.empty(0, np.int64)
        order = np.lexsort((line_of,))
        return ReadLines(events=events.take(order), line=line_of[order], refused=refused)

    def _of_table(
        self, spec: TableSpec, lines: Sequence[StreamLine], places: list[int], refused: dict[int, str]
    ) -> Iterator[tuple[KindCells, Integers]]:
        played = self._played.get(spec.name, ())
        if not played or spec.is_static:
            return
        try:
            yield from self._cells(spec, played, lines, places)
        except (ValueError, TypeError, pa.ArrowException) as error:
            if len(places) == 1:
                refused[places[0]] = f"{spec.name}: {error}"
                return
            for place in places:
                yield from self._of_table(spec, lines, [place], refused)

    def _cells(
        self, spec: TableSpec, played: Sequence[PlayedRows], lines: Sequence[StreamLine], places: list[int]
    ) -> list[tuple[KindCells, Integers]]:
        found: list[tuple[KindCells, Integers]] = []
        for told in product((False, True), repeat=2):
            chosen = [place for place in places if (lines[place].withdrawn, lines[place].pending) == told]
            if chosen:
                revision = self._revision(spec, [lines[place] for place in chosen], *told)
                ends = {} if any(told) else {each: _ended(revision, each) for each in played if each.stop_kind}
                own = np.array(chosen, np.int64)
                found += [(cells, own) for cells in read_revision(spec, played, revision, ends)]
        return found

    def _revision(self, spec: TableSpec, lines: list[StreamLine], withdrawn: bool, pending: bool) -> Revisions:
        batch = _batch(spec, lines)
        event = self._event(spec, batch, lines)
        known = self._known(spec, batch, lines, event)
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

    def _event(self, spec: TableSpec, batch: pa.RecordBatch, lines: list[StreamLine]) -> Times:
        event = np.array([_time(line.time) for line in lines], np.int64)
        if (event == NO_TIME).any():
            event = np.where(event == NO_TIME, self._times(spec, batch, "event_time"), event)
        return event

    def _known(self, spec: TableSpec, batch: pa.RecordBatch, lines: list[StreamLine], event: Times) -> Times:
        known = np.array([_time(line.known) for line in lines], np.int64)
        if (known == NO_TIME).any():
            own = self._times(spec, batch, "available_at")
            known = np.where(known == NO_TIME, np.where(own == NO_TIME, NO_TIME, np.maximum(own, event)), known)
        if (known == NO_TIME).any():
            raise ValueError("no time at which it became known, and the row alone does not tell it")
        return known

    def clocks_of(self, spec: TableSpec, rows: Sequence[Mapping[str, Any]]) -> tuple[Times, Times]:
        """Return when whole rows of one table happened and became known, as far as each alone tells."""
        arrays = {
            name: _column([row.get(name) for row in rows], ARROW_TYPES[k]) for name, k in spec.read_columns.items()
        }
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        return self._times(spec, batch, "event_time"), self._times(spec, batch, "available_at")

    def _times(self, spec: TableSpec, batch: pa.RecordBatch, rule: str) -> Times:
        return self._clocks.evaluate(getattr(spec, rule), spec, batch)


@lru_cache(maxsize=4_096)
def _time(text: str | None) -> int:
    return NO_TIME if text is None else to_microseconds(parse_time(text))


def _nothing(_table: str, _columns: tuple[str, ...]) -> None:
    return None


def _ended(revision: Revisions, played: PlayedRows) -> Any:
    place = revision.batch.schema.get_field_index(played.role.stop or "")
    return valid(revision.batch.column(place)) if place >= 0 else np.zeros(revision.batch.num_rows, dtype=bool)


def _batch(spec: TableSpec, lines: list[StreamLine]) -> pa.RecordBatch:
    """Return rows as a chart hands them out, ``row_id`` first; columns that no row has are left out."""
    types = spec.public_columns
    present = {name for line in lines for name in line.row}
    arrays = {"row_id": pa.array([row_id(spec, line.row) for line in lines], pa.string())}
    for name, kind in types.items():
        if name in present and name != "row_id":
            arrays[name] = _column([line.row.get(name) for line in lines], ARROW_TYPES[kind])
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _column(cells: list[Any], kind: Any) -> Any:
    if pa.types.is_string(kind):
        return pa.array([None if cell is None else str(cell) for cell in cells], kind)
    if any(isinstance(cell, str) for cell in cells):
        return pa.array([None if cell in (None, "") else str(cell) for cell in cells], pa.string()).cast(kind)
    return pa.array(cells, kind)


def row_id(spec: TableSpec, row: Mapping[str, Any]) -> str:
    """Return what names a row: its own id, or its key; without either it cannot be told again."""
    if "row_id" in row:
        return str(row["row_id"])
    if not spec.key or any(row.get(name) is None for name in spec.key):
        raise ValueError("the row has neither row_id nor a key")
    return f"{spec.name}:" + "-".join(str(row[name]) for name in spec.key)


DecodeError = (msgspec.MsgspecError, ValueError)
"""What reading a line may raise."""
