"""Writer of flat files: typed rows of a source's tables, streamed to Parquet, and records that became no row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
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
        self._held: list[Mapping[str, Any]] = []
        self._held_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._is_declared = False
        self.rows = 0

    def add(self, row: Mapping[str, Any]) -> None:
        if not row.keys() <= self._names:
            raise RecordError(f"{self._name}: the spec has no column {', '.join(sorted(row.keys() - self._names))}")
        self._held.append(row)
        for value in row.values():
            if type(value) is str and len(value) > _LONG:
                self._held_bytes += len(value)
        if len(self._held) >= _ROWS or self._held_bytes >= _TEXT_BYTES:
            self._flush()

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
            self._put(pa.table([self._array(field, rows) for field in self._schema], schema=self._schema))

    def _array(self, field: pa.Field, rows: Sequence[Mapping[str, Any]]) -> Any:
        try:
            return pa.array([row.get(field.name) for row in rows], field.type)
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
