"""The plan of an ingest on disk, its settings, its report, and the fingerprints of its files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import (
    Progress,
    Reporter,
    UserError,
    content_hash,
    own_codes,
    private_folder,
    silent,
    this_boot,
    write_atomically,
)
from wardround.core.executors import EXECUTORS
from wardround.records.ingest.clocks import ClockSettings
from wardround.records.ingest.joins import LostRows
from wardround.records.reading.source_files import SourceFiles
from wardround.records.shards.layout import MANIFEST, ORIGIN, SPEC_FOLDER, STORE_VERSION, building_folder, read_manifest
from wardround.records.specs.spec import SourceSpec

# The earlier store from which a store was made: what was reused, and why the rest was read again.


CHANGE_WORDS = {"new": "new", "changed": "changed", "same": "the same", "gone": "gone"}
"""What happened to a subject's record: as stored, and as printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Tables and dictionaries that are reused, and by table why it is read again."""

    tables: tuple[str, ...]
    dictionaries: tuple[str, ...]
    read: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The earlier store from which another was made. ``subjects``: how many are ``new``, ``changed``, ``same``,
    ``gone``.

    ``read``: by table, why it was read; ``shards``: the number reused whole, and of all. ``why_nothing``: why nothing
    was reused; ``why_every_subject``: why every subject was processed again; None if that is not so.
    """

    digest: str
    subjects: Mapping[str, int]
    tables: Sequence[str]
    read: Mapping[str, str]
    shards: Sequence[int]
    why_nothing: str | None
    why_every_subject: str | None

    def as_text(self) -> str:
        """Return a few lines for people."""
        counts = ", ".join(f"{count:,} {CHANGE_WORDS[what]}" for what, count in self.subjects.items())
        lines = [f"made from store {self.digest[:16]}: subjects {counts}"]
        if self.why_nothing is not None:
            return "\n".join([f"nothing was reused, everything was read: {self.why_nothing}", *lines])
        reused, whole = self.shards
        lines.append(f"reused: {len(self.tables):,} tables, and {reused:,} of {whole:,} shards whole")
        if self.why_every_subject is not None:
            lines.append(f"every subject was processed again: {self.why_every_subject}")
        for why in dict.fromkeys(self.read.values()):
            lines.append(f"read, {why}: {', '.join(name for name, other in self.read.items() if other == why)}")
        return "\n".join(lines)


# The settings of an ingest, and its report.


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """Everything that decides a store's content besides the source files, and the limits of the work.

    ``measure_medians`` takes median delays from the data instead of the spec's ``median_minutes``: then every chart
    depends on the rows of all subjects. ``median_delays`` sets the delays of both halves of the subjects (key
    ``table.from.to``), whatever spec and data say: audits need the same medians on both sides. ``result_lag`` and
    ``culture_lag`` are assumed delays until a laboratory result or a culture is known, where the source has no such
    time. ``time_zone``: the IANA name of the hospital's zone, to read times with an offset; None: that of the spec, and
    without one such times are refused. ``user_codes``: a folder of code tables, by default those that the user added
    (``wardround codes add``). ``memory_bytes`` limits the work, not the result; ``workers`` work at once, on the
    ``executor``. ``shards``: into how many files each table is divided (None: by the size of the input).
    """

    coding_lag: timedelta = timedelta(0)
    result_lag: timedelta = timedelta(hours=24)
    culture_lag: timedelta = timedelta(days=7)
    measure_medians: bool = False
    median_delays: Mapping[str, tuple[timedelta | None, timedelta | None]] = field(default_factory=dict)
    time_zone: str | None = None
    user_codes: Path | None = field(default_factory=own_codes)
    memory_bytes: int = 1 << 30
    workers: int = 1
    executor: str = "processes"
    shards: int | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes < 1 << 26:
            raise UserError(f"memory_bytes must be at least 64 MiB, not {self.memory_bytes!r}")
        if self.workers < 1:
            raise UserError(f"workers must be at least 1, not {self.workers!r}")
        EXECUTORS.get(self.executor)

    @property
    def is_done_here(self) -> bool:
        """Whether this process does all parts itself."""
        return self.workers == 1 and not EXECUTORS.get(self.executor).spans_machines

    @property
    def lags(self) -> Mapping[str, int]:
        """Return the assumed delays in microseconds, by the names that rules use."""
        lags = {"coding_lag": self.coding_lag, "result_lag": self.result_lag, "culture_lag": self.culture_lag}
        return {name: round(lag.total_seconds() * 1e6) for name, lag in lags.items()}

    def to_json(self) -> dict[str, Any]:
        """Return what decides the content, times in seconds; user codes by the hash of their files."""
        return {
            "coding_lag_seconds": self.coding_lag.total_seconds(),
            "result_lag_seconds": self.result_lag.total_seconds(),
            "culture_lag_seconds": self.culture_lag.total_seconds(),
            "measure_medians": self.measure_medians,
            "median_delay_seconds": {name: _in_seconds(delays) for name, delays in self.median_delays.items()},
            "user_codes": None if self.user_codes is None else _hash_folder(self.user_codes),
            **({} if self.time_zone is None else {"time_zone": self.time_zone}),
        }

    def assumptions(self, spec: SourceSpec) -> tuple[str, ...]:
        """Return, in words, the times that this source does not record and what is assumed instead."""
        assumed = [f"assumed: {text}: {getattr(self, name)} ({name})" for name, text in spec.assumed.items()]
        if self.time_zone is not None:
            assumed.append(f"assumed: times with an offset are of one place: {self.time_zone} (time_zone)")
        return tuple(assumed)


def _in_seconds(delays: Iterable[timedelta | None]) -> list[float | None]:
    return [None if delay is None else delay.total_seconds() for delay in delays]


def _hash_folder(folder: Path) -> str:
    files = sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else []
    return content_hash([[file.relative_to(folder).as_posix(), content_hash(file.read_bytes())] for file in files])


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """Counts of a finished ingest, by table. ``never_visible`` rows have no availability time."""

    store: Path
    rows: Mapping[str, int]
    subjects: int
    quarantined: Mapping[str, int]
    never_visible: Mapping[str, int]
    missing_tables: tuple[str, ...]
    missing_columns: Mapping[str, tuple[str, ...]]
    unknown_files: tuple[str, ...]
    unknown_columns: Mapping[str, tuple[str, ...]]
    seconds: float
    dictionary_rows: Mapping[str, int] = field(default_factory=dict)
    quarantine_reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By table or dictionary: why rows were set aside, and how many for each reason."""
    emptied_cells: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By table: cells that could not be read and are shown later than their row, which is kept without them."""
    empty_files: tuple[str, ...] = ()
    only_headers: tuple[str, ...] = ()
    """Tables and dictionaries whose files have a header and no row."""
    needed_tables: Mapping[str, LostRows] = field(default_factory=dict)
    """Missing tables, and what is never shown without each."""
    assumptions: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Content of raw files (not tables) for which the source has no table, in words."""
    repeated_rows: Mapping[str, int] = field(default_factory=dict)
    """Rows that were given more than once, and kept once."""
    casts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Cells of Parquet files whose type is not the spec's, by table, and by column and cast."""
    orphans: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Filled cells that name a row of another table which has no such row, by table, and by column and that table."""
    filled: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Filled cells of the rows that were read, by table and column."""
    rows_read: Mapping[str, int] = field(default_factory=dict)
    """Rows that were read and not broken, by table."""
    resumed: bool = False
    """Whether work of an earlier, interrupted call was kept."""
    made_from: Lineage | None = None
    """What was reused from the store of an earlier release, and the subjects that changed since."""


