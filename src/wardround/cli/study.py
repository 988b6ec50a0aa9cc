"""``wardround study``: several runs of one file, with comparison, tables and figures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from textwrap import fill

from wardround.cli.parser import USUAL, usual_workers
from wardround.cli.report import print_place
from wardround.cli.scores import print_comparisons
from wardround.core import TerminalProgress, UserError
from wardround.reports.answer import compared_answers
from wardround.reports.figures import without_figures
from wardround.reports.study import play_study, read_study, write_study_figures
from wardround.runs import RunFolder, execute
from wardround.runs.notes import notes_on

EXAMPLES = """
  wardround study study.toml --out study
      the same command again continues
  study/index.html       the results, a forest plot, every comparison, a link to each run's report
  study/tables           tidy.csv, tidy.parquet: every figure as a row
  study/figures          forest.pdf and .svg, score-against-SETTING (extra [figures])
  study/runs/NAME        the runs
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("study", type=Path, help="TOML file of runs (docs/publishing.md)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--workers", type=int, default=usual_workers(), help=f"processes of each run {USUAL}")
    parser.add_argument("--concurrency", type=int, default=16, help="episodes at once in each process")
    parser.add_argument("--wide", action="store_true", help="print strata and all columns, beyond 100 characters")


def run(arguments: argparse.Namespace) -> int:
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
