"""The terminal's table of results by subgroup."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.cli.table import print_rows
from wardround.runs.summary import contender
from wardround.scoring import SummaryRow


def print_subgroups(rows: Sequence[SummaryRow], by: str) -> None:
    """Print a row per contender, task and subgroup, which stands in ``stratum``; few patients have no interval."""
    print(f"\nby {by}, as the chart told it when the question was asked")
    print_rows(("agent · model", "task", by, "n", "patients", "in", "score", "95 % interval"), list(map(_cells, rows)))


def _cells(row: SummaryRow) -> tuple[str, ...]:
    score = f"{row.f1.estimate:.3f}"
    return contender(row), row.task, row.stratum, str(row.n), str(row.subjects), row.metric, score, row.f1.as_text()
