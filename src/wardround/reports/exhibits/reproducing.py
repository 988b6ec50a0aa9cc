"""Reproduce a table or figure of a paper: run its sweep, merge the runs, print the paper's own figures beside ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from wardround.agents import kinds_read
from wardround.core import Reporter, UserError, write_atomically
from wardround.core.settings import merged
from wardround.records import Store
from wardround.reports.charts import write_svg
from wardround.reports.exhibits.exhibit import EXHIBITS, Exhibit, Point, published_figures, published_models
from wardround.reports.exhibits.merging import MergedRow, Played, best_rows, drawn, merged_rows
from wardround.reports.opened_run import OpenedRun, as_frame, asked_of
from wardround.reports.report import no_pages, report_run, summary_of
from wardround.reports.run_facts import RunFacts, methods_text
from wardround.runs.banks import has_bank
from wardround.runs.execute import open_or_start
from wardround.runs.folder import RunFolder
from wardround.runs.results import read_results
from wardround.runs.settings import RunSettings
from wardround.tasks.benchmarks import Benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """An exhibit as it was run here. ``published_model``: the paper's model whose figures are beside ours, or empty.
    ``picture``: its chart as SVG. ``methods``: the methods in sentences, with a BibTeX entry (Markdown)."""

    exhibit: Exhibit
    rows: tuple[MergedRow, ...]
    published_model: str
    picture: Path | None
    methods: Path

    def table(self) -> Any:
        """Return the rows as a data frame: point, agent, model, task, metric, n, value, interval, published."""
        return as_frame(pa.Table.from_pylist([asdict(row) | {"point": str(row.point or "")} for row in self.rows]))


def reproduce_exhibit(
    name: str,
    asked: Mapping[str, Any],
    out: Path,
    *,
    play: Callable[[RunFolder], bool],
    published_model: str | None = None,
) -> Reproduction:
    """Run the sweep of an exhibit below ``out`` and merge it; the same call again continues.

    ``asked``: settings as nested tables, which override those of the exhibit. ``play`` runs the unfinished episodes of
    one run and returns whether all are finished. UserError: no such exhibit, it is not run here, or episodes are left.
    """
    exhibit = EXHIBITS.get(name)
    if not exhibit.is_played:
        raise UserError(f"{exhibit.name} is not run here: {exhibit.how}")
    model = _published_model(exhibit, published_model)
    models = RunSettings.read(merged(exhibit.body(), asked)).run.models
    without = agents_without_bank(exhibit, asked)
    asked = merged({"run": {"agents": [agent for agent in exhibit.agents if agent not in without]}}, asked)
    points = exhibit.points_of(models)
    played = [_played(exhibit, point, asked, out, play) for point in points]
    picture = drawn(exhibit, rows := _rows(exhibit, played, model), played)
    file = None if picture is None else write_svg(picture, out / f"{exhibit.name}.svg")
    methods = _write_methods(exhibit, points, out)
    return Reproduction(exhibit=exhibit, rows=tuple(rows), published_model=model, picture=file, methods=methods)


def agents_without_bank(exhibit: Exhibit, asked: Mapping[str, Any]) -> list[str]:
    """Return the agents of an exhibit that are left out because they read a bank and none was given."""
    memory = asked.get("memory", {})
    return [agent for agent in exhibit.agents if kinds_read(agent) and not has_bank(memory, agent)]


def _published_model(exhibit: Exhibit, asked: str | None) -> str:
    models = published_models(exhibit.name)
    if asked is not None and asked not in models:
        raise UserError(f"{exhibit.name} prints no figures of {asked!r}; of {', '.join(models) or 'no model'}")
    return asked or exhibit.reference


def _played(
    exhibit: Exhibit, point: Point, asked: Mapping[str, Any], out: Path, play: Callable[[RunFolder], bool]
) -> Played:
    """Run or continue one point of the sweep, and score it."""
    place = _place_of(out, point)
    folder = open_or_start(place, merged(merged(exhibit.body(), asked), exhibit.varied(point)))
    if not play(folder):
        raise UserError(f"some episodes of {place} are not finished; run the same command again")
    summary, _ = report_run(folder, pages=no_pages)
    return point, read_results(folder), summary


def _place_of(out: Path, point: Point) -> Path:
    """Return the folder of a point's run; characters such as ``/`` become ``-``."""
    return out / ("run" if point is None else "run-" + re.sub(r"[^\w.+-]", "-", str(point)))


def _write_methods(exhibit: Exhibit, points: Sequence[Point], out: Path) -> Path:
    """Write the methods of the first run, and how the others differ."""
    folder = RunFolder.open(_place_of(out, points[0]))
    results = read_results(folder)
    text = methods_text(RunFacts.of(folder, results, summary_of(folder, results)))
    if len(points) > 1:
        varied = exhibit.varies or ", ".join(exhibit.sweep) or "one setting"
        text = f"{len(points)} runs that differ in {varied} ({', '.join(map(str, points))}); of the first:\n\n{text}"
    write_atomically(out / "methods.md", text, durable=False)
    return out / "methods.md"


def _rows(exhibit: Exhibit, played: list[Played], model: str) -> list[MergedRow]:
    if exhibit.kind == "best":
        return [row for _, _, summary in played for row in best_rows(summary)]
    return merged_rows(exhibit, played, published_figures(exhibit.name, model))


def reproduce(
    name: str,
    benchmark: Benchmark | Path | str,
    store: Store | Path | str | None = None,
    *,
    out: Path | str,
    published_model: str | None = None,
    workers: int = 1,
    concurrency: int = 16,
    report: Reporter | None = None,
    **settings: Any,
) -> Reproduction:
    """Run a paper's table or figure here, with its own figures beside ours; the same call again continues.

    ``name``: one of ``EXHIBITS``, such as "retrosum-table-2" (``wardround reproduce --list``). ``published_model``: the
    paper's model whose figures are beside ours. ``settings``: as for :func:`wardround.run`; they override those of the
    exhibit.
    """

    def play(folder: RunFolder) -> bool:
        run = OpenedRun(folder).resume(workers=workers, concurrency=concurrency, report=report)
        return run.done == run.total

    asked = asked_of(benchmark, store, None, settings)
    return reproduce_exhibit(name, asked, Path(out), play=play, published_model=published_model)
