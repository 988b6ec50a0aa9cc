"""Of whom a newer release says something else than the earlier one did, in one shard, before any row is finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.ingest.buckets import read_bucket
from wardround.records.ingest.differences import NOBODY, differing_subjects
from wardround.records.ingest.earlier import EarlierShard
from wardround.records.ingest.finalise import named_by
from wardround.records.ingest.plan import Plan
from wardround.records.ingest.shard_rows import clashing_rows
from wardround.records.shards.row_ids import fingerprints
from wardround.records.specs.arrow_types import integers
from wardround.records.specs.spec import TableSpec

Integers = npt.NDArray[np.int64]


def touched_subjects(plan: Plan, shard: int, held: EarlierShard, read: Iterable[str]) -> Integers:
    """Return the subjects, sorted, whose rows differ in a table that was read, or may not be told from those of others:
    rows of one key, and numbered rows that look like another subject's."""
    found = [_touched(plan, shard, held, name) for name in read]
    if any(len(some) for some in found):
        found += [_alike(table, held.as_read(name)) for name, table in plan.spec.tables.items() if _apart(table, held)]
    return np.unique(np.concatenate([NOBODY, *found]))


def _touched(plan: Plan, shard: int, held: EarlierShard, name: str) -> Integers:
    table = plan.spec.tables[name]
    old, new = held.as_read(name), read_bucket(plan.bucket_folder(name), shard)
    if old is None or new is None:
        return np.concatenate([NOBODY, *(np.unique(subjects_of(table, one)) for one in (old, new) if one is not None)])
    subjects = subjects_of(table, new)
    if (subjects[1:] < subjects[:-1]).any():
        new = new.take(pa.array(np.argsort(subjects, kind="stable")))
        subjects = subjects_of(table, new)
    columns = plan.noted(f"table-{name}")["columns"]
    differing = differing_subjects(subjects_of(table, old), old, subjects, new, columns)
    return np.unique(np.concatenate([differing, subjects[clashing_rows(table, new)], _alike(table, new)]))


def _apart(table: TableSpec, held: EarlierShard) -> list[tuple[str, ...]]:
    """Return what numbers in row ids are made of, where it does not say whose the row is."""
    present = held.notes[table.name]["columns"] if table.name in held.notes else ()
    return [names for names in named_by(table, frozenset(present)) if table.subject not in names]


def _alike(table: TableSpec, rows: pa.RecordBatch | None) -> Integers:
    """Return the subjects of rows whose numbers depend on another subject's rows."""
    if rows is None:
        return NOBODY
    apart = [names for names in named_by(table, rows.schema.names) if table.subject not in names]
    return np.concatenate([NOBODY, *(_sharing(table, rows, names) for names in apart)])


def _sharing(table: TableSpec, rows: pa.RecordBatch, names: Sequence[str]) -> Integers:
    words, subjects = fingerprints(rows, names, table.name), subjects_of(table, rows)
    order = np.argsort(words, kind="stable")
    words, subjects = words[order], subjects[order]
    heads = np.flatnonzero(np.r_[True, words[1:] != words[:-1]])
    shared = np.minimum.reduceat(subjects, heads) != np.maximum.reduceat(subjects, heads)
    return np.unique(subjects[np.repeat(shared, np.diff(np.r_[heads, len(words)]))])


def subjects_of(table: TableSpec, rows: pa.RecordBatch) -> Integers:
    """Return whose each row is."""
    found: Integers = integers(rows.column(table.subject_column), null=0)
    return found
