"""One source file as a stream of typed tables with the columns of its spec, broken rows set aside."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wardround.core import RecordError, UserError
from wardround.records.reading.csv_blocks import CsvFile
from wardround.records.reading.csv_cells import Cells, read_cells
from wardround.records.reading.quarantine import BrokenRow, reason_kinds
from wardround.records.specs.arrow_types import ARROW_TYPES
from wardround.records.specs.spec import ColumnType

_PARQUET_ROWS = 65_536
_EMPTY = pa.scalar("")


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """What was noticed while reading one file."""

    rows: int = 0
    quarantined: int = 0
    masked: int = 0
    missing_columns: tuple[str, ...] = ()
    unknown_columns: tuple[str, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)
    """Of the rows that were set aside."""

    def add(self, other: ReadCounts) -> None:
        """Add what was noticed in one of several files of a table, but for the columns that it lacks."""
        self.rows += other.rows
        self.quarantined += other.quarantined
        self.add_reasons(other.reasons)
        self.masked += other.masked
        self.unknown_columns = tuple(dict.fromkeys((*self.unknown_columns, *other.unknown_columns)))

    def add_reasons(self, reasons: Mapping[str, int]) -> None:
        """Count why rows were set aside."""
        for reason, count in reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """Reads ``path`` as ``columns``. ``required`` columns must be in the file, ``needed`` ones filled in every row.
    ``counts`` fills up while reading; ``shown`` is what reports call the file."""

    path: Path
    name: str
    columns: Mapping[str, ColumnType]
    required: Sequence[str]
    needed: Sequence[str] = ()
    ignored: Sequence[str] = ()
    counts: ReadCounts = field(default_factory=ReadCounts)
    shown: str = ""

    def header(self) -> frozenset[str]:
        """Return which of ``columns`` the file has. UserError: wrong schema."""
        if self.path.name.endswith(".parquet"):
            with self._open_parquet() as file:
                return frozenset(self._match(tuple(name.lower() for name in file.schema_arrow.names)))
        with contextlib.closing(CsvFile(self.path)) as file:
            return frozenset(self._match(file.columns))

    def read(self) -> Iterator[Cells]:
        """Yield the file's rows in order; columns that the file lacks are left out. UserError: wrong schema."""
        blocks = self._parquet() if self.path.name.endswith(".parquet") else self._csv()
        for cells in blocks:
            self.counts.rows += cells.table.num_rows
            self.set_aside(cells.broken)
            self.counts.masked += cells.masked
            yield cells

    def set_aside(self, broken: Sequence[BrokenRow]) -> None:
        """Count rows that are not what the spec says, those too that a reader's caller finds."""
        self.counts.quarantined += len(broken)
        self.counts.add_reasons(reason_kinds(broken))

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

    def _csv(self) -> Iterator[Cells]:
        file = CsvFile(self.path)
        try:
            present = self._match(file.columns)
            for block in file.blocks():
                yield read_cells(block, file.columns, present, self.needed, self.shown or self.path.name)
        finally:
            file.close()

    def _parquet(self) -> Iterator[Cells]:
        with self._open_parquet() as file:
            lower = {name.lower(): name for name in file.schema_arrow.names}
            present = self._match(tuple(lower))
            wanted = [lower[name] for name in present]
            row = 0
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=wanted, use_threads=False):
                columns = {name: batch.column(lower[name]) for name in present}
                arrays = [_cast(columns[name], kind, f"{self.path}: {name}") for name, kind in present.items()]
                table = pa.table(arrays, names=list(present))
                yield _without_gaps(table, self.needed, self.shown or self.path.name, row)
                row += batch.num_rows

    def _open_parquet(self) -> Any:
        try:
            return pq.ParquetFile(self.path)
        except (OSError, pa.ArrowInvalid) as error:
            raise RecordError(f"{self.path}: the file is truncated or damaged ({error})") from None


def _without_gaps(table: pa.Table, needed: Sequence[str], file: str, row: int) -> Cells:
    if not any(table.column(name).null_count for name in needed):
        return Cells(table=table)
    good = pc.and_kleene(*[table.column(name).is_valid() for name in (needed[0], needed[-1])])
    for name in needed[1:-1]:
        good = pc.and_(good, table.column(name).is_valid())
    places = [place for place, fine in enumerate(good.to_pylist()) if not fine]
    reason = f"{' or '.join(needed)} is missing"
    broken = [
        BrokenRow(file=file, line=row + place + 1, reason=reason, raw=str(table.slice(place, 1).to_pylist()[0]))
        for place in places
    ]
    return Cells(table=table.filter(good), broken=broken)


def _cast(array: Any, kind: ColumnType, place: str) -> Any:
    target = ARROW_TYPES[kind]
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if kind == "float" and pa.types.is_decimal(array.type):  # Arrow's own cast is off by the last bit
            return array.cast(pa.string()).cast(target)
        if kind == "date" and pa.types.is_timestamp(array.type):
            return array.cast(pa.date32(), safe=False)
        if kind == "time" and pa.types.is_timestamp(array.type):
            return array.cast(target, safe=False)
        if kind == "text":
            array = as_text(array)
            # Typed scalars: Arrow tries to import what it may need to guess the type of a bare None, every time.
            return pc.if_else(pc.equal(array, _EMPTY), pa.scalar(None, array.type), array)
        if kind == "float":
            array = array.cast(target)
            return pc.if_else(
                pc.is_nan(array), pa.scalar(None, array.type), array
            )  # not a number is no value, as in a CSV file
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordError(f"{place}: cannot be read as {kind} ({error})") from None


def as_text(array: Any) -> Any:
    """Return a column as text; a list's items each on a line of their own."""
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return pc.binary_join(array.cast(pa.list_(pa.string())), "\n")
    return array if pa.types.is_string(array.type) else array.cast(pa.string())
