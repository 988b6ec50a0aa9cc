"""``wardround compare``: runs against the first of them, sample by sample, with paired tests."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill

from wardround.cli.scores import print_comparisons
from wardround.reports import Comparison, compare_runs
from wardround.reports.answer import compared_answers
from wardround.reports.study import run_names, tidy_runs, write_study_figures
from wardround.reports.tidy import write_tidy
from wardround.runs import RunFolder, gate_notes

EXAMPLES = """
  wardround compare run-a run-b
  wardround compare run-a run-b run-c --tables paper --figures paper
      every contender of run-b and run-c minus every one of run-a: tidy.csv, tidy.parquet; a forest plot
  wardround compare run-a run-b --json
  wardround compare run-strict run-on-published-clocks --clocks
"""


def configure(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
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
        print(json.dumps([asdict(row) for row in found], indent=2, ensure_ascii=False))
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


def print_no_difference(comparisons: Sequence[Comparison], folders: Sequence[RunFolder]) -> None:
    """Explain differences of exactly 0: all samples have equal scores, as under the offline policy."""
    found = [(row, row.test.difference) for row in comparisons]
    same = [row for row, difference in found if not difference.estimate and not difference.low and not difference.high]
    if not same:
        return
    of_rules = any("offline" in folder.settings.run.models for folder in folders)
    why = ": the offline policy is a rule and does not read what a memory serves" if of_rules else ""
    line = f"+0.000 in {len(same)} of {len(comparisons)} comparisons: the scores of every sample are the same{why}"
    print(fill(line, 100, subsequent_indent="    "))
