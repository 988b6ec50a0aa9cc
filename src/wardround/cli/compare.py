"""``wardround compare``: two runs, sample by sample, with paired tests."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from wardround.core.table import TableColumn, as_text, table_of
from wardround.reports import Comparison, compare_runs
from wardround.runs import RunFolder, gate_notes

EXAMPLES = """
  wardround compare run-a run-b
  wardround compare run-a run-b --json
  wardround compare run-strict run-on-published-clocks --clocks
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("first", type=Path, help="the baseline run")
    parser.add_argument("second", type=Path, help="the run compared with it")
    parser.add_argument(
        "--clocks",
        action="store_true",
        help="the second played the same samples on other clocks (bench reclock): say what the leak was worth",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the resampling")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Compare every contender of the second run with every one of the first."""
    folders = [RunFolder.open(path) for path in (arguments.first, arguments.second)]
    for note in (f"{one.path}: {said}" for one in folders for said in gate_notes(one)):
        print(f"wardround: note: {note}", file=sys.stderr)
    found = compare_runs(folders, other_clocks=arguments.clocks, seed=arguments.seed)
    if arguments.json:
        print(json.dumps([asdict(row) for row in found], indent=2, ensure_ascii=False))
    else:
        _print(found)
        print_no_difference(found, folders)
        if arguments.clocks:
            policies = " less ".join(folder.manifest["policy"] for folder in reversed(folders))
            print(f"\n{policies}: what the leak was worth to each contender; no figure to compare with any other run's")
    return 0


def print_no_difference(comparisons: Sequence[Comparison], folders: Sequence[RunFolder]) -> None:
    """Say why a difference is +0.000 to the last digit: the same score on every sample, and of whom nothing else can be
    expected."""
    found = [(row, row.test.difference) for row in comparisons]
    same = [row for row, one in found if not one.estimate and not one.low and not one.high]
    if not same:
        return
    of_rules = any("offline" in folder.settings.run.models for folder in folders)
    why = ": the offline policy is a rule and reads nothing that a memory serves" if of_rules else ""
    print(f"+0.000 in {len(same)} of {len(comparisons)} comparisons: the scores of every sample are the same{why}")


_COLUMNS: tuple[TableColumn[Comparison], ...] = (
    TableColumn(name="second", value=lambda row: row.contender, kind="text"),
    TableColumn(name="first", value=lambda row: row.baseline, kind="text"),
    TableColumn(name="task", value=lambda row: row.task, kind="text"),
    TableColumn(name="stratum", value=lambda row: row.stratum, kind="text"),
    TableColumn(name="in", value=lambda row: row.metric, kind="text"),
    TableColumn(name="samples", value=lambda row: row.test.difference.n),
    TableColumn(name="unpaired", value=lambda row: row.test.unpaired),
    TableColumn(name="difference", value=lambda row: row.test.difference.estimate, format="+.3f"),
    TableColumn(name="95 % interval", value=lambda row: row.test.difference.as_text("+.3f"), kind="interval"),
    TableColumn(name="p", value=lambda row: row.test.p_value, format=".4f", missing="–"),
    TableColumn(name="p (max-T)", value=lambda row: row.adjusted_p, format=".4f", missing="–"),
    TableColumn(name="detectable", value=lambda row: row.test.difference.detectable, format=".3f", missing="–"),
)


def _print(found: list[Comparison]) -> None:
    print(as_text(table_of(found, _COLUMNS)))
    print("\ndifference: of the second minus the first, paired by sample (all: the mean of task means); interval:")
    print("bootstrap over patients; p: two-sided sign-flip permutation test over patients (macro-F1: answers swapped);")
    print("p (max-T): corrected for every contender and task of a metric and stratum (all: the contenders), step-down;")
    print("detectable: the smallest difference that so many patients would show in four of five studies")
