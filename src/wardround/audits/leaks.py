"""The leak audit: does a chart show anything before it was available? In what do two charts of one moment differ?"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wardround.audits.deletion import RawSubjects, plainly_written, write_deleted
from wardround.core import Progress, Reporter, parse_time, silent, to_microseconds
from wardround.core.table import Table, as_text
from wardround.records import Chart, ChartTable, IngestSettings, Policy, TableSpec, ingest
from wardround.records.chart import clock, holds
from wardround.records.rules import NO_TIME, Column, Times
from wardround.records.shards import AVAILABLE, EVENT, LATE, NEVER_TIME, PENDING
from wardround.records.specs import late_rules
from wardround.records.store import Store

_MAX_EXAMPLES = 20
_LONGEST = 80


@dataclass(slots=True)
class TableLeaks:
    """Counts of one table over all samples.

    ``differing`` cells, ``missing`` and ``extra`` rows are of the deletion audit; an ``extra`` row is on the chart but
    not on that of the deleted copy.
    """

    rows: int = 0
    cells: int = 0
    planned: int = 0
    differing: int = 0
    missing: int = 0
    extra: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    """By column how many cells differ; by an empty name how many rows are missing or too many."""

    @property
    def clean(self) -> bool:
        """Whether nothing leaks; planned cells are no leak."""
        return not (self.rows or self.cells or self.differing or self.missing or self.extra)


@dataclass(slots=True, kw_only=True)
class ChartFindings:
    """What an audit found, by table, and the first few findings in words."""

    policy: Policy
    samples: int = 0
    tables: dict[str, TableLeaks] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether no sample leaks anything."""
        return all(leaks.clean for leaks in self.tables.values())

    @property
    def differences(self) -> int:
        """Rows and cells in which a chart differs from that of its other copy."""
        return sum(leaks.differing + leaks.missing + leaks.extra for leaks in self.tables.values())

    def of(self, table: str) -> TableLeaks:
        """Return the counts of a table, made on first use."""
        return self.tables.setdefault(table, TableLeaks())

    def example(self, text: str) -> None:
        """Keep the first few findings in words."""
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(text)

    def table_lines(self) -> list[str]:
        """Return the tables that leak with their counts, and the examples, for people."""
        leaking = {name: leaks for name, leaks in self.tables.items() if not leaks.clean}
        if not leaking:
            return list(self.examples)
        header = ("table", "rows", "cells", "differing", "missing", "extra")
        rows = [(name, *(str(getattr(leaks, what)) for what in header[1:])) for name, leaks in sorted(leaking.items())]
        return ["", as_text(Table(header=header, rows=rows)), "", *self.examples]


def compare_charts(found: ChartFindings, shown: Chart, expected: Chart | None, after: str) -> None:
    """Count what of a chart is otherwise on another one; ``after`` says in words what was done to it."""
    place = f"{shown.subject_id} as of {shown.as_of}"
    age = None if expected is None else expected.age
    if shown.age != age:
        found.of("patients").differing += 1
        found.of("patients").columns["age"] += 1
        found.example(f"{place}: age {shown.age!r}, {after} {age!r}")
    if expected is not None:
        _compare_shapes(found, place, shown, expected, after)
    for name in shown.table_names:
        there = expected.table(name) if expected is not None and name in expected.table_names else None
        _compare_tables(found, place, shown.table(name), there, after)


def _compare_shapes(found: ChartFindings, place: str, shown: Chart, expected: Chart, after: str) -> None:
    """Count tables and columns that only one of the charts has: that there is a table says that a row may come."""
    ours, theirs = ({name: chart.table(name).columns for name in chart.table_names} for chart in (shown, expected))
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            found.of(name).differing += 1
            found.of(name).columns["which columns it has"] += 1
            here, there = (list(columns.get(name, ())) or "no table" for columns in (ours, theirs))
            found.example(f"{place}: {name} has the columns {_short(here)}, {after} {_short(there)}")


def _compare_tables(
    found: ChartFindings, place: str, shown: ChartTable, expected: ChartTable | None, after: str
) -> None:
    leaks = found.of(shown.name)
    if expected is not None and shown.batch.equals(expected.batch):
        return
    ours = shown.batch.to_pylist()
    theirs = [] if expected is None else expected.batch.to_pylist()
    ids, others = [row["row_id"] for row in ours], [row["row_id"] for row in theirs]
    extra, missing = sorted(set(ids) - set(others)), sorted(set(others) - set(ids))
    leaks.extra += len(extra)
    leaks.missing += len(missing)
    if extra or missing:
        leaks.columns[""] += len(extra) + len(missing)
    for word, names in (("extra", extra), ("missing", missing)):
        if names:
            found.example(f"{place}: {len(names)} {word} rows in {shown.name}, for example {names[0]}")
    if not extra and not missing and ids != others:
        leaks.differing += sum(a != b for a, b in zip(ids, others, strict=True))
        leaks.columns["the order of its rows"] += 1
        found.example(f"{place}: rows of {shown.name} stand in another order")
    others_by_id = {row["row_id"]: row for row in theirs}
    for row in ours:
        other = others_by_id.get(row["row_id"], row)
        columns = [column for column in row if column not in other or not _equal(row[column], other[column])]
        leaks.differing += len(columns)
        leaks.columns.update(columns)
        if columns:
            cell, otherwise = row[columns[0]], other.get(columns[0])
            found.example(f"{place}: {row['row_id']}.{columns[0]} is {_short(cell)}, {after} {_short(otherwise)}")


