"""One source file as a stream of typed tables with the columns of its spec; broken rows are quarantined."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wardround.core import RecordError, UserError
from wardround.records.reading.cell_texts import as_text as as_text
from wardround.records.reading.cell_texts import cells_as
from wardround.records.reading.csv_blocks import JSON_LINES, CsvFile, JsonLinesFile, RecordsBlock
from wardround.records.reading.csv_cells import TypedCells, read_cells
from wardround.records.reading.source_files import BrokenRow, reason_kinds
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import ColumnType, microseconds
from wardround.records.specs.wall_clock import UndeclaredZone, WallClock

_PARQUET_ROWS = 65_536
_CELL_BYTES = 12
_PLAIN = FileFormat()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group of a Parquet file. ``size``: about the bytes of its rows in memory, where repeated values count."""

    number: int
    first_row: int
    size: int


Piece = RecordsBlock | RowGroup
"""What one process can read of a file that several read."""


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """Counts of one file's reading."""

    rows: int = 0
    quarantined: int = 0
    masked: int = 0
    missing_columns: tuple[str, ...] = ()
    unknown_columns: tuple[str, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)
    """Quarantined rows."""
    emptied: dict[str, int] = field(default_factory=dict)
    """Cells that could not be read and were left empty, by reason."""
    casts: dict[str, int] = field(default_factory=dict)
    """Cells of a Parquet file with another type than the spec's, by column and cast; times in a repeated hour."""

    def add(self, other: ReadCounts) -> None:
        """Add the counts of one of several files of a table, except its missing columns."""
        self.rows += other.rows
        self.quarantined += other.quarantined
        self.masked += other.masked
        for known, more in ((self.reasons, other.reasons), (self.emptied, other.emptied), (self.casts, other.casts)):
            add_counts(known, more)
        self.unknown_columns = tuple(dict.fromkeys((*self.unknown_columns, *other.unknown_columns)))


