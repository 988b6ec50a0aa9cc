"""The first half of an ingest: each source file is read once, its rows are distributed over buckets by subject.

All rows of a subject are in one bucket, in the order of the file. A bucket file is a sequence of small Arrow IPC
streams, one per flush, so that rows can be appended without reading it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import Progress, Reporter, silent
from wardround.records.ingest.changes import file_fingerprints
from wardround.records.ingest.clocks import delay_counts
from wardround.records.ingest.plan import Plan
from wardround.records.ingest.sections import derive_rows
from wardround.records.reading.source_files import BrokenRow, SubjectKeys, write_keys, write_quarantine
from wardround.records.reading.table_reader import ReadCounts, TableReader
from wardround.records.rules.language import Column
from wardround.records.shards.layout import bucket_numbers
from wardround.records.specs.spec import ARROW_TYPES, OWN_SUBJECT, WRITTEN, Derivation, TableSpec, integers, one_batch


def bucket_table(plan: Plan, name: str, report: Reporter = silent) -> None:
    """Read a table and write its buckets, from the start unless this was finished before."""
    if plan.noted(f"table-{name}") is not None:
        return
    file_fingerprints(plan, name, report)
    table = plan.spec.tables[name]
    folder = plan.bucket_folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    quarantine = plan.store / "quarantine" / f"{name}.jsonl"
    quarantine.unlink(missing_ok=True)
    writer = BucketWriter(folder, plan.shards, table.subject_column, plan.settings.memory_bytes // 16)
    counts, subjects = ReadCounts(), SubjectKeys()
    delays: dict[str, list[dict[int, int]]] = {f"{start}.{end}": [{}, {}] for start, end in table.median_pairs}
    columns: list[str] = []
    kept, filled = 0, Counter[str]()
    for rows, broken in _rows(plan, table, counts, subjects):
        if broken:
            write_quarantine(quarantine, broken)
        columns, kept = rows.column_names, kept + rows.num_rows
        filled.update({name: rows.num_rows - rows.column(name).null_count for name in columns})
        for start, end in table.median_pairs:
            delay_counts(table, start, end, one_batch(rows), delays[f"{start}.{end}"])
        writer.add(rows)
        report(Progress(label=f"read {name}", done=kept, unit="rows"))
    writer.flush()
    if table.has_text_subject:
        write_keys(plan.keys_file(name), subjects.keys)
    _PARENTS.clear()
    columns = columns or [column for column in table.columns if column not in counts.missing_columns]
    counts.missing_columns = tuple(name for name in counts.missing_columns if name in table.columns)
    note = {"counts": asdict(counts), "kept": kept, "columns": [c for c in columns if c in table.columns]}
    note["filled"] = {name: filled[name] for name in columns if name in table.columns}
    plan.note(
        f"table-{name}",
        {**note, "delays": {key: [list(half.items()) for half in each] for key, each in delays.items()}},
    )


def _rows(
    plan: Plan, table: TableSpec, counts: ReadCounts, subjects: SubjectKeys
) -> Iterator[tuple[pa.Table, Sequence[BrokenRow]]]:
    if table.name not in plan.files.tables:
        yield from _derived(plan, table, counts) if table.derive is not None else ()
        return
    for reader in _readers(plan, table, counts):
        for cells in reader.read():
            rows = _with_columns(cells.table, table, counts.missing_columns)
            broken: Sequence[BrokenRow] = ()
            if table.has_text_subject:
                rows, broken = _numbered(rows, str(table.subject), subjects, reader.path)
            elif table.subject_from is not None:
                rows, broken = _with_subject(plan, table, rows, reader.path)
            reader.set_aside(broken)
            yield rows, [*cells.broken, *cells.emptied, *broken]
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


def _readers(plan: Plan, table: TableSpec, counts: ReadCounts) -> list[TableReader]:
    """Return a reader for each file of a table; note the columns that no file has."""
    readers = [
        TableReader(
            path=path,
            name=table.name,
            columns=table.read_columns,
            required=_required(table),
            needed=_needed(table),
            ignored=plan.spec.ignored,
            shown=plan.files.name(path),
            files=table.files,
            later=table.later_columns,
        )
        for path in plan.files.tables[table.name]
    ]
    present = {name for reader in readers for name in reader.header()}
    counts.missing_columns = tuple(name for name in table.read_columns if name not in present)
    return readers


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


def _derived(plan: Plan, table: TableSpec, counts: ReadCounts) -> Iterator[tuple[pa.Table, Sequence[BrokenRow]]]:
    """Read the source table of a derived table. Broken rows are reported with the source table."""
    assert table.derive is not None
    source = plan.spec.tables[table.derive.source]
    where = table.derive.where
    read = {**{name: source.columns[name] for name in (*where, *table.derive.written)}, **table.columns}
    required = [*_required(table), table.derive.text, *where]
    readers = [
        TableReader(
            path=path, name=table.name, columns=read, required=required, files=source.files, later=table.later_columns
        )
        for path in plan.files.tables[source.name]
    ]
    for cells in (cells for reader in readers for cells in reader.read()):
        rows = derived_rows(cells.table, table)
        counts.rows += rows.num_rows
        yield rows, ()


def derived_rows(rows: pa.Table, table: TableSpec) -> pa.Table:
    """Return the rows of a derived table that are made of rows of its source, with the time they were written."""
    assert table.derive is not None
    for name, text in table.derive.where.items():
        rows = rows.filter(pc.equal(pc.utf8_trim_whitespace(rows.column(name)), text))
    written = _written(rows, table.derive)
    rows = rows.select([name for name in table.columns if name in rows.column_names]).append_column(*written)
    for name in _needed(table):
        rows = rows.filter(rows.column(name).is_valid())
    return derive_rows(rows, table.derive)


def _written(rows: pa.Table, derivation: Derivation) -> tuple[str, Any]:
    """Return, as a column, when each source row of a derived table was written."""
    times = [rows.column(name).cast(ARROW_TYPES["time"]) for name in derivation.written if name in rows.column_names]
    return WRITTEN, pc.coalesce(*times, pa.nulls(rows.num_rows, ARROW_TYPES["time"]))


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


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


_LARGE_PART = 1 << 18
"""From this size on (in bytes) parts of a flush are not joined before they are written."""
_DEALS = 8
"""A flush is divided into this number of parts, so that only one part is copied at a time."""


class BucketWriter:
    """Collects a table's rows and appends them to its bucket files, about ``flush_bytes`` at a time."""

    def __init__(self, folder: Path, count: int, subject: str, flush_bytes: int) -> None:
        self._folder, self._count, self._subject, self._flush_bytes = folder, count, subject, flush_bytes
        self._read: list[pa.Table] = []
        self._dealt: list[tuple[pa.RecordBatch, list[int]]] = []
        self._read_bytes = self._dealt_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Add rows. Every cell of the subject column must be filled."""
        self._read.append(table)
        self._read_bytes += table.nbytes
        if self._read_bytes >= self._flush_bytes // _DEALS:
            self._deal()
        if self._dealt_bytes >= self._flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        self._deal()
        for bucket in range(self._count if self._dealt else 0):
            spans = ((batch, starts[bucket], starts[bucket + 1]) for batch, starts in self._dealt)
            parts = [batch.slice(start, end - start) for batch, start, end in spans if end > start]
            if parts:
                self._append(bucket, parts)
        self._dealt, self._dealt_bytes = [], 0

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

    def _append(self, bucket: int, parts: list[pa.RecordBatch]) -> None:
        """Append rows: large parts as they are, since reading joins them once; small ones joined, as a batch has its
        own cost."""
        if sum(part.nbytes for part in parts) < _LARGE_PART * len(parts):
            parts = [one_batch(pa.Table.from_batches(parts))]
        target = bucket_file(self._folder, bucket).open("ab")
        with target, pa.ipc.new_stream(target, parts[0].schema, options=_OPTIONS) as stream:
            for part in parts:
                stream.write_batch(part)


def bucket_file(folder: Path, bucket: int) -> Path:
    """Return the path of a table's rows of one bucket."""
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
