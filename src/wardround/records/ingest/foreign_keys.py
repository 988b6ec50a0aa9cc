"""Foreign keys of a shard's rows: cells that name a row of another table which has no such row."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.ingest.clocks import ShardClocks
from wardround.records.rules.language import Known, LateCell, Reference, There, walk
from wardround.records.specs.spec import TableSpec


def foreign_keys(table: TableSpec) -> tuple[tuple[str, str], ...]:
    """Return the columns by which a table's clocks look into others, each with the other table."""
    parts = (part for _, rule in table.rules() for part in walk(rule))
    return tuple(sorted({(p.key, p.table) for p in parts if isinstance(p, Known | Reference | LateCell | There)}))


def orphans(table: TableSpec, batch: pa.RecordBatch, clocks: ShardClocks, read: Collection[str]) -> dict[str, int]:
    """Count filled cells that name no row, by column and table; tables that were not ``read`` at all are left out.

    All rows of a subject lie in one shard, so that a row is found if it is there.
    """
    found: dict[str, int] = {}
    for column, other in foreign_keys(table):
        if other in read and column in batch.schema.names:
            cells = batch.column(column)
            parent = clocks.parent(other)
            named = 0 if parent is None else pc.sum(pc.is_in(cells, parent.keys, skip_nulls=True)).as_py() or 0
            missing = len(cells) - cells.null_count - named
            if missing:
                found[f"{column} in {other}"] = missing
    return found