def _equal(first: object, second: object) -> bool:
    return first == second or (first != first and second != second)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


# The leak audit: does a chart show anything before it was available?


# Time audit: visible rows whose available time lies after the as-of time, and cells that read as a later time (planned
# columns apart). Deletion audit: the chart again, from a copy of the raw files without anything not yet available; any
# difference is something the chart knew of what was deleted.


Sample = tuple[int, datetime]


@dataclass(slots=True, kw_only=True)
class LeakReport(ChartFindings):
    """What an audit found. ``deletion_samples`` is 0 when no raw files were given."""

    deletion_samples: int = 0
    unmatched_rows: int = 0
    assumptions: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows from the future, over all samples."""
        return sum(leaks.rows for leaks in self.tables.values())

    @property
    def cells(self) -> int:
        """Cells that read as a time in the future, over all samples, planned columns apart."""
        return sum(leaks.cells for leaks in self.tables.values())

    def as_text(self) -> str:
        """Return the report for people."""
        planned = sum(leaks.planned for leaks in self.tables.values())
        lines = [
            f"leak audit, policy {self.policy}: {self.samples} samples",
            f"time audit: {self.rows} rows and {self.cells} cells from the future ({planned} planned cells apart)",
        ]
        if self.deletion_samples:
            lines.append(f"deletion audit: {self.differences} differences in {self.deletion_samples} samples")
            if self.unmatched_rows:
                lines.append(f"{self.unmatched_rows} raw rows are not in the store (quarantined at ingest)")
        else:
            lines.append("deletion audit: not run, it needs the raw files")
        lines += self.table_lines()
        lines += self.assumptions
        lines.append("clean" if self.clean else "LEAKS")
        return "\n".join(lines)


def audit_leaks(
    store: Store,
    samples: Iterable[Sample],
    *,
    raw_folder: Path | Sequence[Path] | None = None,
    policy: Policy = "known_at",
    user_codes: Path | None = None,
    report: Reporter = silent,
) -> LeakReport:
    """Audit charts at some (subject, as-of time); both audits if ``raw_folder``, the store's own source, is given.

    ``user_codes`` must be those of the store's ingest, or labels that come from them count as differences.
    """
    wanted = sorted(set(samples))
    found = LeakReport(policy=policy, samples=len(wanted), assumptions=tuple(store.manifest.get("assumptions", ())))
    for done, (subject_id, as_of) in enumerate(wanted):
        report(Progress(label="time audit", done=done, total=len(wanted), unit="samples"))
        _audit_time(found, store, store.chart(subject_id, as_of, policy=policy))
    if raw_folder is not None and wanted:
        raw = RawSubjects.read(store, raw_folder, {subject for subject, _ in wanted})
        rounds = list(rounds_of(wanted))
        for done, moments in enumerate(rounds):
            report(Progress(label="deletion audit", done=done, total=len(rounds), unit="copies"))
            _audit_deletion(found, store, raw, moments, user_codes)
    return found


def rounds_of(samples: Sequence[Sample]) -> Iterator[dict[int, datetime]]:
    """Deal samples into rounds with each subject at most once: one copy serves many subjects."""
    left = list(samples)
    while left:
        moments: dict[int, datetime] = {}
        later = []
        for subject, as_of in left:
            if moments.setdefault(subject, as_of) != as_of:
                later.append((subject, as_of))
        yield moments
        left = later


def _audit_time(found: LeakReport, store: Store, chart: Chart) -> None:
    for name in chart.table_names:
        table = chart.table(name)
        leaks = found.of(name)
        late = _late_rows(store, chart, table)
        leaks.rows += len(late)
        if late:
            found.example(f"{chart.subject_id} as of {chart.as_of}: {late[0]} was not available yet")
        for column in table.columns:
            future = _future_cells(table.batch.column(column), chart.as_of)
            if column in table.spec.planned:
                leaks.planned += len(future)
            elif future:
                leaks.cells += len(future)
                found.example(f"{chart.subject_id} as of {chart.as_of}: {name}.{column} reads {future[0]!r}")


def _late_rows(store: Store, chart: Chart, table: ChartTable) -> list[str]:
    """Return the ids of visible rows that the store's clocks say were not there yet."""
    if table.num_rows == 0:
        return []
    stored = store.rows(chart.subject_id, table.name, versions=True)
    stored = stored.filter(pa.array(holds(stored, to_microseconds(chart.as_of))))
    places = pc.index_in(table.batch.column("row_id"), stored.column("row_id"))
    times = [stored.column(name).take(places) for name in (AVAILABLE, EVENT)]
    known = [pc.less_equal(part, pa.scalar(chart.as_of, pa.timestamp("us"))) for part in times]
    on_time = pc.fill_null(pc.and_(*known), False)
    suspects = table.batch.filter(pc.invert(on_time)).to_pylist()
    return [row["row_id"] for row in suspects if not _is_order(row, table.spec, stored, chart.as_of)]


