"""``wardround train predictors``: fit the classical baselines on a benchmark, with EHRSHOT's few-shot protocol."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.cli.output import add_json_option, print_json
from wardround.cli.run_options import add_flag
from wardround.core import TerminalProgress, UserError, leaves
from wardround.predictors import FitRow, PredictorSettings, fit_predictors
from wardround.records import Store
from wardround.reports import predictor_rows
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import render_classes

EXAMPLES = """
  wardround train predictors --benchmark bench --store store --out run
      both count baselines on every task with classes, 1 to 256 samples per class and all of them, five replicates
  wardround train predictors --benchmark bench --store store --out run --predictor count-lr --shots all \\
      --task lab_anemia
  wardround train predictors --benchmark bench --store store --out run --predictor clmbr-lr \\
      --representations clmbr.parquet
  wardround train predictors --benchmark bench --store store --out run-ehrshot --gbm-grid ehrshot \\
      --without-valued-events --final-iterations 100 --ties first
      as EHRSHOT's code does it

The same command goes on where it was interrupted. With --out of a run of agents on the same benchmark,
`wardround report` shows both.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--benchmark", type=Path, required=True, help="folder of a benchmark with class tasks")
    parser.add_argument("--store", type=Path, required=True, help="folder of the store it was built from")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; may be that of a run")
    parser.add_argument("--task", nargs="+", default=[], metavar="TASK", help="only these tasks")
    parser.add_argument("--processes", type=int, default=1, help="processes that count events and fit")
    _add_predictor_options(parser)
    add_json_option(parser)


def _add_predictor_options(parser: argparse.ArgumentParser) -> None:
    """Declare the settings of fits: a flag for each common one, and two that switch a part off."""
    group = parser.add_argument_group("predictors")
    for leaf in leaves(PredictorSettings):
        if leaf.setting.flag:
            add_flag(group, leaf)
    group.add_argument(
        "--no-hierarchy", action="store_true", help="count an event for its own code only, not for its ancestors"
    )
    group.add_argument(
        "--without-valued-events", action="store_true", help="leave out events with a value, as EHRSHOT's counts do"
    )


def predictor_settings(arguments: argparse.Namespace) -> PredictorSettings:
    """Return the settings given by the options."""
    given = {leaf.name: getattr(arguments, leaf.name) for leaf in leaves(PredictorSettings) if leaf.name in arguments}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if given.get("representations"):
        given["representations"] = str(Path(given["representations"]).resolve())
    return PredictorSettings(
        **given,
        tasks=tuple(arguments.task),
        hierarchy="none" if arguments.no_hierarchy else "auto",
        valued_events=not arguments.without_valued_events,
    )


def run(arguments: argparse.Namespace) -> int:
    """Fit, and print the table of fits on all samples."""
    if arguments.processes < 1:
        raise UserError("--processes must be at least 1")
    progress = TerminalProgress()
    rows = fit_predictors(
        Store.open(arguments.store),
        Benchmark.open(arguments.benchmark),
        arguments.out,
        predictor_settings(arguments),
        processes=arguments.processes,
        report=progress,
    )
    progress.close()
    if arguments.json:
        print_json([row.to_json() for row in rows])
        return 0
    print_predictions(rows)
    print(f"\n{len(rows):,} fits: {arguments.out}")
    return 0


def print_predictions(rows: list[FitRow]) -> None:
    """Print a table of the fits on all samples, or on the largest number, and how many did not converge."""
    print(render_classes(predictor_rows(rows)))
    stopped = sum(not row.converged for row in rows)
    if stopped:
        print(f"{stopped:,} of {len(rows):,} fits ended at the solver's limit of iterations")
