"""The last parts of an ingest: each bucket of every table becomes a shard, or is reused from an earlier store."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.core import Progress, Reporter, content_hash, silent
from wardround.records.ingest.bucket_files import read_bucket
from wardround.records.ingest.derived import count_change, made_of_buckets, rows_of, source_of
from wardround.records.ingest.finalise import FinishedRows, Finishing, ShardTable, put_away
from wardround.records.ingest.joins import CodeLabels, Dictionaries, with_labels
from wardround.records.ingest.lineage import Reuse
from wardround.records.ingest.plan import Medians, Plan
from wardround.records.ingest.reuse import EarlierShard, open_earlier, write_bucket
from wardround.records.ingest.shard_merge import NOBODY, ShardMerge, affected_subjects, differing_subjects
from wardround.records.shards.layout import ORIGIN, shard_folder
from wardround.records.shards.shard_file import read_dictionary
from wardround.records.specs.spec import TableSpec, one_batch

Integers = npt.NDArray[np.int64]


def finish_shard(plan: Plan, shard: int, *, medians: Mapping[str, Medians], report: Reporter = silent) -> None:
    """Turn one bucket of every table into a shard, unless this was done before."""
    if plan.noted(f"shard-{shard:05d}") is not None:
        return
    folder = _new_folder(plan, shard)
    counts = _finishing(plan, medians).finish(shard, folder)
    plan.note(f"shard-{shard:05d}", asdict(counts) | {"files": _file_hashes(folder)})
    report(Progress(label="finish shards", done=shard + 1, total=plan.shards, unit="shards"))


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
    earlier, folder = open_earlier(plan), _new_folder(plan, shard)
    earlier_shard = earlier.shard(shard)
    derived = made_of_buckets(plan, reuse)
    compared = [name for name in reuse.read if name not in derived]
    found = None if every_subject else affected_subjects(plan, shard, earlier_shard, compared)
    if found is None:
        note = _whole(plan, shard, earlier_shard, _finishing(plan, medians), reuse)
    elif len(found.subjects):
        merge = ShardMerge(plan=plan, shard=shard, earlier=earlier_shard, found=found)
        note = _merged(plan, merge, _finishing(plan, medians), reuse)
    else:
        earlier.link_shard(shard, plan.store)
        note = {**earlier.origin.shards[shard], "changed": [], "reused": True}
    plan.note(f"shard-{shard:05d}", {**note, "files": _file_hashes(folder)})
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


def _new_folder(plan: Plan, shard: int) -> Path:
    """Make a shard's folder from the start. Reused files have two names, so nothing is overwritten."""
    folder = shard_folder(plan.store, shard)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


_FINISHING: dict[tuple[Path, str], Finishing] = {}


def _finishing(plan: Plan, medians: Mapping[str, Medians]) -> Finishing:
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


def _file_hashes(folder: Path) -> list[list[str]]:
    return [[path.name, content_hash(path.read_bytes())] for path in sorted(folder.iterdir())]
