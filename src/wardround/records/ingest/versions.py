"""Versions of a row: from when on each is shown, and until when. A withdrawn row is shown until that was known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.rules.language import NO_TIME, Times
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.shards.row_ids import local_words
from wardround.records.specs.arrow_types import microseconds, valid
from wardround.records.specs.spec import TableSpec

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionClocks:
    """Of every row: since when it is shown as it is, until when, and which version of its key it is (0 first)."""

    available: Times
    until: Times
    number: Integers


def version_clocks(table: TableSpec, batch: pa.RecordBatch, available: Times) -> VersionClocks:
    """Work out the third clock. A later version is known from its version time on, and not before the one it replaces;
    a withdrawal is no row of its own, unless nothing else is known of what it withdraws."""
    since, withdrawn = _since(table, batch), _withdrawn(table, batch)
    order, fresh = _by_key(table, batch, since)
    number = np.empty(batch.num_rows, np.int64)
    number[order] = np.arange(len(order)) - np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    later = number > 0
    shown = np.where(later, np.maximum(available, since), available)
    until = np.full(batch.num_rows, NEVER_TIME)
    alone = withdrawn & ~later
    until[alone] = np.where(since[alone] == NO_TIME, NEVER_TIME, since[alone])
    for place in np.flatnonzero(~fresh).tolist():
        row, before = order[place], order[place - 1]
        shown[row] = max(shown[row], shown[before])
        until[before] = min(until[before], shown[row])
    shown[withdrawn & later] = NEVER_TIME
    return VersionClocks(available=shown, until=until, number=number)


def _since(table: TableSpec, batch: pa.RecordBatch) -> Times:
    if table.version is None or table.version not in batch.schema.names:
        return np.full(batch.num_rows, NO_TIME)
    return microseconds(batch.column(table.version))


def _withdrawn(table: TableSpec, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    assert table.amended is not None
    if table.amended.status not in batch.schema.names:
        return np.zeros(batch.num_rows, dtype=bool)
    words = pa.array(table.amended.withdrawn, pa.string())
    return np.asarray(pc.is_in(batch.column(table.amended.status), words).to_numpy(zero_copy_only=False))


def _by_key(table: TableSpec, batch: pa.RecordBatch, since: Times) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return rows in order of key and version, and which of them are the first of their key; no key, no versions."""
    assert table.amended is not None
    names = table.key if table.amended.row is None else (table.subject_column, table.amended.row)
    if not set(names) <= set(batch.schema.names):
        return np.arange(batch.num_rows), np.ones(batch.num_rows, dtype=bool)
    words = local_words(batch, names)
    keyless = np.flatnonzero(~valid(batch.column(names[-1])))
    order = np.lexsort((since, words))
    ordered = words[order]
    fresh = np.append([True], ordered[1:] != ordered[:-1])[: len(order)]
    return order, fresh | np.isin(order, keyless)
