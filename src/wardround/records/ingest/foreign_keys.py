"""Foreign keys: cells of a table that name rows of another one, and those that name none of a shard's rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.rules.language import Among, Around, Known, LateCell, Reference, Rule, There, walk
from wardround.records.specs.spec import SourceSpec, TableSpec


def foreign_keys(table: TableSpec) -> tuple[tuple[str, str], ...]:
    """Return the columns by which a table's clocks look into others, each with the other table."""
    parts = (part for _, rule in table.rules() for part in walk(rule))
    return tuple(sorted({(p.key, p.table) for p in parts if isinstance(p, Known | Reference | LateCell | There)}))


def links(spec: SourceSpec) -> tuple[tuple[str, str, str], ...]:
    """Return every column by which some clock goes from one row to another: its table, the column, the other table."""
    found = {link for table in spec.tables.values() for _, rule in table.rules() for link in _links(rule, table.name)}
    found |= {(name, *table.subject_from) for name, table in spec.tables.items() if table.subject_from is not None}
    return tuple(sorted(found))


def _links(rule: Rule, owner: str) -> Iterator[tuple[str, str, str]]:
    for part in walk(rule):
        if isinstance(part, Known | Reference | LateCell | There):
            yield owner, part.key, part.table
        if isinstance(part, Among):
            yield part.table, part.key, owner
        if isinstance(part, There | Among):
            yield from _links(part.rule, part.table)
        if isinstance(part, Around):
            yield from (*_links(part.start, part.table), *_links(part.end, part.table))


KeysOf = Callable[[str], Any]
"""The keys of a table's rows; None where it has none."""


def orphans(table: TableSpec, batch: pa.RecordBatch, keys_of: KeysOf, read: Collection[str]) -> dict[str, int]:
    """Count filled cells that name no row, by column and table; tables that were not ``read`` at all are left out.

    All rows of a subject lie in one shard, so that a row is found if it is there.
    """
    found: dict[str, int] = {}
    for column, other in foreign_keys(table):
        if other in read and column in batch.schema.names:
            cells, keys = batch.column(column), keys_of(other)
            named = 0 if keys is None else pc.sum(pc.is_in(cells, keys, skip_nulls=True)).as_py() or 0
            missing = len(cells) - cells.null_count - named
            if missing:
                found[f"{column} in {other}"] = missing
    return found
