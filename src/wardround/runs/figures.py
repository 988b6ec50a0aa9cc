"""Figures of a run as SVG files, each with its own style: the methods on every task, then the charts of the report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from wardround.core import private_folder, write_atomically
from wardround.runs import charts
from wardround.runs.analyses import sections
from wardround.runs.summary import RunSummary, contender
from wardround.scoring import EpisodeScore, SummaryRow

_STYLE = """
svg { background: #ffffff; --ink: #1d2733; --soft: #5b6875; --line: #d9dfe5; --paper: #ffffff; --accent: #0b6e75;
  --warn: #9a5b00; --bad: #a12b2b; }
"""
_NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'


def write_figures(summary: RunSummary, scores: Sequence[EpisodeScore], folder: Path) -> list[Path]:
    """Write each figure as an SVG file of its own; return the files. A chart with nothing in it is not written."""
    private_folder(folder)
    style = _chart_style()
    written = []
    for name, chart in figures(summary, scores).items():
        if chart.startswith("<svg"):
            file = folder / f"{name}.svg"
            write_atomically(file, standalone(chart, style), durable=False)
            written.append(file)
    return written


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
        points = [(_label(name, row), row.f1.estimate, *row.f1.ends) for name, row in rows.items()]
        yield task, charts.intervals(points, title=f"{metric} on {task}, 95 % intervals over patients")


def standalone(chart: Markup, style: str) -> str:
    """Return a chart of a page as a file that opens by itself."""
    head, rest = str(chart).split(">", 1)
    named = head if "xmlns=" in head else head.replace("<svg", f"<svg {_NAMESPACE}", 1)
    return f"{named}><style>{style}</style>{rest}\n"


def _label(name: str, row: SummaryRow) -> str:
    missing = row.f1.missing
    return name if missing is None else f"{name} ({missing.partition(':')[0]})"


def _chart_style() -> str:
    """The lines of the report's style sheet that are about charts, on a page of white."""
    sheet = (Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    return _STYLE + "\n".join(line for line in sheet.splitlines() if line.startswith("svg"))


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
