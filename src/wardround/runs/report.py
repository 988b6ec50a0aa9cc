"""The HTML report of a run: one page of tables and charts, and a page per episode. Static, no scripts, prints well.

It holds record text, so it is patient data like the run it comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import jinja2

from wardround.core import Progress, Reporter, content_hash, silent
from wardround.log import LogReader
from wardround.runs import charts
from wardround.runs.folder import RunFolder, write_atomically
from wardround.runs.results import EpisodeResult
from wardround.runs.summary import Row, RunSummary
from wardround.scoring import ErrorClass

_TURN_EDGES = (5, 10, 20, 40, 60, 80, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A chart with its heading and what to read from it."""

    title: str
    text: str
    chart: Any


def write_report(
    folder: RunFolder,
    results: Sequence[EpisodeResult],
    summary: RunSummary,
    *,
    episodes: bool = True,
    report: Reporter = silent,
) -> Path:
    """Write ``report/index.html`` and its episode pages; return the path of the index."""
    target = folder.path / "report"
    (target / "episodes").mkdir(parents=True, exist_ok=True)
    environment = _environment()
    page = environment.get_template("report.html.jinja").render(
        run=folder,
        settings=folder.settings,
        manifest=folder.manifest,
        summary=summary,
        totals=_totals(results),
        sections=list(_sections(results, summary)),
        results=results,
        page=episode_page,
        has_pages=episodes,
    )
    write_atomically(target / "index.html", page)
    if episodes and results:
        _write_episodes(folder, target, results, environment, report)
    return target / "index.html"


def episode_page(result: EpisodeResult) -> str:
    """File name of an episode's page, relative to the report."""
    return f"episodes/{content_hash(str(result.key))[:16]}.html"


def _write_episodes(
    folder: RunFolder,
    target: Path,
    results: Sequence[EpisodeResult],
    environment: jinja2.Environment,
    report: Reporter,
) -> None:
    template = environment.get_template("episode.html.jinja")
    with LogReader(folder.logs) as reader:
        for done, result in enumerate(results):
            trajectory = reader.trajectory(str(result.key))
            html = template.render(result=result, trajectory=trajectory, manifest=folder.manifest)
            write_atomically(target / episode_page(result), html)
            report(Progress(label="writing episodes", done=done + 1, total=len(results), unit="pages"))


def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("wardround.runs", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["figure"] = lambda value, digits=3: "–" if value is None else f"{value:.{digits}f}"
    environment.filters["whole"] = lambda value: "–" if value is None else f"{value:,.0f}"
    environment.filters["percent"] = lambda value: "–" if value is None else f"{value:.0%}"
    return environment


def _totals(results: Sequence[EpisodeResult]) -> Mapping[str, Any]:
    costs = [result.cost for result in results]
    tokens = [result.input_tokens for result in results]
    return {
        "episodes": len(results),
        "subjects": len({result.subject_id for result in results}),
        "failed": sum(result.finish == "error" for result in results),
        "seconds": median([result.seconds for result in results]) if results else None,
        "cost": sum(cost for cost in costs if cost is not None) if costs and None not in costs else None,
        "input_tokens": sum(t for t in tokens if t is not None) if tokens and None not in tokens else None,
    }


def _sections(results: Sequence[EpisodeResult], summary: RunSummary) -> Iterable[Section]:
    if not results:
        return
    yield _score_section(summary.rows)
    yield _error_section(results)
    yield _turn_section(results)
    yield _tool_section(results)
    yield _table_section(results)


def _score_section(rows: Sequence[Row]) -> Section:
    several = len({row.contender for row in rows}) > 1
    points = [
        (f"{row.task} · {row.contender}" if several else row.task, row.f1.estimate, row.f1.low, row.f1.high)
        for row in rows
        if row.stratum == "all"
    ]
    return Section(
        title="Score by task",
        text="Mean set F1 over samples; the line is the 95 % interval over patients.",
        chart=charts.intervals(points, title="F1 by task with 95 % intervals"),
    )


def _error_section(results: Sequence[EpisodeResult]) -> Section:
    counts = Counter(name for result in results for name in result.errors)
    rows = [(name.replace("_", " "), float(counts[name]), f"{counts[name]:,}") for name in map(str, ErrorClass)]
    return Section(
        title="Errors",
        text="Episodes in which each error class of AgentEHR (appendix E) holds; several may hold at once.",
        chart=charts.bars(rows, title="Episodes per error class"),
    )


def _turn_section(results: Sequence[EpisodeResult]) -> Section:
    columns = [f"≤ {edge}" for edge in _TURN_EDGES] + [f"> {_TURN_EDGES[-1]}"]
    rows = {}
    for name, group in _by_task(results).items():
        bins = Counter(_turn_bin(result.turns) for result in group)
        rows[name] = {column: bins[n] / len(group) for n, column in enumerate(columns)}
    return Section(
        title="Turns per episode",
        text="Share of a task's episodes that took so many turns.",
        chart=charts.heat(rows, columns, title="Turns per episode by task"),
    )


def _turn_bin(turns: int) -> int:
    return next((n for n, edge in enumerate(_TURN_EDGES) if turns <= edge), len(_TURN_EDGES))


def _tool_section(results: Sequence[EpisodeResult]) -> Section:
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.tools)
    total = counts.total() or 1
    rows = [(name, float(count), f"{count:,} ({count / total:.0%})") for name, count in counts.most_common()]
    return Section(
        title="Tools called", text="Calls over all episodes.", chart=charts.bars(rows, title="Calls per tool")
    )


def _table_section(results: Sequence[EpisodeResult]) -> Section:
    groups = _by_task(results)
    names = Counter(table for result in results for table in result.tables).most_common(14)
    rows = {
        table: {task: sum(table in result.tables for result in group) / len(group) for task, group in groups.items()}
        for table, _ in names
    }
    return Section(
        title="Tables read",
        text="Share of a task's episodes that read each table at least once.",
        chart=charts.heat(rows, list(groups), title="Tables read by task"),
    )


def _by_task(results: Sequence[EpisodeResult]) -> dict[str, list[EpisodeResult]]:
    ordered = sorted(results, key=lambda result: result.task)
    return {name: list(group) for name, group in groupby(ordered, key=lambda result: result.task)}
