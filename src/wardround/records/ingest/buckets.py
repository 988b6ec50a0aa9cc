"""The first half of an ingest: each source file is read once, its rows are distributed over buckets by subject.

All rows of a subject are in one bucket, in the order of the file. A table is read in parts, which are the same however
many processes read them; a part writes files of its own, so that joining the parts is reading their files in order.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count as counted
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import Progress, Reporter, silent
from wardround.records.ingest.clocks import delay_counts
from wardround.records.ingest.plan import Plan, file_fingerprints, size_in_memory
from wardround.records.ingest.sections import derive_rows
from wardround.records.reading.source_files import (
    BrokenRow,
    SubjectKeys,
    joined_keys,
    read_keys,
    write_keys,
    write_quarantine,
)
from wardround.records.reading.table_reader import Piece, ReadCounts, RowGroup, TableReader
from wardround.records.rules.language import Column
from wardround.records.shards.layout import bucket_numbers
from wardround.records.specs.spec import ARROW_TYPES, OWN_SUBJECT, WRITTEN, TableSpec, integers, one_batch

PART_BYTES = 32 << 20
"""What one process reads of a table at a time, about; a smaller file is never divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """A part of a table's rows, the same whichever process reads it: whole files (``None``) or pieces of one, in order.

    ``missing``: the columns that no file of the table has; ``read``: megabytes of content up to its end, about.
    """

    table: str
    number: int
    files: Sequence[tuple[TableReader, list[Piece] | None]]
    missing: tuple[str, ...]
    read: float

    def __str__(self) -> str:
        return f"part-{self.table}-{self.number:06d}"


def table_parts(plan: Plan, name: str) -> Iterator[TablePart]:
    """Yield the parts of a table that have not been read, in order."""
    table = plan.spec.tables[name]
    readers = _readers(plan, table)
    present = {column for reader in readers for column in reader.header()}
    missing = tuple(column for column in table.read_columns if column not in present)
    read = 0.0
    for number, (files, size) in enumerate(_dealt(readers, keep=plan.settings.is_done_here)):
        read += size / 1e6
        part = TablePart(
            table=name, number=number, files=files, missing=missing if name in plan.files.tables else (), read=read
        )
        if plan.noted(str(part)) is None:
            yield part


def _dealt(
    readers: Sequence[TableReader], *, keep: bool
) -> Iterator[tuple[list[tuple[TableReader, list[Piece] | None]], float]]:
    """Yield what the parts of a table are read from, and their bytes. ``keep``: with the bytes that are read here."""
    files: list[tuple[TableReader, list[Piece] | None]] = []
    total = 0.0
    for reader in readers:
        whole = size_in_memory(reader.path)
        for piece in reader.pieces() if whole >= PART_BYTES else [None]:
            own = files[-1][1] if files and files[-1][0] is reader else None
            if own is None:
                files.append((reader, None if piece is None else []))
                own = files[-1][1]
            if piece is not None and own is not None:
                own.append(piece if keep or isinstance(piece, RowGroup) else piece.handed_on())
            total += whole if piece is None else piece.size
            if total >= PART_BYTES:
                yield files, total
                files, total = [], 0.0
    if files:
        yield files, total


