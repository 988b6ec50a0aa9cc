"""Rows spread over buckets by subject, on disk: all rows of a subject end up in one bucket, in the order of the file.

A bucket file is a row of small Arrow IPC streams, one per flush, so that it can be appended to without being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def bucket_numbers(subjects: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return the bucket of each subject: a fixed multiplicative hash."""
    mixed = (subjects.astype(np.uint64) * _GOLDEN) >> np.uint64(33)
    return (mixed % np.uint64(count)).astype(np.int64)


class BucketWriter:
    """Collects a table's rows and appends them to its bucket files, about ``flush_bytes`` at a time."""

    def __init__(self, folder: Path, count: int, subject: str, flush_bytes: int) -> None:
        self._folder, self._count, self._subject, self._flush_bytes = folder, count, subject, flush_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Take rows; every cell of the subject column is set."""
        self._held.append(table)
        self._held_bytes += table.nbytes
        if self._held_bytes >= self._flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._held:
            return
        batch = one_batch(pa.concat_tables(self._held))
        self._held, self._held_bytes = [], 0
        if self._count == 1:
            self._append(0, batch)
            return
        subjects = batch.column(self._subject).to_numpy()
        buckets = bucket_numbers(subjects, self._count).astype(np.uint16)
        batch = batch.take(pa.array(np.argsort(buckets, kind="stable")))
        ends = np.cumsum(np.bincount(buckets, minlength=self._count))
        start = 0
        for bucket, end in enumerate(ends.tolist()):
            if end > start:
                self._append(bucket, batch.slice(start, end - start))
            start = end

    def _append(self, bucket: int, batch: pa.RecordBatch) -> None:
        target = bucket_file(self._folder, bucket).open("ab")
        with target, pa.ipc.new_stream(target, batch.schema, options=_OPTIONS) as stream:
            stream.write_batch(batch)


def bucket_file(folder: Path, bucket: int) -> Path:
    """Return where a table's rows of one bucket lie."""
    return folder / f"{bucket:05d}.streams"


def read_bucket(folder: Path, bucket: int, columns: Sequence[str] | None = None) -> pa.RecordBatch | None:
    """Return a table's rows of one bucket, in the order of the file; None if there are none."""
    path = bucket_file(folder, bucket)
    if not path.exists():
        return None
    batches: list[pa.RecordBatch] = []
    options = pa.ipc.IpcReadOptions(included_fields=_fields(path, columns), use_threads=False)
    with pa.memory_map(str(path)) as source:
        size = source.size()
        while source.tell() < size:
            batches.extend(pa.ipc.open_stream(source, options=options))
    return one_batch(pa.Table.from_batches(batches))


def _fields(path: Path, columns: Sequence[str] | None) -> list[int] | None:
    if columns is None:
        return None
    with pa.memory_map(str(path)) as source:
        names = pa.ipc.open_stream(source).schema.names
    return [index for index, name in enumerate(names) if name in columns]


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as a single batch."""
    table = table.combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
