"""The bucketed rows of one shard as finishing reads them: every key names one row, the first known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from wardround.records.ingest.clocks import ClockSettings, ShardClocks
from wardround.records.ingest.unique_rows import EVERY_ROW, KeyedRows, first_known, has_repeats, keyed_rows
from wardround.records.reading.quarantine import BrokenRow, write_quarantine
from wardround.records.rules.language import NO_TIME
from wardround.records.shards.buckets import read_bucket
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.spec import SourceSpec, TableSpec


@dataclass(slots=True, kw_only=True)
class ShardRows:
    """Reads tables of a shard; what shares a key and differs goes to the quarantine, once."""

    spec: SourceSpec
    buckets: Mapping[str, Path]
    shard: int
    quarantine: Path
    settings: ClockSettings
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
        if len(found.conflicting):
            found = self._first_known(table, found, whole.take(pa.array(found.conflicting)))
        file = self.quarantine / f"{table.name}.keys-{self.shard:05d}.jsonl"
        file.unlink(missing_ok=True)
        if len(found.conflicting):
            write_quarantine(file, (_broken(table, row) for row in whole.take(pa.array(found.conflicting)).to_pylist()))
        return found

    def _first_known(self, table: TableSpec, found: KeyedRows, clashing: pa.RecordBatch) -> KeyedRows:
        """Ask the rows' own clocks which was known first; other tables are looked into without their clashing rows."""

        def undisputed(name: str, columns: tuple[str, ...]) -> pa.RecordBatch | None:
            other, path = self.spec.tables[name], self.buckets.get(name)
            batch = None if path is None else read_bucket(path, self.shard, (*columns, *other.row_key))
            if path is None or batch is None or other.derive is not None or not has_repeats(other, batch):
                return batch
            whole = read_bucket(path, self.shard)
            assert whole is not None
            return keyed_rows(other, whole).of(batch)

        clocks = ShardClocks(spec=self.spec, settings=self.settings, load=undisputed)
        available = clocks.evaluate(table.available_at, table, clashing)
        return first_known(table, found, clashing, np.where(available == NO_TIME, NEVER_TIME, available))


def _broken(table: TableSpec, row: Mapping[str, object]) -> BrokenRow:
    key = ", ".join(f"{name} {row[name]}" for name in table.row_key)
    reason = f"another row has the same key and other content: {key}"
    return BrokenRow(file=table.path, line=0, reason=reason, raw=str({n: c for n, c in row.items() if c is not None}))
