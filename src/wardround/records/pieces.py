"""A store's rows in pieces: some subjects at a time with all their tables, for exports and bundles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.shards.layout import TableLayout
from wardround.records.shards.shard_file import TableShard
from wardround.records.store import Store

ROWS_AT_ONCE = 1 << 17
"""About how many rows are read at once; it bounds memory and does not change the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """Stored rows of one table, subjects in order."""

    layout: TableLayout
    subject: npt.NDArray[np.int64]
    stored: pa.RecordBatch


def stored_pieces(store: Store, shard: int, rows: int = ROWS_AT_ONCE) -> Iterator[list[StoredTable]]:
    """Divide a shard's tables into pieces of about ``rows`` rows, each with all rows of its subjects.

    A piece is read when the iterator reaches it, and freed with it."""
    tables = store.shard_tables(shard)
    for least, most in _ranges([part for _, part in tables], rows):
        found = [(layout, part.between(least, most)) for layout, part in tables]
        yield [
            StoredTable(layout=layout, subject=rows_of[0], stored=rows_of[1])
            for layout, rows_of in found
            if rows_of is not None
        ]


def _ranges(tables: Sequence[TableShard], rows: int) -> list[tuple[int, int]]:
    """Return the first and the last subject of every piece, from the indexes of the tables alone."""
    if not tables:
        return []
    everyone = np.concatenate([table.subjects for table in tables])
    subjects, place = np.unique(everyone, return_inverse=True)
    counts = np.zeros(len(subjects), np.int64)
    np.add.at(counts, place, np.concatenate([table.rows for table in tables]))
    number = (np.cumsum(counts) - 1) // rows
    heads = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
    lasts = np.r_[heads[1:], len(subjects)] - 1
    return list(zip(subjects[heads].tolist(), subjects[lasts].tolist(), strict=True))
