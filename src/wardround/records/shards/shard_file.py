"""A shard's files: one table in subject order, and the order its source file had."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.shards.layout import (
    INDEX,
    ORIGIN,
    cut,
    damaged,
    dictionary_file,
    map_checked,
    map_file,
)
from wardround.records.specs.spec import one_batch

# Files are memory-mapped and opened once, with one random access per subject and table; a message's checksum is checked
# at its first use.


Integers = npt.NDArray[np.int64]
_SMALL_SUBJECT_BYTES = 4 << 10
_PLAIN_BATCH_BYTES = 1 << 18
"""Limit of files that are checked whole when their first subject is read."""
_FRAME_BYTES = 32 << 10
_CODEC = ("zstd", 1)
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
INDEX_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("subject_id", "offset", "stored", "raw", "start", "rows", "checksum")]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """One table's file.

    ``head`` has the schema and ends at the first message, ``tail`` ends the stream: with the indexed messages they are
    all bytes of the file."""

    name: str
    size: int
    head_size: int
    head_checksum: int
    tail_size: int
    tail_checksum: int

    def to_json(self) -> str:
        """Return the entry for the index."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TableFile:
        """Read an entry of an index."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlocks:
    """One written table: its index (``raw`` 0 means stored uncompressed) and its file."""

    index: pa.RecordBatch
    file: TableFile


def write_table(
    folder: Path, name: str, batch: pa.RecordBatch, subjects: Integers, *, earlier: TableShard | None = None
) -> TableBlocks:
    """Write rows sorted by subject. Small subjects share plain batches, larger ones have zstd frames.

    Messages that an ``earlier`` table of :meth:`TableShard.unpacked` has byte by byte are not compressed again.
    """
    first = np.flatnonzero(np.r_[True, subjects[1:] != subjects[:-1]]) if len(subjects) else np.empty(0, np.int64)
    rows = np.diff(np.r_[first, len(subjects)])
    # Masks that mask nothing are not counted: these may exist or not for equal rows.
    masked = sum(1 for column in batch.columns if not column.null_count and column.buffers()[0] is not None)
    size = batch.nbytes - masked * ((batch.num_rows + 7) // 8)
    row_bytes = size / max(batch.num_rows, 1)
    small = size / max(len(first), 1) < _SMALL_SUBJECT_BYTES
    wanted = max(1, int((_PLAIN_BATCH_BYTES if small else _FRAME_BYTES) / max(row_bytes, 1)))
    groups = _groups(rows, wanted)
    path = folder / (f"{name}.arrows" if small else f"{name}.arrows.zst")
    codec = None if small else pa.Codec(_CODEC[0], compression_level=_CODEC[1])

    def pack(place: int, message: Any) -> tuple[Any, int]:
        known = None if small or earlier is None else earlier.stored_message(int(subjects[first[place]]), message)
        return _pack(message, codec) if known is None else (known, message.size)

    places, file = _write_messages(path, batch, first, rows, groups, codec=codec, pack=pack)
    return TableBlocks(index=_index(subjects[first], first, rows, groups, places), file=file)


def _groups(rows: Integers, wanted: int) -> Integers:
    """Divide subjects into groups of at least ``wanted`` rows; return the number of each subject's group."""
    if len(rows) == 0:
        return rows
    numbers = np.empty(len(rows), dtype=np.int64)
    group = size = 0
    for place, count in enumerate(rows.tolist()):
        if size and size + count > wanted:
            group, size = group + 1, 0
        numbers[place] = group
        size += count
    return numbers


def _write_messages(
    path: Path,
    batch: pa.RecordBatch,
    first: Integers,
    rows: Integers,
    groups: Integers,
    *,
    codec: Any,
    pack: Callable[[int, Any], tuple[Any, int]],
) -> tuple[list[tuple[int, int, int, int]], TableFile]:
    """Write the file; return offset, stored size, raw size and checksum of each message, and its head and tail.
    ``pack``: takes the place of a message's first subject and the message."""
    places: list[tuple[int, int, int, int]] = []
    heads = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.empty(0, np.int64)
    ends = np.r_[heads[1:], len(groups)]
    with path.open("wb") as target:
        schema = _pack(batch.schema.serialize(), codec)[0]
        offset = target.write(schema)
        for head, end in zip(heads.tolist(), ends.tolist(), strict=True):
            start, stop = int(first[head]), int(first[end - 1] + rows[end - 1])
            stored, raw = pack(head, batch.slice(start, stop - start).serialize())
            places.append((offset, len(stored), raw, zlib.crc32(stored)))
            offset += target.write(stored)
        tail = _pack(pa.py_buffer(_END_OF_STREAM), codec)[0]
        offset += target.write(tail)
    file = TableFile(
        name=path.name,
        size=offset,
        head_size=len(schema),
        head_checksum=zlib.crc32(schema),
        tail_size=len(tail),
        tail_checksum=zlib.crc32(tail),
    )
    return places, file


