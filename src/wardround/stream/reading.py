"""Lines as events of bundles: typed cells, repeated rows and corrections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from wardround.clinical.bundles import BundleEvent
from wardround.clinical.bundles.events import BundleEvents, Integers
from wardround.clinical.bundles.reading import KindCells, PlayedRows, gathered, read_revision
from wardround.clinical.bundles.text import levels_by_limits
from wardround.core import to_microseconds
from wardround.core.time import parse_time
from wardround.records import SourceSpec, TableSpec
from wardround.records.chart import Mask, Revisions
from wardround.records.ingest import ShardClocks
from wardround.records.reading import reader_of, subject_number
from wardround.records.rules import NO_TIME, Times
from wardround.records.specs import ARROW_TYPES, ColumnType, FileFormat, microseconds, valid
from wardround.stream.input import DECODER, ENCODER, StreamLine
from wardround.stream.ledger import RowReading
from wardround.stream.source_rules import SourceRules

# Cells of lines as columns, typed as ingest types the text of a file; other cells are refused.


FIRST_YEAR, LAST_YEAR = 1700, 9000
"""The years in which a row can become known; times of other years stand for never and always."""
_PLAIN: Mapping[ColumnType, frozenset[type]] = {
    "int": frozenset({int, type(None)}),
    "float": frozenset({int, float, type(None)}),
    "text": frozenset({str, type(None)}),
}
"""Types of cells that need no conversion."""


def subject_of(spec: SourceSpec, table: TableSpec, row: Mapping[str, Any]) -> int:
    """Return the number of a row's subject. ValueError: the row has none."""
    key = row.get(table.subject or "subject_id")
    if type(key) is int and -(1 << 63) <= key < 1 << 63 and not table.has_text_subject:
        return key
    if key is None or key == "":
        raise ValueError("the row has no subject")
    if table.has_text_subject:
        return subject_number(str(one_cell("text", key, table.files)).strip())
    found = one_cell("int", key, table.files)
    if found is None:
        raise ValueError("the row has no subject")
    return int(found)


def column(cells: Sequence[Any], kind: ColumnType, files: FileFormat) -> Any:
    """Return cells as an Arrow array. ValueError, pa.ArrowException: a cell is no value of this type."""
    arrow = ARROW_TYPES[kind]
    types = frozenset(map(type, cells))
    if types <= _PLAIN.get(kind, frozenset()):
        return pa.array(cells, arrow)
    return pa.array([one_cell(kind, cell, files) for cell in cells], arrow)


def one_cell(kind: ColumnType, cell: Any, files: FileFormat) -> Any:
    """Return a cell as a value of its column's type, None for an empty one. ValueError: it is no such value."""
    if cell is None or (kind == "time" and isinstance(cell, datetime)) or (kind == "date" and isinstance(cell, date)):
        return cell
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        if kind == "text" and isinstance(cell, bool):
            return "true" if cell else "false"
        raise ValueError(f"{cell!r:.40} is no {kind}")
    if isinstance(cell, str):
        return _read(kind, cell, files)
    if kind == "text":
        return str(cell)
    if kind == "float":
        return float(cell)
    if kind == "int" and cell == int(cell) and -(1 << 63) <= cell < 1 << 63:
        return int(cell)
    raise ValueError(f"{cell!r:.40} is no {kind}")


def _read(kind: ColumnType, text: str, files: FileFormat) -> Any:
    """Parse the text of a cell as in the source's files, or a time as records write it."""
    if (
        files.clock is None
        and kind in ("time", "date")
        and (len(text.strip()) > 10 or kind == "date")
        and text[4:5] == text[7:8] == "-"
    ):
        moment = _moment(text)
        return moment.date() if kind == "date" else moment
    try:
        return _reader(kind, files)(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is no {kind}") from None


@lru_cache(maxsize=65_536)
def _moment(text: str) -> datetime:
    return parse_time(text)


def _reader(kind: ColumnType, files: FileFormat) -> Callable[[str | None], Any]:
    key = kind, id(files)
    if key not in _READERS:
        _READERS[key] = reader_of(kind, files), files
    return _READERS[key][0]


_READERS: dict[tuple[str, int], tuple[Callable[[str | None], Any], FileFormat]] = {}


@lru_cache(maxsize=65_536)
def line_time(text: str, what: str) -> datetime:
    """Parse a time field of a line. ValueError: it is no time, or outside ``FIRST_YEAR`` to ``LAST_YEAR``."""
    moment = _moment(text)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"{what} {text!r:.40} is no time: years are {FIRST_YEAR} to {LAST_YEAR}")
    return moment


