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

from wardround.benchmarks import Benchmark
from wardround.core import Progress, Reporter, content_hash, silent
from wardround.log import LogReader
from wardround.runs import charts
from wardround.runs.folder import RunFolder, write_atomically
from wardround.runs.summary import RunSummary, contender
from wardround.scoring import EpisodeScore, ErrorClass, SummaryRow

_TURN_EDGES = (5, 10, 20, 40, 60, 80, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A chart with its heading and what to read from it."""

    title: str
    text: str
    chart: Any


def write_report(
    folder: RunFolder,
    results: Sequence[EpisodeScore],
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
        contender=contender,
        has_pages=episodes,
    )
    write_atomically(target / "index.html", page)
    if episodes and results:
        _write_episodes(folder, target, results, environment, report)
    return target / "index.html"


def episode_page(result: EpisodeScore) -> str:
    """File name of an episode's page, relative to the report."""
    return f"episodes/{content_hash(result.episode)[:16]}.html"


def _write_episodes(
    folder: RunFolder,
    target: Path,
    results: Sequence[EpisodeScore],
    environment: jinja2.Environment,
    report: Reporter,
) -> None:
    template = environment.get_template("episode.html.jinja")
    samples = {sample.id: sample for sample in Benchmark.open(Path(folder.settings.benchmark)).all_samples}
    with LogReader(folder.logs) as reader:
        for done, result in enumerate(results):
            trajectory = reader.trajectory(result.episode)
            html = template.render(
                result=result,
                sample=samples[result.sample],
                trajectory=trajectory,
                manifest=folder.manifest,
                contender=contender(result),
            )
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


def _totals(results: Sequence[EpisodeScore]) -> Mapping[str, Any]:
    costs = [result.use.cost for result in results]
    tokens = [None if result.use.usage is None else result.use.usage.input_tokens for result in results]
    return {
        "episodes": len(results),
        "subjects": len({result.subject_id for result in results}),
        "failed": sum(result.finish == "error" for result in results),
        "seconds": median(_seconds(result) for result in results) if results else None,
        "cost": sum(cost for cost in costs if cost is not None) if costs and None not in costs else None,
        "input_tokens": sum(t for t in tokens if t is not None) if tokens and None not in tokens else None,
    }


def _seconds(result: EpisodeScore) -> float:
    return result.use.model_seconds + result.use.tool_seconds


def _sections(results: Sequence[EpisodeScore], summary: RunSummary) -> Iterable[Section]:
    if not results:
        return
    yield _score_section(summary.rows)
    yield _error_section(results)
    yield _turn_section(results)
    yield _tool_section(results)
    yield _table_section(results)


def _score_section(rows: Sequence[SummaryRow]) -> Section:
    several = len({contender(row) for row in rows}) > 1
    whole = {(contender(row), row.task): row for row in rows}  # the row over all strata comes last
    points = [
        (f"{task} · {name}" if several else task, row.f1.estimate, row.f1.low, row.f1.high)
        for (name, task), row in whole.items()
    ]
    return Section(
        title="Score by task",
        text="Mean set F1 over samples; the line is the 95 % interval over patients.",
        chart=charts.intervals(points, title="F1 by task with 95 % intervals"),
    )


def _error_section(results: Sequence[EpisodeScore]) -> Section:
    counts = Counter(name for result in results for name in result.errors)
    rows = [
        (name.replace("_", " "), float(counts[name]), f"{counts[name]:,} of {len(results):,}") for name in ErrorClass
    ]
    return Section(
        title="Errors",
        text="Episodes in which each error class of AgentEHR (appendix E) holds; several may hold at once.",
        chart=charts.bars(rows, title="Episodes per error class", full=len(results)),
    )


def _turn_section(results: Sequence[EpisodeScore]) -> Section:
    columns = [f"≤ {edge}" for edge in _TURN_EDGES] + [f"> {_TURN_EDGES[-1]}"]
    rows = {}
    for name, group in _by_task(results).items():
        bins = Counter(_turn_bin(result.use.turns) for result in group)
        rows[name] = {column: bins[n] / len(group) for n, column in enumerate(columns)}
    return Section(
        title="Turns per episode",
        text="Share of a task's episodes that took so many turns.",
        chart=charts.heat(rows, columns, title="Turns per episode by task"),
    )


def _turn_bin(turns: int) -> int:
    return next((n for n, edge in enumerate(_TURN_EDGES) if turns <= edge), len(_TURN_EDGES))


def _tool_section(results: Sequence[EpisodeScore]) -> Section:
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.use.tool_calls)
    total = counts.total() or 1
    rows = [(name, float(count), f"{count:,} ({count / total:.0%})") for name, count in counts.most_common()]
    return Section(
        title="Tools called", text="Calls over all episodes.", chart=charts.bars(rows, title="Calls per tool")
    )


def _table_section(results: Sequence[EpisodeScore]) -> Section:
    groups = _by_task(results)
    names = Counter(table for result in results for table in result.use.tables).most_common(14)
    rows = {
        table: {
            task: sum(table in result.use.tables for result in group) / len(group) for task, group in groups.items()
        }
        for table, _ in names
    }
    return Section(
        title="Tables read",
        text="Share of a task's episodes that read each table at least once.",
        chart=charts.heat(rows, list(groups), title="Tables read by task"),
    )


def _by_task(results: Sequence[EpisodeScore]) -> dict[str, list[EpisodeScore]]:
    ordered = sorted(results, key=lambda result: result.task)
    return {name: list(group) for name, group in groupby(ordered, key=lambda result: result.task)}
