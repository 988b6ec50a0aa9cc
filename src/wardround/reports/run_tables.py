"""The tables of a run's report: scores, what they took, strata, differences to a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

import pyarrow as pa

from wardround.core.table import RowT, Table, TableColumn, columns_of, table_of
from wardround.reports.answer import p_cell
from wardround.reports.comparing import Comparison
from wardround.tasks.scoring import Interval, SummaryRow
from wardround.tasks.scoring.tables import ALL, SCORE_COLUMNS, over_strata


def score_table(rows: Sequence[SummaryRow], *, has_strata: bool = False) -> Table:
    """Return the scores; ``has_strata``: those of the strata instead of those over all of them."""
    shown = [row for row in rows if row.stratum != ALL] if has_strata else over_strata(rows)
    return table_of(shown, columns_of(SCORE_COLUMNS, "scores"))


def work_table(rows: Sequence[SummaryRow]) -> Table:
    """Return turns, tokens, cost and citations, over all strata."""
    return table_of(over_strata(rows), columns_of(SCORE_COLUMNS, "work", missing="–"))


def difference_table(comparisons: Sequence[Comparison], *, has_strata: bool = False) -> Table:
    """Return differences to the baseline with their p-values, of the strata or over all of them."""
    shown = [row for row in comparisons if (row.stratum != ALL) is has_strata]
    return table_of(shown, columns_of(DIFFERENCE_COLUMNS, "page"))


def subgroup_table(rows: Sequence[SummaryRow], by: str) -> Table:
    """Return a row per contender, task and subgroup, which is in ``stratum``; few patients have no interval."""
    columns = columns_of(SCORE_COLUMNS, "subgroups", is_shown=lambda rows: True)
    return table_of(rows, [replace(one, name=by) if one.name == "stratum" else one for one in columns])


DIFFERENCE_COLUMNS: tuple[TableColumn[Comparison], ...] = (
    TableColumn(name="task", value=lambda row: "mean of tasks" if row.task == ALL else row.task, kind="text"),
    TableColumn(
        name="contender",
        value=lambda row: row.contender,
        kind="text",
        terminal={"is_shown": lambda rows: len({row.contender for row in rows}) > 1},
    ),
    TableColumn(name="less", value=lambda row: row.baseline, kind="text", tables="page"),
    TableColumn(
        name="stratum",
        value=lambda row: row.stratum,
        kind="text",
        is_shown=lambda rows: any(row.stratum != ALL for row in rows),
    ),
    TableColumn(
        name="n", value=lambda row: row.test.difference.n, tables="page terminal", terminal={"name": "samples"}
    ),
    TableColumn(name="unpaired", value=lambda row: row.test.unpaired, tables="terminal"),
    TableColumn(name="in", value=lambda row: row.metric, kind="text", tables="page"),
    TableColumn(name="difference", value=lambda row: row.test.difference.estimate, format="+.3f"),
    TableColumn(name="95 % interval", value=lambda row: row.test.difference.as_text("+.3f"), kind="interval"),
    TableColumn(
        name="p",
        value=lambda row: p_cell(row.test.p_value),
        missing="–",
        tables="page terminal",
        help="two-sided sign-flip permutation test over patients",
    ),
    TableColumn(
        name="p (max-T)",
        value=lambda row: p_cell(row.adjusted_p),
        missing="–",
        help="corrected by step-down max-T for all contenders and tasks of the metric",
    ),
    TableColumn(
        name="detectable",
        value=lambda row: row.test.difference.detectable,
        format=".3f",
        missing="–",
        help="the smallest difference that so many patients would show in four of five studies (p < 0.05, uncorrected)",
    ),
)
"""Every column of the differences: on a page, in a terminal (``--wide``), in one of 100 characters (``narrow``)."""


# The same rows as data frames in Python: fixed columns, values instead of texts.


def as_arrow(rows: Iterable[RowT], columns: Sequence[TableColumn[RowT]]) -> pa.Table:
    """Return values for programs: texts, floats (a format that ends in ``f``) or whole numbers; null is not known."""
    rows = list(rows)
    arrays = {}
    for column in columns:
        of = pa.float64() if column.format.endswith("f") else pa.string() if column.kind == "text" else pa.int64()
        arrays[column.name] = pa.array(map(column.value, rows), of)
    return pa.table(arrays)


def _frame(
    names: Sequence[str], figure: str, interval: Callable[[RowT], Interval], rest: Sequence[TableColumn[RowT]]
) -> tuple[TableColumn[RowT], ...]:
    """Return the columns of a frame: texts by ``names``, a figure with its 95 % interval over patients, and others."""
    texts = (TableColumn(name=name, value=attrgetter(name), kind="text") for name in names)
    bounds: tuple[TableColumn[RowT], ...] = (
        TableColumn(name=figure, value=lambda row: interval(row).estimate, format=".3f"),
        TableColumn(name="low", value=lambda row: interval(row).ends[0], format=".3f"),
        TableColumn(name="high", value=lambda row: interval(row).ends[1], format=".3f"),
        TableColumn(name="interval", value=lambda row: interval(row).missing or "95 %", kind="text"),
    )
    return (*texts, *bounds, *rest)


SCORE_FRAME: tuple[TableColumn[SummaryRow], ...] = _frame(
    ("agent", "model", "task", "stratum", "metric"),
    "value",
    lambda row: row.f1,
    (
        TableColumn(name="n", value=attrgetter("n")),
        TableColumn(name="patients", value=attrgetter("subjects")),
        TableColumn(name="episodes", value=attrgetter("episodes")),
        TableColumn(name="failed", value=attrgetter("failed")),
        TableColumn(name="cost", value=attrgetter("cost"), format=".3f"),
    ),
)
COMPARISON_FRAME: tuple[TableColumn[Comparison], ...] = _frame(
    ("contender", "baseline", "task", "stratum", "metric"),
    "difference",
    lambda row: row.test.difference,
    (
        TableColumn(name="p", value=attrgetter("test.p_value"), format=".3f"),
        TableColumn(name="p_adjusted", value=attrgetter("adjusted_p"), format=".3f"),
        TableColumn(name="detectable", value=attrgetter("test.difference.detectable"), format=".3f"),
        TableColumn(name="n", value=attrgetter("test.difference.n")),
        TableColumn(name="patients", value=attrgetter("test.difference.subjects")),
        TableColumn(name="unpaired", value=attrgetter("test.unpaired")),
    ),
)
