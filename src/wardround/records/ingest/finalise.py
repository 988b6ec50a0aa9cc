"""Finish one shard: the rows of every table with clocks, row ids and labels, by subject and time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import Progress, Reporter, content_hash, silent
from wardround.records.ingest.clocks import ClockSettings, ShardClocks, TableFrame
from wardround.records.ingest.joins import CodeLabels, orphans
from wardround.records.ingest.plan import Medians, Plan
from wardround.records.ingest.shard_rows import ShardRows, row_order, version_clocks
from wardround.records.rules.language import NO_TIME, Column, Rule, Times, evaluate
from wardround.records.shards.layout import (
    AVAILABLE,
    EVENT,
    GROUP,
    INDEX,
    LATE,
    NEVER_TIME,
    ORIGIN,
    PENDING,
    PUBLISHED,
    UNTIL,
    VERSION,
    shard_folder,
)
from wardround.records.shards.row_ids import (
    Disclosure,
    fingerprints,
    identify,
    local_words,
    make_row_ids,
    numbered_words,
    row_numbers,
)
from wardround.records.shards.shard_file import (
    TableBlocks,
    TableShard,
    moved_rows,
    read_dictionary,
    write_orders,
    write_table,
)
from wardround.records.specs.spec import (
    OWN_SUBJECT,
    WRITTEN,
    PendingRows,
    SourceSpec,
    TableSpec,
    integers,
    late_rules,
    microseconds,
    timestamps,
)


@dataclass(slots=True, kw_only=True)
class ShardCounts:
    """Counts of one shard, by table."""

    rows: dict[str, int] = field(default_factory=dict)
    never_visible: dict[str, int] = field(default_factory=dict)
    repeated_rows: dict[str, int] = field(default_factory=dict)
    conflicting_rows: dict[str, int] = field(default_factory=dict)
    orphans: dict[str, dict[str, int]] = field(default_factory=dict)
    subjects: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FinishedRows:
    """A table's rows as stored. ``subjects`` is sorted; ``moved``: by how many places each row moved from its place in
    the file. ``rows``: of an earlier store a table, else a batch."""

    subjects: npt.NDArray[np.int64]
    rows: Any
    moved: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardTable:
    """A written table of a shard; ``moved``: by how many places each row moved."""

    blocks: TableBlocks
    moved: npt.NDArray[np.int64]


PutAway = Callable[[Path, str, FinishedRows | None], ShardTable | None]
"""(shard's folder, table, its rows if it has any): how the rows of a table come into a shard."""


def put_away(
    folder: Path, table: str, own: FinishedRows | None, *, earlier: TableShard | None = None
) -> ShardTable | None:
    """Write a table's finished rows; ``earlier`` as for :func:`write_table`."""
    if own is None:
        return None
    return ShardTable(write_table(folder, table, own.rows, own.subjects, earlier=earlier), own.moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finishing:
    """What all shards of an ingest share: spec, paths and settings."""

    spec: SourceSpec
    buckets: Mapping[str, Path]
    quarantine: Path
    orders: Path
    """Where the file orders of shards go."""
    settings: ClockSettings
    labels: CodeLabels

    def finish(self, shard: int, folder: Path, put: PutAway = put_away) -> ShardCounts:
        """Write every table of a shard into ``folder``, then its index. The counts are of rows finished here; the
        subjects are all that the folder then has."""
        rows = ShardRows(
            spec=self.spec, buckets=self.buckets, shard=shard, quarantine=self.quarantine, settings=self.settings
        )
        clocks = ShardClocks(spec=self.spec, settings=self.settings, load=rows.load)
        counts = ShardCounts()
        stored: dict[str, ShardTable] = {}
        for name in self.spec.tables:
            batch = rows.load(name)  # only one table is in memory at a time
            found = rows.counts(name)
            counts.repeated_rows[name], counts.conflicting_rows[name] = found.repeated, len(found.conflicting)
            own = None if batch is None else self._finish_table(self.spec.tables[name], batch, clocks, counts)
            table = put(folder, name, own)
            if table is not None:
                stored[name] = table
        subjects = [table.blocks.index.column("subject_id").to_numpy() for table in stored.values()]
        counts.subjects = np.unique(np.concatenate(subjects)).tolist() if subjects else []
        _write_index(folder, {name: table.blocks for name, table in stored.items()})
        write_orders(self.orders / f"{shard:05d}.arrow", {name: table.moved for name, table in stored.items()})
        return counts

    def _finish_table(
        self, table: TableSpec, batch: pa.RecordBatch, clocks: ShardClocks, counts: ShardCounts
    ) -> FinishedRows:
        if table.derive is not None:
            batch = _first_of_each_key(table, batch)
        frame = clocks.frame(table, batch)
        dated = _dated(frame)
        times = dated.times
        counts.orphans[table.name] = orphans(table, batch, frame.named, self.buckets)
        identity = identify(table, batch, times[AVAILABLE], disclosures(table, batch, times))
        counts.rows[table.name] = batch.num_rows
        counts.never_visible[table.name] = int(np.count_nonzero(times[AVAILABLE] == NEVER_TIME))
        subjects = integers(batch.column(table.subject_column), null=0)
        order = row_order(subjects, times[EVENT], identity.ties(table, batch))
        batch, dated = batch.take(pa.array(order)), dated.of(order)
        whole = self.labels.joined(table, dated.stored(batch, make_row_ids(table, batch, identity.of(order))))
        return FinishedRows(subjects[order], whole, moved_rows(subjects[order], order))


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedRows:
    """The clocks of a table's rows, and the numbers of versions and of groups that are shown as one row."""

    times: Mapping[str, Times]
    numbers: Mapping[str, npt.NDArray[np.int64]]

    def of(self, places: npt.NDArray[np.int64]) -> DatedRows:
        """Return the rows at some places."""
        times = {name: values[places] for name, values in self.times.items()}
        return DatedRows(times=times, numbers={name: values[places] for name, values in self.numbers.items()})

    def stored(self, batch: pa.RecordBatch, ids: Any) -> pa.RecordBatch:
        """Return rows as they are stored: with row ids, in stored order."""
        columns: dict[str, Any] = {"row_id": ids}
        columns.update(zip(batch.schema.names, batch.columns, strict=True))
        columns.pop(OWN_SUBJECT, None)
        columns.pop(WRITTEN, None)
        columns.update({name: timestamps(values) for name, values in self.times.items()})
        columns.update({name: pa.array(values) for name, values in self.numbers.items()})
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def dated_rows(table: TableSpec, batch: pa.RecordBatch, clocks: ShardClocks) -> DatedRows:
    """Evaluate all rules of a table: when its rows and their late cells are known."""
    return _dated(clocks.frame(table, batch))


def _dated(frame: TableFrame) -> DatedRows:
    table, batch = frame.table, frame.batch
    times = table_clocks(frame)
    numbers = _versions(table, batch, times)
    return DatedRows(times=times, numbers={**_groups(table, batch, times), **numbers})


def table_clocks(frame: TableFrame) -> dict[str, Times]:
    """Return the clock columns of a table's rows."""
    table, batch = frame.table, frame.batch

    def never_null(rule: Rule) -> Times:
        times = evaluate(rule, frame)
        return np.where(times == NO_TIME, NEVER_TIME, times)

    available = never_null(table.available_at)
    event = evaluate(table.event_time, frame)
    clock = {EVENT: np.where(event == NO_TIME, available, event), AVAILABLE: available}
    if table.published.time is not None:
        clock[PUBLISHED] = never_null(table.published.time)
    if table.pending is not None:
        clock[PENDING] = np.where(_is_reflex(table.pending, batch), NEVER_TIME, never_null(table.pending.at))
    for rule, names in late_rules(table, batch.schema.names).items():
        if not isinstance(rule, Column):
            clock[f"{LATE}{names[0]}"] = never_null(rule)
    return clock


def disclosures(table: TableSpec, batch: pa.RecordBatch, times: Mapping[str, Times]) -> list[Disclosure]:
    """Return the shown columns that are not part of row ids, and since when they are known."""
    present = [name for name in batch.schema.names if name in table.columns and name not in table.hidden]
    at_once = [name for name in present if name not in {*table.content_columns, *table.late}]
    found = [Disclosure(times=times[AVAILABLE], columns=at_once)] if at_once else []
    for rule, names in late_rules(table, batch.schema.names).items():
        columns = [name for name in names if name in present]
        if columns:  # a time column that is its own clock has no separate clock column
            since = _times(batch, rule.name) if isinstance(rule, Column) else times[f"{LATE}{names[0]}"]
            found.append(Disclosure(times=since, columns=columns))
    return found


def _times(batch: pa.RecordBatch, column: str) -> Times:
    """Return a column of times; null throughout if there is no such column."""
    if column in batch.schema.names:
        return microseconds(batch.column(column))
    return np.full(batch.num_rows, NO_TIME, dtype=np.int64)


def _versions(table: TableSpec, batch: pa.RecordBatch, times: dict[str, Times]) -> dict[str, npt.NDArray[np.int64]]:
    """Add the third clock of rows that may be amended to ``times``; return the version number of each row."""
    if table.amended is None:
        return {}
    found = version_clocks(table, batch, times[AVAILABLE])
    times[AVAILABLE], times[UNTIL] = found.available, found.until
    return {VERSION: found.number}


def _is_reflex(pending: PendingRows, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which rows are tests that are done only because of a result; they are never shown before it."""
    mask = np.zeros(batch.num_rows, dtype=bool)
    if pending.reflex.column in batch.schema.names:
        texts = batch.column(pending.reflex.column)
        for pattern in pending.reflex.patterns:
            found = pc.match_substring(texts, pattern, ignore_case=True).fill_null(False)
            mask |= found.to_numpy(zero_copy_only=False)
    return mask


def named_by(table: TableSpec, present: Collection[str]) -> list[tuple[str, ...]]:
    """Return the columns from which numbers in a table's row ids are made.

    A number distinguishes rows with equal cells. If none of the columns is the subject, rows of other subjects in the
    shard influence it.
    """
    found: list[tuple[str, ...]] = []
    if not table.key:
        found.append(tuple(name for name in table.content_columns if name in present))
    if table.pending is not None:
        found += [tuple(name for name in table.pending.group if name in present), _shown(table, present)]
    return found


def _shown(table: TableSpec, present: Collection[str]) -> tuple[str, ...]:
    """Return the columns that a row which stands for a group shows."""
    assert table.pending is not None
    names = (*table.pending.group, table.code or "")
    return tuple(name for name in dict.fromkeys(names) if name in present and name not in table.hidden)


def _groups(table: TableSpec, batch: pa.RecordBatch, times: Mapping[str, Times]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the number of the group that a row is shown with, if the table has such groups.

    The number becomes a row id, so it is made of columns that the group's row shows: a hash of a withheld column could
    be undone by trying all values. Groups with equal cells are numbered in the order of their orders.
    """
    if table.pending is None:
        return {}
    present = frozenset(batch.schema.names)
    names = [name for name in table.pending.group if name in present]
    salt = f"{table.name} pending"
    groups = fingerprints(batch, names, salt)
    if set(names) & table.hidden:
        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        ordered = np.full(len(first), NEVER_TIME)
        np.minimum.at(ordered, group, times[PENDING])
        shown = fingerprints(batch, _shown(table, present), salt)
        groups = numbered_words(shown[first], ordered)[group]
    return {GROUP: row_numbers(groups)}


def _first_of_each_key(table: TableSpec, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keep, for each key, the derived row that was written first.

    Several notes of one stay repeat its history; a later one must not replace what was known. Of rows of one moment the
    texts decide, not their order in the file.
    """
    words = local_words(batch, table.key)
    written = _times(batch, WRITTEN)
    written = np.where(written == NO_TIME, NEVER_TIME, written)
    texts = fingerprints(batch, [name for name in batch.schema.names if name != WRITTEN], "")
    order = np.lexsort((texts, written, words))
    fresh = np.append([True], words[order][1:] != words[order][:-1])[: len(order)]
    return batch.take(pa.array(np.sort(order[fresh])))


def _write_index(folder: Path, written: Mapping[str, TableBlocks]) -> None:
    schema = next(iter(written.values())).index.schema if written else pa.schema([])
    names = {name: blocks.file.to_json() for name, blocks in written.items()}
    unfinished = folder / f"{INDEX}.tmp"
    with pa.OSFile(str(unfinished), "wb") as target, pa.ipc.new_file(target, schema.with_metadata(names)) as stream:
        for blocks in written.values():
            stream.write_batch(blocks.index)
    unfinished.rename(folder / INDEX)


# A shard of an ingest: one bucket of every table.


def finish_shard(plan: Plan, shard: int, *, medians: Mapping[str, Medians], report: Reporter = silent) -> None:
    """Turn one bucket of every table into a shard, unless this was done before."""
    if plan.noted(f"shard-{shard:05d}") is not None:
        return
    folder = new_folder(plan, shard)
    counts = shared_finishing(plan, medians).finish(shard, folder)
    plan.note(f"shard-{shard:05d}", asdict(counts) | {"files": file_hashes(folder)})
    report(Progress(label="finish shards", done=shard + 1, total=plan.shards, unit="shards"))


def new_folder(plan: Plan, shard: int) -> Path:
    """Make a shard's folder from the start. Reused files have two names, so nothing is overwritten."""
    folder = shard_folder(plan.store, shard)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


_FINISHING: dict[tuple[Path, str], Finishing] = {}


def shared_finishing(plan: Plan, medians: Mapping[str, Medians]) -> Finishing:
    """Return what shards share, made once per process."""
    key = (plan.store, plan.digest)
    if key not in _FINISHING:
        joined = {join.table for table in plan.spec.tables.values() for join in table.dictionaries}
        dictionaries = {name: read_dictionary(plan.store, name) for name in plan.files.dictionaries if name in joined}
        _FINISHING.clear()
        _FINISHING[key] = Finishing(
            spec=plan.spec,
            quarantine=plan.store / "quarantine",
            orders=plan.store / ORIGIN,
            buckets={name: plan.bucket_folder(name) for name in plan.spec.tables if plan.has_rows(name)},
            settings=plan.clock_settings(medians),
            labels=CodeLabels.of(plan.spec, dictionaries, plan.settings.user_codes),
        )
    return _FINISHING[key]


def forget_shared() -> None:
    """Free what shards shared."""
    _FINISHING.clear()


def file_hashes(folder: Path) -> list[list[str]]:
    return [[path.name, content_hash(path.read_bytes())] for path in sorted(folder.iterdir())]
