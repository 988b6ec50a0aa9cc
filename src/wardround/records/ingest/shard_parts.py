"""The last parts of an ingest: each bucket of every table becomes a shard, or is taken from an earlier store."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.core import Progress, Reporter, content_hash, silent
from wardround.records.ingest.differences import NOBODY, differing_subjects
from wardround.records.ingest.earlier import EarlierShard, EarlierStore, open_earlier, write_bucket
from wardround.records.ingest.finalise import Finishing
from wardround.records.ingest.joins import DictionaryIndex, GroupLabels, with_labels
from wardround.records.ingest.lineage import Taking
from wardround.records.ingest.plan import Medians, Plan, as_json
from wardround.records.ingest.splicing import Splice
from wardround.records.ingest.touched import touched_subjects
from wardround.records.shards.layout import INDEX, ORIGIN, shard_folder
from wardround.records.shards.shard_file import Shard, read_dictionary

Integers = npt.NDArray[np.int64]


def finish_shard(plan: Plan, shard: int, *, medians: Mapping[str, Medians], report: Reporter = silent) -> None:
    """Turn one bucket of every table into a shard, unless that was done."""
    if plan.noted(f"shard-{shard:05d}") is not None:
        return
    folder = _new_folder(plan, shard)
    counts = _finishing(plan, medians).finish(shard, folder)
    plan.note(f"shard-{shard:05d}", as_json(counts) | {"files": _file_hashes(folder)})
    report(Progress(label="finish shards", done=shard + 1, total=plan.shards, unit="shards"))


def renew_shard(
    plan: Plan,
    shard: int,
    *,
    medians: Mapping[str, Medians],
    taking: Taking,
    every_subject: bool,
    report: Reporter = silent,
) -> None:
    """Make a shard of a newer release, of as much of the earlier store's as may be taken, unless that was done."""
    if plan.noted(f"shard-{shard:05d}") is not None:
        return
    earlier, folder = open_earlier(plan), _new_folder(plan, shard)
    held = earlier.shard(shard)
    touched = NOBODY if every_subject else touched_subjects(plan, shard, held, taking.read)
    if len(touched) or every_subject:
        finishing = _finishing(plan, medians)
        if len(touched):
            counts = _spliced(plan, Splice(plan=plan, shard=shard, held=held, touched=touched), finishing, taking)
        else:
            counts = _whole(plan, shard, held, finishing, taking)
        note: dict[str, Any] = {**counts, "files": _file_hashes(folder)}
        note["changed"] = _changed(earlier, held, finishing, Shard(folder, dict(note["files"])[INDEX])).tolist()
    else:
        earlier.link_shard(shard, plan.store)
        note = {**earlier.origin.shards[shard], "changed": [], "taken": True}
    plan.note(f"shard-{shard:05d}", note)
    report(Progress(label="renew shards", done=shard + 1, total=plan.shards, unit="shards"))


def _whole(plan: Plan, shard: int, held: EarlierShard, finishing: Finishing, taking: Taking) -> dict[str, Any]:
    """Finish all rows of a shard, those of tables that were not read as they were once read."""
    for name in taking.tables:
        write_bucket(plan.bucket_folder(name), shard, held.as_read(name))
    counts: dict[str, Any] = as_json(finishing.finish(shard, shard_folder(plan.store, shard)))
    return counts


def _spliced(plan: Plan, splice: Splice, finishing: Finishing, taking: Taking) -> dict[str, Any]:
    """Finish the rows of who is touched, beside everybody else's; where one part names the other, all rows."""
    splice.write_buckets(taking.read)
    if splice.crosses():
        return _whole(plan, splice.shard, splice.held, finishing, taking)
    counts = splice.finish(finishing, shard_folder(plan.store, splice.shard))
    return splice.counted(counts, open_earlier(plan).origin.shards[splice.shard], finishing.buckets)


def _changed(earlier: EarlierStore, held: EarlierShard, finishing: Finishing, made: Shard) -> Integers:
    """Return the subjects of whom a stored row, a clock or a label is not as it was."""
    words = earlier.dictionaries(
        {join.table for table in finishing.spec.tables.values() for join in table.dictionaries}
    )
    found = [NOBODY]
    for name, table in finishing.spec.tables.items():
        old, part = held.rows(name), made.table(name)
        if old is None or part is None:
            found += [np.unique(one.subjects) for one in (old, part) if one is not None]
            continue
        subjects, rows = part.whole()
        before, after = with_labels(table, old.rows, words), with_labels(table, rows, finishing.dictionaries)
        if before.schema != after.schema:
            found += [np.union1d(old.subjects, subjects)]
            continue
        found.append(differing_subjects(old.subjects, before, subjects, after, before.schema.names))
    return np.unique(np.concatenate(found))


def _new_folder(plan: Plan, shard: int) -> Path:
    """Make a shard's folder from the start. Files that are taken have two names: nothing is written over."""
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
        indexes = {
            name: DictionaryIndex(table, plan.spec.dictionaries[name].key) for name, table in dictionaries.items()
        }
        _FINISHING.clear()
        _FINISHING[key] = Finishing(
            spec=plan.spec,
            quarantine=plan.store / "quarantine",
            orders=plan.store / ORIGIN,
            buckets={name: plan.bucket_folder(name) for name in plan.spec.tables if plan.has_rows(name)},
            settings=plan.clock_settings(medians),
            dictionaries=dictionaries,
            indexes=indexes,
            groups=GroupLabels(plan.settings.user_codes),
        )
    return _FINISHING[key]


def forget_shared() -> None:
    """Let go of what shards shared."""
    _FINISHING.clear()


def _file_hashes(folder: Path) -> list[list[str]]:
    return [[path.name, content_hash(path.read_bytes())] for path in sorted(folder.iterdir())]
