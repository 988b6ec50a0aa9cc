"""The HTML report of a run, and what all pages share."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import jinja2
from markupsafe import Markup, escape

from wardround.audits.pipeline import VERDICTS, PipelineReport
from wardround.clinical.codes import LabelSet
from wardround.core import (
    Picture,
    Progress,
    Reporter,
    TerminalProgress,
    UserError,
    content_hash,
    data_url,
    is_read_only,
    private_folder,
    silent,
    write_atomically,
)
from wardround.core.settings import flat
from wardround.core.table import Kind, as_html, columns_of, html_frame, table_of
from wardround.log import LogReader, Trajectory
from wardround.predictors import FitRow, read_manifest, read_predictions
from wardround.records import Store
from wardround.reports.analyses import Point, points_of, sections
from wardround.reports.answer import answer_of, main_differences
from wardround.reports.arms import arm_table, win_map
from wardround.reports.baseline_card import card_table
from wardround.reports.class_sections import ablation_tables, auroc_panels, class_tables, few_shot_panels, has_curve
from wardround.reports.comparing import must_match
from wardround.reports.episode_card import PatientFacts, episode_card, facts_of
from wardround.reports.forest import forest, forest_groups
from wardround.reports.predictions import predictor_notes
from wardround.reports.run_tables import difference_table, score_table, subgroup_table, work_table
from wardround.reports.siblings import siblings
from wardround.reports.standing import standing_record
from wardround.reports.stay_pages import StayHour, rule_texts, stay_hours, timeline
from wardround.reports.stream_sections import stream_sections
from wardround.reports.summary import (
    RunSummary,
    by_subgroup,
    contender,
    named_contenders,
    summarise_run,
)
from wardround.runs.banks import gate_notes
from wardround.runs.evolution_record import read_record
from wardround.runs.folder import RunFolder
from wardround.runs.results import score_run
from wardround.runs.sources import open_benchmark, open_store
from wardround.tasks.benchmarks import Benchmark, Sample, get_task
from wardround.tasks.scoring import (
    RESAMPLES,
    SET_F1,
    EpisodeScore,
    SummaryRow,
    TrivialScores,
    scorer_of,
    trivial_scores,
)
from wardround.tasks.scoring.bootstrap import FEWEST_SUBJECTS
from wardround.tasks.scoring.stays import ADHERENCE_COLUMNS, RECALL_COLUMNS
from wardround.tasks.scoring.tables import FIGURE_COLUMNS

# Shared by all pages of a run: the templates, their style and its hash, and the content of an episode's page.


_HERE = "wardround.reports"


@cache
def page_environment(*packages: str, styles: tuple[str, ...] = ("style.css",)) -> jinja2.Environment:
    """Return the Jinja environment of the report's templates, after those of ``packages``; pages allow only the named
    styles."""
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(package, "templates") for package in (*packages, _HERE)])
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = "".join(environment.get_template(name).render() for name in styles)
    environment.globals["style"] = Markup(style)
    environment.globals["style_hash"] = b64encode(sha256(style.encode()).digest()).decode()
    environment.filters["figure"] = lambda value, digits=3: "–" if value is None else f"{value:.{digits}f}"
    environment.filters["whole"] = lambda value: "–" if value is None else f"{value:,.0f}"
    environment.filters["minute"] = lambda created: f"{created[:16].replace('T', ' ')} UTC"
    environment.filters["data_url"] = data_url
    environment.filters["html"] = as_html
    environment.filters["html_stacked"] = partial(as_html, is_stacked=True)
    environment.globals |= {
        "score_table": score_table,
        "work_table": work_table,
        "difference_table": difference_table,
        "card_table": card_table,
    }
    environment.globals["html_table"] = _html_table
    environment.filters["percent"] = lambda value: "–" if value is None else f"{value:.0%}"
    return environment


def _html_table(*headings: str | Sequence[Any] | None, caller: Callable[[], str], css: str = "") -> Markup:
    """Return the table around the rows of a template's ``call`` block.

    A heading is a name, ``#name`` for numbers, or (name, kind); None is left out; a list is several headings of
    numbers.
    """
    columns: list[tuple[str, Kind]] = []
    for one in headings:
        if isinstance(one, tuple):
            columns.append(one)
        elif isinstance(one, str):
            columns.append((one.removeprefix("#"), "number" if one.startswith("#") else "text"))
        else:
            columns += [(name, "number") for name in one or ()]
    body = caller()
    return html_frame(columns, _named_cells(body, [name for name, _ in columns]) if "stacked" in css else body, css=css)


def _named_cells(body: str, names: Sequence[str]) -> str:
    """Add the column's name to each cell but the first: on a narrow screen a row becomes a list of names and values."""
    attributes = [f' data-name="{escape(name)}"' for name in names[1:]]
    return "".join(_named_row(row, attributes) for row in re.split(r"(?=<tr\b)", body))


