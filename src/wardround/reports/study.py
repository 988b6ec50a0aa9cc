"""A study: several runs that differ in some settings, their comparison, tables and figures, of one TOML file.

    baseline = "plain"              # the run that the others are compared with; by default the first

    [settings.run]                  # what all runs share: settings as in an experiment file
    benchmark = "bench"
    store = "store"
    agents = ["react"]

    [runs.plain]
    [runs.short.budget]             # what a run has otherwise
    context_tokens = 16000

The same call goes on where it was stopped: a finished run is not repeated, and what is written is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.core import Reporter, UserError, private_folder, read_toml, refuse_unknown, silent, write_atomically
from wardround.core.settings import merged
from wardround.reports.answer import compared_answers, main_differences
from wardround.reports.comparing import Comparison
from wardround.reports.figures import Draw, forest_figure, setting_figures, write_figures
from wardround.reports.forest import forest, forest_groups
from wardround.reports.opened_run import compare_runs
from wardround.reports.report import no_pages, page_environment, report_run, run_points, summary_of
from wardround.reports.summary import contender
from wardround.reports.tidy import TidyRow, tidy_differences, tidy_run, write_tidy
from wardround.runs.execute import open_or_start
from wardround.runs.experiment import experiment_of
from wardround.runs.folder import RunFolder
from wardround.runs.results import score_run

_KEYS = ("baseline", "settings", "runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The settings of each run by its name, the baseline first."""

    runs: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """The results of a study: its runs by name, the differences to the baseline, and the first page."""

    folders: Mapping[str, RunFolder]
    comparisons: Sequence[Comparison]
    page: Path


def read_study(path: Path) -> Study:
    """Read a study file; paths in it are relative to it. UserError: unknown keys or settings, fewer than two runs."""
    body = read_toml(path)
    refuse_unknown(body, _KEYS, str(path))
    shared, runs = body.get("settings", {}), body.get("runs", {})
    if not isinstance(runs, dict) or len(runs) < 2:
        raise UserError(f"{path}: a study needs two runs or more: [runs.NAME] for each")
    odd = [name for name in runs if Path(name).name != name or name.startswith(".")]
    if odd:
        raise UserError(f"{path}: {odd[0]!r} cannot be the name of a run: it cannot be a folder's name")
    baseline = body.get("baseline", next(iter(runs)))
    if baseline not in runs:
        raise UserError(f"{path}: the baseline {baseline!r} is not one of its runs: {', '.join(runs)}")
    names = [baseline, *(name for name in runs if name != baseline)]
    return Study(runs={name: experiment_of(merged(shared, runs[name]), path, f"runs.{name}") for name in names})


def play_study(study: Study, out: Path, *, play: Callable[[RunFolder], bool], report: Reporter = silent) -> StudyResult:
    """Run what is not finished below ``out/runs``, then report each run and all of them together.

    ``play`` runs the unfinished episodes of one run and returns whether all are finished. UserError: episodes are left,
    or the runs answer different questions.
    """
    folders = {name: open_or_start(out / "runs" / name, settings) for name, settings in study.runs.items()}
    for name, folder in folders.items():
        if not play(folder):
            raise UserError(f"some episodes of the run {name} are not finished; run the same command again")
    for folder in folders.values():
        report_run(folder, pages=no_pages, report=report)
    names = list(folders)
    comparisons = compare_runs(list(folders.values()), names=names, report=report)
    write_tidy(tidy_runs(list(folders.values()), names, comparisons), out / "tables")
    return StudyResult(folders=folders, comparisons=comparisons, page=_write_page(folders, comparisons, out))


def study_figures(folders: Sequence[RunFolder], comparisons: Sequence[Comparison]) -> dict[str, Draw]:
    """Return the figures of several runs: a forest plot, and the scores against each setting in which they differ."""
    first, *others = folders
    return {
        "forest": lambda: forest_figure(comparisons),
        **setting_figures(run_points(first, score_run(first), others)),
    }


def write_study_figures(folders: Sequence[RunFolder], comparisons: Sequence[Comparison], folder: Path) -> list[Path]:
    """Draw and write the figures of several runs; return the files. UserError: the extra is missing."""
    return write_figures(study_figures(folders, comparisons), folder)


def run_names(folders: Sequence[RunFolder]) -> list[str]:
    """Return short names of runs: their folders' names, or whole paths if two are equal."""
    names = [folder.path.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder.path) for folder in folders]


def tidy_runs(folders: Sequence[RunFolder], names: Sequence[str], comparisons: Sequence[Comparison]) -> list[TidyRow]:
    """Return every figure of some runs, and the differences between them."""
    summaries = {name: summary_of(folder, score_run(folder)) for name, folder in zip(names, folders, strict=True)}
    whose = {
        f"{contender(row)} ({name})": (name, row.agent, row.model)
        for name, summary in summaries.items()
        for row in summary.rows
    }
    rows = [row for name, summary in summaries.items() for row in tidy_run(summary, name)]
    return rows + tidy_differences(comparisons, whose)


def _write_page(folders: Mapping[str, RunFolder], comparisons: Sequence[Comparison], out: Path) -> Path:
    private_folder(out)
    page = (
        page_environment()
        .get_template("study.html.jinja")
        .render(
            folders=folders,
            manifest=next(iter(folders.values())).manifest,
            answer=compared_answers(comparisons),
            forest=forest(forest_groups(main_differences(comparisons))),
            comparisons=comparisons,
        )
    )
    write_atomically(out / "index.html", page)
    return out / "index.html"
