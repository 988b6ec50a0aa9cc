"""What a newer release has unchanged, and so is taken from the store of the earlier one; and why the rest is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wardround.core import Reporter, silent
from wardround.records.ingest.changes import note_lineage
from wardround.records.ingest.earlier import EarlierStore, open_earlier, write_bucket
from wardround.records.ingest.lineage import Taking
from wardround.records.ingest.marks import RAW, mark_files
from wardround.records.ingest.plan import Medians, Plan
from wardround.records.reading.subject_keys import read_keys, write_keys
from wardround.records.shards.checksums import map_checked
from wardround.records.shards.layout import SUBJECT_KEYS, SUBJECTS, dictionary_file


def is_same_release(plan: Plan, tables: Sequence[str], report: Reporter = silent) -> bool:
    """Whether every file is as it was, byte for byte; ``tables`` are those that have any, or are derived."""
    marks = open_earlier(plan).origin.marks
    names = [RAW] if plan.files.raw else [*tables, *plan.files.dictionaries]
    if not plan.files.raw and set(names) != set(marks):
        return False
    return [mark_files(plan, name, report) for name in names] == [marks.get(name) for name in names]


def take_everything(plan: Plan, report: Reporter = silent) -> dict[str, Any]:
    """Take a whole store whose files are all as they were; return its manifest."""
    earlier = open_earlier(plan)
    earlier.link_all(plan.store, report)
    subjects = np.load(plan.store / SUBJECTS, allow_pickle=False)
    taking = Taking(tables=tuple(earlier.manifest["tables"]), dictionaries=(), read={})
    made_from = note_lineage(plan, subjects, (), taking=taking, shards=plan.shards, why_every_subject=None)
    held = {name: part for name, part in earlier.manifest.items() if name not in ("version", "files")}
    names = {"unknown_files": list(plan.files.unknown), "empty_files": list(plan.files.empty)}
    return {**held, **(names if plan.spec.flatten is None else {}), "plan": plan.digest, "made_from": made_from}


def what_to_take(plan: Plan, tables: Sequence[str], report: Reporter = silent) -> Taking:
    """Decide it from the fingerprints alone, so that whoever asks again is told the same."""
    earlier = open_earlier(plan)
    for name in (*tables, *plan.files.dictionaries):
        mark_files(plan, name, report)
    reasons = {name: _why_read(plan, earlier, name) for name in tables}
    held = earlier.manifest["dictionaries"]
    return Taking(
        tables=tuple(name for name, why in reasons.items() if why is None),
        dictionaries=tuple(
            name for name in plan.files.dictionaries if name in held and _has_same_files(plan, earlier, name)
        ),
        read={name: why for name, why in reasons.items() if why is not None},
    )


def _has_same_files(plan: Plan, earlier: EarlierStore, name: str) -> bool:
    return mark_files(plan, name) == earlier.origin.marks.get(name)


def _why_read(plan: Plan, earlier: EarlierStore, name: str) -> str | None:
    table = plan.spec.tables[name]
    held = earlier.manifest["tables"].get(name)
    if held is None:
        return "new"
    if not _has_same_files(plan, earlier, name):
        return "changed"
    if held["repeated_rows"] or "another row has the same key and other content" in held["quarantine_reasons"]:
        return "rows of one key stand in it"
    parent = None if table.subject_from is None else table.subject_from[1]
    if parent is not None and _why_read(plan, earlier, parent) is not None:
        return f"its subjects are those of {parent}"
    return None


def take_table(plan: Plan, name: str) -> None:
    """Take what was counted and set aside of a table; its rows are taken shard by shard."""
    if plan.noted(f"table-{name}") is not None:
        return
    earlier = open_earlier(plan)
    earlier.link(f"quarantine/{name}.jsonl", plan.store)
    if plan.spec.tables[name].has_text_subject:
        keys = read_keys(map_checked(earlier.path / SUBJECT_KEYS, earlier.manifest["files"][SUBJECT_KEYS]))
        own = earlier.subjects(name)
        write_keys(plan.keys_file(name), {subject: keys[subject] for subject in own})
    plan.note(f"table-{name}", earlier.origin.tables[name])


def lend_parent(plan: Plan, name: str, report: Reporter = silent) -> None:
    """Have a taken table's rows in buckets, where those of a table that is read look up whose they are."""
    for shard in range(plan.shards):
        write_bucket(plan.bucket_folder(name), shard, open_earlier(plan).shard(shard).as_read(name))


def take_dictionary(plan: Plan, name: str) -> None:
    """Take a dictionary as it is."""
    earlier = open_earlier(plan)
    earlier.link(dictionary_file(name), plan.store)
    earlier.link(f"quarantine/{name}.jsonl", plan.store)
    plan.note(f"dictionary-{name}", earlier.manifest["dictionaries"][name])


def why_every_subject(plan: Plan, tables: Sequence[str], medians: Mapping[str, Medians]) -> str | None:
    """Say what of the whole source changed, so that every subject's rows are finished anew; None: nothing."""
    earlier = open_earlier(plan)
    old = earlier.manifest
    gone = sorted(set(old["tables"]).symmetric_difference(tables))
    if gone:
        return f"tables that are new or gone: {', '.join(gone)}"
    columns = [name for name in tables if plan.noted(f"table-{name}")["columns"] != old["tables"][name]["columns"]]
    if columns:
        return f"columns that are new or gone: {', '.join(columns)}"
    moved = _differing(old["median_delay_seconds"], {name: list(halves) for name, halves in medians.items()})
    if moved:
        return f"median delays that moved: {', '.join(moved)}"
    joined = {join.table for table in plan.spec.tables.values() for join in table.dictionaries}
    words = _differing(
        {name: held["sha256"] for name, held in old["dictionaries"].items() if name in joined},
        {name: plan.noted(f"dictionary-{name}")["sha256"] for name in plan.files.dictionaries if name in joined},
    )
    return f"dictionaries that changed: {', '.join(words)}" if words else None


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names: Iterable[str] = {*old, *new}
    return sorted(name for name in names if old.get(name) != new.get(name) or (name in old) != (name in new))
