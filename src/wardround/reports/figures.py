"""Figures of a run as SVG files: the methods on every task, then the charts of the report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from wardround.core import private_folder
from wardround.reports import charts
from wardround.reports.analyses import sections, with_reason
from wardround.reports.charts import write_svg
from wardround.reports.summary import RunSummary, contender
from wardround.tasks.scoring import EpisodeScore, SummaryRow


def write_figures(summary: RunSummary, scores: Sequence[EpisodeScore], folder: Path) -> list[Path]:
    """Write each figure as an SVG file of its own; return the files. A chart with nothing in it is not written."""
    private_folder(folder)
    drawn = {name: chart for name, chart in figures(summary, scores).items() if chart.startswith("<svg")}
    return [write_svg(chart, folder / f"{name}.svg") for name, chart in drawn.items()]


def figures(summary: RunSummary, scores: Sequence[EpisodeScore]) -> Mapping[str, Markup]:
    """Return the charts by the names of their files."""
    found = {_file_name(f"task-{task}"): chart for task, chart in methods_on_tasks(summary)}
    return found | {_file_name(one.title): one.chart for one in sections(scores, summary)}


def methods_on_tasks(summary: RunSummary) -> Iterator[tuple[str, Markup]]:
    """Yield a chart per task: every contender with its interval, or why it has none."""
    of_task: dict[str, dict[str, SummaryRow]] = {}
    for row in summary.rows:  # the row over all strata comes last
        of_task.setdefault(row.task, {})[contender(row)] = row
    for task, rows in of_task.items():
        metric = next(iter(rows.values())).metric
        points = [(with_reason(name, row.f1), row.f1.estimate, *row.f1.ends) for name, row in rows.items()]
        yield task, charts.intervals(points, title=f"{metric} on {task}, 95 % intervals over patients")


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