def bucket_part(plan: Plan, part: TablePart, report: Reporter = silent) -> None:
    """Read a part of a table and write its rows by bucket, unless this was done before."""
    if plan.noted(str(part)) is not None:
        return
    if part.number == 0:
        file_fingerprints(plan, part.table, report)
    table = plan.spec.tables[part.table]
    folder = plan.bucket_folder(part.table)
    folder.mkdir(parents=True, exist_ok=True)
    quarantine = folder / f"{part.number:06d}.jsonl"
    quarantine.unlink(missing_ok=True)
    writer = BucketWriter(folder, plan.shards, table.subject_column, plan.settings.memory_bytes // 16, part=part.number)
    counts, subjects = ReadCounts(missing_columns=part.missing), SubjectKeys()
    delays = _no_delays(table)
    columns: list[str] = []
    kept, filled = 0, Counter[str]()
    for rows, broken in _rows(plan, table, part, counts, subjects):
        if broken:
            write_quarantine(quarantine, broken)
        columns, kept = rows.column_names, kept + rows.num_rows
        filled.update({name: rows.num_rows - rows.column(name).null_count for name in columns})
        for start, end in table.median_pairs:
            delay_counts(table, start, end, one_batch(rows), delays[f"{start}.{end}"])
        writer.add(rows)
    writer.flush()
    if table.has_text_subject:
        write_keys(folder / f"{part.number:06d}.keys", subjects.keys)
    note = {"counts": asdict(counts), "kept": kept, "columns": columns, "filled": filled, "delays": _listed(delays)}
    plan.note(str(part), note)
    report(Progress(label=f"read {table.name}", done=part.read, unit="MB"))


def join_parts(plan: Plan, name: str) -> None:
    """Join what the parts of a table counted and set aside, in their order, and note that the table is read."""
    table, folder = plan.spec.tables[name], plan.bucket_folder(name)
    quarantine = plan.store / "quarantine" / f"{name}.jsonl"
    quarantine.unlink(missing_ok=True)
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as own, quarantine.open("ab") as whole:
            shutil.copyfileobj(own, whole)
    if table.has_text_subject:
        write_keys(plan.keys_file(name), joined_keys(read_keys(str(path)) for path in sorted(folder.glob("*.keys"))))
    _PARENTS.clear()
    counts, delays, columns = ReadCounts(), _no_delays(table), list[str]()
    kept, filled, number = 0, Counter[str](), 0
    while (note := plan.noted(f"part-{name}-{number:06d}")) is not None:
        counts.add(ReadCounts(**note["counts"]))
        counts.missing_columns = tuple(each for each in note["counts"]["missing_columns"] if each in table.columns)
        columns, kept, number = columns or note["columns"], kept + note["kept"], number + 1
        filled.update(note["filled"])
        for key, halves in note["delays"].items():
            for known, half in zip(delays[key], halves, strict=True):
                for delay, count in half:
                    known[delay] = known.get(delay, 0) + count
    columns = columns or [column for column in table.columns if column not in counts.missing_columns]
    columns = [column for column in columns if column in table.columns]
    note = {"counts": asdict(counts), "kept": kept, "columns": columns, "filled": {key: filled[key] for key in columns}}
    plan.note(f"table-{name}", {**note, "delays": _listed(delays)})


_Delays = dict[str, list[dict[int, int]]]


def _no_delays(table: TableSpec) -> _Delays:
    return {f"{start}.{end}": [{}, {}] for start, end in table.median_pairs}


def _listed(delays: _Delays) -> dict[str, list[list[tuple[int, int]]]]:
    return {key: [list(half.items()) for half in halves] for key, halves in delays.items()}


def _rows(
    plan: Plan, table: TableSpec, part: TablePart, counts: ReadCounts, subjects: SubjectKeys
) -> Iterator[tuple[pa.Table, Sequence[BrokenRow]]]:
    is_derived = table.name not in plan.files.tables
    for reader, pieces in part.files:
        reader = replace(reader, counts=ReadCounts())
        for cells in reader.read(pieces):
            if is_derived:  # broken rows are reported with the source table
                rows = derived_rows(cells.table, table)
                counts.rows += rows.num_rows
                yield rows, ()
                continue
            rows = _with_columns(cells.table, table, part.missing)
            broken: Sequence[BrokenRow] = ()
            if table.has_text_subject:
                rows, broken = _numbered(rows, str(table.subject), subjects, reader.path)
            elif table.subject_from is not None:
                rows, broken = _with_subject(plan, table, rows, reader.path)
            reader.set_aside(broken)
            yield rows, [*cells.broken, *cells.emptied, *broken]
        if not is_derived:
            counts.add(reader.counts)


def _numbered(rows: pa.Table, column: str, subjects: SubjectKeys, path: Path) -> tuple[pa.Table, list[BrokenRow]]:
    """Add the subject's number where the file names subjects by text; a row with a blank text is broken."""
    encoded = rows.column(column).combine_chunks().dictionary_encode()
    keys = encoded.dictionary.to_pylist()
    numbers = pa.array([subjects.number(key) if key.strip() else None for key in keys], pa.int64())
    whole = rows.append_column(OWN_SUBJECT, numbers.take(encoded.indices))
    nobody = whole.filter(whole.column(OWN_SUBJECT).is_null()).to_pylist()
    broken = [BrokenRow(file=path.name, line=0, reason=f"{column} is missing", raw=str(row)) for row in nobody]
    return (whole.filter(whole.column(OWN_SUBJECT).is_valid()) if broken else whole), broken


def _readers(plan: Plan, table: TableSpec) -> list[TableReader]:
    """Return a reader for each file of a table, or of the table that it is derived from."""
    source, columns, required = table, table.read_columns, _required(table)
    if table.name not in plan.files.tables:
        assert table.derive is not None
        source, where = plan.spec.tables[table.derive.source], table.derive.where
        columns = {**{name: source.columns[name] for name in (*where, *table.derive.written)}, **table.columns}
        required = [*required, table.derive.text, *where]
    return [
        TableReader(
            path=path,
            name=table.name,
            columns=columns,
            required=required,
            needed=_needed(table) if source is table else (),
            ignored=plan.spec.ignored,
            shown=plan.files.name(path),
            files=source.files,
            later=table.later_columns,
        )
        for path in plan.files.tables[source.name]
    ]


def _with_columns(rows: pa.Table, table: TableSpec, missing: Sequence[str]) -> pa.Table:
    """Add columns that only other files of the table have, with empty cells, so that all rows have the same columns."""
    names = [name for name in table.read_columns if name not in missing]
    if rows.column_names == names:
        return rows
    present = dict(zip(rows.column_names, rows.columns, strict=True))
    empty = {
        name: pa.nulls(rows.num_rows, ARROW_TYPES[table.read_columns[name]]) for name in names if name not in present
    }
    return pa.table({name: present[name] if name in present else empty[name] for name in names})


def _required(table: TableSpec) -> list[str]:
    names = [*table.owner_columns, *table.key, *table.required]
    if isinstance(table.event_time, Column):
        names.append(table.event_time.name)
    return list(dict.fromkeys(names))


def _needed(table: TableSpec) -> list[str]:
    names = [table.subject, table.key[0] if len(table.key) == 1 else None]
    return list(dict.fromkeys(name for name in names if name))


def derived_rows(rows: pa.Table, table: TableSpec) -> pa.Table:
    """Return the rows of a derived table that are made of rows of its source, with the time they were written."""
    assert table.derive is not None
    for name, text in table.derive.where.items():
        rows = rows.filter(pc.equal(pc.utf8_trim_whitespace(rows.column(name)), text))
    times = [rows.column(name).cast(ARROW_TYPES["time"]) for name in table.derive.written if name in rows.column_names]
    written = pc.coalesce(*times, pa.nulls(rows.num_rows, ARROW_TYPES["time"]))
    rows = rows.select([name for name in table.columns if name in rows.column_names]).append_column(WRITTEN, written)
    for name in _needed(table):
        rows = rows.filter(rows.column(name).is_valid())
    return derive_rows(rows, table.derive)


_PARENTS: dict[tuple[Path, str], tuple[Any, Any]] = {}


def _with_subject(plan: Plan, table: TableSpec, rows: pa.Table, path: Path) -> tuple[pa.Table, list[BrokenRow]]:
    """Add the subject through the parent's key; a row without a parent is broken."""
    assert table.subject_from is not None
    key, parent = table.subject_from.key, table.subject_from.table
    keys, subjects = _parent_subjects(plan, parent)
    place = pc.index_in(rows.column(key).combine_chunks(), keys, skip_nulls=True)
    places = integers(place, null=-1)
    good = places >= 0
    orphans = [
        BrokenRow(file=path.name, line=0, reason=f"no row of {parent} has this {key}", raw=str(row))
        for row in rows.filter(pa.array(~good)).to_pylist()
    ]
    kept = rows.filter(pa.array(good)).append_column(OWN_SUBJECT, pa.array(subjects[places[good]]))
    return kept, orphans


def _parent_subjects(plan: Plan, parent: str) -> tuple[Any, Any]:
    spec = plan.spec.tables[parent]
    wanted = (plan.bucket_folder(parent), spec.key[0])
    if wanted not in _PARENTS:
        parts = [read_bucket(wanted[0], shard, (spec.key[0], spec.subject_column)) for shard in range(plan.shards)]
        found = [part for part in parts if part is not None]
        empty = pa.array([], ARROW_TYPES[spec.columns[spec.key[0]]])
        keys = pa.concat_arrays([empty, *(part.column(spec.key[0]) for part in found)])
        subjects = np.concatenate(
            [np.empty(0, np.int64), *(part.column(spec.subject_column).to_numpy() for part in found)]
        )
        _PARENTS.clear()
        _PARENTS[wanted] = (keys, subjects)
    return _PARENTS[wanted]


# Files of rows by bucket: each writer's are read in the order of their names. A file has an Arrow IPC stream for each
# bucket and, behind them, the place of each, so that a bucket is read without the others.


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
            names = [] if columns is None else pa.ipc.open_stream(stream).schema.names
            wanted = None if columns is None else [place for place, name in enumerate(names) if name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
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
