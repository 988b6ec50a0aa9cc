"""Tables as data: every figure of a run as one row of numbers, for R, pandas or a spreadsheet (CSV and Parquet).

A row is one figure of one contender on one task and stratum, named by ``metric``. A difference to a baseline has the
metric "F1 difference" (or another's), that baseline and its p-values. Figures that were not computed are missing, never
0.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from wardround.core import private_folder, write_atomically
from wardround.core.table import columns_of
from wardround.reports.baseline_card import CardRow
from wardround.reports.comparing import Comparison
from wardround.reports.summary import RunSummary, contender
from wardround.tasks.scoring import ClassificationRow, Interval, SummaryRow
from wardround.tasks.scoring.tables import ALL, SCORE_COLUMNS

TRIVIAL = "trivial baseline"
"""The model of a trivial baseline, in the column ``model``."""
TIDY_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "agent", "model", "task", "stratum")),
        ("n", pa.int64()),
        ("patients", pa.int64()),
        ("metric", pa.string()),
        *((name, pa.float64()) for name in ("value", "low", "high", "p", "p_adjusted")),
        ("baseline", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TidyRow:
    """One figure. ``n`` samples of ``patients`` patients; ``low`` to ``high`` its 95 % interval over patients, missing
    over fewer than five; ``p`` and ``p_adjusted`` (step-down max-T) of a difference to ``baseline``."""

    run: str
    agent: str
    model: str
    task: str
    stratum: str
    n: int | None
    patients: int | None
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    baseline: str | None = None


class _Where(TypedDict):
    """The contender of a figure, and its task and stratum."""

    run: str
    agent: str
    model: str
    task: str
    stratum: str


class _Tested(TypedDict, total=False):
    """The baseline of a difference, and the p-values."""

    p: float | None
    p_adjusted: float | None
    baseline: str


_UNTESTED = _Tested()


def tidy_run(summary: RunSummary, run: str) -> list[TidyRow]:
    """Return every figure of a run: scores, what they cost, figures of classes, baselines, differences, subgroups."""
    rows = [row for one in summary.rows for row in _score_rows(one, run)]
    rows += [row for predictor in (*summary.classes, *summary.predictors) for row in _class_rows(predictor, run)]
    rows += [row for one in summary.card for row in _card_rows(one, run)]
    for figure in summary.figures:
        where = _Where(run=run, agent=figure.agent, model=figure.model, task=figure.task, stratum=ALL)
        rows.append(_of_interval(where, figure.figure, figure.mean))
    for group in summary.subgroups:
        stratum = f"{summary.by}: {group.stratum}"
        where = _Where(run=run, agent=group.agent, model=group.model, task=group.task, stratum=stratum)
        rows.append(_of_interval(where, group.metric, group.f1))
    whose = {contender(row): (run, row.agent, row.model) for row in summary.rows}
    rows += tidy_differences((*summary.comparisons, *summary.against_trivial), whose, run)
    return list(dict.fromkeys(rows))  # a figure of its own may be the score of the table


def tidy_differences(
    comparisons: Iterable[Comparison], whose: Mapping[str, tuple[str, str, str]], run: str = ""
) -> list[TidyRow]:
    """Return two rows per comparison: the difference, and the smallest one that this many patients could show.

    ``whose``: run, agent and model of the contenders by name; a name that is not in it is split.
    """
    rows = []
    for comparison in comparisons:
        agent, _, model = comparison.contender.partition(" · ")
        of_run, agent, model = whose.get(comparison.contender, (run, agent, model))
        where = _Where(run=of_run, agent=agent, model=model, task=comparison.task, stratum=comparison.stratum)
        metric, shown = f"{comparison.metric} difference", comparison.test.difference
        tested = _Tested(p=comparison.test.p_value, p_adjusted=comparison.adjusted_p, baseline=comparison.baseline)
        rows.append(_of_interval(where, metric, shown, tested))
        if shown.detectable is not None:
            metric, size = f"{metric}, smallest detectable", shown.detectable
            rows.append(_row(where, metric, size, (shown.n, shown.subjects), _Tested(baseline=comparison.baseline)))
    return rows


def write_tidy(rows: Sequence[TidyRow], folder: Path, name: str = "tidy") -> list[Path]:
    """Write rows as ``tidy.csv`` and ``tidy.parquet``; return the files."""
    private_folder(folder)
    table = pa.Table.from_pylist([asdict(row) for row in rows], TIDY_SCHEMA)
    text = io.BytesIO()
    pyarrow.csv.write_csv(table, text, pyarrow.csv.WriteOptions(quoting_style="needed"))
    csv, parquet = folder / f"{name}.csv", folder / f"{name}.parquet"
    write_atomically(csv, text.getvalue().decode(), durable=False)
    pyarrow.parquet.write_table(table, parquet)
    return [csv, parquet]


def _row(
    where: _Where, metric: str, value: float, over: tuple[int, int | None], tested: _Tested = _UNTESTED
) -> TidyRow:
    return TidyRow(**where, n=over[0], patients=over[1], metric=metric, value=value, **tested)


def _of_interval(where: _Where, metric: str, shown: Interval, tested: _Tested = _UNTESTED) -> TidyRow:
    low, high = shown.ends
    return replace(_row(where, metric, shown.estimate, (shown.n, shown.subjects), tested), low=low, high=high)


def _score_rows(row: SummaryRow, run: str) -> Iterator[TidyRow]:
    where = _Where(run=run, agent=row.agent, model=row.model, task=row.task, stratum=row.stratum)
    yield _of_interval(where, row.metric, row.f1)
    for column in columns_of(SCORE_COLUMNS, "data"):
        value: Any = column.value(row)
        if value is not None:
            yield _row(where, column.name, value, (row.n, row.subjects))


def _class_rows(row: ClassificationRow, run: str) -> Iterator[TidyRow]:
    where = _Where(run=run, agent=row.agent, model=row.model, task=row.task, stratum=ALL)
    found: dict[str, Interval | None] = {"accuracy": row.metrics.accuracy, "macro-F1": row.metrics.macro_f1}
    if row.scores is not None:
        found |= {"AUROC": row.scores.auroc, "AUPRC": row.scores.auprc, "Brier score": row.scores.brier}
    for metric, value in found.items():
        if value is not None:
            yield _of_interval(where, metric, value)


def _card_rows(row: CardRow, run: str) -> Iterator[TidyRow]:
    for name, mean in row.means.items():
        where = _Where(run=run, agent=name, model=TRIVIAL, task=row.task, stratum=ALL)
        if name in row.intervals:
            yield _of_interval(where, row.metric, row.intervals[name])
        elif mean is not None:
            yield _row(where, row.metric, mean, (row.n, None))
