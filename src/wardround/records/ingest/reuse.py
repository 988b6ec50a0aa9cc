"""Reuse an earlier store: what is unchanged, why the rest is read again, and what a store remembers."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround import __version__
from wardround.core import Progress, Reporter, UserError, content_hash, silent, write_atomically
from wardround.records.ingest.buckets import bucket_file
from wardround.records.ingest.finalise import FinishedRows
from wardround.records.ingest.plan import (
    CHANGE_WORDS,
    RAW,
    FileFingerprints,
    IngestSettings,
    Medians,
    Plan,
    Reuse,
    file_fingerprints,
)
from wardround.records.reading.source_files import read_keys, write_keys
from wardround.records.shards.layout import (
    CHANGES,
    ORIGIN_NOTES,
    SPEC_FOLDER,
    SUBJECT_KEYS,
    SUBJECTS,
    damaged,
    dictionary_file,
    file_sha256,
    map_checked,
    map_file,
    read_manifest,
    shard_folder,
)
from wardround.records.shards.shard_file import Shard, order_file, read_dictionary, read_orders, rows_in_file_order
from wardround.records.specs.spec import OWN_SUBJECT, SourceSpec, one_batch

# What a store keeps about its ingest, so that unchanged parts can be reused for a newer release.


PEOPLE_OF, SAME_PERSON = "people_of", "same_person"
"""Keys of ``metadata/dataset.json`` in our own exports: the source whose numbers the subjects have, and which of them
are one person (subject to the person's number, if that is another)."""


def people_of(folders: Sequence[Path]) -> dict[str, Any]:
    """Return what our own exports in some folders say about their people; nothing for data sets of others.

    UserError: the folders have people of several sources.
    """
    sources: dict[str, None] = {}
    same: dict[str, int] = {}
    for path in (folder / "metadata" / "dataset.json" for folder in folders):
        try:
            metadata = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError):
            continue  # another writer's: the standard asks for nothing in it
        if isinstance(metadata, dict) and isinstance(metadata.get(PEOPLE_OF), str):
            sources[metadata[PEOPLE_OF]] = None
            same |= metadata.get(SAME_PERSON) or {}
    if len(sources) > 1:
        raise UserError(f"the folders were exported from several sources ({', '.join(sources)}): make a store of each")
    return {PEOPLE_OF: next(iter(sources), None), SAME_PERSON: same}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The notes of a finished ingest. ``fingerprints``: of files, by table or dictionary, and of raw files that were
    made flat; ``tables``, ``shards``, ``flattened``: notes of these parts."""

    wardround: str
    fingerprints: Mapping[str, FileFingerprints]
    tables: Mapping[str, Any]
    shards: Sequence[Any]
    flattened: Any

    @classmethod
    def read(cls, store: Path, manifest: Mapping[str, Any]) -> Origin:
        """Return the notes of a store. RecordError: the file was changed."""
        return cls(**json.loads(bytes(map_checked(store / ORIGIN_NOTES, manifest["files"][ORIGIN_NOTES]))))


def keep_origin(plan: Plan, tables: Sequence[str]) -> None:
    """Write the notes of a finished ingest into its store."""
    named = [*tables, *plan.files.dictionaries, *([RAW] if plan.files.raw else [])]
    body = {
        "wardround": __version__,
        "fingerprints": {name: file_fingerprints(plan, name) for name in named},
        "tables": {name: plan.noted(f"table-{name}") for name in tables},
        "shards": [plan.noted(f"shard-{shard:05d}") for shard in range(plan.shards)],
        "flattened": plan.noted("flatten"),
    }
    write_atomically(plan.store / ORIGIN_NOTES, json.dumps(body), durable=False)


# The store of an earlier release: which parts can be reused, and its rows as they were read.


Integers = npt.NDArray[np.int64]
CONFLICTING = "another row has the same key and other content"
"""Why one of several rows with one key was set aside."""
_MOST_GROWTH = 2
"""At most so many times the shards of the earlier store, which limits the memory."""


def why_nothing(earlier: Path, spec: SourceSpec, settings: IngestSettings, shards: int) -> str | None:
    """Return why nothing of an earlier store can be reused; None if parts can. UserError: it is not a finished
    store."""
    manifest = read_manifest(earlier)
    if manifest["wardround"] != __version__:
        return f"it was made by wardround {manifest['wardround']}, this is {__version__}"
    if manifest["spec_sha256"] != spec.sha256:
        return "it was made with another spec"
    if content_hash(manifest["settings"]) != content_hash(settings.to_json()):
        return "it was made with other settings"
    if shards > _MOST_GROWTH * manifest["shards"] or settings.shards not in (None, manifest["shards"]):
        return f"its {manifest['shards']:,} shards are too few for so many rows, or not the requested number"
    return None


def shards_of(earlier: Path) -> int:
    """Return the number of shards of a store."""
    return int(read_manifest(earlier)["shards"])


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierShard:
    """One shard of an earlier store; a table is unpacked at its first use. ``notes``: by table, the note of its
    reading."""

    spec: SourceSpec
    notes: Mapping[str, Any]
    files: Shard
    orders: Mapping[str, Integers]
    _rows: dict[str, FinishedRows | None] = field(default_factory=dict)

    def rows(self, table: str) -> FinishedRows | None:
        """Return a table's stored rows; None if it has none."""
        if table not in self._rows:
            part = self.files.table(table)
            self._rows[table] = None if part is None else FinishedRows(*part.unpacked(), self.orders[table])
        return self._rows[table]

    def of(self, table: str, subjects: Integers) -> FinishedRows | None:
        """Return the stored rows of these subjects, sorted; None if there are none."""
        found = self.rows(table)
        spans = [] if found is None else spans_of(found.subjects, subjects)
        if found is None or not spans:
            return None
        places = np.concatenate([np.arange(start, end) for start, end in spans])
        rows = pa.concat_tables(found.rows.slice(start, end - start) for start, end in spans)
        return FinishedRows(found.subjects[places], one_batch(rows), found.moved[places])

    def as_read(self, name: str, subjects: Integers | None = None) -> pa.RecordBatch | None:
        """Return a table's rows (all, or of these subjects) as they were read: each subject's in the order of the
        file."""
        rows = self.table_as_read(name, subjects)
        return None if rows is None else one_batch(rows)

    def table_as_read(self, name: str, subjects: Integers | None = None) -> Any:
        """Return what :meth:`as_read` does, as a table of several batches."""
        found = self.rows(name) if subjects is None else self.of(name, subjects)
        if found is None:
            return None
        rows = found.rows.select(self.notes[name]["columns"])
        if found.moved.any():
            rows = rows.take(pa.array(rows_in_file_order(found.subjects, found.moved)))
        if self.spec.tables[name].subject_column == OWN_SUBJECT:
            rows = rows.append_column(OWN_SUBJECT, pa.array(found.subjects))
        return pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows


