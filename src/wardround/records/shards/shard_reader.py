"""Reading shards: memory-mapped, opened once, one random access per subject and table.

Every byte is checked before Arrow parses it: the index against its hash in the manifest, schemas and messages against
the index. What never unpacks (plain messages, shared by many subjects) is checked once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.shards.buckets import one_batch
from wardround.records.shards.checksums import cut, damaged, map_checked, map_file
from wardround.records.shards.layout import INDEX, dictionary_file
from wardround.records.shards.shard_writer import TableFile

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShard:
    """One table of one shard: where each subject's rows lie, and the file's bytes."""

    subjects: Integers
    offset: Integers
    stored: Integers
    raw: Integers
    start: Integers
    rows: Integers
    checksum: Integers
    schema: Any
    file: TableFile
    data: Any
    path: Path
    _checked: set[int] = field(default_factory=set)

    def read(self, subject_id: int) -> pa.RecordBatch | None:
        """Return the stored rows of a subject, None if there are none."""
        place = int(self.subjects.searchsorted(subject_id))
        if place == len(self.subjects) or self.subjects[place] != subject_id:
            return None
        return self._at(place)

    def _at(self, place: int) -> pa.RecordBatch:
        return self._message(place).slice(int(self.start[place]), int(self.rows[place]))

    def _message(self, place: int) -> pa.RecordBatch:
        """Return the batch that holds a subject's rows, with those of its neighbours."""
        offset, stored, raw = int(self.offset[place]), int(self.stored[place]), int(self.raw[place])
        if raw:
            data = pa.decompress(cut(self.data, offset, stored, int(self.checksum[place]), self.path), raw, "zstd")
        elif offset in self._checked:
            data = self.data.slice(offset, stored)
        else:
            data = cut(self.data, offset, stored, int(self.checksum[place]), self.path)
            self._checked.add(offset)
        return pa.ipc.read_record_batch(data, self.schema)

    @property
    def message_heads(self) -> Integers:
        """The place of the first subject of every message."""
        return np.flatnonzero(np.r_[True, self.offset[1:] != self.offset[:-1]])

    def check(self) -> None:
        """Check every byte of the file. RecordError: one is not what was written."""
        if self.data.size != self.file.size:
            raise damaged(self.path, f"it has {self.data.size:,} bytes and should have {self.file.size:,}")
        for place in self.message_heads.tolist():
            at, size = int(self.offset[place]), int(self.stored[place])
            cut(self.data, at, size, int(self.checksum[place]), self.path)
        end = self.file.size - self.file.tail_size
        cut(self.data, end, self.file.tail_size, self.file.tail_checksum, self.path)

    def whole(self) -> tuple[Integers, pa.RecordBatch]:
        """Return all rows, subjects in order, and the subject of each row; every message is unpacked once."""
        batches = [self._message(int(place)) for place in self.message_heads]
        return np.repeat(self.subjects, self.rows), one_batch(pa.Table.from_batches(batches, self.schema))

    def read_all(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield every subject's rows, subjects in order."""
        for place, subject in enumerate(self.subjects.tolist()):
            yield subject, self._at(place)


@dataclass(slots=True)
class Shard:
    """One shard folder; tables open when first touched."""

    folder: Path
    index_sha256: str
    _tables: dict[str, TableShard] = field(default_factory=dict)
    _index: dict[str, tuple[TableFile, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def table(self, name: str) -> TableShard | None:
        """Return a table, None if no subject of the shard has rows in it."""
        found = self._tables.get(name)
        if found is not None:
            return found
        with self._lock:
            index = self._read_index()
            if name not in index:
                return None
            if name not in self._tables:
                self._tables[name] = _open(self.folder, *index[name])
            return self._tables[name]

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that some subject of the shard has rows in."""
        with self._lock:
            return tuple(self._read_index())

    def path_of(self, name: str) -> Path:
        """Return the file of one of its tables."""
        with self._lock:
            return self.folder / self._read_index()[name][0].name

    def _read_index(self) -> Mapping[str, tuple[TableFile, Any]]:
        if not self._index:
            reader = pa.ipc.open_file(pa.BufferReader(map_checked(self.folder / INDEX, self.index_sha256)))
            for number, (name, text) in enumerate((reader.schema.metadata or {}).items()):
                self._index[name.decode()] = (TableFile.from_json(text.decode()), reader.get_batch(number))
        return self._index


def _open(folder: Path, file: TableFile, index: Any) -> TableShard:
    path = folder / file.name
    data = map_file(path)
    stream: Any = pa.BufferReader(cut(data, 0, file.head_size, file.head_checksum, path))
    if file.name.endswith(".zst"):
        stream = pa.CompressedInputStream(stream, "zstd")
    columns = {name: index.column(name).to_numpy() for name in index.schema.names}
    return TableShard(
        subjects=columns["subject_id"],
        offset=columns["offset"],
        stored=columns["stored"],
        raw=columns["raw"],
        start=columns["start"],
        rows=columns["rows"],
        checksum=columns["checksum"],
        schema=pa.ipc.open_stream(stream).schema,
        file=file,
        data=data,
        path=path,
    )


def read_dictionary(store: Path, name: str, sha256: str | None = None) -> pa.Table:
    """Return a dictionary of a store, checked against its hash where there is one yet."""
    path = store / dictionary_file(name)
    data = map_file(path) if sha256 is None else map_checked(path, sha256)
    return pa.ipc.open_file(pa.BufferReader(data)).read_all().combine_chunks()
