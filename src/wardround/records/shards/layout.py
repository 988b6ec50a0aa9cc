"""Layout of a store: paths, clock columns, manifest, checksums, columns per table."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import RecordError, UserError, content_hash, sync_tree, to_microseconds, write_atomically
from wardround.records.rules.language import Column
from wardround.records.specs.spec import ARROW_TYPES, ColumnType, TableSpec, late_rules, one_array

# Paths in a store, and the names of the clock columns beside a row.
#
# manifest.json             written last: a folder without it never opens; it holds the hashes of the files below
# spec/*.toml               the spec the store was made with
# subjects.npy              every subject id, sorted
# subject_keys.arrow        the source's ids of subjects, if they are text
# dictionaries/<name>.arrow
# quarantine/<table>.jsonl
# origin/                   facts of the ingest, so that a newer release can reuse unchanged parts
#     notes.json            the hash of every raw file, and the counts of every part
#     00012.arrow           the order of each subject's rows in the files
# changes.arrow             subjects whose rows differ from the earlier store, if there was one
# shards/00012/             all rows of some subjects
#     index.arrow           one batch per table: offsets of each subject's rows, with the checksum of every message
#     <table>.arrows        an Arrow IPC stream, uncompressed: many small subjects to a batch
#     <table>.arrows.zst    the same, one zstd frame per message: about one subject to a batch
# building/                 only while ingesting
#
# Clock columns are never null: ``datetime.min`` means always, ``datetime.max`` never. The event time of a static row is
# ``datetime.min``. A decompressed ``.arrows.zst`` is an Arrow stream, so any Arrow tool reads both kinds.


STORE_VERSION = 1
MANIFEST = "manifest.json"
SUBJECTS = "subjects.npy"
SUBJECT_KEYS = "subject_keys.arrow"
INDEX = "index.arrow"
SPEC_FOLDER = "spec"
ORIGIN = "origin"
ORIGIN_NOTES = "origin/notes.json"
CHANGES = "origin/changes.arrow"
EVENT = "_event"
AVAILABLE = "_available"
PUBLISHED = "_published"
PENDING = "_pending"
GROUP = "_group"
UNTIL = "_until"
"""When a row stopped to hold: a later version was known, or it was withdrawn. Only in tables that can be amended."""
VERSION = "_version"
"""The number of the version of its row, from 0."""
CLOCKS = (EVENT, AVAILABLE, PUBLISHED, PENDING, UNTIL, VERSION)
LATE = "_late:"
DICTIONARY = "_dictionary:"
NEVER_TIME = to_microseconds(datetime.max)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def shard_folder(store: Path, shard: int) -> Path:
    """Return the folder of one shard."""
    return store / "shards" / f"{shard:05d}"


def building_folder(store: Path) -> Path:
    """Return the folder of unfinished work."""
    return store / "building"


def dictionary_file(name: str) -> str:
    """Return a dictionary's path in a store."""
    return f"dictionaries/{name}.arrow"


def is_unfinished(store: Path) -> bool:
    """Whether the folder has an interrupted ingest."""
    return building_folder(store).is_dir()


