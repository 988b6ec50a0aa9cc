"""Writing one table of one shard: rows in subject order, cut into Arrow messages, and an index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
_SMALL_SUBJECT_BYTES = 4 << 10
_PLAIN_BATCH_BYTES = 1 << 20
_FRAME_BYTES = 32 << 10
_CODEC = ("zstd", 1)
INDEX_SCHEMA = pa.schema([(name, pa.int64()) for name in ("subject_id", "offset", "stored", "raw", "start", "rows")])


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlocks:
    """One written table: its index (``raw`` 0 means stored uncompressed) and the name of its file."""

    index: pa.RecordBatch
    file: str


def write_table(folder: Path, name: str, batch: pa.RecordBatch, subjects: Integers) -> TableBlocks:
    """Write rows that are ordered by subject. Small subjects share plain batches, larger ones get zstd frames."""
    first = np.flatnonzero(np.r_[True, subjects[1:] != subjects[:-1]]) if len(subjects) else np.empty(0, np.int64)
    rows = np.diff(np.r_[first, len(subjects)])
    row_bytes = batch.nbytes / max(batch.num_rows, 1)
    small = batch.nbytes / max(len(first), 1) < _SMALL_SUBJECT_BYTES
    wanted = max(1, int((_PLAIN_BATCH_BYTES if small else _FRAME_BYTES) / max(row_bytes, 1)))
    groups = _groups(rows, wanted)
    file = f"{name}.arrows" if small else f"{name}.arrows.zst"
    offsets = _write_messages(folder / file, batch, first, rows, groups, compressed=not small)
    return TableBlocks(index=_index(subjects[first], first, rows, groups, offsets), file=file)


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
) -> list[tuple[int, int, int]]:
    codec = pa.Codec(_CODEC[0], compression_level=_CODEC[1]) if compressed else None
    places: list[tuple[int, int, int]] = []
    heads = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.empty(0, np.int64)
    ends = np.r_[heads[1:], len(groups)]
    with path.open("wb") as target:
        offset = target.write(_pack(batch.schema.serialize(), codec)[0])
        for head, end in zip(heads.tolist(), ends.tolist(), strict=True):
            start, stop = int(first[head]), int(first[end - 1] + rows[end - 1])
            message = batch.slice(start, stop - start).serialize()
            stored, raw = _pack(message, codec)
            places.append((offset, len(stored), raw))
            offset += target.write(stored)
        target.write(_pack(pa.py_buffer(b"\xff\xff\xff\xff\x00\x00\x00\x00"), codec)[0])
    return places


def _pack(message: Any, codec: Any) -> tuple[Any, int]:
    if codec is None:
        return memoryview(message), 0
    return codec.compress(message, asbytes=True), message.size


def _index(
    subjects: Integers, first: Integers, rows: Integers, groups: Integers, places: list[tuple[int, int, int]]
) -> pa.RecordBatch:
    place = np.array(places, dtype=np.int64).reshape(-1, 3)
    heads = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.empty(0, np.int64)
    starts = first - first[heads][groups] if len(groups) else first
    columns = [subjects, *(place[groups].T if len(groups) else place.T), starts, rows]
    return pa.RecordBatch.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in columns], schema=INDEX_SCHEMA
    )
