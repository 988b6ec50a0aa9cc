"""The last parts of an ingest: each bucket of every table becomes a shard, or is taken from an earlier store."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import Progress, Reporter, content_hash, silent
from wardround.records.ingest.buckets import read_bucket
from wardround.records.ingest.differences import NOBODY, differing_subjects
from wardround.records.ingest.earlier import EarlierStore, open_earlier, subjects_of, write_bucket
from wardround.records.ingest.finalise import Finishing
from wardround.records.ingest.joins import DictionaryIndex, GroupLabels, with_labels
from wardround.records.ingest.lineage import Taking
from wardround.records.ingest.plan import Medians, Plan, as_json
from wardround.records.ingest.shard_rows import clashing_rows
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
    """Make a shard of a newer release: what nobody's rows differ in is taken whole from the earlier store."""
    if plan.noted(f"shard-{shard:05d}") is not None:
        return
    earlier, folder = open_earlier(plan), _new_folder(plan, shard)
    if every_subject or len(touched_subjects(plan, shard, taking)):
        for name in taking.tables:
            write_bucket(plan.bucket_folder(name), shard, earlier.read_rows(shard, name))
        finishing = _finishing(plan, medians)
        note: dict[str, Any] = as_json(finishing.finish(shard, folder)) | {"files": _file_hashes(folder)}
        note["changed"] = _changed(earlier, finishing, shard, Shard(folder, dict(note["files"])[INDEX])).tolist()
    else:
        earlier.link_shard(shard, plan.store)
        note = {**earlier.origin.shards[shard], "changed": [], "taken": True}
    plan.note(f"shard-{shard:05d}", note)
    report(Progress(label="renew shards", done=shard + 1, total=plan.shards, unit="shards"))


def touched_subjects(plan: Plan, shard: int, taking: Taking) -> Integers:
    """Return the subjects of a shard of whom some table that was read says other than the earlier release's."""
    found = [_touched(plan, shard, name) for name in taking.read]
    return np.unique(np.concatenate([NOBODY, *found]))


def _touched(plan: Plan, shard: int, name: str) -> Integers:
    table = plan.spec.tables[name]
    old, new = open_earlier(plan).read_rows(shard, name), read_bucket(plan.bucket_folder(name), shard)
    if old is None or new is None:
        return np.concatenate([NOBODY, *(np.unique(subjects_of(table, one)) for one in (old, new) if one is not None)])
    new = new.take(pa.array(np.argsort(subjects_of(table, new), kind="stable")))
    columns = plan.noted(f"table-{name}")["columns"]
    differing = differing_subjects(subjects_of(table, old), old, subjects_of(table, new), new, columns)
    return np.union1d(differing, subjects_of(table, new)[clashing_rows(table, new)])


def _changed(earlier: EarlierStore, finishing: Finishing, shard: int, made: Shard) -> Integers:
    """Return the subjects of whom a stored row, a clock or a label is not as it was."""
    words = earlier.dictionaries(
        {join.table for table in finishing.spec.tables.values() for join in table.dictionaries}
    )
    found = [NOBODY]
    for name, table in finishing.spec.tables.items():
        old, part = earlier.rows(shard, name), made.table(name)
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