def spans_of(rows: Integers, subjects: Integers) -> list[tuple[int, int]]:
    """Return where the rows of each of these subjects begin and end, of those that have any. Both are sorted."""
    starts, ends = rows.searchsorted(subjects), rows.searchsorted(subjects, side="right")
    return [(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True) if end > start]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierStore:
    """An earlier store, open for reuse."""

    path: Path
    spec: SourceSpec
    manifest: Mapping[str, Any]
    origin: Origin
    _dictionaries: dict[str, pa.Table] = field(default_factory=dict)

    def shard(self, number: int) -> EarlierShard:
        """Return one shard."""
        name = order_file(number)
        return EarlierShard(
            spec=self.spec,
            notes=self.origin.tables,
            files=Shard(shard_folder(self.path, number), self.manifest["indexes"][number]),
            orders=read_orders(map_checked(self.path / name, self.manifest["files"][name])),
        )

    def subjects(self, table: str) -> list[int]:
        """Return the subjects of a table."""
        parts = (self.shard(number).files.table(table) for number in range(self.manifest["shards"]))
        return sorted(subject for part in parts if part is not None for subject in part.subjects.tolist())

    def dictionaries(self, names: Iterable[str]) -> Mapping[str, pa.Table]:
        """Return the dictionaries of these names that the store has, each read once."""
        for name in set(self.manifest["dictionaries"]).intersection(names).difference(self._dictionaries):
            sha256 = self.manifest["files"][dictionary_file(name)]
            self._dictionaries[name] = read_dictionary(self.path, name, sha256)
        return self._dictionaries

    def link_shard(self, shard: int, store: Path) -> None:
        """Reuse a whole shard. RecordError: its bytes were changed."""
        source, target = shard_folder(self.path, shard), shard_folder(store, shard)
        for name, sha256 in self.origin.shards[shard]["files"]:
            _checked(source / name, sha256)
            link_file(source / name, target / name)
        self.link(order_file(shard), store)
        for path in (self.path / "quarantine").glob(f"*.keys-{shard:05d}.jsonl"):
            self.link(f"quarantine/{path.name}", store)

    def link_table(self, shard: int, file: str, store: Path) -> None:
        """Reuse the file of one table of a shard. RecordError: its bytes were changed."""
        source = shard_folder(self.path, shard) / file
        _checked(source, dict(self.origin.shards[shard]["files"])[file])
        link_file(source, shard_folder(store, shard) / file)

    def link_all(self, store: Path, report: Reporter = silent) -> None:
        """Reuse every file but the manifest, the spec and the list of changed subjects."""
        for name in self.manifest["files"]:
            if name != CHANGES and not name.startswith(SPEC_FOLDER):
                self.link(name, store)
        for shard in range(self.manifest["shards"]):
            folder = shard_folder(store, shard)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.link_shard(shard, store)
            report(Progress(label="reuse shards", done=shard + 1, total=self.manifest["shards"], unit="shards"))

    def link(self, name: str, store: Path) -> None:
        """Reuse a file by its name in the store, if there is one. RecordError: it is damaged."""
        sha256 = self.manifest["files"].get(name)
        if sha256 is not None:
            _checked(self.path / name, sha256)
            link_file(self.path / name, store / name)


