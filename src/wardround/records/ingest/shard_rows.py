"""Rows of one shard: one per key, versions, and their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.ingest.buckets import read_bucket
from wardround.records.ingest.clocks import ClockSettings, ShardClocks
from wardround.records.reading.source_files import BrokenRow, write_quarantine
from wardround.records.rules.language import NO_TIME, Times, walk
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.shards.row_ids import local_words
from wardround.records.specs.spec import SourceSpec, TableSpec, integers, microseconds, valid
from wardround.records.specs.wall_clock import WallClock

# The rows of one shard's buckets: of rows that share a key, the first known is kept.
#
# Equal rows are kept once. Of different rows with one key the first known is kept: a row must not vanish from earlier
# charts because another was written under its key later. Rows with one key that became known at the same moment are
# merged; cells in which they differ are left empty, since nobody can say which is right. All rows of a subject are in
# one shard, so one shard at a time is enough, which limits the memory.


Places = npt.NDArray[np.int64]
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRows:
    """Which rows of a batch are kept. ``kept`` None: all; ``repeated``: copies that are dropped; ``conflicting``: set
    aside; ``merged``: rows merged from several with one key that became known together."""

    kept: Places | None = None
    repeated: int = 0
    conflicting: Places = field(default_factory=lambda: _NONE)
    merged: pa.RecordBatch | None = None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are kept."""
        if self.kept is None:
            return batch
        rows = batch.take(pa.array(self.kept))
        return rows if self.merged is None else pa.concat_batches([rows, self.merged.select(batch.schema.names)])


EVERY_ROW = KeyedRows()


def has_repeats(table: TableSpec, batch: pa.RecordBatch) -> bool:
    """Return whether two rows share a key; only the key's columns are needed. A file without them cannot be checked."""
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


def clashing_rows(table: TableSpec, batch: pa.RecordBatch) -> Places:
    """Return the places of rows that share their key with another row."""
    if not has_repeats(table, batch):
        return _NONE
    words, places = _words(table, batch)
    _, number, count = np.unique(words, return_inverse=True, return_counts=True)
    return np.asarray(places[count[number] > 1])


def keyed_rows(table: TableSpec, batch: pa.RecordBatch) -> KeyedRows:
    """Return which rows are kept: the first of equal ones, none of those that share a key and differ."""
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

    Of several that became known at the same moment, the earliest version is kept, if there are versions. If several are
    left they are merged: cells that differ are empty. If they differ in their time or subject, none is kept.
    """
    if not clashing.num_rows:
        return found
    keys, _ = _words(table, clashing)
    rows = clashing.to_pylist()
    groups: dict[int, list[int]] = defaultdict(list)
    for place, key in enumerate(keys.tolist()):
        groups[key].append(place)
    shown = [name for name in clashing.schema.names if name not in table.late and name != table.version]
    clocks = _placing(table)
    stay: dict[int, dict[str, Any]] = {}
    for places in groups.values():
        since = min(available[place] for place in places)
        first = [place for place in places if available[place] == since != NEVER_TIME]
        earliest = _earliest_version(first, [rows[place][table.version] for place in first] if table.version else [])
        if earliest and not any(len({rows[place][name] for place in earliest}) > 1 for name in shown if name in clocks):
            late = {name: _agreed(rows[place][name] for place in first) for name in rows[0] if name not in shown}
            stay[earliest[0]] = {name: _agreed(rows[place][name] for place in earliest) for name in shown} | late
    return _with_merged(found, stay, clashing.schema)


def _with_merged(found: KeyedRows, stay: Mapping[int, Mapping[str, Any]], schema: pa.Schema) -> KeyedRows:
    """Add merged rows in place of conflicting ones, by the places of these."""
    if not stay:
        return found
    merged = pa.RecordBatch.from_pylist([dict(row) for row in stay.values()], schema=schema)
    merged = merged if found.merged is None else pa.concat_batches([found.merged, merged])
    return replace(found, merged=merged, conflicting=np.delete(found.conflicting, list(stay)))


def _placing(table: TableSpec) -> frozenset[str]:
    """Return the columns that decide a row's subject, key and times."""
    read = (name for _, rule in table.rules() for part in walk(rule) for name in part.columns)
    return frozenset((*read, *table.owner_columns, *table.row_key)) - {table.version}


