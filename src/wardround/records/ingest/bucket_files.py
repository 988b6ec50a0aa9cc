"""Files of rows by bucket: each writer's are read in the order of their names.

A file has an Arrow IPC stream for each bucket and, behind them, the place of each, so that a bucket is read without the
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count as counted
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.records.shards.layout import bucket_numbers
from wardround.records.specs.spec import one_batch

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


_PART = ".part"
"""Ending of a file of many buckets."""
_LARGE_PART = 1 << 18
"""From this size on (in bytes) parts of a flush are not joined before they are written."""
_DEALS = 8
"""A flush is divided into this number of parts, so that only one part is copied at a time."""


class BucketWriter:
    """Collects the rows of a part of a table and writes them by bucket, about ``flush_bytes`` a file; files that an
    unfinished try left are removed."""

    def __init__(self, folder: Path, count: int, subject: str, flush_bytes: int, *, part: int = 0) -> None:
        self._part, self._files = part, 0
        self._folder, self._count, self._subject, self._flush_bytes = folder, count, subject, flush_bytes
        self._read: list[pa.Table] = []
        self._dealt: list[tuple[pa.RecordBatch, list[int]]] = []
        self._read_bytes = self._dealt_bytes = 0
        for old in takewhile(Path.exists, map(self._file, counted())):
            old.unlink()

    def _file(self, number: int) -> Path:
        return self._folder / f"{self._part:06d}-{number:06d}{_PART}"

    def add(self, table: pa.Table) -> None:
        """Add rows. Every cell of the subject column must be filled."""
        self._read.append(table)
        self._read_bytes += table.nbytes
        if self._read_bytes >= self._flush_bytes // _DEALS:
            self._deal()
        if self._dealt_bytes >= self._flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows: a file with a stream for each bucket, and behind them the place of each."""
        self._deal()
        if not self._dealt:
            return
        places = np.zeros(self._count + 1, np.int64)
        with self._file(self._files).open("wb") as target:
            for bucket in range(self._count):
                spans = ((batch, starts[bucket], starts[bucket + 1]) for batch, starts in self._dealt)
                parts = [batch.slice(start, end - start) for batch, start, end in spans if end > start]
                if parts:
                    _write_stream(target, parts)
                places[bucket + 1] = target.tell()
            target.write(places.tobytes())
        self._dealt, self._dealt_bytes, self._files = [], 0, self._files + 1

    def _deal(self) -> None:
        """Sort rows by bucket; return them with the place where each bucket begins."""
        if not self._read:
            return
        read, self._read, self._read_bytes = pa.concat_tables(self._read), [], 0
        if self._count == 1:
            self._dealt += [(batch, [0, batch.num_rows]) for batch in read.to_batches()]
            self._dealt_bytes += read.nbytes
            return
        batch = one_batch(read)
        buckets = bucket_numbers(batch.column(self._subject).to_numpy(), self._count).astype(np.uint16)
        batch = batch.take(pa.array(np.argsort(buckets, kind="stable")))
        ends = np.cumsum(np.bincount(buckets, minlength=self._count))
        self._dealt.append((batch, [0, *ends.tolist()]))
        self._dealt_bytes += batch.nbytes


def _write_stream(target: Any, parts: list[pa.RecordBatch]) -> None:
    """Write large parts as they are, since reading joins them once; small ones joined, as a batch has its own cost."""
    if sum(part.nbytes for part in parts) < _LARGE_PART * len(parts):
        parts = [one_batch(pa.Table.from_batches(parts))]
    with pa.ipc.new_stream(target, parts[0].schema, options=_OPTIONS) as stream:
        for part in parts:
            stream.write_batch(part)


def bucket_file(folder: Path, bucket: int) -> Path:
    """Return the path of a file with a table's rows of one bucket only: those of an earlier store."""
    return folder / f"{bucket:05d}.streams"


def read_bucket(folder: Path, bucket: int, columns: Sequence[str] | None = None) -> pa.RecordBatch | None:
    """Return a table's rows of one bucket, in the order of the file; None if there are none."""
    rows = bucket_rows(folder, bucket, columns)
    return None if rows is None else one_batch(rows)


def bucket_rows(folder: Path, bucket: int, columns: Sequence[str] | None = None) -> pa.Table | None:
    """Return what :func:`read_bucket` does without joining the batches."""
    batches: list[pa.RecordBatch] = []
    options = None
    for stream in _streams(folder, bucket):
        if options is None:
            options = pa.ipc.IpcReadOptions(included_fields=_fields(stream, columns), use_threads=False)
        batches.extend(pa.ipc.open_stream(stream, options=options))
    return pa.Table.from_batches(batches) if batches else None


def _streams(folder: Path, bucket: int) -> Iterator[Any]:
    """Yield the streams of a bucket, mapped, in the order of their rows."""
    own = bucket_file(folder, bucket)
    if own.exists():
        yield pa.memory_map(str(own)).read_buffer()
    for path in sorted(folder.glob(f"*{_PART}")):
        whole = pa.memory_map(str(path)).read_buffer()
        end = np.frombuffer(whole[-8:], np.int64)[0]
        start, stop = np.frombuffer(whole[end:], np.int64)[bucket : bucket + 2]
        if stop > start:
            yield whole[start:stop]


def _fields(stream: Any, columns: Sequence[str] | None) -> list[int] | None:
    if columns is None:
        return None
    names = pa.ipc.open_stream(stream).schema.names
    return [index for index, name in enumerate(names) if name in columns]