def add_counts(known: dict[str, int], more: Mapping[str, int]) -> None:
    """Add counts by name."""
    for name, count in more.items():
        known[name] = known.get(name, 0) + count


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """Reads ``path`` as ``columns``.

    ``required`` columns must be in the file, ``needed`` ones filled in every row. An unreadable cell is left empty in a
    ``later`` column; in others its row is lost. ``counts`` grows while reading; ``shown``: name in reports."""

    path: Path
    name: str
    columns: Mapping[str, ColumnType]
    required: Sequence[str]
    needed: Sequence[str] = ()
    ignored: Sequence[str] = ()
    counts: ReadCounts = field(default_factory=ReadCounts)
    shown: str = ""
    files: FileFormat = _PLAIN
    later: Collection[str] = ()

    def header(self) -> frozenset[str]:
        """Return which of ``columns`` the file has. UserError: wrong schema."""
        if self.path.name.lower().endswith(".parquet"):
            with self._open_parquet() as file:
                return frozenset(self._match(tuple(self._own_names(file))))
        with contextlib.closing(open_records(self.path, self.files)) as file:
            return frozenset(self._match(file.columns))

    def pieces(self) -> Iterator[Piece | None]:
        """Yield, in order, what several processes can read one each; None is the whole file, which only one can."""
        name = self.path.name.lower()
        if name.endswith(".parquet"):
            with self._open_parquet() as file:
                yield from _row_groups(file.metadata)
        elif name.endswith(JSON_LINES):
            yield None
        else:
            with contextlib.closing(CsvFile(self.path, self.files)) as records:
                yield from records.blocks()

    def read(self, pieces: Sequence[Piece] | None = None) -> Iterator[TypedCells]:
        """Yield the rows of the file, or of consecutive pieces of it, in order; columns that the file lacks are left
        out. UserError: wrong schema."""
        is_parquet = self.path.name.lower().endswith(".parquet")
        blocks = self._parquet(pieces) if is_parquet else self._csv(pieces)
        for cells in self._with_zones(blocks):
            self.counts.rows += cells.table.num_rows
            self.set_aside(cells.broken)
            add_counts(self.counts.emptied, reason_kinds(cells.emptied))
            self.counts.masked += cells.masked
            yield cells

    def _with_zones(self, blocks: Iterator[TypedCells]) -> Iterator[TypedCells]:
        """Yield blocks; count times in an hour that the clock repeats. UserError: undeclared zone."""
        try:
            for cells in blocks:
                if self.files.clock is not None:
                    self._count_repeated(cells.table, self.files.clock)
                yield cells
        except UndeclaredZone as error:
            raise UserError(
                f"{self.path}: {error}; say the hospital's zone: --time-zone NAME, or time_zone under [source.files]"
            ) from None

    def _count_repeated(self, table: pa.Table, clock: WallClock) -> None:
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_timestamp(column.type):
                count = clock.repeated(microseconds(column.drop_null().combine_chunks()))
                what = f"{name}: in an hour that the clock of {clock.zone} shows twice"
                if count:
                    self.counts.casts[what] = self.counts.casts.get(what, 0) + count

    def set_aside(self, broken: Sequence[BrokenRow]) -> None:
        """Count rows that do not fit the spec, also those found by the reader's caller."""
        self.counts.quarantined += len(broken)
        add_counts(self.counts.reasons, reason_kinds(broken))

    def _match(self, names: Sequence[str]) -> dict[str, ColumnType]:
        present = {name: kind for name, kind in self.columns.items() if name in names}
        missing = [name for name in self.required if name not in present]
        if missing:
            near = [match for name in missing for match in difflib.get_close_matches(name, names, 1)]
            hint = f"; is it {', '.join(near)}?" if near else f"; the file has {', '.join(names) or 'none'}"
            raise UserError(f"{self.path}: wrong schema for {self.name!r}, no column {', '.join(missing)}{hint}")
        self.counts.missing_columns = tuple(name for name in self.columns if name not in present)
        self.counts.unknown_columns = tuple(
            name for name in names if name not in self.columns and name not in self.ignored
        )
        return present

    def _csv(self, pieces: Any) -> Iterator[TypedCells]:
        file = open_records(self.path, self.files)
        try:
            present = self._match(file.columns)
            for block in file.blocks() if pieces is None else (piece.filled(self.path) for piece in pieces):
                yield read_cells(
                    block, file.columns, present, self.needed, self._shown, files=self.files, later=self.later
                )
        finally:
            file.close()

    def _parquet(self, groups: Any) -> Iterator[TypedCells]:
        with self._open_parquet() as file:
            own = self._own_names(file)
            present = self._match(tuple(own))
            wanted = [own[name] for name in present]
            row = groups[0].first_row if groups else 0
            numbers = None if groups is None else [group.number for group in groups]
            for batch in file.iter_batches(_PARQUET_ROWS, row_groups=numbers, columns=wanted, use_threads=False):
                arrays = [self._cells(batch.column(own[name]), name, kind) for name, kind in present.items()]
                table = pa.table(arrays, names=list(present))
                yield _without_gaps(table, self.needed, self._shown, row)
                row += batch.num_rows

    @property
    def _shown(self) -> str:
        return self.shown or self.path.name

    def _own_names(self, file: Any) -> dict[str, str]:
        """Return a Parquet file's own name of each column."""
        return {self.files.headers.get(name.lower(), name.lower()): name for name in file.schema_arrow.names}

    def _cells(self, array: Any, name: str, kind: ColumnType) -> Any:
        try:
            cells, cast = cells_as(array, kind, f"{self.path}: {name}", self.files)
        except UndeclaredZone as error:
            raise UndeclaredZone(f"{name}: {error}") from None
        if cast is not None:
            what = f"{name}: {cast}"
            self.counts.casts[what] = self.counts.casts.get(what, 0) + len(array) - array.null_count
        return cells

    def _open_parquet(self) -> Any:
        try:
            return pq.ParquetFile(self.path)
        except (OSError, pa.ArrowInvalid) as error:
            raise RecordError(f"{self.path}: the file is truncated or damaged ({error})") from None


def _row_groups(facts: Any) -> Iterator[RowGroup]:
    row = 0
    for number in range(facts.num_row_groups):
        group = facts.row_group(number)
        size = max(group.total_byte_size, group.num_rows * group.num_columns * _CELL_BYTES)
        yield RowGroup(number=number, first_row=row, size=size)
        row += group.num_rows


def open_records(path: Path, files: FileFormat = _PLAIN) -> CsvFile | JsonLinesFile:
    """Open a CSV file, or JSON lines by its name."""
    return JsonLinesFile(path, files) if path.name.lower().endswith(JSON_LINES) else CsvFile(path, files)


def _without_gaps(table: pa.Table, needed: Sequence[str], file: str, row: int) -> TypedCells:
    if not any(table.column(name).null_count for name in needed):
        return TypedCells(table=table)
    good = pc.and_kleene(*[table.column(name).is_valid() for name in (needed[0], needed[-1])])
    for name in needed[1:-1]:
        good = pc.and_(good, table.column(name).is_valid())
    places = [place for place, fine in enumerate(good.to_pylist()) if not fine]
    reason = f"{' or '.join(needed)} is missing"
    broken = [
        BrokenRow(file=file, line=row + place + 1, reason=reason, raw=str(table.slice(place, 1).to_pylist()[0]))
        for place in places
    ]
    return TypedCells(table=table.filter(good), broken=broken)