def with_versions(table: TableSpec, found: KeyedRows, batch: pa.RecordBatch) -> KeyedRows:
    """Keep rows that share a key and have a version time: in an amended table they are versions of one row.

    Two rows with the same key and version time contradict each other; what was known before is kept. Equal copies count
    once. A row without a version time comes before the others, with only those cells in which it agrees with the first
    of them: nobody knows which of the two was written first.
    """
    if table.amended is None or not len(found.conflicting) or found.kept is None:
        return found
    clashing = batch.take(pa.array(found.conflicting))
    words, _ = _words(table, clashing)
    keys = words.view(np.int64)
    first = _first_of_copies(clashing)
    since = integers(clashing.column(table.version).cast(pa.int64()), null=NO_TIME) if table.version else keys
    _, moment = np.unique(np.stack([keys, since]), axis=1, return_inverse=True)
    moment = moment.reshape(-1)
    clear = (np.bincount(moment[first])[moment] == 1) & (since != NO_TIME)
    kept = np.sort(np.concatenate([found.kept, found.conflicting[clear & first]]))
    repeated = found.repeated + int(np.count_nonzero(clear & ~first))
    versions = replace(found, kept=kept, repeated=repeated, conflicting=found.conflicting[~clear])
    dated = np.flatnonzero(clear & first)
    earliest = dict(reversed([(int(keys[row]), int(row)) for row in dated[np.argsort(since[dated])]]))
    undated: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(since == NO_TIME).tolist():
        undated[int(keys[row])].append(row)
    place_of = np.cumsum(~clear) - 1
    stay: dict[int, Mapping[str, Any]] = {}
    for key, rows in undated.items():
        shared = _shared(table, clashing.take(pa.array([*rows, earliest[key]]))) if key in earliest else None
        if shared is not None:
            stay[int(place_of[rows[0]])] = shared
    return _with_merged(versions, stay, clashing.schema)


def _apart(spec: SourceSpec, table: TableSpec, found: KeyedRows, batch: pa.RecordBatch) -> KeyedRows:
    """Keep rows whose keys differed in the file: in an hour that a clock shows twice, all times of the second pass
    become its end, so that a key with a time no longer distinguishes them."""
    names = [name for name in table.key if table.columns.get(name) == "time"]
    if not (spec.time_zone and names and len(found.conflicting)) or table.amended is not None or found.kept is None:
        return found
    clock, rows = WallClock.named(spec.time_zone), batch.take(pa.array(found.conflicting))
    joined = np.logical_or.reduce([clock.joined(integers(rows.column(name), null=0)) for name in names])
    first = joined & _first_of_copies(rows)
    kept = np.sort(np.concatenate([found.kept, found.conflicting[first]]))
    repeated = found.repeated + int(np.count_nonzero(joined & ~first))
    return replace(found, kept=kept, repeated=repeated, conflicting=found.conflicting[~joined])


def _shared(table: TableSpec, rows: pa.RecordBatch) -> Mapping[str, Any] | None:
    """Return the cells that are equal in all rows, without the version; None if the rows differ in subject, key or
    time."""
    cells = rows.to_pydict()
    alike = {name: values[0] if len(set(values)) == 1 else None for name, values in cells.items()}
    apart = any(len(set(cells[name])) > 1 for name in _placing(table) if name in cells)
    return None if apart else alike


