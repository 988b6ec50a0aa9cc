"""The tables of a run's report: scores, what they took, strata, differences. Each is followed by its terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from wardround.core.table import Table, TableColumn, table_of
from wardround.reports.answer import p_cell
from wardround.reports.comparing import Comparison
from wardround.reports.summary import contender
from wardround.tasks.scoring import SET_F1, SummaryRow
from wardround.tasks.scoring.tables import ALL, over_strata

TERMS: Mapping[str, str] = {
    "recall possible": "the recall of a perfect answer: below 1 where the candidates lack a right label",
    "citations valid": "share of cited rows that exist on the chart, were read, and support the answer",
    "right": "episodes with the full score",
    "corrupt": "right answers that cite a row which does not exist, was not read or does not support them, of those "
    "that cite any",
    "unread": "corrupt answers with a row that does not exist or was not read",
    "uncited": "right answers that cite nothing and cannot be judged",
    "lessons": "experiences served from the bank, a mean per episode",
    "evidence cut": "episodes whose evidence did not fit the budget, and how many events were lost",
    "summarised": "episodes with a summary of what was read before",
    "summaries failed": "summaries that failed and left the one before in place, of all tried",
    "failed": "episodes that ended in an error; they score 0",
    "p": "two-sided sign-flip permutation test over patients",
    "p (max-T)": "corrected by step-down max-T for all contenders and tasks of the metric",
    "detectable": "the smallest difference that so many patients would show in four of five studies (p < 0.05, "
    "uncorrected)",
}
"""What the columns mean whose names do not say it."""


def score_table(rows: Sequence[SummaryRow], *, has_strata: bool = False) -> Table:
    """Return the scores; ``has_strata``: those of the strata instead of those over all of them."""
    shown = [row for row in rows if row.stratum != ALL] if has_strata else over_strata(rows)
    return table_of(shown, _SCORES)


def work_table(rows: Sequence[SummaryRow]) -> Table:
    """Return turns, tokens, cost and citations, over all strata."""
    return table_of(over_strata(rows), _WORK)


def difference_table(comparisons: Sequence[Comparison], *, has_strata: bool = False) -> Table:
    """Return differences to the baseline with their p-values, of the strata or over all of them."""
    shown = [row for row in comparisons if (row.stratum != ALL) is has_strata]
    return table_of(shown, _DIFFERENCES)


def terms_of(*tables: Table) -> dict[str, str]:
    """Return the terms that the columns of some tables need."""
    names = [name for table in tables for name in table.header]
    return {name: TERMS[name] for name in dict.fromkeys(names) if name in TERMS}


def _task(name: str) -> str:
    return "mean of tasks" if name == ALL else name


def _varies(value: Callable[[SummaryRow], object]) -> Callable[[Sequence[SummaryRow]], bool]:
    return lambda rows: len({value(row) for row in rows}) > 1


def _any(value: Callable[[SummaryRow], object], rows: Sequence[SummaryRow]) -> bool:
    return any(value(row) for row in rows)


def _known(name: str, value: Callable[[SummaryRow], object], form: str = "") -> TableColumn[SummaryRow]:
    shown = lambda rows: any(value(row) is not None for row in rows)  # noqa: E731
    return TableColumn(name=name, value=value, format=form, missing="–", is_shown=shown)


def _cut(row: SummaryRow) -> str | None:
    return row.evidence_cut.short if row.evidence_cut and row.evidence_cut.episodes else None


def _summarised(row: SummaryRow) -> str | None:
    return None if row.summarised is None else f"{row.summarised} of {row.episodes}"


def _failed_summaries(row: SummaryRow) -> str | None:
    return f"{row.failed_summaries} of {row.summaries}" if row.summaries else None


_WHO: TableColumn[SummaryRow] = TableColumn(
    name="agent · model", value=contender, kind="text", is_shown=_varies(contender)
)
_TASK: TableColumn[SummaryRow] = TableColumn(name="task", value=lambda row: _task(row.task), kind="text")
_SCORES: tuple[TableColumn[SummaryRow], ...] = (
    _TASK,
    _WHO,
    TableColumn(name="stratum", value=lambda row: row.stratum, kind="text", is_shown=_varies(lambda row: row.stratum)),
    TableColumn(name="n", value=lambda row: row.n),
    TableColumn(name="patients", value=lambda row: row.subjects),
    TableColumn(
        name="in",
        value=lambda row: row.metric,
        kind="text",
        is_shown=lambda rows: any(row.metric != SET_F1 for row in rows),
    ),
    TableColumn(name="score", value=lambda row: row.f1.estimate, format=".3f"),
    TableColumn(name="95 % interval", value=lambda row: row.f1.as_text(), kind="interval"),
    TableColumn(name="precision", value=lambda row: row.precision, format=".3f"),
    TableColumn(name="recall", value=lambda row: row.recall, format=".3f"),
    TableColumn(name="recall possible", value=lambda row: row.reachable_recall, format=".3f"),
    TableColumn(name="failed", value=lambda row: row.failed, is_shown=partial(_any, lambda row: row.failed)),
)
_WORK: tuple[TableColumn[SummaryRow], ...] = (
    _TASK,
    _WHO,
    TableColumn(name="turns", value=lambda row: row.turns, format=".1f"),
    _known("input tokens", lambda row: row.input_tokens, ",.0f"),
    _known("output tokens", lambda row: row.output_tokens, ",.0f"),
    _known("cost (US$)", lambda row: row.cost, ".4f"),
    TableColumn(name="seconds", value=lambda row: row.seconds, format=".2f"),
    TableColumn(name="citations valid", value=lambda row: row.grounding.share, format=".0%", missing="–"),
    TableColumn(name="right", value=lambda row: row.successes.right),
    TableColumn(name="corrupt", value=lambda row: row.successes.short or None, missing="–"),
    TableColumn(name="unread", value=lambda row: row.successes.unread),
    TableColumn(name="uncited", value=lambda row: row.successes.uncited),
    _known("lessons", lambda row: row.experiences, ".1f"),
    _known("evidence cut", _cut),
    _known("summarised", _summarised),
    _known("summaries failed", _failed_summaries),
)
_DIFFERENCES: tuple[TableColumn[Comparison], ...] = (
    TableColumn(name="task", value=lambda row: _task(row.task), kind="text"),
    TableColumn(name="contender", value=lambda row: row.contender, kind="text"),
    TableColumn(name="less", value=lambda row: row.baseline, kind="text"),
    TableColumn(
        name="stratum",
        value=lambda row: row.stratum,
        kind="text",
        is_shown=lambda rows: any(row.stratum != ALL for row in rows),
    ),
    TableColumn(name="n", value=lambda row: row.test.difference.n),
    TableColumn(name="in", value=lambda row: row.metric, kind="text"),
    TableColumn(name="difference", value=lambda row: row.test.difference.estimate, format="+.3f"),
    TableColumn(name="95 % interval", value=lambda row: row.test.difference.as_text("+.3f"), kind="interval"),
    TableColumn(name="p", value=lambda row: p_cell(row.test.p_value), missing="–"),
    TableColumn(name="p (max-T)", value=lambda row: p_cell(row.adjusted_p), missing="–"),
    TableColumn(name="detectable", value=lambda row: row.test.difference.detectable, format=".3f", missing="–"),
)
