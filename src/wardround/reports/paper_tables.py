"""Tables of a run for a paper: contenders and tasks, with intervals and marks of significance, in LaTeX and Markdown.

``results``: the scores on each task and their mean. ``differences``: contender minus baseline, with the p-value
corrected for all contenders and tasks. Contenders are rows if there are more of them than tasks, else columns, so that
a table fits a page. A cell without a computed number is empty. For programs see ``tidy.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wardround.core import private_folder, write_atomically
from wardround.core.table import RENDERERS, Kind, Table
from wardround.reports.comparing import Comparison
from wardround.reports.summary import RunSummary, contender
from wardround.tasks.scoring import Interval
from wardround.tasks.scoring.tables import ALL, over_strata

MARKS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""Marks of corrected p-values below these bounds."""


def paper_tables(summary: RunSummary) -> tuple[Table, ...]:
    """Return the tables of a run: results, differences from the baseline, and from the best trivial baseline if there
    is one."""
    tables = [_results(summary)]
    if summary.comparisons:
        tables.append(_differences(summary.comparisons, "differences"))
    if summary.against_trivial:
        tables.append(_differences(summary.against_trivial, "differences-from-trivial"))
    return tuple(tables)


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write each table as ``<name>.tex`` (for booktabs), ``.plain.tex`` and ``.md``; return the files."""
    private_folder(folder)
    written = []
    for table in tables:
        for suffix, render in RENDERERS.items():
            file = folder / f"{table.name}.{suffix}"
            write_atomically(file, render(table), durable=False)
            written.append(file)
    return written


def _results(summary: RunSummary) -> Table:
    rows = over_strata(summary.rows)
    tasks = _with_mean_last([row.task for row in rows])
    marks = {(row.contender, row.task): _mark(row.adjusted_p) for row in summary.comparisons if row.stratum == ALL}
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


def _differences(comparisons: Sequence[Comparison], name: str) -> Table:
    some = [row for row in comparisons if row.stratum == ALL]
    tasks = _with_mean_last([row.task for row in some])
    cells = {
        (row.contender, row.task): f"{_with_interval(row.test.difference, signed=True)}{_p_value(row.adjusted_p)}"
        for row in some
    }
    return _grid(
        tasks,
        cells,
        name=name,
        caption=f"Difference from {', '.join(sorted({row.baseline for row in some}))}, paired by sample",
        note="p: sign-flip permutation over patients, step-down max-T over contenders and tasks",
    )


def _with_mean_last(tasks: Sequence[str]) -> list[str]:
    return sorted(set(tasks), key=lambda task: (task == ALL, task))


def _grid(tasks: Sequence[str], cells: Mapping[tuple[str, str], str], *, name: str, caption: str, note: str) -> Table:
    """Return contenders, in the order of the cells, against tasks; rows are whichever are more numerous."""
    names = list(dict.fromkeys(who for who, _ in cells))
    titles = ["mean of tasks" if task == ALL else task for task in tasks]
    header, first, rows = "contender", names, [[cells.get((who, task), "") for task in tasks] for who in names]
    if len(names) <= len(tasks):
        header, first, titles, rows = "task", titles, names, [list(column) for column in zip(*rows, strict=True)]
    numbers: list[Kind] = ["number"] * len(titles)
    return Table(
        header=(header, *titles),
        rows=[(label, *row) for label, row in zip(first, rows, strict=True)],
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
