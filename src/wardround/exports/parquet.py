"""Tables as Parquet: of one chart what was known at its moment, of a store every row with the times it became known.

A chart's file is safe to hand on as the chart is: later rows are not there, later cells are null. A store's file is the
whole record; ``known_at`` says from when on a row may be shown, ``known_at:COLUMN+COLUMN`` its late cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import Progress, Reporter, UserError, must_be_new, private_folder, silent, unknown
from wardround.records import Chart, Store
from wardround.records.shards import AVAILABLE, EVENT, LATE, PENDING, PUBLISHED, UNTIL, VERSION

_ROWS = 1 << 18
"""Rows of a group of a file."""
_CLOCKS = {
    EVENT: "event_time",
    AVAILABLE: "known_at",
    PUBLISHED: "published_at",
    PENDING: "ordered_at",
    UNTIL: "known_until",
    VERSION: "version",
}


def write_chart_tables(chart: Chart, folder: Path, tables: Collection[str] = ()) -> dict[str, int]:
    """Write the tables in which a chart shows rows, or those named, into a new folder; return their rows.

    ``event_time`` is null for static rows. UserError: the folder holds something, or there is no such table.
    """
    must_be_new(folder)
    counts = {}
    for name in _asked(chart.table_names, tables):
        found = chart.table(name).to_arrow()
        if found.num_rows or name in tables:
            private_folder(folder)
            pq.write_table(found, folder / f"{name}.parquet")
            counts[name] = found.num_rows
    return counts


def write_store_tables(
    store: Store, folder: Path, tables: Collection[str] = (), *, report: Reporter = silent
) -> dict[str, int]:
    """Write every row of a store's tables, or of those named, into a new folder; return their rows. Trusted.

    0001-01-01 in a clock means always, 9999-12-31 never; ``version`` counts a row's amendments from 0, and
    ``known_until`` says when one of them was replaced. UserError: as ``write_chart_tables``.
    """
    must_be_new(folder)
    counts = {}
    names = _asked(store.table_names, tables)
    for number, name in enumerate(names):
        report(Progress(label="export", done=number, total=len(names), unit="tables"))
        count = _write(_pieces(store, name), folder, f"{name}.parquet")
        if count:
            counts[name] = count
    return counts


def _asked(there: Collection[str], tables: Collection[str]) -> tuple[str, ...]:
    for name in tables:
        if name not in there:
            raise UserError(unknown("table called", name, there))
    return tuple(name for name in there if not tables or name in tables)


def _pieces(store: Store, table: str) -> Iterator[pa.Table]:
    late = store.late_columns(table).items()
    clocks = _CLOCKS | {clock: f"known_at:{'+'.join(columns)}" for clock, columns in late if clock.startswith(LATE)}
    for shard in range(store.shard_count):
        found = store.open_rows(shard, table)
        if found is None:
            continue
        subjects, rows = found
        names = [clocks.get(name, name) for name in rows.schema.names]
        whole = pa.table(rows.columns, names=names)
        yield whole if "subject_id" in names else whole.add_column(0, "subject_id", pa.array(subjects))


def _write(pieces: Iterator[pa.Table], folder: Path, name: str) -> int:
    """Write pieces one after the other into one file; none is made where there are none."""
    writer: pq.ParquetWriter | None = None
    count = 0
    try:
        for piece in pieces:
            if writer is None:
                private_folder(folder)
                writer = pq.ParquetWriter(folder / name, piece.schema)
            writer.write_table(piece, row_group_size=_ROWS)
            count += piece.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count