def _named_row(row: str, attributes: Sequence[str]) -> str:
    cells = re.split(r"(?=<t[dh]\b)", row)
    for attribute, number in zip(attributes, range(2, len(cells)), strict=False):
        opening, closed, inside = cells[number].partition(">")
        if opening.startswith("<td"):
            cells[number] = f"{opening}{attribute}{closed}{inside}"
    return "".join(cells)


def leak_test_page(found: PipelineReport) -> str:
    """Return the page of a leak test as HTML without scripts."""
    return page_environment().get_template("leak_test.html.jinja").render(report=found, words=VERDICTS)


def episode_page(result: EpisodeScore) -> str:
    """Return the file name of an episode's page, relative to the report."""
    return f"episodes/{content_hash(result.episode)[:16]}.html"


def episode_parts(
    result: EpisodeScore,
    sample: Sample,
    trajectory: Trajectory,
    labels: LabelSet | None,
    policy: str,
    hours: Sequence[StayHour] = (),
    *,
    patient: PatientFacts | None = None,
    missing: str = "",
    rules: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the variables of the template of an episode's page.

    ``hours``: those of a stay, if its store is available; ``patient``: as of the question, None without a chart, and
    ``missing`` says why; ``rules``: the text of a stay's rules.
    """
    return {
        "result": result,
        "card": episode_card(result, sample, get_task(result.task), labels, patient, missing=missing),
        "sample": sample,
        "trajectory": trajectory,
        "timeline": timeline(trajectory, sample, rules),
        "hours": hours,
        "policy": policy,
        "contender": contender(result),
        "has_pictures": any(_pictures(trajectory)),
        "citations": (trajectory.outcome or {}).get("citations", ()),
    }


def matrix(summary: RunSummary) -> Mapping[str, Mapping[str, SummaryRow]]:
    """Return the row over all strata of every contender and task: the table of a paper."""
    cells: dict[str, dict[str, SummaryRow]] = {}
    for row in summary.rows:  # the row over all strata comes last
        cells.setdefault(contender(row), {})[row.task] = row
    return cells


def _pictures(trajectory: Trajectory) -> Iterator[Picture]:
    """Yield every picture that a page shows: of the first prompt and of tool results."""
    for turn in trajectory.turns:
        for message in turn.prompt:
            yield from message.pictures
        for record in turn.results:
            yield from record.pictures


def official_names(labels: LabelSet | None) -> Callable[[str], str | None]:
    """Return a function from a spelling to an official label; without declared labels every text is one."""
    return str if labels is None else labels.resolve


Pages = Callable[[Sequence[EpisodeScore]], Sequence[EpisodeScore]]
"""Chooses the episodes whose pages are written."""
MOST_PAGES = 500


def no_pages(results: Sequence[EpisodeScore]) -> Sequence[EpisodeScore]:
    """Write no episode's page."""
    return ()


def few_pages(results: Sequence[EpisodeScore]) -> Sequence[EpisodeScore]:
    """Write all pages of a run of at most ``MOST_PAGES`` episodes, no page of a larger one."""
    return results if len(results) <= MOST_PAGES else ()


def report_run(
    folder: RunFolder,
    others: Sequence[RunFolder] = (),
    *,
    baseline: str | None = None,
    pages: Pages = few_pages,
    out: Path | None = None,
    by: str | None = None,
    report: Reporter | None = None,
) -> tuple[RunSummary, Path | None]:
    """Score a run and write its report; return its figures and the path of the page, None if the folder is read-only.

    ``others``: runs of the same benchmark that differ in a setting. ``pages``: chooses the episodes with a page.
    ``by``: also split the results by this, one of ``GROUPINGS``.
    """
    for other in others:
        must_match(folder, other)
    progress = report or TerminalProgress()
    workers = min(4, os.cpu_count() or 1)
    results = score_run(folder, workers=workers, report=progress)
    predictions = read_predictions(folder.path)
    summary = summary_of(folder, results, baseline=baseline, by=by)
    points = run_points(folder, results, others, report=progress)
    page: Path | None = None
    try:
        page = write_report(
            folder,
            results,
            summary,
            points=points,
            predictions=predictions,
            pages=pages(results),
            out=out,
            report=progress,
        )
    except OSError as error:
        if out is not None or not is_read_only(error):
            raise
    finally:
        if isinstance(progress, TerminalProgress):
            progress.close()
    return summary, page


def summary_of(
    folder: RunFolder, results: Sequence[EpisodeScore], *, baseline: str | None = None, by: str | None = None
) -> RunSummary:
    """Return the figures of a run from its scored episodes. ``baseline`` and ``by`` as in :func:`report_run`."""
    summary = summarise_run(
        results,
        seed=folder.settings.run.seed,
        baseline=baseline or folder.settings.scoring.baseline,
        order=named_contenders(folder.settings),
        predictions=read_predictions(folder.path),
        trivial=trivial_scores(open_benchmark(folder), {result.sample for result in results}),
        sizes=folder.settings.model_sizes(),
    )
    return summary if by is None else replace(summary, by=by, subgroups=_subgroups(folder, results, by))


def run_points(
    folder: RunFolder, results: Sequence[EpisodeScore], others: Sequence[RunFolder], *, report: Reporter = silent
) -> list[Point]:
    """Return the scores of a run and of others against each numeric setting in which they differ."""
    return points_of(
        [(folder.settings, results), *((other.settings, score_run(other, report=report)) for other in others)]
    )


def _subgroups(folder: RunFolder, scores: Sequence[EpisodeScore], by: str) -> tuple[SummaryRow, ...]:
    samples = open_benchmark(folder).all_samples
    return by_subgroup(scores, samples, open_store(folder), by, seed=folder.settings.run.seed)


# The HTML report of a run: one page of tables and charts, and a page per episode. Static, no scripts, prints well.
#
# It contains record text, so it is patient data like the run.


def write_report(
    folder: RunFolder,
    results: Sequence[EpisodeScore],
    summary: RunSummary,
    *,
    points: Sequence[Point] = (),
    predictions: Sequence[FitRow] = (),
    pages: Sequence[EpisodeScore] | None = None,
    out: Path | None = None,
    report: Reporter = silent,
) -> Path:
    """Write ``report/index.html`` (or into ``out``) and episode pages; return the path of the index.

    ``points`` of runs that differ in a setting add a chart of the score against it; ``predictions``: the predictors.
    ``pages``: the episodes with a page, all if None; pages written before are linked too.
    """
    target = out or folder.path / "report"
    pages = results if pages is None else pages
    private_folder(target)
    (target / "episodes").mkdir(exist_ok=True)
    linked = {episode_page(result) for result in pages} | _written_before(folder, target)
    environment = page_environment()
    stream = read_record(folder)
    page = environment.get_template("report.html.jinja").generate(
        run=folder,
        settings=folder.settings,
        every_setting=flat(folder.settings.to_json()),
        manifest=folder.manifest,
        gate_notes=gate_notes(folder),
        summary=summary,
        totals=_totals(results),
        stream=stream,
        sections=[*(stream_sections(stream) if stream else ()), *sections(results, summary, points)],
        results=results,
        page=episode_page,
        contender=contender,
        answer=answer_of(summary),
        forest=forest(forest_groups([*summary.against_trivial, *main_differences(summary.comparisons)])),
        siblings=siblings(folder, target) if out is None else (),
        arms=arm_table(summary.arms),
        subgroups=subgroup_table(summary.subgroups, summary.by or ""),
        recall=table_of(summary.recall, columns_of(RECALL_COLUMNS, "page")),
        adherence=table_of(summary.adherence, columns_of(ADHERENCE_COLUMNS, "page")),
        figures=table_of(summary.figures, columns_of(FIGURE_COLUMNS, "page")),
        win_map=win_map(summary.arm_cells),
        linked=linked,
        **_metrics_of_tasks(results),
        **class_parts(folder.path, summary, predictions),
    )
    write_atomically(target / "index.html", page)
    if pages:
        _write_episodes(folder, target, pages, report)
    return target / "index.html"


def _written_before(folder: RunFolder, target: Path) -> set[str]:
    """Return the existing episode pages that are newer than every episode."""
    written = [
        file.stat() for file in folder.logs.glob("*") if not file.name.endswith("-shm")
    ]  # readers create these files
    played = max((facts.st_mtime for facts in written if facts.st_size), default=0.0)
    there = (target / "episodes").glob("*.html")
    return {f"episodes/{file.name}" for file in there if file.stat().st_mtime >= played}


def report_predictors(path: Path) -> tuple[RunSummary, Path]:
    """Report a folder with fitted predictors and without agents; return its figures and the path of the page."""
    predictions = read_predictions(path)
    summary = summarise_run((), seed=0, predictions=predictions, trivial=_trivial_of(path, predictions))
    return summary, write_predictor_report(path, summary, predictions)


def _trivial_of(path: Path, predictions: Sequence[FitRow]) -> tuple[TrivialScores, ...]:
    """Score trivial baselines on the predicted samples; empty if the benchmark is missing."""
    benchmark = fitted_benchmark(path)
    if benchmark is None:
        return ()
    return trivial_scores(benchmark, {sample for row in predictions for sample in row.samples})


def fitted_benchmark(path: Path) -> Benchmark | None:
    """Open the benchmark on which the predictors of a folder were fitted; None if it is missing or has changed."""
    manifest = read_manifest(path) or {}
    folder = manifest.get("benchmark_folder")
    if folder is None or not (Path(folder) / "manifest.json").is_file():
        return None
    benchmark = Benchmark.open(Path(folder))
    return benchmark if benchmark.digest == manifest["benchmark_digest"] else None


def write_predictor_report(path: Path, summary: RunSummary, predictions: Sequence[FitRow]) -> Path:
    """Write the report of a folder with fitted predictors and without agents."""
    private_folder(path / "report")
    page = (
        page_environment()
        .get_template("predictors.html.jinja")
        .render(
            manifest=read_manifest(path), fits=predictions, summary=summary, **class_parts(path, summary, predictions)
        )
    )
    write_atomically(path / "report" / "index.html", page)
    return path / "report" / "index.html"


def class_parts(path: Path, summary: RunSummary, predictions: Sequence[FitRow]) -> dict[str, Any]:
    """Return the variables of the sections on classes; empty if no task has classes."""
    with_curve = has_curve(predictions)
    return {
        "class_tables": class_tables(summary),
        "ablation_tables": ablation_tables(summary),
        "few_shot_panels": few_shot_panels(predictions, summary) if with_curve else (),
        "auroc_panels": auroc_panels(predictions) if with_curve else (),
        "replicates": 1 + max((row.replicate for row in predictions), default=0),
        "resamples": RESAMPLES,
        "fewest_subjects": FEWEST_SUBJECTS,
        "predictor_notes": predictor_notes(predictions, read_manifest(path)),
    }


class EpisodePages:
    """Makes the pages of a run's episodes; shared files are read once."""

    def __init__(self, folder: RunFolder, results: Sequence[EpisodeScore]) -> None:
        benchmark = open_benchmark(folder)
        self.samples = {sample.id: sample for sample in benchmark.all_samples}
        self._labels = {task.name: benchmark.labels(task) for task in benchmark.tasks}
        self._template = page_environment().get_template("episode.html.jinja")
        self._store, self._missing = _store_or_reason(folder)
        self._policy = folder.manifest["policy"]
        self._rules = rule_texts(folder.settings) if any(result.steps is not None for result in results) else {}

    def html(self, result: EpisodeScore, trajectory: Trajectory) -> str:
        """Return the page of an episode."""
        sample = self.samples[result.sample]
        hours: tuple[StayHour, ...] = ()
        patient, cited = None, {}
        if self._store is not None and not sample.is_text_case:
            chart = sample.chart(self._store)
            rows = frozenset(one["row_id"] for one in (trajectory.outcome or {}).get("citations", ()))
            record = standing_record(chart, rows)
            patient, cited = facts_of(chart, record), {"rows_told": record.rows, "drawn": {}}
            hours = () if result.steps is None else stay_hours(self._store, sample)
        labels = self._labels[result.task]
        parts = episode_parts(
            result,
            sample,
            trajectory,
            labels,
            self._policy,
            hours,
            patient=patient,
            missing=self._missing,
            rules=self._rules if result.steps is not None else {},
        )
        return self._template.render({**parts, **cited})


def _write_episodes(folder: RunFolder, target: Path, results: Sequence[EpisodeScore], report: Reporter) -> None:
    pages = EpisodePages(folder, results)
    with LogReader(folder.logs) as reader:
        for done, result in enumerate(results):
            html = pages.html(result, reader.trajectory(result.episode))
            write_atomically(target / episode_page(result), html, durable=False)
            report(Progress(label="writing episodes", done=done + 1, total=len(results), unit="pages"))


def _store_or_reason(folder: RunFolder) -> tuple[Store | None, str]:
    """Return the store of a run, or why it cannot be used: missing or changed."""
    try:
        return open_store(folder), ""
    except UserError as error:
        return None, str(error)


def _metrics_of_tasks(results: Sequence[EpisodeScore]) -> Mapping[str, Any]:
    """Return the tasks by the name of their figure, without those scored by the set's F1, and whether all tasks are in
    the section on classes."""
    scorers = {task: scorer_of(get_task(task).answer) for task in sorted({result.task for result in results})}
    metrics: dict[str, list[str]] = {}
    for task, scorer in scorers.items():
        metrics.setdefault(scorer.metric, []).append(task)
    return {
        "other_metrics": {metric: tasks for metric, tasks in metrics.items() if metric != SET_F1},
        "all_by_class": bool(scorers) and all(scorer.by_class for scorer in scorers.values()),
    }


def _totals(results: Sequence[EpisodeScore]) -> Mapping[str, Any]:
    costs = [result.use.cost for result in results]
    tokens = [None if result.use.usage is None else result.use.usage.input_tokens for result in results]
    return {
        "episodes": len(results),
        "subjects": len({result.subject_id for result in results}),
        "experiences": sum(result.use.experiences or 0 for result in results),
        "unchecked": sum(result.use.unchecked_experiences for result in results),
        "failed": sum(result.finish == "error" for result in results),
        "seconds": median(one.use.model_seconds + one.use.tool_seconds for one in results) if results else None,
        "cost": sum(cost for cost in costs if cost is not None) if costs and None not in costs else None,
        "input_tokens": sum(t for t in tokens if t is not None) if tokens and None not in tokens else None,
    }
