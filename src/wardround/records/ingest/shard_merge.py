"""A shard of a newer release: changed subjects are processed again, all others are reused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import Progress, Reporter, silent
from wardround.records.ingest.buckets import bucket_rows, read_bucket
from wardround.records.ingest.derived import count_change, made_of_buckets, rows_of, source_of
from wardround.records.ingest.finalise import (
    FinishedRows,
    Finishing,
    ShardTable,
    file_hashes,
    named_by,
    new_folder,
    put_away,
    shared_finishing,
)
from wardround.records.ingest.joins import Dictionaries, links, orphans, with_labels
from wardround.records.ingest.plan import Medians, Plan, Reuse
from wardround.records.ingest.reuse import EarlierShard, open_earlier, write_bucket
from wardround.records.ingest.shard_rows import clashing_rows
from wardround.records.shards.layout import AVAILABLE, NEVER_TIME, shard_folder
from wardround.records.shards.row_ids import fingerprints
from wardround.records.specs.spec import TableSpec, integers, microseconds, one_array, one_batch

# Subjects whose rows differ between two releases: compared cell by cell, in the order of the files.


Integers = npt.NDArray[np.int64]
NOBODY: Integers = np.empty(0, dtype=np.int64)


def differing_subjects(
    old_subjects: Integers, old: Any, new_subjects: Integers, new: Any, columns: Sequence[str]
) -> Integers:
    """Return the subjects, sorted, whose rows or their order differ. Both inputs are sorted by subject; the rows are
    batches or tables."""
    olds, old_counts = _counted(old_subjects)
    news, new_counts = _counted(new_subjects)
    both, old_places, new_places = np.intersect1d(olds, news, assume_unique=True, return_indices=True)
    alike = both[old_counts[old_places] == new_counts[new_places]]
    found = [np.setdiff1d(np.union1d(olds, news), alike)]
    old, new = ({name: _bits(rows.column(name)) for name in columns} for rows in (old, new))
    for old_start, new_start, size in _stretches(old_subjects, new_subjects, alike):
        differ = np.zeros(size, dtype=bool)
        for name in columns:
            before, now = old[name].slice(old_start, size), new[name].slice(new_start, size)
            if not before.equals(now):
                same = pc.or_(pc.fill_null(pc.equal(before, now), False), pc.and_(before.is_null(), now.is_null()))
                differ |= ~np.asarray(same.to_numpy())
        found.append(np.unique(new_subjects[new_start : new_start + size][differ]))
    return np.unique(np.concatenate(found))


def _counted(subjects: Integers) -> tuple[Integers, Integers]:
    """Return the distinct ones of sorted subjects, and the number of rows of each."""
    heads = np.flatnonzero(np.r_[len(subjects) > 0, subjects[1:] != subjects[:-1]])
    return subjects[heads], np.diff(np.r_[heads, len(subjects)])


def _stretches(old: Integers, new: Integers, alike: Integers) -> list[tuple[int, int, int]]:
    """Return starts and sizes of consecutive rows of subjects with equally many rows in both.

    These can be compared without copying; few people have more or fewer rows than before.
    """
    old_rows, new_rows = (np.flatnonzero(np.isin(each, alike)) for each in (old, new))
    if not len(new_rows):
        return []
    breaks = np.flatnonzero((np.diff(old_rows) != 1) | (np.diff(new_rows) != 1)) + 1
    starts, ends = np.r_[0, breaks], np.r_[breaks, len(new_rows)]
    places = zip(old_rows[starts].tolist(), new_rows[starts].tolist(), (ends - starts).tolist(), strict=True)
    return list(places)


def _bits(column: Any) -> Any:
    """Return a column in chunks, floats as bits: NaN equals itself, and 0 differs from -0, as a store keeps bits."""
    chunks = getattr(column, "chunks", [column])
    if pa.types.is_floating(column.type):
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in chunks], pa.int64())
    return pa.chunked_array(chunks, column.type)


# Subjects of one shard whose raw rows changed in a newer release.


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """The affected subjects of a shard, sorted, and by table the rows read now of those known when it was compared."""

    subjects: Integers
    rows: Mapping[str, tuple[Integers, pa.RecordBatch | None]]


def affected_subjects(plan: Plan, shard: int, earlier: EarlierShard, read: Iterable[str]) -> Affected:
    """Return the subjects whose rows differ in a table that was read, or depend on those of others.

    Rows depend on others if they share a key, or if numbered rows look like another subject's.
    """
    found, rows = NOBODY, dict[str, tuple[Integers, pa.RecordBatch | None]]()
    for name in read:
        table, new = plan.spec.tables[name], bucket_rows(plan.bucket_folder(name), shard)
        found = np.union1d(found, _affected(plan, table, earlier.table_as_read(name), new))
        rows[name] = found, rows_of_subjects(table, new, found)
    if len(found):
        for name, table in plan.spec.tables.items():
            columns: Sequence[str] = earlier.notes[name]["columns"] if name in earlier.notes else ()
            before = earlier.rows(name) if _apart(table, columns) else None
            if before is not None:
                needed = {columns[0], *chain.from_iterable(_apart(table, columns))}
                some = one_batch(before.rows.select([each for each in columns if each in needed]))
                found = np.union1d(found, _alike(table, some, before.subjects))
    return Affected(subjects=found, rows=rows)


def rows_of_subjects(table: TableSpec, rows: pa.Table | None, subjects: Integers) -> pa.RecordBatch | None:
    """Return the rows of these subjects; None of no rows."""
    if rows is None:
        return None
    return one_batch(rows.filter(pa.array(np.isin(subjects_of(table, rows), subjects))))


def _affected(plan: Plan, table: TableSpec, old: pa.Table | None, new: pa.Table | None) -> Integers:
    if old is None or new is None:
        return np.concatenate(
            [NOBODY, *(np.unique(subjects_of(table, part)) for part in (old, new) if part is not None)]
        )
    subjects = subjects_of(table, new)
    if (subjects[1:] < subjects[:-1]).any():
        new = new.take(pa.array(np.argsort(subjects, kind="stable")))
        subjects = subjects_of(table, new)
    columns = plan.noted(f"table-{table.name}")["columns"]
    differing = differing_subjects(subjects_of(table, old), old, subjects, new, columns)
    names = {*table.row_key, table.subject_column, *chain.from_iterable(_apart(table, columns))}
    some = one_batch(new.select([each for each in new.schema.names if each in names]))
    return np.unique(np.concatenate([differing, subjects[clashing_rows(table, some)], _alike(table, some, subjects)]))


def _apart(table: TableSpec, present: Collection[str]) -> list[tuple[str, ...]]:
    """Return the columns from which numbers in row ids are made, if they do not contain the subject."""
    return [names for names in named_by(table, frozenset(present)) if table.subject not in names]


def _alike(table: TableSpec, rows: pa.RecordBatch, subjects: Integers) -> Integers:
    """Return the subjects of rows whose numbers depend on another subject's rows."""
    found = [NOBODY]
    for names in _apart(table, rows.schema.names):
        words = fingerprints(rows, names, table.name)
        order = np.argsort(words, kind="stable")
        words, owners = words[order], subjects[order]
        heads = np.flatnonzero(np.r_[True, words[1:] != words[:-1]])
        shared = np.minimum.reduceat(owners, heads) != np.maximum.reduceat(owners, heads)
        found.append(np.unique(owners[np.repeat(shared, np.diff(np.r_[heads, len(words)]))]))
    return np.concatenate(found)


