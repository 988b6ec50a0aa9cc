"""Reading shards: memory-mapped, opened once, one random access per subject and table."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.buckets import one_batch

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
    schema: Any
    file: Any

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
        data = self.file.slice(int(self.offset[place]), int(self.stored[place]))
        raw = int(self.raw[place])
        if raw:
            data = pa.decompress(data, raw, "zstd")
        return pa.ipc.read_record_batch(data, self.schema)

    def whole(self) -> tuple[Integers, pa.RecordBatch]:
        """Return all rows, subjects in order, and the subject of each row; every message is unpacked once."""
        heads = np.flatnonzero(np.r_[True, self.offset[1:] != self.offset[:-1]])
        batches = [self._message(int(place)) for place in heads]
        return np.repeat(self.subjects, self.rows), one_batch(pa.Table.from_batches(batches, self.schema))

    def read_all(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield every subject's rows, subjects in order."""
        for place, subject in enumerate(self.subjects.tolist()):
            yield subject, self._at(place)


@dataclass(slots=True)
class Shard:
    """One shard folder; tables open when first touched."""

    folder: Path
    _tables: dict[str, TableShard] = field(default_factory=dict)
    _index: dict[str, tuple[str, Any]] = field(default_factory=dict)
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

    def _read_index(self) -> Mapping[str, tuple[str, Any]]:
        if not self._index:
            reader = pa.ipc.open_file(pa.BufferReader(_map(self.folder / "index.arrow")))
            files = {key.decode(): name.decode() for key, name in (reader.schema.metadata or {}).items()}
            for number, (name, file) in enumerate(files.items()):
                self._index[name] = (file, reader.get_batch(number))
        return self._index


def _open(folder: Path, file: str, index: Any) -> TableShard:
    data = _map(folder / file)
    stream: Any = pa.BufferReader(data)
    if file.endswith(".zst"):
        stream = pa.CompressedInputStream(stream, "zstd")
    columns = {name: index.column(name).to_numpy() for name in index.schema.names}
    return TableShard(
        subjects=columns["subject_id"],
        offset=columns["offset"],
        stored=columns["stored"],
        raw=columns["raw"],
        start=columns["start"],
        rows=columns["rows"],
        schema=pa.ipc.open_stream(stream).schema,
        file=data,
    )


def _map(path: Path) -> Any:
    """Map a file into memory. The file itself is closed again: a large store has more shards than open files."""
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()
