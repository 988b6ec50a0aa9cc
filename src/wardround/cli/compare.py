"""``wardround grid``, ``compare`` and ``study``: several methods or runs beside one another, with paired tests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from textwrap import fill

from wardround.cli.parser import USUAL, Command, usual_workers
from wardround.cli.report import pages_of_few, print_place, print_summary
from wardround.cli.run import add_run_options, asked_settings, open_run, play
from wardround.cli.scores import print_comparisons, print_no_difference
from wardround.cli.terminal import add_json_option, print_json
from wardround.core import TerminalProgress, UserError, strict
from wardround.core.settings import merged
from wardround.predictors import PredictorSettings
from wardround.reports import compare_runs
from wardround.reports.answer import compared_answers
from wardround.reports.figures import without_figures
from wardround.reports.grid import fit_beside, grid_baseline, grid_settings
from wardround.reports.report import no_pages, report_run
from wardround.reports.study import play_study, read_study, run_names, tidy_runs, write_study_figures
from wardround.reports.tidy import write_tidy
from wardround.runs import RunFolder, execute, gate_notes
from wardround.runs.notes import notes_on

# ``wardround grid``: every method on every task under every seed as one run, its tables, paired tests and report.


GRID_EXAMPLES = """
  wardround grid --benchmark bench --store store --out grid
      all methods that need no bank, all tasks, the offline model
  wardround grid --benchmark bench --store store --bank bank.sqlite --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --epochs 3 --out grid
  wardround grid --benchmark bench --store store --bank bank.sqlite --ablations --task diagnoses --out grid
  wardround grid --benchmark bench-ehrshot --store store --ablations too --out grid-ehrshot
      EHR-RAG's six methods, its ablations and both count baselines, with the few-shot figure in the report;
      --set predictors.shots=8,all and the like say how those are fitted
  wardround grid --resume grid
"""


def configure_grid(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser)
    parser.add_argument("--paper", choices=["retrosum", "ehr-rag"], help="whose tables; by default the benchmark's")
    parser.add_argument(
        "--ablations",
        nargs="?",
        const="only",
        default="none",
        choices=["none", "only", "too"],
        help="the rows of table 4 instead of the methods of table 2 (only, where just --ablations is given), or too",
    )
    parser.add_argument("--no-episodes", action="store_true", help="leave the pages with every turn out of the report")
    parser.add_argument("--no-predictors", action="store_true", help="fit none, where the tasks have classes")


def run_grid(arguments: argparse.Namespace) -> int:
    """Start or resume, run to the end, fit the predictors, score, print, write the report."""
    asked = asked_settings(arguments)
    baseline_asked = asked.pop("scoring", {}).get("baseline")  # a resumed run may have another one
    changed = asked.pop("predictors", {})  # fits have a manifest of their own
    if not arguments.resume and "agents" not in asked.get("run", {}):  # a resumed run keeps its own
        asked, left_out = grid_settings(asked, paper=arguments.paper, ablations=arguments.ablations)
        if left_out:
            names = ", ".join(left_out)
            print(f"left out, because they need --bank or memory.banks (wardround memory evolve makes one): {names}")
    folder = open_run(arguments, asked, scoring={"baseline": baseline_asked}, predictors=changed)
    predictors = strict(PredictorSettings, merged(folder.settings.to_json()["predictors"], changed), "[predictors]")
    baseline = grid_baseline(baseline_asked, arguments.ablations, folder)
    counts = play(folder, arguments)
    if not arguments.no_predictors:
        progress = TerminalProgress()
        why_not = fit_beside(folder, predictors, processes=arguments.workers, report=progress)
        progress.close()
        if why_not is not None:
            print(f"predictors left out: {why_not}")
    summary, page = report_run(folder, baseline=baseline, pages=no_pages if arguments.no_episodes else pages_of_few)
    if arguments.json:
        print_json(summary)
    else:
        print_summary(folder, summary)
        print_place(page)
    return 0 if counts.done == counts.total else 1


# ``wardround compare``: runs against the first of them, sample by sample.


COMPARE_EXAMPLES = """
  wardround compare run-a run-b
  wardround compare run-a run-b run-c --tables paper --figures paper
      every contender of run-b and run-c minus every one of run-a: tidy.csv, tidy.parquet; a forest plot
  wardround compare run-a run-b --json
  wardround compare run-strict run-on-published-clocks --clocks
