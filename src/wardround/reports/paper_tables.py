"""Tables of a run for a paper: contenders by tasks, with intervals and marks of significance, in three formats.

They are LaTeX, CSV and Markdown. ``results``: a row per contender, a column per task and the mean of tasks.
``differences``: contender less baseline with the p-value that is corrected for all contenders and tasks. A cell whose
number was not computed is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from wardround.core import private_folder, write_atomically
from wardround.core.table import RENDERERS, Kind, Table
from wardround.reports.comparing import Comparison
from wardround.reports.summary import RunSummary, contender
from wardround.tasks.scoring import Interval, SummaryRow
from wardround.tasks.scoring.tables import ALL

MARKS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""Corrected p-values below these bounds are marked so."""
RowT = TypeVar("RowT", SummaryRow, Comparison)


def paper_tables(summary: RunSummary) -> tuple[Table, ...]:
    """Return the tables of a run; the second only where contenders were compared."""
    tables = [_results(summary)]
    if summary.comparisons:
        tables.append(_differences(summary.comparisons))
    return tuple(tables)


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write each table as ``<name>.tex``, ``.csv`` and ``.md``; return the files."""
    private_folder(folder)
    written = []
    for table in tables:
        for suffix, render in RENDERERS.items():
            file = folder / f"{table.name}.{suffix}"
            write_atomically(file, render(table), durable=False)
            written.append(file)
    return written


def _results(summary: RunSummary) -> Table:
    rows = _over_strata(summary.rows, contender)
    tasks = _with_mean_last([row.task for row in rows])
    compared = _over_strata(summary.comparisons, lambda row: row.contender)
    marks = {(row.contender, row.task): _mark(row.adjusted_p) for row in compared}
    cells = {
        (contender(row), row.task): _with_interval(row.f1) + marks.get((contender(row), row.task), "") for row in rows
    }
    metrics = sorted({row.metric for row in rows})
    baselines = {row.baseline for row in summary.comparisons}
    note = f"{', '.join(f'{mark} p < {bound:g}' for bound, mark in MARKS)}, against {', '.join(sorted(baselines))}"
    return _grid(
        tasks,
        cells,
        name="results",
        caption=f"{', '.join(metrics)} with 95 % intervals (bootstrap over patients)",
        note=note if baselines else "",
    )


def _differences(comparisons: Sequence[Comparison]) -> Table:
    some = _over_strata(comparisons, lambda row: row.contender)
    tasks = _with_mean_last([row.task for row in some])
    cells = {
        (row.contender, row.task): f"{_with_interval(row.test.difference, signed=True)}{_p_value(row.adjusted_p)}"
        for row in some
    }
    return _grid(
        tasks,
        cells,
        name="differences",
        caption=f"Difference from {', '.join(sorted({row.baseline for row in some}))}, paired by sample",
        note="p: sign-flip permutation over patients, step-down max-T over contenders and tasks",
    )


def _over_strata(rows: Sequence[RowT], who: Callable[[RowT], str]) -> list[RowT]:
    """Of each contender and task the row over all strata; its only one where there is one stratum."""
    whole = {(who(row), row.task) for row in rows if row.stratum == ALL}
    return [row for row in rows if row.stratum == ALL or (who(row), row.task) not in whole]


def _with_mean_last(tasks: Sequence[str]) -> list[str]:
    return sorted(set(tasks), key=lambda task: (task == ALL, task))


def _grid(tasks: Sequence[str], cells: Mapping[tuple[str, str], str], *, name: str, caption: str, note: str) -> Table:
    """Return a row per contender, in the order of the cells, and a column per task."""
    names = dict.fromkeys(who for who, _ in cells)
    numbers: list[Kind] = ["number"] * len(tasks)
    return Table(
        header=("contender", *("mean of tasks" if task == ALL else task for task in tasks)),
        rows=[(who, *(cells.get((who, task), "") for task in tasks)) for who in names],
        kinds=("text", *numbers),
        name=name,
        caption=caption,
        note=note,
    )


def _with_interval(shown: Interval, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    if shown.low is None or shown.high is None:
        return f"{shown.estimate:{sign}.3f}"
    if shown.low == shown.high:
        return f"{shown.estimate:{sign}.3f} (no variation)"
    return f"{shown.estimate:{sign}.3f} ({shown.low:{sign}.3f} to {shown.high:{sign}.3f})"


def _mark(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return next((mark for bound, mark in MARKS if p_value < bound), "")


def _p_value(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return "; p < 0.001" if p_value < 0.001 else f"; p = {p_value:.3f}"