def _pack(message: Any, codec: Any) -> tuple[Any, int]:
    if codec is None:
        return memoryview(message), 0
    return codec.compress(message, asbytes=True), message.size


def _index(
    subjects: Integers, first: Integers, rows: Integers, groups: Integers, places: list[tuple[int, int, int, int]]
) -> pa.RecordBatch:
    place = np.array(places, dtype=np.int64).reshape(-1, 4)
    heads = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.empty(0, np.int64)
    starts = first - first[heads][groups] if len(groups) else first
    offset, stored, raw, checksum = place[groups].T if len(groups) else place.T
    columns = [subjects, offset, stored, raw, starts, rows, checksum]
    return pa.RecordBatch.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in columns], schema=INDEX_SCHEMA
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShard:
    """One table of one shard: the index of its subjects' rows, and the file's bytes."""

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
    _messages: dict[int, Any] = field(default_factory=dict)
    """By place of their first subject, the messages that :meth:`unpacked` read, uncompressed."""
    _latest: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)

    def read(self, subject_id: int) -> pa.RecordBatch | None:
        """Return the stored rows of a subject, None if there are none."""
        place = int(self.subjects.searchsorted(subject_id))
        if place == len(self.subjects) or self.subjects[place] != subject_id:
            return None
        return self._at(place)

    def _at(self, place: int) -> pa.RecordBatch:
        return self._message(place).slice(int(self.start[place]), int(self.rows[place]))

    def _message(self, place: int) -> pa.RecordBatch:
        """Return the batch with a subject's rows, and those of its neighbours. The last small one is cached, so that
        reading subjects in order unpacks it once."""
        offset, size = int(self.offset[place]), int(self.raw[place] or self.stored[place])
        for key, batch in self._latest:
            if key == offset:
                return batch
        batch = pa.ipc.read_record_batch(self._bytes(place), self.schema)
        if size <= _PLAIN_BATCH_BYTES:
            self._latest[:] = [(offset, batch)]
        return batch

    def _bytes(self, place: int) -> Any:
        """Return the message with a subject's rows, uncompressed."""
        offset, stored, raw = int(self.offset[place]), int(self.stored[place]), int(self.raw[place])
        if raw:
            return pa.decompress(cut(self.data, offset, stored, int(self.checksum[place]), self.path), raw, "zstd")
        if offset in self._checked:
            return self.data.slice(offset, stored)
        data = cut(self.data, offset, stored, int(self.checksum[place]), self.path)
        self._checked.add(offset)
        return data

    @property
    def message_heads(self) -> Integers:
        """The places of the first subjects of messages."""
        return np.flatnonzero(np.r_[True, self.offset[1:] != self.offset[:-1]])

    def check(self) -> None:
        """Check every byte of the file. RecordError: one was changed."""
        if self.data.size != self.file.size:
            raise damaged(self.path, f"it has {self.data.size:,} bytes and should have {self.file.size:,}")
        for place in self.message_heads.tolist():
            at, size = int(self.offset[place]), int(self.stored[place])
            cut(self.data, at, size, int(self.checksum[place]), self.path)
        end = self.file.size - self.file.tail_size
        cut(self.data, end, self.file.tail_size, self.file.tail_checksum, self.path)

    def whole(self) -> tuple[Integers, pa.RecordBatch]:
        """Return all rows, subjects in order, and the subject of each row; every message is unpacked once."""
        return self._rows(0, len(self.subjects))

    def unpacked(self) -> tuple[Integers, pa.Table]:
        """Return what :meth:`whole` does without joining the messages, which stay in memory with this table."""
        self._messages.update((place, self._bytes(place)) for place in self.message_heads.tolist())
        batches = [pa.ipc.read_record_batch(message, self.schema) for message in self._messages.values()]
        return np.repeat(self.subjects, self.rows), pa.Table.from_batches(batches, self.schema)

    def stored_message(self, subject_id: int, message: Any) -> Any:
        """Return the compressed bytes of an uncompressed message that begins with a subject; None if this table has
        another one there, or none. Only after :meth:`unpacked`."""
        place = int(self.subjects.searchsorted(subject_id))
        known = self._messages.get(place)
        if known is None or not self.raw[place] or self.subjects[place] != subject_id or not known.equals(message):
            return None
        return self.data.slice(int(self.offset[place]), int(self.stored[place]))

    def between(self, least: int, most: int) -> tuple[Integers, pa.RecordBatch] | None:
        """Return the rows of the subjects from ``least`` to ``most``, and the subject of each; None if there are none.
        Only messages with these rows are unpacked."""
        first, end = int(self.subjects.searchsorted(least)), int(self.subjects.searchsorted(most, side="right"))
        return self._rows(first, end) if end > first else None

    def _rows(self, first: int, end: int) -> tuple[Integers, pa.RecordBatch]:
        """Return the rows of the subjects at consecutive places."""
        offset = self.offset[first:end]
        heads = first + np.flatnonzero(np.r_[True, offset[1:] != offset[:-1]])
        batches = [self._message(place) for place in heads.tolist()]
        subjects = np.repeat(self.subjects[first:end], self.rows[first:end])
        joined = one_batch(pa.Table.from_batches(batches, self.schema))
        return subjects, joined.slice(int(self.start[first]), len(subjects))

    def read_all(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield every subject's rows, subjects in order."""
        for place, subject in enumerate(self.subjects.tolist()):
            yield subject, self._at(place)


@dataclass(slots=True)
class Shard:
    """One shard folder; tables are opened at their first use."""

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
        """The tables with rows in the shard."""
        with self._lock:
            return tuple(self._read_index())

    def blocks(self, name: str) -> TableBlocks:
        """Return the index of one of its tables."""
        with self._lock:
            file, index = self._read_index()[name]
        return TableBlocks(index=pa.RecordBatch.from_arrays(index.columns, schema=INDEX_SCHEMA), file=file)

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
    """Return a dictionary of a store, checked against its hash if there is one yet."""
    path = store / dictionary_file(name)
    data = map_file(path) if sha256 is None else map_checked(path, sha256)
    return pa.ipc.open_file(pa.BufferReader(data)).read_all().combine_chunks()


# The order of a subject's rows in the source's file: stored rows are sorted by time.
#
# With it the raw rows of a shard can be restored from the store, so that unchanged parts of a newer release need not be
# read. Stored per row: the number of places it moved within its subject, mostly 0, which takes almost no bytes.


_MOVED = pa.schema([("moved", pa.int32())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


def order_file(shard: int) -> str:
    """Return the path of a shard's orders in a store."""
    return f"{ORIGIN}/{shard:05d}.arrow"


def moved_rows(subjects: Integers, places: Integers) -> Integers:
    """Return how far each stored row moved within its subject. ``subjects``: sorted; ``places``: original places."""
    here = np.arange(len(subjects))
    if ((places[1:] > places[:-1]) | (subjects[1:] != subjects[:-1])).all():
        return np.zeros(len(subjects), dtype=np.int64)
    run = np.cumsum(np.r_[0, subjects[1:] != subjects[:-1]])
    order = np.argsort(run * (int(places.max()) + 1) + places)  # no two are equal
    moved: Integers = np.empty(len(subjects), dtype=np.int64)
    moved[order] = here - order
    return moved


def rows_in_file_order(subjects: Integers, moved: Integers) -> Integers:
    """Return the places of stored rows, subjects in order, each subject's rows in the order of the file."""
    places: Integers = np.empty(len(subjects), dtype=np.int64)
    places[np.arange(len(subjects)) + moved] = np.arange(len(subjects))
    return places


def write_orders(path: Path, moved: Mapping[str, Integers]) -> None:
    """Write the orders of a shard's tables."""
    schema = _MOVED.with_metadata(dict.fromkeys(moved, ""))
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, schema, options=_OPTIONS) as stream:
        for places in moved.values():
            stream.write_batch(pa.record_batch([pa.array(places, pa.int32())], schema=_MOVED))


def read_orders(data: object) -> dict[str, Integers]:
    """Return the content of a file of :func:`write_orders`, by table."""
    reader = pa.ipc.open_file(data)
    names = [name.decode() for name in reader.schema.metadata or {}]
    return {name: reader.get_batch(place).column(0).to_numpy().astype(np.int64) for place, name in enumerate(names)}
