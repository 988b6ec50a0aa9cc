"""Writing one table of one shard: rows in subject order, cut into Arrow messages, and an index."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.shards.checksums import frame_checksum

Integers = npt.NDArray[np.int64]
_SMALL_SUBJECT_BYTES = 4 << 10
_PLAIN_BATCH_BYTES = 1 << 18
"""Small enough to be checked whole when its first subject is read."""
_FRAME_BYTES = 32 << 10
_CODEC = ("zstd", 1)
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
INDEX_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("subject_id", "offset", "stored", "raw", "start", "rows", "checksum")]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """One table's file. ``head`` holds the schema and ends where the first message begins, ``tail`` ends the stream:
    with the messages in the index they are every byte of the file."""

    name: str
    size: int
    head_size: int
    head_checksum: int
    tail_size: int
    tail_checksum: int

    def to_json(self) -> str:
        """Return it as the index keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TableFile:
        """Read it from an index."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlocks:
    """One written table: its index (``raw`` 0 means stored uncompressed) and its file."""

    index: pa.RecordBatch
    file: TableFile


def write_table(folder: Path, name: str, batch: pa.RecordBatch, subjects: Integers) -> TableBlocks:
    """Write rows that are ordered by subject. Small subjects share plain batches, larger ones get zstd frames."""
    first = np.flatnonzero(np.r_[True, subjects[1:] != subjects[:-1]]) if len(subjects) else np.empty(0, np.int64)
    rows = np.diff(np.r_[first, len(subjects)])
    row_bytes = batch.nbytes / max(batch.num_rows, 1)
    small = batch.nbytes / max(len(first), 1) < _SMALL_SUBJECT_BYTES
    wanted = max(1, int((_PLAIN_BATCH_BYTES if small else _FRAME_BYTES) / max(row_bytes, 1)))
    groups = _groups(rows, wanted)
    path = folder / (f"{name}.arrows" if small else f"{name}.arrows.zst")
    places, file = _write_messages(path, batch, first, rows, groups, compressed=not small)
    return TableBlocks(index=_index(subjects[first], first, rows, groups, places), file=file)


def _groups(rows: Integers, wanted: int) -> Integers:
    """Cut subjects into groups of at least ``wanted`` rows: return the group's number of each subject."""
    if len(rows) == 0:
        return rows
    numbers = np.empty(len(rows), dtype=np.int64)
    group = held = 0
    for place, count in enumerate(rows.tolist()):
        if held and held + count > wanted:
            group, held = group + 1, 0
        numbers[place] = group
        held += count
    return numbers


def _write_messages(
    path: Path, batch: pa.RecordBatch, first: Integers, rows: Integers, groups: Integers, *, compressed: bool
) -> tuple[list[tuple[int, int, int, int]], TableFile]:
    """Write the file; return offset, stored size, raw size and checksum of each message, and what surrounds them."""
    codec = pa.Codec(_CODEC[0], compression_level=_CODEC[1]) if compressed else None
    places: list[tuple[int, int, int, int]] = []
    heads = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.empty(0, np.int64)
    ends = np.r_[heads[1:], len(groups)]
    with path.open("wb") as target:
        schema = _pack(batch.schema.serialize(), codec)[0]
        offset = target.write(schema)
        for head, end in zip(heads.tolist(), ends.tolist(), strict=True):
            start, stop = int(first[head]), int(first[end - 1] + rows[end - 1])
            message = batch.slice(start, stop - start).serialize()
            stored, raw = _pack(message, codec)
            places.append((offset, len(stored), raw, frame_checksum(stored)))
            offset += target.write(stored)
        tail = _pack(pa.py_buffer(_END_OF_STREAM), codec)[0]
        offset += target.write(tail)
    file = TableFile(
        name=path.name,
        size=offset,
        head_size=len(schema),
        head_checksum=frame_checksum(schema),
        tail_size=len(tail),
        tail_checksum=frame_checksum(tail),
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
