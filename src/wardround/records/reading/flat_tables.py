"""Writer of flat files: typed rows of a source's tables, streamed to Parquet, and records that became no row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import Progress, RecordError, Reporter, silent
from wardround.records.reading.source_files import BrokenRow, SubjectKeys, reason_kinds, write_quarantine
from wardround.records.specs.spec import ARROW_TYPES, DictionarySpec, SourceSpec, TableSpec

QUARANTINE = "raw_records"
"""Name of the quarantine of records that became no row."""
_ROWS = 4_096
_TEXT_BYTES = 8 << 20
_LONG = 500
"""Shorter texts are bounded by the number of rows."""
_RAW_LIMIT = 2_000
_REPORT_EVERY = 500


class FlatTables:
    """The output of a flattener: rows of the spec's tables and dictionaries; a missing column is null."""

    def __init__(
        self,
        spec: SourceSpec,
        folder: Path,
        quarantine: Path,
        report: Reporter = silent,
    ) -> None:
        self.spec = spec
        self.subjects = SubjectKeys()
        self.left_out: Counter[str] = Counter()
        self.unused_files: list[Path] = []
        self.quarantined = 0
        self.reasons: Counter[str] = Counter()
        self.records = 0
        self._report = report
        self._reported = 0
        self._reading: Path | None = None
        self._quarantine = quarantine
        shapes: dict[str, TableSpec | DictionarySpec] = {**spec.tables, **spec.dictionaries}
        self._tables = {
            name: _FlatTable(name, shape.read_columns, folder, shape.path) for name, shape in shapes.items()
        }

    def declare(self, names: Iterable[str]) -> None:
        """Create these tables and dictionaries with or without rows: with one person or few, a table that exists only
        with rows would reveal that one will come."""
        for name in names:
            self._tables[name].declare()

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Write one row: text, int, float, datetime (or whole microseconds), date."""
        self._tables[table].add(row)

    def write(self, table: str, rows: pa.Table) -> None:
        """Write many rows at once; columns are cast to the spec's types."""
        self._tables[table].write(rows)

    def set_aside(self, *, file: Path, line: int, reason: str, raw: str) -> None:
        """Quarantine a record that cannot become rows."""
        row = BrokenRow(file=file.name, line=line, reason=reason, raw=raw[:_RAW_LIMIT])
        self.quarantined += 1
        self.reasons.update(reason_kinds([row]))
        write_quarantine(self._quarantine, [row])

    def leave_out(self, what: str, count: int = 1) -> None:
        """Count content of the raw files that fits no table, in words for the report."""
        self.left_out[what] += count

    def read(self, file: Path, count: int = 1) -> None:
        """Count records read; updates the progress display now and then."""
        self.records += count
        if file is not self._reading or self.records >= self._reported + _REPORT_EVERY:
            self._reading, self._reported = file, self.records
            self._report(Progress(label=f"flatten {file.name}", done=self.records, unit="records"))

    def close(self) -> None:
        """Write buffered rows; without it the files are incomplete."""
        for table in self._tables.values():
            table.close()

    @property
    def rows(self) -> dict[str, int]:
        """Rows written so far, by table."""
        return {name: table.rows for name, table in self._tables.items() if table.rows}


class _FlatTable:
    """One Parquet file, created with its first row or when it is declared."""

    def __init__(self, name: str, columns: Mapping[str, Any], folder: Path, path: str) -> None:
        self._name = name
        self._schema = pa.schema([(column, ARROW_TYPES[kind]) for column, kind in columns.items()])
        self._names = frozenset(columns)
        self._path = folder / f"{path}.parquet"
        self._orders: dict[tuple[str, ...], Callable[[Sequence[Any]], tuple[Any, ...]]] = {}
        self._held: list[tuple[Any, ...]] = []
        self._held_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._is_declared = False
        self.rows = 0

    def add(self, row: Mapping[str, Any]) -> None:
        names = tuple(row)
        in_order = self._orders.get(names) or self._ordering(names)
        self._held.append(in_order((*row.values(), None)))
        for value in row.values():
            if type(value) is str and len(value) > _LONG:
                self._held_bytes += len(value)
        if len(self._held) >= _ROWS or self._held_bytes >= _TEXT_BYTES:
            self._flush()

    def _ordering(self, names: tuple[str, ...]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """Return what puts cells with these names, and a None behind them, into the order of the columns."""
        unknown = sorted(set(names) - self._names)
        if unknown:
            raise RecordError(f"{self._name}: the spec has no column {', '.join(unknown)}")
        place = {name: number for number, name in enumerate(names)}
        places = [place.get(name, len(names)) for name in self._schema.names]
        in_order = itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
        self._orders[names] = in_order
        return in_order

    def write(self, rows: pa.Table) -> None:
        self._flush()
        unknown = sorted(set(rows.column_names) - self._names)
        if unknown:
            raise RecordError(f"{self._name}: the spec has no column {', '.join(unknown)}")
        arrays = [
            rows.column(field.name).cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(rows.num_rows, field.type)
            for field in self._schema
        ]
        self._put(pa.table(arrays, schema=self._schema))

    def _flush(self) -> None:
        rows, self._held, self._held_bytes = self._held, [], 0
        if rows:
            columns = zip(self._schema, zip(*rows, strict=True), strict=True)
            self._put(pa.table([self._array(field, cells) for field, cells in columns], schema=self._schema))

    def _array(self, field: pa.Field, cells: Sequence[Any]) -> Any:
        try:
            return pa.array(cells, field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise RecordError(f"{self._name}.{field.name}: a flattened cell is not {field.type} ({error})") from None

    def declare(self) -> None:
        self._is_declared = True

    def _put(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            texts = [field.name for field in self._schema if pa.types.is_string(field.type)]
            options: dict[str, Any] = {"compression": "lz4", "write_statistics": False, "use_dictionary": texts}
            self._writer = pq.ParquetWriter(self._path, self._schema, **options)  # read once, then removed
        self._writer.write_table(rows)
        self.rows += rows.num_rows

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()
        elif self._is_declared:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(_no_rows(self._schema))


@cache
def _no_rows(schema: Any) -> bytes:
    """Return a file of these columns without rows, made once: with few people most tables are empty."""
    file = pa.BufferOutputStream()
    with pq.ParquetWriter(file, schema, compression="zstd"):
        pass
    return bytes(file.getvalue().to_pybytes())