def subjects_of(table: TableSpec, rows: Any) -> Integers:
    """Return the subject of each row of a batch or table."""
    cells = rows.column(table.subject_column)
    found: Integers = integers(one_array(cells) if isinstance(cells, pa.ChunkedArray) else cells, null=0)
    return found


# A shard of a newer release has two parts: changed subjects are processed again, the rows of others are reused.


_COUNTS = ("rows", "never_visible")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMerge:
    """Merges one shard of an earlier store with the new rows of affected subjects."""

    plan: Plan
    shard: int
    earlier: EarlierShard
    found: Affected
    changed: list[Integers] = field(default_factory=list)
    """By table, the subjects whose stored rows differ."""
    _columns: dict[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def affected(self) -> Integers:
        """The affected subjects, sorted."""
        return self.found.subjects

    def write_buckets(self, read: Collection[str]) -> None:
        """Write the rows of affected subjects into buckets of their own; of tables that were ``read``, the new rows."""
        for name in self.plan.spec.tables:
            if name in read:
                rows = self.own_part(name)
            else:
                rows = self.earlier.as_read(name, self.affected)
            write_bucket(self.plan.affected_folder(name), self.shard, rows)

    def own_part(self, name: str) -> pa.RecordBatch | None:
        """Return the rows of affected subjects in a table that was read."""
        known, rows = self.found.rows.get(name, (NOBODY, None))
        if len(known) == len(self.affected):
            return rows
        whole = bucket_rows(self.plan.bucket_folder(name), self.shard)
        return rows_of_subjects(self.plan.spec.tables[name], whole, self.affected)

    def crosses(self) -> bool:
        """Whether a row of one part refers to a row of the other, so that the parts cannot be processed separately."""
        return any(self._crosses(*link) for link in links(self.plan.spec))

    def _crosses(self, table: str, column: str, other: str) -> bool:
        key = self.plan.spec.tables[other].key[0]
        return _meet(self._of_others(table, column), self._own(other, key)) or _meet(
            self._of_others(other, key), self._own(table, column)
        )

    def _of_others(self, table: str, column: str) -> Any:
        """Return a column of the subjects that are not affected."""
        if (table, column) not in self._columns:
            found = self.earlier.rows(table)
            cells = _column(found, column)
            if found is not None and cells is not None:
                parts = [cells.slice(start, end - start) for start, end in _others(found.subjects, self.affected)]
                cells = pa.chunked_array([chunk for part in parts for chunk in part.chunks], cells.type)
            self._columns[table, column] = cells
        return self._columns[table, column]

    def _own(self, table: str, column: str) -> list[Any]:
        """Return a column of the affected subjects, before and now."""
        was = _column(self.earlier.of(table, self.affected), column)
        now = read_bucket(self.plan.affected_folder(table), self.shard, [column])
        current = () if now is None or column not in now.schema.names else (now.column(column),)
        return [*current] if was is None else [was, *current]

    def finish(self, finishing: Finishing, folder: Path) -> dict[str, Any]:
        """Write the shard; return the counts of affected subjects. Fills ``changed``."""
        buckets = {name: self.plan.affected_folder(name) for name in finishing.buckets}
        return asdict(replace(finishing, buckets=buckets).finish(self.shard, folder, self._put))

    def _put(self, folder: Path, name: str, own: FinishedRows | None) -> ShardTable | None:
        """Reuse a table's file if no stored row differs, else write the affected subjects among the others."""
        was = self.earlier.of(name, self.affected)
        differ = _differ(was, own)
        self.changed.append(differ)
        found = self.earlier.rows(name)
        if len(differ):
            earlier = self.earlier.files.table(name)
            return put_away(folder, name, _together(own, found, self.affected), earlier=earlier)
        if found is None:
            return None
        blocks, moved = self.earlier.files.blocks(name), found.moved.copy()
        open_earlier(self.plan).link_table(self.shard, blocks.file.name, self.plan.store)
        if own is not None:
            moved[np.isin(found.subjects, self.affected)] = own.moved
        return ShardTable(blocks, moved)

    def counted(self, counts: Mapping[str, Any], before: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
        """Return the counts of the shard: those of the ``before`` one, with new ``counts`` for the affected subjects.

        Rows that share a key all belong to affected subjects.
        """
        gone = {name: self.earlier.of(name, self.affected) for name in self.plan.spec.tables}
        lost = {name: _count(found) for name, found in gone.items() if found is not None}
        result = dict(counts)
        for place, kind in enumerate(_COUNTS):
            was = {name: each[place] for name, each in lost.items()}
            result[kind] = _exchanged(before[kind], was, counts[kind])
        result["orphans"] = {}
        for name in {*before["orphans"], *counts["orphans"]}:
            was = self._orphans(name, gone, read)
            now = counts["orphans"].get(name, {})
            result["orphans"][name] = _exchanged(before["orphans"].get(name, {}), was, now)
        return result

    def _orphans(self, name: str, gone: Mapping[str, FinishedRows | None], read: Collection[str]) -> dict[str, int]:
        found, tables = gone[name], self.plan.spec.tables
        if found is None:
            return {}

        def named(column: str, other: str) -> int:
            keys = _column(gone[other], tables[other].key[0])
            if keys is None:
                return 0
            return pc.sum(pc.is_in(found.rows.column(column), keys, skip_nulls=True)).as_py() or 0

        return orphans(tables[name], found.rows, named, read)


def _together(own: FinishedRows | None, found: FinishedRows | None, affected: Integers) -> FinishedRows | None:
    """Return the rows of all subjects, sorted: ``own`` ones of the ``affected``, those ``found`` of the others."""
    if found is None:
        return own
    pieces = [(found, start, end) for start, end in _others(found.subjects, affected)]
    if own is not None:
        starts, ends = (own.subjects.searchsorted(affected, side=side) for side in ("left", "right"))
        come = [(own, start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        pieces = [piece for pair in zip(pieces, [*come, (own, 0, 0)], strict=True) for piece in pair]
    pieces = [(rows, start, end) for rows, start, end in pieces if end > start]
    if not pieces:
        return None
    if len(pieces) == 1:  # copied: what is written of a slice may end in bytes of the rows behind it
        rows, start, end = pieces[0]
        copied = _as_table(rows).take(pa.array(np.arange(start, end)))
        return FinishedRows(rows.subjects[start:end], one_batch(copied), rows.moved[start:end])
    parts = [_as_table(rows).slice(start, end - start) for rows, start, end in pieces]
    subjects = np.concatenate([rows.subjects[start:end] for rows, start, end in pieces])
    moved = np.concatenate([rows.moved[start:end] for rows, start, end in pieces])
    return FinishedRows(subjects, one_batch(pa.concat_tables(parts)), moved)


def _others(subjects: Integers, affected: Integers) -> list[tuple[int, int]]:
    """Return where the rows before, between and after those of the affected subjects begin and end."""
    starts, ends = (subjects.searchsorted(affected, side=side).tolist() for side in ("left", "right"))
    return list(zip([0, *ends], [*starts, len(subjects)], strict=True))


def _as_table(rows: FinishedRows) -> pa.Table:
    return rows.rows if isinstance(rows.rows, pa.Table) else pa.Table.from_batches([rows.rows])


def _differ(was: FinishedRows | None, now: FinishedRows | None) -> Integers:
    """Return the subjects with a changed stored cell; dictionaries are the same."""
    if was is None or now is None:
        either = was or now
        return np.unique(either.subjects) if either is not None else NOBODY
    if was.rows.schema != now.rows.schema:
        return np.union1d(was.subjects, now.subjects)
    return differing_subjects(was.subjects, was.rows, now.subjects, now.rows, now.rows.schema.names)


def _column(found: FinishedRows | None, name: str) -> Any:
    return None if found is None or name not in found.rows.schema.names else found.rows.column(name)


def _meet(cells: Any, few: list[Any]) -> bool:
    """Whether a cell is among a few others."""
    if cells is None or not few:
        return False
    wanted = pc.drop_null(pc.unique(pa.concat_arrays([each.cast(cells.type) for each in few])))
    return bool(len(wanted)) and bool(pc.any(pc.is_in(cells, wanted)).as_py())


def _count(found: FinishedRows) -> tuple[int, int]:
    never = int(np.count_nonzero(microseconds(found.rows.column(AVAILABLE)) == NEVER_TIME))
    return found.rows.num_rows, never


def _exchanged(counts: Mapping[str, int], gone: Mapping[str, int], come: Mapping[str, int]) -> dict[str, int]:
    whole = Counter(counts)
    whole.subtract(gone)
    whole.update(come)
    return {name: count for name, count in whole.items() if count}


# A shard of a newer release: reused whole, merged, or made again.


def renew_shard(
    plan: Plan,
    shard: int,
    *,
    medians: Mapping[str, Medians],
    reuse: Reuse,
    every_subject: bool,
    report: Reporter = silent,
) -> None:
    """Make a shard of a newer release and reuse as much of the earlier one as possible, unless this was done before."""
    if plan.noted(f"shard-{shard:05d}") is not None:
        return
    earlier, folder = open_earlier(plan), new_folder(plan, shard)
    earlier_shard = earlier.shard(shard)
    derived = made_of_buckets(plan, reuse)
    compared = [name for name in reuse.read if name not in derived]
    found = None if every_subject else affected_subjects(plan, shard, earlier_shard, compared)
    if found is None:
        note = _whole(plan, shard, earlier_shard, shared_finishing(plan, medians), reuse)
    elif len(found.subjects):
        merge = ShardMerge(plan=plan, shard=shard, earlier=earlier_shard, found=found)
        note = _merged(plan, merge, shared_finishing(plan, medians), reuse)
    else:
        earlier.link_shard(shard, plan.store)
        note = {**earlier.origin.shards[shard], "changed": [], "reused": True}
    plan.note(f"shard-{shard:05d}", {**note, "files": file_hashes(folder)})
    report(Progress(label="renew shards", done=shard + 1, total=plan.shards, unit="shards"))


def _whole(plan: Plan, shard: int, earlier: EarlierShard, finishing: Finishing, reuse: Reuse) -> dict[str, Any]:
    """Process all rows of a shard; tables that were not read again have the rows as first read."""
    changed: list[Integers] = [NOBODY]

    def put(folder: Path, name: str, own: FinishedRows | None) -> ShardTable | None:
        changed.append(_changed(plan, earlier.rows(name), own, plan.spec.tables[name], finishing.labels.dictionaries))
        return put_away(folder, name, own)

    for name in reuse.tables:
        write_bucket(plan.bucket_folder(name), shard, earlier.as_read(name))
    derived = {}
    for name in made_of_buckets(plan, reuse):
        rows = rows_of(plan, name, read_bucket(plan.bucket_folder(source_of(plan, name)), shard))
        write_bucket(plan.bucket_folder(name), shard, rows)
        derived[name] = count_change(plan, name, earlier, None, rows)
    counts = asdict(finishing.finish(shard, shard_folder(plan.store, shard), put))
    return {**counts, "changed": np.unique(np.concatenate(changed)).tolist(), "derived": derived}


def _merged(plan: Plan, merge: ShardMerge, finishing: Finishing, reuse: Reuse) -> dict[str, Any]:
    """Process the affected subjects and reuse the others; all rows if one part refers to the other."""
    derived = {}
    merge.write_buckets(reuse.read)
    for name in made_of_buckets(plan, reuse):
        rows = rows_of(plan, name, merge.own_part(source_of(plan, name)))
        write_bucket(plan.affected_folder(name), merge.shard, rows)
        derived[name] = count_change(plan, name, merge.earlier, merge.affected, rows)
    if merge.crosses():
        return _whole(plan, merge.shard, merge.earlier, finishing, reuse)
    counts = merge.finish(finishing, shard_folder(plan.store, merge.shard))
    whole = merge.counted(counts, open_earlier(plan).origin.shards[merge.shard], finishing.buckets)
    return {**whole, "changed": np.unique(np.concatenate(merge.changed)).tolist(), "derived": derived}


def _changed(
    plan: Plan, old: FinishedRows | None, new: FinishedRows | None, table: TableSpec, words: Dictionaries
) -> Integers:
    """Return the subjects with a changed stored row, clock or label."""
    if old is None or new is None:
        return np.concatenate([NOBODY, *(np.unique(part.subjects) for part in (old, new) if part is not None)])
    old_words = open_earlier(plan).dictionaries(join.table for join in table.dictionaries)
    before, after = with_labels(table, one_batch(old.rows), old_words), with_labels(table, new.rows, words)
    if before.schema != after.schema:
        return np.union1d(old.subjects, new.subjects)
    return differing_subjects(old.subjects, before, new.subjects, after, before.schema.names)