def _is_order(row: Mapping[str, Any], spec: TableSpec, stored: pa.RecordBatch, as_of: datetime) -> bool:
    """Say whether a visible row is a collapsed group: an order known by now, and nothing more."""
    pending = spec.pending
    if pending is None or any(row[name] is not None for name in row if name not in ("row_id", *pending.columns)):
        return False
    shown = [name for name in pending.columns if name in row and name not in spec.late]
    orders = stored.select([*shown, PENDING]).to_pylist()
    return any(other[PENDING] <= as_of and all(other[name] == row[name] for name in shown) for other in orders)


def _future_cells(column: pa.Array, as_of: datetime) -> list[object]:
    """Return the cells that read as a time after ``as_of``. A day is in the future when it is a later day."""
    cells: list[object] = []
    if pa.types.is_date(column.type):
        cells = column.filter(pc.greater(column, pa.scalar(as_of.date(), pa.date32()))).to_pylist()
    elif pa.types.is_timestamp(column.type):
        cells = column.filter(pc.greater(column, pa.scalar(as_of, pa.timestamp("us")))).to_pylist()
    elif pa.types.is_string(column.type):
        cells = [cell for cell in column.to_pylist() if cell is not None and _reads_later(cell, as_of)]
    return cells


def _reads_later(text: str, as_of: datetime) -> bool:
    text = text.strip()
    if not (10 <= len(text) <= 26 and text[4] == "-" and text[7] == "-"):
        return False
    try:
        if len(text) == 10:
            return date.fromisoformat(text) > as_of.date()
        return parse_time(text) > as_of
    except ValueError:
        return False


def _audit_deletion(
    found: LeakReport, store: Store, raw: RawSubjects, moments: Mapping[int, datetime], user_codes: Path | None
) -> None:
    with tempfile.TemporaryDirectory(prefix="wardround-audit-") as folder:
        copy = Path(folder) / "raw"
        counts = write_deleted(raw, copy, store, moments)
        found.unmatched_rows += counts.unmatched
        flat = replace(plainly_written(store), flatten=None)
        settings = replace(same_settings(store, user_codes), time_zone=None)  # the copy is on the wall's clock
        ingest(flat, copy, Path(folder) / "store", settings=settings)
        deleted = Store.open(Path(folder) / "store")
        for subject_id, as_of in moments.items():
            found.deletion_samples += 1
            shown = store.chart(subject_id, as_of, policy=found.policy)
            there = subject_id in deleted.subjects  # a source without a table of people forgets who has no row left
            expected = deleted.chart(subject_id, as_of, policy=found.policy) if there else None
            compare_charts(found, shown, expected, "after deletion")


def same_settings(store: Store, user_codes: Path | None) -> IngestSettings:
    """Return the settings of the store's ingest, its medians fixed."""
    facts = store.manifest["settings"]
    medians = store.manifest["median_delay_seconds"]
    return IngestSettings(
        coding_lag=timedelta(seconds=facts["coding_lag_seconds"]),
        result_lag=timedelta(seconds=facts["result_lag_seconds"]),
        culture_lag=timedelta(seconds=facts["culture_lag_seconds"]),
        median_delays={name: (_delay(first), _delay(other)) for name, (first, other) in medians.items()},
        time_zone=facts.get("time_zone"),
        user_codes=user_codes,
    )


def _delay(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


# When each row and cell of a store is first shown on a chart: what audits compare with what it should wait for.


@dataclass(frozen=True, slots=True)
class ShownTable:
    """The rows of one subject with the moments (microseconds) from which a chart shows them."""

    spec: TableSpec
    rows: pa.RecordBatch
    row: Times
    event: Times

    @classmethod
    def of(cls, spec: TableSpec, rows: pa.RecordBatch) -> ShownTable:
        """Take stored rows."""
        event = clock(rows, EVENT)
        return cls(spec, rows, np.maximum(clock(rows, AVAILABLE), event), event)

    def cell(self, column: str) -> Times:
        """Return from when on a cell is shown; ``NEVER_TIME`` where it is empty, or never."""
        if column not in self.rows.schema.names:
            return np.full(self.rows.num_rows, NEVER_TIME)
        filled = self.rows.column(column).is_valid().to_numpy(zero_copy_only=False)
        shown = self.row
        for rule, columns in late_rules(self.spec, self.rows.schema.names).items():
            if column in columns:
                late = clock(self.rows, rule.name if isinstance(rule, Column) else f"{LATE}{columns[0]}")
                shown = np.where(late == NO_TIME, NEVER_TIME, np.maximum(shown, late))
        return np.where(filled, shown, NEVER_TIME)

    def texts(self, column: str) -> list[str]:
        """Return a column's cells as text, empty where there is nothing."""
        if column not in self.rows.schema.names:
            return [""] * self.rows.num_rows
        return ["" if cell is None else str(cell) for cell in self.rows.column(column).to_pylist()]
