"""A key names one row: rows given twice are kept once, and of rows that share a key but differ the first known stays.

A row that was there may not vanish from earlier charts because of what was written under its key later. What was known
at one moment under one key and differs in what is shown at once is set aside: nobody can say which is right. All rows
of a subject lie in one shard, so a shard is enough, and bounds the memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.rules.language import Times
from wardround.records.shards.identity import local_words
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.arrow_types import integers
from wardround.records.specs.spec import TableSpec

Places = npt.NDArray[np.int64]
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRows:
    """Which rows of a batch stay. ``kept`` None: all; ``repeated``: copies that go; ``conflicting``: set aside;
    ``merged``: whole rows that stand for several of one key that were first known together."""

    kept: Places | None = None
    repeated: int = 0
    conflicting: Places = field(default_factory=lambda: _NONE)
    merged: pa.RecordBatch | None = None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that stay."""
        if self.kept is None:
            return batch
        rows = batch.take(pa.array(self.kept))
        return rows if self.merged is None else pa.concat_batches([rows, self.merged.select(batch.schema.names)])


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


def first_known(table: TableSpec, found: KeyedRows, clashing: pa.RecordBatch, available: Times) -> KeyedRows:
    """Keep the first known of the rows that share a key and differ; ``clashing`` and ``available`` are of these rows.

    Of several first known at one moment the earliest version counts, where there are versions. Where they differ only
    in cells that are shown later they are one row: cells that contradict each other are left empty.
    """
    keys, _ = _words(table, clashing)
    rows = clashing.to_pylist()
    groups: dict[int, list[int]] = defaultdict(list)
    for place, key in enumerate(keys.tolist()):
        groups[key].append(place)
    shown = [name for name in clashing.schema.names if name not in table.late and name != table.version]
    stay: dict[int, dict[str, Any]] = {}
    for places in groups.values():
        since = min(available[place] for place in places)
        first = [place for place in places if available[place] == since != NEVER_TIME]
        earliest = _earliest_version(first, [rows[place][table.version] for place in first] if table.version else [])
        if earliest and all(rows[place][name] == rows[earliest[0]][name] for place in earliest for name in shown):
            late = {name: _agreed(rows[place][name] for place in first) for name in rows[0] if name not in shown}
            stay[earliest[0]] = {**rows[earliest[0]], **late}
    if not stay:
        return found
    merged = pa.RecordBatch.from_pylist(list(stay.values()), schema=clashing.schema)
    return replace(found, merged=merged, conflicting=np.delete(found.conflicting, list(stay)))


def _earliest_version(places: list[int], versions: list[Any]) -> list[int]:
    """Return the places of the earliest version; all of them where some row does not say its own."""
    if not versions or None in versions:
        return places
    return [place for place, version in zip(places, versions, strict=True) if version == min(versions)]


def _agreed(cells: Iterable[Any]) -> Any:
    """Return the one value that cells have, None where they have several or none."""
    values = {cell for cell in cells if cell is not None}
    return values.pop() if len(values) == 1 else None


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
