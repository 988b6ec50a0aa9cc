"""The bucketed rows of one shard as finishing reads them: every key names one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from wardround.records.buckets import read_bucket
from wardround.records.quarantine import BrokenRow, write_quarantine
from wardround.records.spec import SourceSpec, TableSpec
from wardround.records.unique_rows import EVERY_ROW, KeyedRows, has_repeats, keyed_rows


@dataclass(slots=True, kw_only=True)
class ShardRows:
    """Reads tables of a shard; what shares a key and differs goes to the quarantine, once."""

    spec: SourceSpec
    buckets: Mapping[str, Path]
    shard: int
    quarantine: Path
    _keyed: dict[str, KeyedRows] = field(default_factory=dict)

    def load(self, name: str, columns: tuple[str, ...] | None = None) -> pa.RecordBatch | None:
        """Return a table's rows, of some columns or all that are stored; None if it has no file here."""
        path, table = self.buckets.get(name), self.spec.tables[name]
        if path is None:
            return None
        wanted = None if columns is None else (*columns, *table.row_key)
        batch = read_bucket(path, self.shard, wanted)
        if batch is None:
            return None
        if name not in self._keyed:
            self._keyed[name] = self._look(table, batch, path)
        shown = [each for each in batch.schema.names if each in (table.columns if columns is None else columns)]
        shown += [each for each in batch.schema.names if each.startswith("_")]
        rows = self._keyed[name].of(batch.select(shown))
        return rows if rows.num_rows else None

    def counts(self, name: str) -> KeyedRows:
        """Return what was found of a table that was loaded."""
        return self._keyed.get(name, EVERY_ROW)

    def _look(self, table: TableSpec, batch: pa.RecordBatch, path: Path) -> KeyedRows:
        if table.derive is not None or not has_repeats(table, batch):
            return EVERY_ROW
        whole = read_bucket(path, self.shard)
        assert whole is not None
        found = keyed_rows(table, whole)
        file = self.quarantine / f"{table.name}.keys-{self.shard:05d}.jsonl"
        file.unlink(missing_ok=True)
        if len(found.conflicting):
            write_quarantine(file, (_broken(table, row) for row in whole.take(pa.array(found.conflicting)).to_pylist()))
        return found


def _broken(table: TableSpec, row: Mapping[str, object]) -> BrokenRow:
    key = ", ".join(f"{name} {row[name]}" for name in table.row_key)
    reason = f"another row has the same key and other content: {key}"
    return BrokenRow(file=table.path, line=0, reason=reason, raw=str({n: c for n, c in row.items() if c is not None}))