def bucket_numbers(subjects: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return the bucket of each subject: a fixed multiplicative hash."""
    mixed = (subjects.astype(np.uint64) * _GOLDEN) >> np.uint64(33)
    return (mixed % np.uint64(count)).astype(np.int64)


# The content of a table in one store: the columns of its files, the labels that could be joined.


@dataclass(frozen=True, slots=True, kw_only=True)
class LateGroup:
    """Columns that become known at one time. ``clock`` is the stored column that holds it."""

    clock: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """A label column: row ``places`` (a stored column) of ``source``, an array of a dictionary."""

    places: str
    source: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """How stored columns become public ones: those at ``places``, then each of ``added`` at its position."""

    schema: Any
    places: tuple[int, ...]
    added: tuple[tuple[int, str], ...]
    position: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """A table as stored. ``columns``: the public ones of policy ``known_at``, in order."""

    spec: TableSpec
    columns: Mapping[str, ColumnType]
    joined: Mapping[str, JoinedColumn]
    late: tuple[LateGroup, ...]
    all_columns: Mapping[str, ColumnType]
    _views: dict[tuple[str, ...], ColumnView] = field(default_factory=dict, repr=False, compare=False)
    _empty: dict[tuple[str, ...], pa.RecordBatch] = field(default_factory=dict, repr=False, compare=False)
    _whole: list[ColumnView] = field(default_factory=list, repr=False, compare=False)

    def view(self, stored: pa.RecordBatch, hide: tuple[str, ...] = ()) -> ColumnView:
        """Return the view without the columns in ``hide``, made once since stored columns are equal in all shards."""
        if hide not in self._views:
            self._views[hide] = self._view(stored.schema, hide)
        return self._views[hide]

    def whole_view(self, stored: pa.RecordBatch) -> ColumnView:
        """Return the view without hidden columns, clocks after the columns; made once."""
        if not self._whole:
            self._whole.append(self._whole_view(stored.schema))
        return self._whole[0]

    def empty(self, hide: tuple[str, ...] = ()) -> pa.RecordBatch:
        """Return an empty batch without the columns in ``hide``, made once: most tables of most subjects are empty."""
        if hide not in self._empty:
            schema = self._schema(hide)
            none = [pa.array([], kind) for kind in schema.types]
            self._empty[hide] = pa.RecordBatch.from_arrays(none, schema=schema)
        return self._empty[hide]

    def _schema(self, hide: tuple[str, ...]) -> Any:
        types: Mapping[str, ColumnType] = {"row_id": "text", **self.columns}
        return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in types.items() if name not in hide])

    def _view(self, stored: Any, hide: tuple[str, ...]) -> ColumnView:
        schema = self._schema(hide)
        names = schema.names
        made = {name for name in names if name in self.joined or (name == "age" and self.spec.age is not None)}
        return ColumnView(
            schema=schema,
            places=tuple(stored.get_field_index(name) for name in names if name not in made),
            added=tuple((place, name) for place, name in enumerate(names) if name in made),
            position={name: place for place, name in enumerate(names)},
        )

    def _whole_view(self, stored: Any) -> ColumnView:
        clocks = [name for name in stored.names if name in CLOCKS or name.startswith(LATE)]
        names = ["row_id", *self.all_columns, *clocks]
        sources = {name: join.source.type for name, join in self.joined.items()}
        schema = pa.schema([(name, sources.get(name) or stored.field(name).type) for name in names])
        return ColumnView(
            schema=schema,
            places=tuple(stored.get_field_index(name) for name in names if name not in sources),
            added=tuple((place, name) for place, name in enumerate(names) if name in sources),
            position={name: place for place, name in enumerate(names)},
        )


def table_layout(spec: TableSpec, present: Sequence[str], dictionaries: Mapping[str, pa.Table]) -> TableLayout:
    """Return a table's layout, from the columns of its file and the present dictionaries."""
    joined: dict[str, JoinedColumn] = {}
    for number, join in enumerate(spec.dictionaries):
        dictionary = dictionaries.get(join.table)
        if dictionary is not None and all(name in present for name in join.on):
            for new, old in join.add.items():
                if old in dictionary.column_names:
                    source = one_array(dictionary.column(old))
                    joined[new] = JoinedColumn(places=f"{DICTIONARY}{number}", source=source)
    columns = {*present, *joined}
    if spec.group is not None and spec.group.code in present:
        columns.add(spec.group.name)
    columns.update(name for name, parts in spec.first.items() if not columns.isdisjoint(parts))
    if spec.age is not None:
        columns.add("age")
    late = tuple(
        LateGroup(clock=rule.name if isinstance(rule, Column) else f"{LATE}{names[0]}", columns=frozenset(names))
        for rule, names in late_rules(spec, list(present)).items()
    )
    return TableLayout(
        spec=spec,
        columns={name: kind for name, kind in spec.public_columns.items() if name in columns},
        joined=joined,
        late=late,
        all_columns={name: kind for name, kind in spec.all_columns.items() if name in columns},
    )


# Checksums of a store's bytes: changed bytes raise a RecordError with the damaged file.
#
# Frames and indexes are checked at their first use and before they are parsed: a parser of damaged bytes returns other
# data or ends the process. CRC-32 of a frame costs 2.5 us for 10 KB; whole files have SHA-256.


def file_sha256(data: Any) -> str:
    """Return the hex SHA-256 of a file's bytes, mapped or read."""
    return hashlib.sha256(data).hexdigest()


def damaged(path: Path, why: str = "its bytes are not those that were written") -> RecordError:
    """Return the error for a damaged file."""
    return RecordError(f"{path} is damaged: {why}; find all such files with 'wardround audit store', then ingest again")


def map_file(path: Path) -> Any:
    """Map a file into memory and close it: a large store has more shards than a process may open files."""
    try:
        if not path.stat().st_size:
            return pa.py_buffer(b"")
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None


def map_checked(path: Path, sha256: str) -> Any:
    """Map a file after comparing its hash. RecordError: it differs."""
    data = map_file(path)
    if file_sha256(data) != sha256:
        raise damaged(path)
    return data


def cut(data: Any, offset: int, size: int, checksum: int, path: Path) -> Any:
    """Return a part of a mapped file after comparing its checksum. RecordError: it differs, or the part is missing."""
    if offset + size > data.size:
        raise damaged(path, "it is too short")
    part = data.slice(offset, size)
    if zlib.crc32(part) != checksum:
        raise damaged(path)
    return part


# A store's manifest: written last, sealed with its own hash, and read only if the seal and the version are right.


_SEAL = "sha256"
_HASHED = (SUBJECTS, SUBJECT_KEYS, "dictionaries/*", f"{SPEC_FOLDER}/*", "quarantine/*", f"{ORIGIN}/*")
"""The files whose hashes are in the manifest; hashes of shard files are in their indexes, theirs in ``indexes``."""


def write_manifest(store: Path, body: Mapping[str, Any]) -> None:
    """Write and seal the manifest, with the hashes of the files beside it.

    All other files are synced to the disk first, so that a store that opens is complete after a loss of power.
    """
    hashed = sorted(path for pattern in _HASHED for path in store.glob(pattern) if path.is_file())
    files = {path.relative_to(store).as_posix(): file_sha256(path.read_bytes()) for path in hashed}
    plain = json.loads(json.dumps({**body, "version": STORE_VERSION, "files": files}))
    sync_tree(store)
    write_atomically(store / MANIFEST, json.dumps({**plain, _SEAL: content_hash(plain)}, indent=1))


def read_manifest(store: Path) -> dict[str, Any]:
    """Read the manifest. UserError: no store, unfinished, or of another version. RecordError: damaged."""
    file = store / MANIFEST
    if not file.exists():
        if is_unfinished(store):
            raise UserError(f"{store}: the ingest was interrupted; run the same ingest command again to finish it")
        raise UserError(f"{store}: there is no store here; make one with 'wardround ingest'")
    try:
        manifest = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise damaged(file, "it is not JSON") from None
    if not isinstance(manifest, dict) or "version" not in manifest:
        raise UserError(f"{store}: {MANIFEST} is not that of a store; is this a benchmark or a run?")
    if manifest["version"] != STORE_VERSION:
        raise UserError(
            f"{store}: a store of version {manifest['version']!r}, this wardround reads {STORE_VERSION}; "
            "ingest again into another folder"
        )
    seal = manifest.pop(_SEAL, None)
    if content_hash(manifest) != seal:
        raise damaged(file)
    return manifest
