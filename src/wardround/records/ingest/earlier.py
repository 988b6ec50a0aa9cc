"""A store made from an earlier release: what of it may be taken, and its rows as they were read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround import __version__
from wardround.core import Progress, Reporter, content_hash, silent
from wardround.records.ingest.buckets import bucket_file
from wardround.records.ingest.finalise import FinishedRows
from wardround.records.ingest.origin import Origin
from wardround.records.ingest.plan import Plan
from wardround.records.ingest.settings import IngestSettings
from wardround.records.shards.checksums import damaged, file_sha256, map_checked, map_file
from wardround.records.shards.file_order import order_file, read_orders, rows_in_file_order
from wardround.records.shards.layout import CHANGES, SPEC_FOLDER, dictionary_file, shard_folder
from wardround.records.shards.manifest import read_manifest
from wardround.records.shards.shard_file import Shard, read_dictionary
from wardround.records.specs.spec import OWN_SUBJECT, SourceSpec

Integers = npt.NDArray[np.int64]
_MOST_GROWTH = 2
"""How many times as many shards a release may need as the earlier store has, which bounds the memory."""


def why_nothing(earlier: Path, spec: SourceSpec, settings: IngestSettings, shards: int) -> str | None:
    """Say why nothing can be taken from an earlier store; None: something can. UserError: it is no finished store."""
    manifest = read_manifest(earlier)
    if manifest["wardround"] != __version__:
        return f"wardround {manifest['wardround']} made it, this is {__version__}"
    if manifest["spec_sha256"] != spec.sha256:
        return "its spec is not this one"
    if content_hash(manifest["settings"]) != content_hash(settings.to_json()):
        return "it was made with other settings"
    if shards > _MOST_GROWTH * manifest["shards"] or settings.shards not in (None, manifest["shards"]):
        return f"its {manifest['shards']:,} shards are too few for so many rows, or not as many as asked for"
    return None


def shards_of(earlier: Path) -> int:
    """Return how many shards a store has."""
    return int(read_manifest(earlier)["shards"])


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierShard:
    """One shard of an earlier store; a table is unpacked when it is first asked for. ``notes``: what was noted of each
    table when it was read."""

    spec: SourceSpec
    notes: Mapping[str, Any]
    files: Shard
    orders: Mapping[str, Integers]
    _rows: dict[str, FinishedRows | None] = field(default_factory=dict)

    def rows(self, table: str) -> FinishedRows | None:
        """Return a table's stored rows; None if it has none."""
        if table not in self._rows:
            part = self.files.table(table)
            self._rows[table] = None if part is None else FinishedRows(*part.whole(), self.orders[table])
        return self._rows[table]

    def of(self, table: str, subjects: Integers, *, others: bool = False) -> FinishedRows | None:
        """Return the stored rows of these subjects, or of all ``others``; None if there are none."""
        found = self.rows(table)
        if found is None:
            return None
        mask = np.isin(found.subjects, subjects, invert=others)
        if not mask.any():
            return None
        return FinishedRows(found.subjects[mask], found.rows.filter(pa.array(mask)), found.moved[mask])

    def as_read(self, name: str, subjects: Integers | None = None) -> pa.RecordBatch | None:
        """Return a table's rows, all or of these subjects, as they were read: each subject's in the file's order."""
        found = self.rows(name) if subjects is None else self.of(name, subjects)
        if found is None:
            return None
        rows = found.rows.select(self.notes[name]["columns"])
        if found.moved.any():
            rows = rows.take(pa.array(rows_in_file_order(found.subjects, found.moved)))
        if self.spec.tables[name].subject_column == OWN_SUBJECT:
            rows = rows.append_column(OWN_SUBJECT, pa.array(found.subjects))
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierStore:
    """An earlier store, opened for taking from it."""

    path: Path
    spec: SourceSpec
    manifest: Mapping[str, Any]
    origin: Origin
    _dictionaries: dict[str, pa.Table] = field(default_factory=dict)

    def shard(self, number: int) -> EarlierShard:
        """Return one shard, to read its tables from."""
        name = order_file(number)
        return EarlierShard(
            spec=self.spec,
            notes=self.origin.tables,
            files=Shard(shard_folder(self.path, number), self.manifest["indexes"][number]),
            orders=read_orders(map_checked(self.path / name, self.manifest["files"][name])),
        )

    def subjects(self, table: str) -> list[int]:
        """Return whose rows a table holds."""
        parts = (self.shard(number).files.table(table) for number in range(self.manifest["shards"]))
        return sorted(subject for part in parts if part is not None for subject in part.subjects.tolist())

    def dictionaries(self, names: Iterable[str]) -> Mapping[str, pa.Table]:
        """Return those dictionaries of these names that it has, each read once."""
        for name in set(self.manifest["dictionaries"]).intersection(names).difference(self._dictionaries):
            sha256 = self.manifest["files"][dictionary_file(name)]
            self._dictionaries[name] = read_dictionary(self.path, name, sha256)
        return self._dictionaries

    def link_shard(self, shard: int, store: Path) -> None:
        """Take a whole shard. RecordError: its bytes are not those that were written."""
        source, target = shard_folder(self.path, shard), shard_folder(store, shard)
        for name, sha256 in self.origin.shards[shard]["files"]:
            _checked(source / name, sha256)
            link_file(source / name, target / name)
        self.link(order_file(shard), store)
        for path in (self.path / "quarantine").glob(f"*.keys-{shard:05d}.jsonl"):
            self.link(f"quarantine/{path.name}", store)

    def link_table(self, shard: int, file: str, store: Path) -> None:
        """Take the file of one table of a shard. RecordError: its bytes are not those that were written."""
        source = shard_folder(self.path, shard) / file
        _checked(source, dict(self.origin.shards[shard]["files"])[file])
        link_file(source, shard_folder(store, shard) / file)

    def link_all(self, store: Path, report: Reporter = silent) -> None:
        """Take every file but the manifest, the spec and whose records differed from a still earlier store's."""
        for name in self.manifest["files"]:
            if name != CHANGES and not name.startswith(SPEC_FOLDER):
                self.link(name, store)
        for shard in range(self.manifest["shards"]):
            folder = shard_folder(store, shard)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.link_shard(shard, store)
            report(Progress(label="take shards", done=shard + 1, total=self.manifest["shards"], unit="shards"))

    def link(self, name: str, store: Path) -> None:
        """Take a file by its name in the store, where there is one. RecordError: it is damaged."""
        sha256 = self.manifest["files"].get(name)
        if sha256 is not None:
            _checked(self.path / name, sha256)
            link_file(self.path / name, store / name)


_OPEN: dict[tuple[Path, str], EarlierStore] = {}


def open_earlier(plan: Plan) -> EarlierStore:
    """Open the store that a plan takes from, once for all parts that a process does."""
    assert plan.earlier is not None
    manifest = read_manifest(plan.earlier)
    key = (plan.earlier, manifest["digest"])
    if key not in _OPEN:
        origin = Origin.read(plan.earlier, manifest)
        _OPEN.clear()
        _OPEN[key] = EarlierStore(path=plan.earlier, spec=plan.spec, manifest=manifest, origin=origin)
    return _OPEN[key]


def link_file(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no two names. Neither is ever written again."""
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
