"""In what two charts of one subject and moment differ: what the audits that rebuild charts count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from wardround.core.table import Table, as_text
from wardround.records import Chart, ChartTable, Policy

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
