"""A store's rows as lines of a stream, in the order in which they became known, to try and compare a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.clinical.bundles.events import HOUR
from wardround.clinical.bundles.reading import PlayedRows, played_rows
from wardround.core import Progress, Reporter, from_microseconds, must_be_new, private_folder, silent
from wardround.records import Store
from wardround.records.chart import Revisions, read_revisions
from wardround.records.pieces import StoredTable, stored_pieces
from wardround.records.rules import ALWAYS_TIME
from wardround.stream.input import ENCODER, StreamLine, written_cell

_Key = tuple[int, int, int, int]
"""Hour, subject, event time, known: the order of lines."""


def write_replay(store: Store, folder: Path, *, lines_per_file: int = 100_000, report: Reporter = silent) -> int:
    """Write the rows of a store that have events as lines into a new folder; return their number. Uses memory for all.

    A line ``clock`` begins every hour in which rows became known: earlier hours are complete.
    UserError: the folder is not empty.
    """
    must_be_new(folder)
    private_folder(folder)
    played = played_rows(store.spec)
    found: list[tuple[_Key, StreamLine]] = []
    for shard in range(store.shard_count):
        report(Progress(label="replay", done=shard, total=store.shard_count, unit="shards"))
        for piece in stored_pieces(store, shard):
            for table in piece:
                found += _lines(table, played.get(table.layout.spec.name, ()))
    found.sort(key=lambda pair: pair[0])
    for start in range(0, len(found), lines_per_file):
        part = found[start : start + lines_per_file]
        text = b"".join(ENCODER.encode(line) + b"\n" for line in _with_clock(part))
        (folder / f"{start // lines_per_file:06d}.jsonl").write_bytes(text)
    return len(found)


def _with_clock(part: Sequence[tuple[_Key, StreamLine]]) -> Iterator[StreamLine]:
    """Yield lines, and before the first line of every hour a clock line."""
    hour = None
    for key, line in part:
        if key[0] != hour:
            hour = key[0]
            yield StreamLine(clock=written_cell(from_microseconds(hour * HOUR)))
        yield line


def _lines(table: StoredTable, played: tuple[PlayedRows, ...]) -> Iterator[tuple[_Key, StreamLine]]:
    spec = table.layout.spec
    if not played or spec.is_static:
        return
    wanted = frozenset[str]().union(*(each.columns for each in played)) & frozenset(table.layout.columns)
    kept = wanted | {spec.encounter, *(name for each in played for condition in each.role.where for name in condition)}
    kept |= {name for each in played for name in (each.role.low, each.role.high, each.role.fluid, each.role.clock)}
    for revision in read_revisions(table.layout, table.stored, table.subject, wanted):
        yield from _of_revision(spec.name, spec.subject or "subject_id", revision, {n for n in kept if n})


def _of_revision(table: str, subject: str, revision: Revisions, kept: set[str]) -> Iterator[tuple[_Key, StreamLine]]:
    names = [name for name in revision.batch.schema.names if name in kept and name != subject]
    cells = [revision.batch.column(name).to_pylist() for name in names]
    ids = revision.batch.column(0).to_pylist()
    times = (revision.subject, revision.event, revision.known, revision.number)
    columns = zip(ids, *(each.tolist() for each in times), *cells, strict=True)
    for row_id, whose, event, known, number, *row in columns:
        if known <= ALWAYS_TIME:
            continue
        cells_by_name = {"row_id": row_id, subject: whose, **_filled(names, row)}
        at = from_microseconds(known)
        line = StreamLine(
            table=table,
            row=cells_by_name,
            known=written_cell(at),
            time=written_cell(from_microseconds(event)),
            revision=number,
            withdrawn=revision.is_withdrawn,
            pending=revision.is_pending,
        )
        yield (known // HOUR, whose, event, known), line


def _filled(names: list[str], cells: list[Any]) -> Mapping[str, Any]:
    return {name: written_cell(cell) for name, cell in zip(names, cells, strict=True) if cell is not None}
