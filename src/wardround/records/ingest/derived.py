"""Derived tables of a newer release: made of the rows of their source that changed, instead of its whole file.

A derived row depends on one row of its source. Where all rows of the source were read, before and now, a subject whose
source rows are the same has the same derived rows, so that the derivation runs for changed subjects alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.ingest.buckets import derived_rows
from wardround.records.ingest.plan import Plan, Reuse
from wardround.records.ingest.reuse import EarlierShard, has_shared_keys, open_earlier
from wardround.records.specs.spec import TableSpec

Integers = npt.NDArray[np.int64]


def made_of_buckets(plan: Plan, reuse: Reuse) -> list[str]:
    """Return the derived tables that are made of the buckets of their source. The sources were read."""
    return [name for name in reuse.read if _has_whole_source(plan, reuse, plan.spec.tables[name])]


def _has_whole_source(plan: Plan, reuse: Reuse, table: TableSpec) -> bool:
    """Whether the rows of a derived table follow from the rows of its source as they are kept, then and now."""
    if table.derive is None or table.derive.source not in reuse.read or table.name in plan.files.tables:
        return False
    name, source, before = table.derive.source, plan.spec.tables[table.derive.source], open_earlier(plan).origin.tables
    if table.name not in before or name not in before or has_shared_keys(open_earlier(plan), name):
        return False
    is_alone = bool(table.key and table.subject) and table.pending is None and not table.median_pairs
    is_alone = is_alone and not source.has_text_subject and source.subject == table.subject
    is_read_alike = all(source.columns.get(column) == kind for column, kind in table.columns.items())
    notes = before[name], plan.noted(f"table-{name}")
    is_whole = not any(note["counts"]["quarantined"] or note["counts"]["emptied"] for note in notes)
    return is_alone and is_read_alike and is_whole and notes[0]["columns"] == notes[1]["columns"]


def rows_of(plan: Plan, name: str, source: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Return the rows of a derived table that follow from rows of its source; None if there are none."""
    if source is None:
        return None
    rows = derived_rows(pa.Table.from_batches([source]), plan.spec.tables[name]).combine_chunks()
    return rows.to_batches()[0] if rows.num_rows else None


def source_of(plan: Plan, name: str) -> str:
    """Return the source of a derived table."""
    derive = plan.spec.tables[name].derive
    assert derive is not None
    return derive.source


def count_change(
    plan: Plan, name: str, earlier: EarlierShard, subjects: Integers | None, now: pa.RecordBatch | None
) -> dict[str, Any]:
    """Return by how many the rows and filled cells of a derived table grew; ``now``: its rows of these subjects."""
    filled: Counter[str] = Counter(_filled(now))
    filled.subtract(_filled(before := rows_of(plan, name, earlier.as_read(source_of(plan, name), subjects))))
    return {"kept": _size(now) - _size(before), "filled": dict(filled)}


def _size(rows: pa.RecordBatch | None) -> int:
    return 0 if rows is None else int(rows.num_rows)


def _filled(rows: pa.RecordBatch | None) -> Mapping[str, int]:
    if rows is None:
        return {}
    return {name: len(cells) - cells.null_count for name, cells in zip(rows.schema.names, rows.columns, strict=True)}


def note_derived(plan: Plan, name: str) -> None:
    """Write the note of a derived table: that of the earlier store and what changed in the shards."""
    note = open_earlier(plan).origin.tables[name]
    shards = (plan.noted(f"shard-{shard:05d}") for shard in range(plan.shards))
    changes = [found["derived"][name] for found in shards if found is not None and name in found.get("derived", {})]
    kept = note["kept"] + sum(change["kept"] for change in changes)
    filled = {key: count + sum(one["filled"].get(key, 0) for one in changes) for key, count in note["filled"].items()}
    plan.note(f"table-{name}", {**note, "counts": {**note["counts"], "rows": kept}, "kept": kept, "filled": filled})
