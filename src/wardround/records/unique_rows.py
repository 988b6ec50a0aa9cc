"""A key names one row: rows given twice are kept once, and rows that share a key but differ are set aside.

Which of two rows of one key is right nobody can say, and a guess could be made by what came later. All rows of a
subject lie in one shard, so a shard is enough, and bounds the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.arrow_types import integers
from wardround.records.identity import local_words
from wardround.records.spec import TableSpec

Places = npt.NDArray[np.int64]
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRows:
    """Which rows of a batch stay. ``kept`` None: all; ``repeated``: copies that go; ``conflicting``: set aside."""

    kept: Places | None = None
    repeated: int = 0
    conflicting: Places = field(default_factory=lambda: _NONE)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that stay."""
        return batch if self.kept is None else batch.take(pa.array(self.kept))


EVERY_ROW = KeyedRows()


def has_repeats(table: TableSpec, batch: pa.RecordBatch) -> bool:
    """Say whether two rows have one key; only the key's columns are needed. A file without them cannot be checked."""
    names = table.row_key
    if not names or not set(names) <= set(batch.schema.names) or batch.num_rows < 2:
        return False
    first = batch.column(names[0])
    if len(names) == 1 and pa.types.is_int64(first.type) and not first.null_count:
        numbers = integers(first, null=0)
        if bool((numbers[1:] > numbers[:-1]).all()):
            return False
    words = np.sort(_words(table, batch)[0])
    return bool((words[1:] == words[:-1]).any())


def keyed_rows(table: TableSpec, batch: pa.RecordBatch) -> KeyedRows:
    """Say which of all columns' rows stay: the first of equal ones, none of those that differ."""
    words, checked = _words(table, batch)
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    again = np.r_[False, ordered[1:] == ordered[:-1]]
    shared = np.zeros(len(words), dtype=bool)
    shared[order[again | np.r_[again[1:], False]]] = True
    places = checked[order[shared[order]]]
    some = batch.take(pa.array(places))
    names = [name for name in some.schema.names if name != table.version]
    keys, content = ordered[shared[order]], local_words(some, names)
    heads = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    sizes = np.diff(np.r_[heads, len(keys)])
    same = np.minimum.reduceat(content, heads) == np.maximum.reduceat(content, heads)
    conflicting = np.sort(places[~np.repeat(same, sizes)])
    gone = np.ones(len(keys), dtype=bool)
    gone[heads[same]] = False
    kept = np.setdiff1d(np.arange(batch.num_rows), places[gone], assume_unique=True)
    repeated = int(np.count_nonzero(gone)) - len(conflicting)
    return KeyedRows(kept=kept, repeated=repeated, conflicting=conflicting)


def _words(table: TableSpec, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint64], Places]:
    """Return a word for the key of every row that has one, and the places of these rows."""
    columns = [batch.column(name) for name in table.row_key]
    places = np.arange(batch.num_rows)
    if any(column.null_count == batch.num_rows for column in columns):
        return np.empty(0, dtype=np.uint64), _NONE
    if len(columns) == 1 and columns[0].null_count:
        places = np.flatnonzero(columns[0].is_valid().to_numpy(zero_copy_only=False))
        batch = batch.take(pa.array(places))
    return local_words(batch, table.row_key), places