_OPEN: dict[tuple[Path, str], EarlierStore] = {}


def open_earlier(plan: Plan) -> EarlierStore:
    """Open the earlier store of a plan, once per process."""
    assert plan.earlier is not None
    manifest = read_manifest(plan.earlier)
    key = (plan.earlier, manifest["digest"])
    if key not in _OPEN:
        origin = Origin.read(plan.earlier, manifest)
        _OPEN.clear()
        _OPEN[key] = EarlierStore(path=plan.earlier, spec=plan.spec, manifest=manifest, origin=origin)
    return _OPEN[key]


def link_file(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it if the file system has no hard links. Neither is ever written again."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _checked(path: Path, sha256: str) -> None:
    if file_sha256(map_file(path)) != sha256:
        raise damaged(path)


def write_bucket(folder: Path, shard: int, rows: pa.RecordBatch | None) -> None:
    """Write rows as a table's bucket of one shard, from the start."""
    folder.mkdir(parents=True, exist_ok=True)
    path = bucket_file(folder, shard)
    path.unlink(missing_ok=True)
    if rows is not None and rows.num_rows:
        with path.open("wb") as target, pa.ipc.new_stream(target, rows.schema) as stream:
            stream.write_batch(rows)


# Which parts of a newer release are unchanged and reused from the earlier store, and why the rest is read.


def is_same_release(plan: Plan, tables: Sequence[str], report: Reporter = silent) -> bool:
    """Whether every file has the same bytes as before. ``tables``: those that have files, or are derived."""
    fingerprints = open_earlier(plan).origin.fingerprints
    names = [RAW] if plan.files.raw else [*tables, *plan.files.dictionaries]
    if not plan.files.raw and set(names) != set(fingerprints):
        return False
    return [file_fingerprints(plan, name, report) for name in names] == [fingerprints.get(name) for name in names]


def reuse_everything(plan: Plan, report: Reporter = silent) -> dict[str, Any]:
    """Reuse a whole store whose files are all unchanged; return its manifest."""
    earlier = open_earlier(plan)
    earlier.link_all(plan.store, report)
    subjects = np.load(plan.store / SUBJECTS, allow_pickle=False)
    reuse = Reuse(tables=tuple(earlier.manifest["tables"]), dictionaries=(), read={})
    made_from = note_lineage(plan, subjects, (), reuse=reuse, shards=plan.shards, why_every_subject=None)
    facts = {name: part for name, part in earlier.manifest.items() if name not in ("version", "files")}
    names = {"unknown_files": list(plan.files.unknown), "empty_files": list(plan.files.empty)}
    return {**facts, **(names if plan.spec.flatten is None else {}), "plan": plan.digest, "made_from": made_from}


def decide_reuse(plan: Plan, tables: Sequence[str], report: Reporter = silent) -> Reuse:
    """Decide which parts are reused, from fingerprints alone, so that every call decides the same."""
    earlier = open_earlier(plan)
    for name in (*tables, *plan.files.dictionaries):
        file_fingerprints(plan, name, report)
    reasons = {name: _why_read(plan, earlier, name) for name in tables}
    dictionaries = earlier.manifest["dictionaries"]
    return Reuse(
        tables=tuple(name for name, why in reasons.items() if why is None),
        dictionaries=tuple(
            name for name in plan.files.dictionaries if name in dictionaries and _has_same_files(plan, earlier, name)
        ),
        read={name: why for name, why in reasons.items() if why is not None},
    )


def _has_same_files(plan: Plan, earlier: EarlierStore, name: str) -> bool:
    return file_fingerprints(plan, name) == earlier.origin.fingerprints.get(name)


def _why_read(plan: Plan, earlier: EarlierStore, name: str) -> str | None:
    table = plan.spec.tables[name]
    before = earlier.manifest["tables"].get(name)
    if before is None:
        return "new"
    if not _has_same_files(plan, earlier, name):
        return "changed"
    if has_shared_keys(earlier, name):
        return "it has several rows with one key"
    parent = None if table.subject_from is None else table.subject_from.table
    if parent is not None and _why_read(plan, earlier, parent) is not None:
        return f"its subjects are those of {parent}"
    return None


def has_shared_keys(earlier: EarlierStore, name: str) -> bool:
    """Whether rows of a table shared a key, so that the store does not have all that were read."""
    table = earlier.manifest["tables"][name]
    return bool(table["repeated_rows"] or CONFLICTING in table["quarantine_reasons"])


def reuse_table(plan: Plan, name: str) -> None:
    """Reuse the counts and the quarantine of a table; its rows are reused shard by shard."""
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
    """Write the rows of a reused table into buckets, for tables that are read and look their subjects up in them."""
    for shard in range(plan.shards):
        write_bucket(plan.bucket_folder(name), shard, open_earlier(plan).shard(shard).as_read(name))


def reuse_dictionary(plan: Plan, name: str) -> None:
    """Reuse a dictionary."""
    earlier = open_earlier(plan)
    earlier.link(dictionary_file(name), plan.store)
    earlier.link(f"quarantine/{name}.jsonl", plan.store)
    plan.note(f"dictionary-{name}", earlier.manifest["dictionaries"][name])


def why_every_subject(plan: Plan, tables: Sequence[str], medians: Mapping[str, Medians]) -> str | None:
    """Return which change of the source makes it necessary to process every subject again; None: no such change."""
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
        return f"median delays that changed: {', '.join(moved)}"
    joined = {join.table for table in plan.spec.tables.values() for join in table.dictionaries}
    words = _differing(
        {name: facts["sha256"] for name, facts in old["dictionaries"].items() if name in joined},
        {name: plan.noted(f"dictionary-{name}")["sha256"] for name in plan.files.dictionaries if name in joined},
    )
    return f"dictionaries that changed: {', '.join(words)}" if words else None


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names: Iterable[str] = {*old, *new}
    return sorted(name for name in names if old.get(name) != new.get(name) or (name in old) != (name in new))


# Subjects whose records differ from the earlier store that this one was made from: listed beside the rows, and counted.


def note_lineage(
    plan: Plan,
    subjects: Integers,
    changed: Iterable[int],
    *,
    reuse: Reuse | None,
    shards: int,
    why_every_subject: str | None,
) -> dict[str, Any] | None:
    """Write the changed subjects into the store; return the manifest's entry. None: there was no earlier store."""
    if plan.earlier is None:
        return None
    manifest = read_manifest(plan.earlier)
    old = np.load(io.BytesIO(map_checked(plan.earlier / SUBJECTS, manifest["files"][SUBJECTS])), allow_pickle=False)
    both = np.intersect1d(old, subjects, assume_unique=True)
    differ = both if reuse is None else np.intersect1d(both, np.array(sorted(changed), dtype=np.int64))
    found = {
        "new": np.setdiff1d(subjects, old, assume_unique=True),
        "changed": differ,
        "gone": np.setdiff1d(old, subjects, assume_unique=True),
    }
    _write_changes(plan.store / CHANGES, found)
    counts = {name: len(numbers) for name, numbers in found.items()} | {"same": len(both) - len(differ)}
    return {
        "digest": manifest["digest"],
        "subjects": {name: counts[name] for name in CHANGE_WORDS},
        "tables": [] if reuse is None else list(reuse.tables),
        "read": {} if reuse is None else dict(reuse.read),
        "shards": [shards, plan.shards],
        "why_nothing": plan.why_nothing,
        "why_every_subject": why_every_subject,
    }


def _write_changes(path: Path, found: Mapping[str, Integers]) -> None:
    table = pa.table(
        {
            "subject_id": pa.array(np.concatenate(list(found.values())), pa.int64()),
            "change": pa.array([name for name, subjects in found.items() for _ in subjects], pa.string()),
        }
    )
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, table.schema) as stream:
        stream.write_table(table)
