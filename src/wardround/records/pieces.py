"""A store's rows, some subjects at a time, all tables of them together: what exports and bundles are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.shards.table_layout import TableLayout
from wardround.records.store import Store

ROWS_AT_ONCE = 1 << 17
"""About how many rows are worked on at once; it bounds memory, not the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """Stored rows of one table, subjects in order."""

    layout: TableLayout
    subject: npt.NDArray[np.int64]
    stored: pa.RecordBatch


def stored_pieces(store: Store, shard: int, rows: int = ROWS_AT_ONCE) -> Iterator[list[StoredTable]]:
    """Cut a shard's tables into pieces of about ``rows`` rows, each with everything of its subjects."""
    found = [part for name in store.table_names if (part := store.shard_rows(shard, name)) is not None]
    if not found:
        return
    subjects, counts = np.unique(np.concatenate([subject for _, subject, _ in found]), return_counts=True)
    number = (np.cumsum(counts) - 1) // rows
    heads = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
    for first, end in zip(heads.tolist(), [*heads[1:].tolist(), len(subjects)], strict=True):
        least, most = subjects[first], subjects[end - 1]
        piece = []
        for layout, subject, stored in found:
            start, stop = int(np.searchsorted(subject, least)), int(np.searchsorted(subject, most, side="right"))
            if stop > start:
                own = subject[start:stop]
                piece.append(StoredTable(layout=layout, subject=own, stored=stored.slice(start, stop - start)))
        yield piece