def _first_of_copies(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which rows are not equal to an earlier row."""
    _, places = np.unique(local_words(rows, rows.schema.names), return_index=True)
    first = np.zeros(rows.num_rows, dtype=bool)
    first[places] = True
    return first


def _earliest_version(places: list[int], versions: list[Any]) -> list[int]:
    """Return the places of the earliest version; all of them if a row has no version."""
    if not versions or None in versions:
        return places
    return [place for place, version in zip(places, versions, strict=True) if version == min(versions)]


def _agreed(cells: Iterable[Any]) -> Any:
    """Return the only value of some cells; None if there are several or none."""
    values = {cell for cell in cells if cell is not None}
    return values.pop() if len(values) == 1 else None


def _words(table: TableSpec, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint64], Places]:
    """Return a word (uint64) for the key of every row that has one, and the places of these rows."""
    columns = [batch.column(name) for name in table.row_key]
    places = np.arange(batch.num_rows)
    if any(column.null_count == batch.num_rows for column in columns):
        return np.empty(0, dtype=np.uint64), _NONE
    if len(columns) == 1 and columns[0].null_count:
        places = np.flatnonzero(columns[0].is_valid().to_numpy(zero_copy_only=False))
        batch = batch.take(pa.array(places))
    return local_words(batch, table.row_key), places


@dataclass(slots=True, kw_only=True)
class ShardRows:
    """Reads tables of a shard; rows that share a key and differ are written to the quarantine, once."""

    spec: SourceSpec
    buckets: Mapping[str, Path]
    shard: int
    quarantine: Path
    settings: ClockSettings
    _keyed: dict[str, KeyedRows] = field(default_factory=dict)

    def load(self, name: str, columns: tuple[str, ...] | None = None) -> pa.RecordBatch | None:
        """Return a table's rows, of some columns or all stored ones; None if it has no file here."""
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
        shown += [each for each in batch.schema.names if each.startswith("_") and each not in shown]
        rows = self._keyed[name].of(batch.select(shown))
        return rows if rows.num_rows else None

    def counts(self, name: str) -> KeyedRows:
        """Return the counts of a table that was loaded."""
        return self._keyed.get(name, EVERY_ROW)

    def _look(self, table: TableSpec, batch: pa.RecordBatch, path: Path) -> KeyedRows:
        if table.derive is not None or not has_repeats(table, batch):
            return EVERY_ROW
        whole = read_bucket(path, self.shard)
        assert whole is not None
        found = _apart(self.spec, table, with_versions(table, keyed_rows(table, whole), whole), whole)
        if len(found.conflicting):
            found = self._first_known(table, found, whole)
        file = self.quarantine / f"{table.name}.keys-{self.shard:05d}.jsonl"
        file.unlink(missing_ok=True)
        if len(found.conflicting):
            write_quarantine(file, (_broken(table, row) for row in whole.take(pa.array(found.conflicting)).to_pylist()))
        return found

    def _first_known(self, table: TableSpec, found: KeyedRows, whole: pa.RecordBatch) -> KeyedRows:
        """Evaluate the rows' own clocks to find which was known first; other tables are used without their conflicting
        rows."""
        assert found.kept is not None
        words, places = _words(table, whole)
        stays = np.zeros(whole.num_rows, dtype=bool)
        stays[found.kept] = True
        standing = words[stays[places]]
        clashing = whole.take(pa.array(found.conflicting))
        is_kept = np.isin(words[np.searchsorted(places, found.conflicting)], standing)  # a version stands for the key
        alone, others = replace(found, conflicting=found.conflicting[~is_kept]), found.conflicting[is_kept]
        clashing = clashing.filter(pa.array(~is_kept))

        def undisputed(name: str, columns: tuple[str, ...]) -> pa.RecordBatch | None:
            other, path = self.spec.tables[name], self.buckets.get(name)
            batch = None if path is None else read_bucket(path, self.shard, (*columns, *other.row_key))
            if path is None or batch is None or other.derive is not None or not has_repeats(other, batch):
                return batch
            whole = read_bucket(path, self.shard)
            assert whole is not None
            return _apart(self.spec, other, keyed_rows(other, whole), whole).of(batch)

        clocks = ShardClocks(spec=self.spec, settings=self.settings, load=undisputed)
        available = clocks.evaluate(table.available_at, table, clashing)
        first = first_known(table, alone, clashing, np.where(available == NO_TIME, NEVER_TIME, available))
        return replace(first, conflicting=np.sort(np.concatenate([first.conflicting, others])))


def _broken(table: TableSpec, row: Mapping[str, object]) -> BrokenRow:
    key = ", ".join(f"{name} {row[name]}" for name in table.row_key)
    reason = f"another row has the same key and other content: {key}"
    return BrokenRow(file=table.path, line=0, reason=reason, raw=str({n: c for n, c in row.items() if c is not None}))


# Versions of a row: since when and until when each is shown. A withdrawn row is shown until the withdrawal was known.


Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionClocks:
    """Of every row: since when and until when it is shown as it is, and which version of its key it is (0 first)."""

    available: Times
    until: Times
    number: Integers


def version_clocks(table: TableSpec, batch: pa.RecordBatch, available: Times) -> VersionClocks:
    """Return the third clock of rows with versions.

    A later version is known from its version time on, and not before the version it replaces. A withdrawal is not a row
    of its own, unless nothing else is known of the row. A version that is never shown does not replace another or delay
    it.
    """
    since, withdrawn = _since(table, batch), _withdrawn(table, batch)
    undated = (since == NO_TIME) & (available == NEVER_TIME)
    order, fresh = _by_key(table, batch, np.where(undated, NEVER_TIME, since))
    number = np.empty(batch.num_rows, np.int64)
    number[order] = np.arange(len(order)) - np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    later = number > 0
    shown = np.where(later, np.maximum(available, since), available)
    until = np.full(batch.num_rows, NEVER_TIME)
    alone = withdrawn & ~later
    until[alone] = np.where(since[alone] == NO_TIME, NEVER_TIME, since[alone])
    last = -1
    for place in np.flatnonzero(~fresh).tolist():
        row, before = order[place], order[place - 1]
        last = before if fresh[place - 1] else last
        if shown[row] != NEVER_TIME:
            if shown[last] != NEVER_TIME:
                shown[row] = max(shown[row], shown[last])
                until[last] = min(until[last], shown[row])
            last = row
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
    """Return rows in order of key and version, and which are the first of their key; a row without a key has no
    versions."""
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


# The order of stored rows: by subject, event time and key, packed into one integer for one fast sort.


_SECOND = 1_000_000


def row_order(subjects: Integers, event: Integers, ties: Sequence[Any]) -> Integers:
    """Return the places of rows in order. ``ties``: Arrow or integer columns, the most important first."""
    packed = _packed(subjects, event)
    if packed is None:
        packed = _packed(_ranks(subjects), event)
    if packed is None:
        return np.lexsort([*(sortable(column) for column in reversed(ties)), event, subjects])
    order: Integers = np.argsort(packed)
    ordered = packed[order]
    same = ordered[1:] == ordered[:-1]
    tied = np.r_[same, False] | np.r_[False, same]
    if tied.any():
        runs = np.cumsum(np.r_[True, ~same])[tied]
        order[tied] = _settle(order[tied], runs, ties)
    return order


def _ranks(numbers: Integers) -> Integers:
    """Return the rank of each number among the distinct ones, so that few large numbers need few bits."""
    encoded = pa.array(numbers).dictionary_encode()
    ranks: Integers = np.empty(len(encoded.dictionary), dtype=np.int64)
    ranks[np.argsort(encoded.dictionary.to_numpy())] = np.arange(len(ranks))
    return np.asarray(ranks[encoded.indices.to_numpy()])


def _settle(rows: Integers, runs: Integers, ties: Sequence[Any]) -> Integers:
    """Order rows of equal time by the ties; if these are equal too, the given order stays, so that a subject's order
    never depends on other subjects."""
    places = pa.array(rows)
    columns = [sortable(column.take(places) if isinstance(column, pa.Array) else column[rows]) for column in ties]
    if len(columns) == 1:
        packed = _packed(runs, columns[0])
        if packed is not None:
            order: Integers = np.argsort(packed)
            ordered = packed[order]
            return rows[np.lexsort([rows, packed]) if (ordered[1:] == ordered[:-1]).any() else order]
    return rows[np.lexsort([rows, *reversed(columns), runs])]


def _packed(high: Integers, low: Integers) -> Integers | None:
    """Return ``high`` and ``low`` side by side in one integer, None if they do not fit."""
    if len(high) == 0:
        return None
    first, last = int(low.min()), int(low.max())
    if last - first > 1 << 40 and not (low % _SECOND).any():
        low = low // _SECOND
        first, last = first // _SECOND, last // _SECOND
    bits = (last - first).bit_length()
    least, most = int(high.min()), int(high.max())
    if (most - least).bit_length() + bits > 63:
        return None
    return ((high - least) << bits) | (low - first)


def sortable(column: Any) -> Integers:
    """Return integers that sort as the column does, nulls first."""
    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        ranks = np.full(len(encoded.dictionary) + 1, -1, dtype=np.int64)
        ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
        return np.asarray(ranks[integers(encoded.indices, null=-1)])
    if pa.types.is_floating(column.type):
        _, ranks = np.unique(np.asarray(column.fill_null(-np.inf)), return_inverse=True)
        return np.asarray(ranks)
    if pa.types.is_temporal(column.type):
        return microseconds(column)
    return np.asarray(integers(column, null=-1))