@lru_cache(maxsize=65_536)
def line_microseconds(text: str, what: str) -> int:
    """Parse a time field of a line as :func:`line_time`, in microseconds since 1970."""
    return to_microseconds(line_time(text, what))


# Rows that come again: without a change they are ignored, with a change they are a correction.


def row_key(subject: int, table: str, row_id: str) -> int:
    """Return the number under which the ledger stores a row's last reading."""
    return _number(f"{subject}\n{table}\n{row_id}".encode())


def new_reading(line: StreamLine, last: RowReading | None) -> tuple[StreamLine | None, RowReading]:
    """Return the line to use, and the row's reading; None instead of the line if nothing changed.

    A row that comes again with other cells and without a later revision becomes its next revision.
    """
    cells = _number(ENCODER.encode([sorted(line.row.items()), line.withdrawn, line.pending]))
    if last is None or line.revision > last.revision:
        return line, RowReading(line.revision, cells)
    if cells == last.cells:
        return None, last
    revision = last.revision + 1
    return msgspec.structs.replace(line, revision=revision), RowReading(revision, cells)


def _number(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


# Events as the ledger stores them: the events of a line do not change, whatever is read later.


TakenEvents = list[tuple[BundleEvent, bool]]
"""Events, each with whether its level depends on the person's own values alone."""
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(TakenEvents)


def packed_events(events: Sequence[tuple[BundleEvent, bool]]) -> bytes:
    """Return events as bytes."""
    return _ENCODER.encode(events)


def unpacked_events(body: bytes) -> TakenEvents:
    """Return the events in some bytes."""
    return _DECODER.decode(body)


# Lines with ``known`` as events of bundles, table by table, with the code that reads a store's rows.
#
# A planned end, later than the row, becomes known by the source's own late clock, from the row's cells alone.


_FIRST, _BEHIND = (to_microseconds(datetime(year, 1, 1)) for year in (FIRST_YEAR, LAST_YEAR + 1))


@dataclass(slots=True)
class ReadLines:
    """The events of lines by the lines' places; ``refused``: the reason by place."""

    events: dict[int, TakenEvents] = field(default_factory=lambda: defaultdict(list))
    refused: dict[int, str] = field(default_factory=dict)


class LineReader:
    """Reads lines of one source that have ``known``."""

    def __init__(self, rules: SourceRules) -> None:
        self.spec = rules.spec
        self.played = rules.played
        self._clocks = ShardClocks(spec=rules.spec, settings=rules.settings, load=_nothing)

    def decode(self, text: bytes) -> StreamLine:
        """Parse a line. ValueError and others: it is not a line, or of a table that the source does not have."""
        line = DECODER.decode(text)
        if line.clock is not None:
            line_microseconds(line.clock, "clock")
        elif line.table not in self.spec.tables:
            raise ValueError(f"no table {line.table!r:.40}")
        elif line.known is None and (line.revision or line.withdrawn or line.pending or line.time):
            raise ValueError("revision, withdrawn, pending and time need known: when it became known")
        if line.known is not None:
            line_microseconds(line.known, "known")
        if line.time is not None:
            line_microseconds(line.time, "time")
        if not 0 <= line.revision < 1 << 31:
            raise ValueError(f"revision {line.revision} is no count")
        return line

    def subject_of(self, line: StreamLine) -> int:
        """Return the subject of a line's row. ValueError: it has none."""
        return subject_of(self.spec, self.spec.tables[line.table], line.row)

    def has_events(self, table: str) -> bool:
        """Whether rows of a table are events of bundles."""
        return table in self.played

    def read(self, lines: Mapping[int, StreamLine]) -> ReadLines:
        """Read some lines; only lines with a cell that cannot be read are refused."""
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
            for place, pair in zip(line_of[timely].tolist(), with_levels(events.take(timely)), strict=True):
                found.events[place].append(pair)
        return found

    def _of_table(
        self, spec: TableSpec, lines: Mapping[int, StreamLine], places: list[int], refused: dict[int, str]
    ) -> list[tuple[KindCells, Integers]]:
        try:
            return self._cells(spec, self.played[spec.name], lines, places)
        except Exception as error:  # one line at a time: which of them cannot be read
            if len(places) == 1:
                refused[places[0]] = f"{spec.name}: {error or type(error).__name__}"
                return []
            return [each for place in places for each in self._of_table(spec, lines, [place], refused)]

    def _cells(
        self, spec: TableSpec, played: Sequence[PlayedRows], lines: Mapping[int, StreamLine], places: list[int]
    ) -> list[tuple[KindCells, Integers]]:
        found: list[tuple[KindCells, Integers]] = []
        for flags in product((False, True), repeat=2):
            chosen = [place for place in places if (lines[place].withdrawn, lines[place].pending) == flags]
            if chosen:
                revision = self._revision(spec, [lines[place] for place in chosen], *flags)
                own = np.array(chosen, np.int64)
                found += [(cells, own) for cells in self._of_revision(spec, played, revision, is_plain=not any(flags))]
        return found

    def _of_revision(
        self, spec: TableSpec, played: Sequence[PlayedRows], revision: Revisions, *, is_plain: bool
    ) -> Iterator[KindCells]:
        """Yield the events of rows now, then those of their planned ends."""
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
        """Return when the ends of rows are known, from each row alone; ``NO_TIME`` without an end."""
        place = revision.batch.schema.get_field_index(played.role.stop or "")
        if place < 0:
            return np.full(revision.batch.num_rows, NO_TIME)
        assert played.role.stop is not None
        cells = revision.batch.column(place)
        known = self._clocks.evaluate(spec.late[played.role.stop], spec, revision.batch)
        if pa.types.is_timestamp(cells.type):  # unknown from the row alone: known at the time of the end itself
            known = np.where(known == NO_TIME, microseconds(cells), known)
        known = np.where(known == NO_TIME, revision.known, known)
        filled: Mask = valid(cells)
        return np.where(filled, known, NO_TIME)

    def _revision(self, spec: TableSpec, lines: list[StreamLine], withdrawn: bool, pending: bool) -> Revisions:
        batch = _batch(spec, lines)
        known = np.array([line_microseconds(line.known or "", "known") for line in lines], np.int64)
        event = np.array(
            [NO_TIME if line.time is None else line_microseconds(line.time, "time") for line in lines], np.int64
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
    """Return which events have times in the years of records; other times stand for never and always."""
    return np.asarray((events.known < _BEHIND) & (events.known >= _FIRST) & (events.event >= _FIRST))


def timely_events(events: BundleEvents) -> BundleEvents:
    """Return the events whose times are in the years of records."""
    return events.take(is_timely(events))


def with_levels(events: BundleEvents) -> Iterator[tuple[BundleEvent, bool]]:
    """Yield events with their levels by limits, and whether the level depends on the person's own values alone."""
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
    """Return a row's name: its own id, or its key. ValueError: it has neither, so a repeat could not be found."""
    if "row_id" in row and "row_id" not in spec.columns:
        return str(row["row_id"])
    if not spec.key or any(row.get(name) is None for name in spec.key):
        raise ValueError("the row has neither row_id nor a key")
    return f"{spec.name}:" + "-".join(str(row[name]) for name in spec.key)