# The plan of an ingest, on disk: which calls are equal, and which parts are finished.


Medians = tuple[float | None, float | None]
"""A median of each half of the subjects, in seconds."""
_PLAN = "plan.json"
_BUCKETS, _AFFECTED, _FLAT, _KEYS = "buckets", "affected", "flat", "keys"
RAW_ROWS = (_BUCKETS, _AFFECTED, _FLAT, _KEYS)
"""The folders of unfinished work that hold rows of the source."""
_FOLDERS = ("shards", "dictionaries", "quarantine", SPEC_FOLDER, ORIGIN)
_MOST_SHARDS = 4_096
_SHARE = 8
"""A shard's raw rows take this part of the memory; finishing holds about three copies of the largest table."""
_CELL_BYTES = 12
_EXPANSION: Mapping[str, float] = {".gz": 8.0, ".parquet": 6.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything the parts of an ingest share. Can be pickled, so that parts may run in other processes."""

    spec: SourceSpec
    files: SourceFiles
    settings: IngestSettings
    store: Path
    shards: int
    earlier: Path | None = None
    """A finished store whose unchanged content is reused."""
    why_nothing: str | None = None
    """Why nothing of the earlier store can be reused; None if parts can."""

    @property
    def digest(self) -> str:
        """Hash of the input, the spec and the settings: a call with the same digest continues the work."""
        body = [STORE_VERSION, self.spec.sha256, self.settings.to_json(), self.files.fingerprint(), self.shards]
        return content_hash(body)

    @property
    def can_reuse(self) -> bool:
        """Whether parts of an earlier store may be reused."""
        return self.earlier is not None and self.why_nothing is None

    @property
    def work(self) -> str:
        """Hash of the input and of the earlier store: work begun with one earlier store does not continue with
        another."""
        if self.earlier is None:
            return self.digest
        return content_hash([self.digest, read_manifest(self.earlier)["digest"]])

    @property
    def building(self) -> Path:
        """The folder of unfinished work."""
        return building_folder(self.store)

    def elsewhere(self) -> Plan:
        """Return the same plan for processes with another working folder."""
        codes = self.settings.user_codes
        settings = replace(self.settings, user_codes=None if codes is None else codes.absolute())
        earlier = None if self.earlier is None else self.earlier.absolute()
        files = self.files.resolved()
        return replace(self, store=self.store.absolute(), files=files, settings=settings, earlier=earlier)

    def has_rows(self, table: str) -> bool:
        """Whether a table has a file, or is made from another table."""
        derive = self.spec.tables[table].derive
        return table in self.files.tables or (derive is not None and derive.source in self.files.tables)

    def bucket_folder(self, table: str) -> Path:
        """The folder of a table's buckets."""
        return self.building / _BUCKETS / table

    def affected_folder(self, table: str) -> Path:
        """The folder of the bucket rows whose subjects differ from those of an earlier store."""
        return self.building / _AFFECTED / table

    def keys_file(self, table: str) -> Path:
        """The file of subjects that a table names by text, with their numbers."""
        return self.building / _KEYS / f"{table}.arrow"

    @property
    def flat_folder(self) -> Path:
        """The folder of the flat tables made from raw files."""
        return self.building / _FLAT

    def note(self, part: str, body: Any) -> None:
        """Mark a part as finished, in one step."""
        path = self.building / "done" / f"{part}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(body))

    def noted(self, part: str) -> Any:
        """Return the note of a finished part; None if it is not finished."""
        path = self.building / "done" / f"{part}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def clock_settings(self, medians: Mapping[str, Medians]) -> ClockSettings:
        """Return the delays in microseconds; medians by ``table.from.to``."""
        return ClockSettings(
            lags=self.settings.lags,
            medians={name: (_microseconds(first), _microseconds(other)) for name, (first, other) in medians.items()},
        )


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


def shard_count(files: SourceFiles, settings: IngestSettings) -> int:
    """Return the number of shards, so that one shard's rows and the copies made while finishing fit well into the
    memory."""
    if settings.shards is not None:
        return settings.shards
    total = 0.0
    for path in files.raw or [path for paths in files.tables.values() for path in paths]:
        total += size_in_memory(path)
    return min(_MOST_SHARDS, 1 + int(total / (settings.memory_bytes / _SHARE)))


def size_in_memory(path: Path) -> float:
    """Estimate how much memory a file's rows need. In Parquet repeated values take almost no space, so its rows are
    counted."""
    guess = path.stat().st_size * _EXPANSION.get(path.suffix, 1.0)
    if path.suffix.lower() == ".parquet":
        with contextlib.suppress(OSError, pa.ArrowInvalid):  # a damaged file is an error when it is read
            facts = pq.read_metadata(path)
            guess = max(guess, facts.num_rows * facts.num_columns * _CELL_BYTES)
    return guess


def prepare(plan: Plan) -> bool:
    """Prepare the store's folder. Return whether an interrupted ingest of the same plan is continued.

    Work from before the computer was started is not continued: after a loss of power its files may be incomplete.
    UserError: the folder has other content, or a store made from other input.
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
    """Raise UserError if a source file or the earlier store changed since the work began."""
    if json.loads((plan.building / _PLAN).read_text(encoding="utf-8"))[0] != plan.work:
        raise UserError(f"{plan.store}: source files changed while they were read; run the same command again")


def _is_only_begun(store: Path) -> bool:
    """Whether the folder has only what an ingest makes before it writes its plan."""
    building = building_folder(store)
    ours = {building, *(store / name for name in _FOLDERS)}
    inside = [path for path in store.rglob("*") if path not in ours]
    return all(path.parent == building and _PLAN in path.name for path in inside)


def _clear(store: Path, *, keep: Path) -> None:
    """Empty the folder of an unfinished store; ``keep`` is removed last, so that after a kill the folder still shows
    whose it is."""
    for path in (*store.glob("*"), *keep.parent.glob("*")):
        if path in (keep, keep.parent):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def is_finished(store: Path) -> bool:
    """Whether the folder has a finished store."""
    return (store / MANIFEST).exists()


# Fingerprints of a source's files: sizes and hashes, kept in the store that was made from them.


FileFingerprints = list[list[object]]
"""Of every file its name as reports show it, its size and its SHA-256, in the order of reading."""
RAW = "raw"
"""What raw files that are no tables are called together."""
_BLOCK = 4 << 20


def file_fingerprints(plan: Plan, name: str, report: Reporter = silent) -> FileFingerprints:
    """Return the fingerprints of the files of a table or dictionary, or of all raw files; of a derived table, those of
    its source. Each file is hashed once."""
    part = f"bytes-{name}"
    noted: FileFingerprints | None = plan.noted(part)
    if noted is None:
        table = plan.spec.tables.get(name)
        if name == RAW:
            paths = plan.files.raw
        elif table is not None and table.derive is not None and name not in plan.files.tables:
            paths = plan.files.tables.get(table.derive.source, ())
        else:
            paths = plan.files.tables.get(name) or plan.files.dictionaries.get(name, ())
        noted = [[plan.files.name(path), path.stat().st_size, _sha256(path, report)] for path in paths]
        plan.note(part, noted)
    return noted


def _sha256(path: Path, report: Reporter) -> str:
    size, done = path.stat().st_size, 0
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            report(Progress(label=f"hash {path.name}", done=done / 1e6, total=size / 1e6, unit="MB"))
    return digest.hexdigest()
