"""Finishing one shard: every table's rows with their clocks, identities and labels, in subject and time order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.ingest.clocks import ClockSettings, ShardClocks
from wardround.records.ingest.joins import CodeLabels, orphans
from wardround.records.ingest.shard_rows import ShardRows, row_order, version_clocks
from wardround.records.rules.language import ALWAYS_TIME, NO_TIME, Column, Rule, Times
from wardround.records.shards.layout import (
    AVAILABLE,
    EVENT,
    GROUP,
    INDEX,
    LATE,
    NEVER_TIME,
    PENDING,
    PUBLISHED,
    UNTIL,
    VERSION,
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
from wardround.records.shards.shard_file import TableBlocks, moved_rows, write_orders, write_table
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
    """What one shard holds, by table."""

    rows: dict[str, int] = field(default_factory=dict)
    never_visible: dict[str, int] = field(default_factory=dict)
    repeated_rows: dict[str, int] = field(default_factory=dict)
    conflicting_rows: dict[str, int] = field(default_factory=dict)
    orphans: dict[str, dict[str, int]] = field(default_factory=dict)
    subjects: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FinishedRows:
    """A table's rows as stored: ``subjects`` sorted, and by how much each row ``moved`` from its place in the file."""

    subjects: npt.NDArray[np.int64]
    rows: pa.RecordBatch
    moved: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardTable:
    """A table of a shard as it lies on disk, and by how much each row ``moved``."""

    blocks: TableBlocks
    moved: npt.NDArray[np.int64]


PutAway = Callable[[Path, str, FinishedRows | None], ShardTable | None]
"""(shard's folder, table, its rows if it has any): how the rows of a table come into a shard."""