"""


def configure_compare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("baseline", type=Path, help="the run that the others are compared with")
    parser.add_argument("others", type=Path, nargs="+", metavar="run", help="runs of the same benchmark")
    parser.add_argument(
        "--clocks",
        action="store_true",
        help="the other runs have the same samples on other clocks (bench reclock): print the effect of the leak",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the resampling")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="write scores and differences as CSV and Parquet")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="write a forest plot and the scores of each task")
    parser.add_argument("--wide", action="store_true", help="print strata and all columns, beyond 100 characters")
    add_json_option(parser)


def run_compare(arguments: argparse.Namespace) -> int:
    """Compare every contender of the other runs with every one of the first."""
    folders = [RunFolder.open(path) for path in (arguments.baseline, *arguments.others)]
    for note in (f"{folder.path}: {gate_note}" for folder in folders for gate_note in gate_notes(folder)):
        print(f"wardround: note: {note}", file=sys.stderr)
    names = run_names(folders)
    found = compare_runs(folders, names=names, other_clocks=arguments.clocks, seed=arguments.seed)
    if arguments.tables is not None:
        write_tidy(tidy_runs(folders, names, found), arguments.tables)
    if arguments.figures is not None:
        write_study_figures(folders, found, arguments.figures)
    if arguments.json:
        print_json(found)
    else:
        print_comparisons(found, is_wide=arguments.wide)
        for sentence in compared_answers(found) if not arguments.clocks else ():
            print("\n" + fill(sentence, 100, subsequent_indent="    "))
        print("\nDifferences are paired by sample, their intervals bootstraps over patients; of all tasks: the mean of")
        print("task means, p corrected for the contenders. macro-F1: the test exchanges all answers of a patient.")
        print_no_difference(found, folders)
        if arguments.clocks:
            policies = " less ".join(folder.manifest["policy"] for folder in reversed(folders))
            print(
                f"\n{policies}: the effect of the leak on each contender; do not compare these figures with other runs"
            )
    return 0


# ``wardround study``: several runs of one file, with comparison, tables and figures.


STUDY_EXAMPLES = """
  wardround study study.toml --out study
      the same command again continues
  study/index.html       the results, a forest plot, every comparison, a link to each run's report
  study/tables           tidy.csv, tidy.parquet: every figure as a row
  study/figures          forest.pdf and .svg, score-against-SETTING (extra [figures])
  study/runs/NAME        the runs
"""


def configure_study(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("study", type=Path, help="TOML file of runs (docs/publishing.md)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--workers", type=int, default=usual_workers(), help=f"processes of each run {USUAL}")
    parser.add_argument("--concurrency", type=int, default=16, help="episodes at once in each process")
    parser.add_argument("--wide", action="store_true", help="print strata and all columns, beyond 100 characters")


def run_study(arguments: argparse.Namespace) -> int:
    """Run unfinished runs, compare, write, print."""
    if arguments.workers < 1 or arguments.concurrency < 1:
        raise UserError("--workers and --concurrency are at least 1")
    study = read_study(arguments.study)
    progress = TerminalProgress()

    def play(folder: RunFolder) -> bool:
        for line in notes_on(folder):
            print(f"wardround: note: {folder.path.name}: {line}", file=sys.stderr)
        counts = execute(folder, workers=arguments.workers, concurrency=arguments.concurrency, report=progress)
        return counts.done == counts.total

    try:
        found = play_study(study, arguments.out, play=play, report=progress)
    finally:
        progress.close()
    missing = without_figures()
    if missing is None:
        write_study_figures(list(found.folders.values()), found.comparisons, arguments.out / "figures")
    else:
        print(f"wardround: note: no figures: {missing}", file=sys.stderr)
    for sentence in compared_answers(found.comparisons):
        print(fill(sentence, 100, subsequent_indent="    "))
    print_comparisons(found.comparisons, is_wide=arguments.wide)
    print_place(found.page)
    return 0


GRID = Command(GRID_EXAMPLES, configure_grid, run_grid)
COMPARE = Command(COMPARE_EXAMPLES, configure_compare, run_compare)
STUDY = Command(STUDY_EXAMPLES, configure_study, run_study)
