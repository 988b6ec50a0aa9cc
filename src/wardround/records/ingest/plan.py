"""The plan of an ingest, on disk: what makes two calls the same, and which parts are already done."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import UserError, content_hash, private_folder, this_boot, write_atomically
from wardround.records.ingest.clocks import ClockSettings
from wardround.records.ingest.settings import IngestSettings
from wardround.records.reading.source_files import SourceFiles
from wardround.records.shards.layout import MANIFEST, ORIGIN, SPEC_FOLDER, STORE_VERSION, building_folder
from wardround.records.shards.manifest import read_manifest
from wardround.records.specs.spec import SourceSpec

Medians = tuple[float | None, float | None]
"""A median of each half of the subjects, in seconds."""
_PLAN = "plan.json"
_BUCKETS, _TOUCHED, _FLAT, _KEYS = "buckets", "touched", "flat", "keys"
RAW_ROWS = (_BUCKETS, _TOUCHED, _FLAT, _KEYS)
"""The folders of unfinished work that hold rows of the source."""
_FOLDERS = ("shards", "dictionaries", "quarantine", SPEC_FOLDER, ORIGIN)
_MOST_SHARDS = 4_096
_SHARE = 8
"""A shard's raw rows take this part of the memory; finishing holds about three copies of the largest table."""
_CELL_BYTES = 12
_EXPANSION: Mapping[str, float] = {".gz": 8.0, ".parquet": 6.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything the parts of an ingest share. Pickles, so that parts may run in other processes."""

    spec: SourceSpec
    files: SourceFiles
    settings: IngestSettings
    store: Path
    shards: int
    earlier: Path | None = None
    """A finished store, of whose content what is the same is taken."""
    why_nothing: str | None = None
    """Why nothing can be taken from it."""

    @property
    def digest(self) -> str:
        """Names the input, the spec and the settings: the same digest continues the same work."""
        body = [STORE_VERSION, self.spec.sha256, self.settings.to_json(), self.files.fingerprint(), self.shards]
        return content_hash(body)

    @property
    def takes(self) -> bool:
        """Whether something may be taken from an earlier store."""
        return self.earlier is not None and self.why_nothing is None

    @property
    def work(self) -> str:
        """Names the way to the store too: what was taken from one earlier store goes with no other."""
        if self.earlier is None:
            return self.digest
        return content_hash([self.digest, read_manifest(self.earlier)["digest"]])

    @property
    def building(self) -> Path:
        """Where unfinished work lies."""
        return building_folder(self.store)

    def elsewhere(self) -> Plan:
        """Return the same plan for processes that do not stand in this one's folder."""
        codes = self.settings.user_codes
        settings = replace(self.settings, user_codes=None if codes is None else codes.absolute())
        earlier = None if self.earlier is None else self.earlier.absolute()
        files = self.files.resolved()
        return replace(self, store=self.store.absolute(), files=files, settings=settings, earlier=earlier)

    def has_rows(self, table: str) -> bool:
        """Whether a table has a file, or is made of another one's."""
        derive = self.spec.tables[table].derive
        return table in self.files.tables or (derive is not None and derive.source in self.files.tables)

    def bucket_folder(self, table: str) -> Path:
        """Where a table's buckets lie."""
        return self.building / _BUCKETS / table

    def touched_folder(self, table: str) -> Path:
        """Where those rows of a table's buckets lie whose subjects are not as they were in an earlier store."""
        return self.building / _TOUCHED / table

    def keys_file(self, table: str) -> Path:
        """Where the subjects that a table names by text lie, with their numbers."""
        return self.building / _KEYS / f"{table}.arrow"

    @property
    def flat_folder(self) -> Path:
        """Where raw files that are no tables lie as tables."""
        return self.building / _FLAT

    def note(self, part: str, body: Any) -> None:
        """Mark a part as done, in one step."""
        path = self.building / "done" / f"{part}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(body))

    def noted(self, part: str) -> Any:
        """Return what was noted for a part; None if it is not done."""
        path = self.building / "done" / f"{part}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def clock_settings(self, medians: Mapping[str, Medians]) -> ClockSettings:
        """Return the delays in microseconds; a median given in the settings wins over the data's."""
        return ClockSettings(
            lags=self.settings.lags,
            medians={name: (_microseconds(first), _microseconds(other)) for name, (first, other) in medians.items()},
        )


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


def shard_count(files: SourceFiles, settings: IngestSettings) -> int:
    """Return how many shards keep one shard's rows, with the copies that finishing makes, well inside the memory."""
    if settings.shards is not None:
        return settings.shards
    total = 0.0
    for path in files.raw or [path for paths in files.tables.values() for path in paths]:
        total += _size_in_memory(path)
    return min(_MOST_SHARDS, 1 + int(total / (settings.memory_bytes / _SHARE)))


def _size_in_memory(path: Path) -> float:
    """Guess how much memory a file's rows take. Parquet may hold repeated values in next to nothing: its rows count."""
    guess = path.stat().st_size * _EXPANSION.get(path.suffix, 1.0)
    if path.suffix.lower() == ".parquet":
        with contextlib.suppress(OSError, pa.ArrowInvalid):  # a damaged file is an error when it is read
            facts = pq.read_metadata(path)
            guess = max(guess, facts.num_rows * facts.num_columns * _CELL_BYTES)
    return guess


def prepare(plan: Plan) -> bool:
    """Make the store's folder ready. Return whether an interrupted ingest of the same plan is being continued: one
    from before the machine was started is not, for of what that wrote a loss of power may have left anything.

    UserError: the folder holds something else, or a store made from other input.
    """
    store = plan.store
    note = plan.building / _PLAN
    is_same = note.exists() and json.loads(note.read_text(encoding="utf-8")) == [plan.work, this_boot()]
    if not is_same:
        if store.exists() and not note.exists() and not _is_only_begun(store):
            raise UserError(
                f"{store}: the folder is not empty and holds no unfinished store; choose another or remove it"
            )
        _clear(store, keep=note)
        private_folder(store)
        plan.building.mkdir(exist_ok=True)
        write_atomically(note, json.dumps([plan.work, this_boot()]))
    for name in _FOLDERS:
        (store / name).mkdir(exist_ok=True)
    return is_same


def check_unchanged(plan: Plan) -> None:
    """UserError: a source file or the earlier store is not what it was when the work began."""
    if json.loads((plan.building / _PLAN).read_text(encoding="utf-8"))[0] != plan.work:
        raise UserError(f"{plan.store}: source files changed while they were read; run the same command again")


def _is_only_begun(store: Path) -> bool:
    """Whether the folder holds no more than an ingest makes before it says what it is."""
    building = building_folder(store)
    ours = {building, *(store / name for name in _FOLDERS)}
    inside = [path for path in store.rglob("*") if path not in ours]
    return all(path.parent == building and _PLAN in path.name for path in inside)


def _clear(store: Path, *, keep: Path) -> None:
    """Empty the folder of an unfinished store; ``keep`` goes last, so that a kill leaves what says whose it is."""
    for path in (*store.glob("*"), *keep.parent.glob("*")):
        if path in (keep, keep.parent):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def is_finished(store: Path) -> bool:
    """Whether the folder holds a finished store."""
    return (store / MANIFEST).exists()


def as_json(value: Any) -> Any:
    """Return a dataclass as JSON-ready values."""
    return asdict(value)