def put_away(folder: Path, table: str, own: FinishedRows | None) -> ShardTable | None:
    """Write a table's rows as they were finished."""
    return None if own is None else ShardTable(write_table(folder, table, own.rows, own.subjects), own.moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finishing:
    """What all shards of an ingest share."""

    spec: SourceSpec
    buckets: Mapping[str, Path]
    quarantine: Path
    orders: Path
    """Where the file orders of shards go."""
    settings: ClockSettings
    labels: CodeLabels

    def finish(self, shard: int, folder: Path, put: PutAway = put_away) -> ShardCounts:
        """Put every table of a shard into ``folder`` and its index last. Counted are the rows that were finished, the
        subjects are all that the folder has then."""
        rows = ShardRows(
            spec=self.spec, buckets=self.buckets, shard=shard, quarantine=self.quarantine, settings=self.settings
        )
        clocks = ShardClocks(spec=self.spec, settings=self.settings, load=rows.load)
        counts = ShardCounts()
        stored: dict[str, ShardTable] = {}
        for name in self.spec.tables:
            table = put(folder, name, self._own_rows(name, rows, clocks, counts))
            if table is not None:
                stored[name] = table
        subjects = [table.blocks.index.column("subject_id").to_numpy() for table in stored.values()]
        counts.subjects = np.unique(np.concatenate(subjects)).tolist() if subjects else []
        _write_index(folder, {name: table.blocks for name, table in stored.items()})
        write_orders(self.orders / f"{shard:05d}.arrow", {name: table.moved for name, table in stored.items()})
        return counts

    def _own_rows(self, name: str, rows: ShardRows, clocks: ShardClocks, counts: ShardCounts) -> FinishedRows | None:
        """Return a table's rows as stored. Nothing of a table is held when the next is loaded."""
        batch = rows.load(name)
        found = rows.counts(name)
        counts.repeated_rows[name], counts.conflicting_rows[name] = found.repeated, len(found.conflicting)
        return None if batch is None else self._finish_table(self.spec.tables[name], batch, clocks, counts)

    def _finish_table(
        self, table: TableSpec, batch: pa.RecordBatch, clocks: ShardClocks, counts: ShardCounts
    ) -> FinishedRows:
        if table.derive is not None:
            batch = _first_of_each_key(table, batch)
        dated = dated_rows(table, batch, clocks)
        times = dated.times
        counts.orphans[table.name] = orphans(table, batch, clocks.keys, self.buckets)
        identity = identify(table, batch, times[AVAILABLE], disclosures(table, batch, times))
        counts.rows[table.name] = batch.num_rows
        counts.never_visible[table.name] = int(np.count_nonzero(times[AVAILABLE] == NEVER_TIME))
        subjects = integers(batch.column(table.subject_column), null=0)
        order = row_order(subjects, times[EVENT], identity.ties(table, batch))
        whole = dated.stored(batch, make_row_ids(table, batch, identity)).take(pa.array(order))
        whole = self.labels.joined(table, whole)
        return FinishedRows(subjects[order], whole, moved_rows(subjects[order], order))


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedRows:
    """The clocks of a table's rows, and the numbers beside them: of versions, and of groups that collapse."""

    times: Mapping[str, Times]
    numbers: Mapping[str, npt.NDArray[np.int64]]

    def stored(self, batch: pa.RecordBatch, ids: Any) -> pa.RecordBatch:
        """Return rows as they are stored, under their row ids, in their own order."""
        columns: dict[str, Any] = {"row_id": ids}
        columns.update(zip(batch.schema.names, batch.columns, strict=True))
        columns.pop(OWN_SUBJECT, None)
        columns.pop(WRITTEN, None)
        columns.update({name: timestamps(values) for name, values in self.times.items()})
        columns.update({name: pa.array(values) for name, values in self.numbers.items()})
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def dated_rows(table: TableSpec, batch: pa.RecordBatch, clocks: ShardClocks) -> DatedRows:
    """Evaluate everything that the source's spec says of when a table's rows and their late cells are known."""
    times = table_clocks(table, batch, clocks)
    numbers = _versions(table, batch, times)
    return DatedRows(times=times, numbers={**_groups(table, batch, times), **numbers})


def table_clocks(table: TableSpec, batch: pa.RecordBatch, clocks: ShardClocks) -> dict[str, Times]:
    """Return the clock columns of a table's rows."""

    def never_null(rule: Rule) -> Times:
        times = clocks.evaluate(rule, table, batch)
        return np.where(times == NO_TIME, NEVER_TIME, times)

    available = never_null(table.available_at)
    event = clocks.evaluate(table.event_time, table, batch)
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
    """Return what is shown of rows besides what makes their ids, and from when on."""
    present = [name for name in batch.schema.names if name in table.columns and name not in table.hidden]
    at_once = [name for name in present if name not in {*table.content_columns, *table.late}]
    found = [Disclosure(times=times[AVAILABLE], columns=at_once)] if at_once else []
    for rule, names in late_rules(table, batch.schema.names).items():
        columns = [name for name in names if name in present]
        if columns:
            found.append(Disclosure(times=_late_clock(rule, names[0], batch, times), columns=columns))
    return found


def _late_clock(rule: Rule, first: str, batch: pa.RecordBatch, times: Mapping[str, Times]) -> Times:
    """Return since when late cells are known; a column that is its own clock has none beside it."""
    if not isinstance(rule, Column):
        return times[f"{LATE}{first}"]
    return _times(batch, rule.name)


def _times(batch: pa.RecordBatch, column: str) -> Times:
    """Return a column of times; null throughout where there is none of that name."""
    if column in batch.schema.names:
        return microseconds(batch.column(column))
    return np.full(batch.num_rows, NO_TIME, dtype=np.int64)


def _versions(table: TableSpec, batch: pa.RecordBatch, times: dict[str, Times]) -> dict[str, npt.NDArray[np.int64]]:
    """Give rows that may be amended their third clock, beside ``times``; return the number of each version."""
    if table.amended is None:
        return {}
    found = version_clocks(table, batch, times[AVAILABLE])
    times[AVAILABLE], times[UNTIL] = found.available, found.until
    return {VERSION: found.number}


def _is_reflex(pending: PendingRows, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which rows are tests that are only done because of a result: never shown before it."""
    mask = np.zeros(batch.num_rows, dtype=bool)
    if pending.reflex.column in batch.schema.names:
        texts = batch.column(pending.reflex.column)
        for pattern in pending.reflex.patterns:
            found = pc.match_substring(texts, pattern, ignore_case=True).fill_null(False)
            mask |= found.to_numpy(zero_copy_only=False)
    return mask


def named_by(table: TableSpec, present: Collection[str]) -> list[tuple[str, ...]]:
    """Return the columns of which numbers in a table's row ids are made. Numbers tell rows of equal cells apart, so
    that where no column is the subject's, whoever has the same cells in one shard has a say in them."""
    found: list[tuple[str, ...]] = []
    if not table.key:
        found.append(tuple(name for name in table.content_columns if name in present))
    if table.pending is not None:
        found += [tuple(name for name in table.pending.group if name in present), _shown(table, present)]
    return found


def _shown(table: TableSpec, present: Collection[str]) -> tuple[str, ...]:
    """What a collapsed row shows of its group."""
    assert table.pending is not None
    names = (*table.pending.group, table.code or "")
    return tuple(name for name in dict.fromkeys(names) if name in present and name not in table.hidden)


def _groups(table: TableSpec, batch: pa.RecordBatch, times: Mapping[str, Times]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the number of the group a row collapses with, where the table has such groups.

    The number becomes a row id, so it is made of what a collapsed row shows: a hash of a withheld column could be
    undone by trying all its values. Groups that look alike are numbered as they were ordered.
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
    """Keep the derived row of each key that was written first: several notes of one stay tell its history, and a later
    one may not replace what was there. Of those of one moment their texts decide, not their order in the file."""
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


__all__ = [
    "ALWAYS_TIME",
    "FinishedRows",
    "Finishing",
    "PutAway",
    "ShardCounts",
    "ShardTable",
    "named_by",
    "put_away",
    "table_clocks",
]
