"""``wardround predict``: fit the classical baselines on a benchmark, with EHRSHOT's few-shot protocol."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.benchmarks import Benchmark
from wardround.cli.progress import TerminalProgress
from wardround.core import UserError
from wardround.predictors import GBM_GRIDS, PREDICTORS, FitRow, PredictorSettings, fit_predictors
from wardround.records import Store
from wardround.runs import predictor_rows
from wardround.scoring import render_classes

EXAMPLES = """
  wardround predict --benchmark bench --store store --out run
      both count baselines on every task with classes, 1 to 256 samples per class and all of them, five replicates
  wardround predict --benchmark bench --store store --out run --predictor count-lr --shots all --task lab_anemia
  wardround predict --benchmark bench --store store --out run --predictor clmbr-lr --representations clmbr.parquet
  wardround predict --benchmark bench --store store --out run-ehrshot --gbm-grid ehrshot --without-valued-events \\
      --final-iterations 100 --ties first
      as EHRSHOT's code does it

The same command goes on where it was interrupted. With --out of a run of agents on the same benchmark,
`wardround report` shows both.
"""
DEFAULTS = PredictorSettings()


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--benchmark", type=Path, required=True, help="folder of a benchmark whose tasks have classes")
    parser.add_argument("--store", type=Path, required=True, help="folder of the store it was built from")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; may be that of a run")
    parser.add_argument("--task", nargs="+", default=[], metavar="TASK", help="only these tasks")
    parser.add_argument("--processes", type=int, default=1, help="processes that count events and fit")
    add_predictor_options(parser)


def add_predictor_options(parser: argparse.ArgumentParser) -> None:
    """Declare what decides the figures; other commands that fit predictors share these."""
    group = parser.add_argument_group("predictors")
    group.add_argument("--predictor", nargs="+", default=list(DEFAULTS.names), choices=PREDICTORS, help="which")
    group.add_argument(
        "--shots", nargs="+", default=list(DEFAULTS.shots), metavar="K", help="samples per class, 'all' for every one"
    )
    group.add_argument("--replicates", type=int, default=DEFAULTS.replicates, help="draws of every number of shots")
    group.add_argument("--predictor-seed", type=int, default=DEFAULTS.seed, help="seed of draws and intervals")
    group.add_argument("--gbm-grid", default=DEFAULTS.gbm_grid, choices=GBM_GRIDS, help="points tried by count-gbm")
    group.add_argument("--representations", type=Path, metavar="FILE", help="vectors for clmbr-lr (Parquet or npz)")
    group.add_argument(
        "--no-hierarchy", action="store_true", help="count an event for its own code only, not for its ancestors"
    )
    group.add_argument(
        "--without-valued-events", action="store_true", help="leave out events with a value, as EHRSHOT's counts do"
    )
    group.add_argument(
        "--final-iterations", type=int, default=DEFAULTS.final_iterations, help="of the last fit (EHRSHOT: 100)"
    )
    group.add_argument(
        "--ties", default=DEFAULTS.ties, choices=["loss", "first"], help="points that rank alike: lowest loss, or first"
    )
    group.add_argument("--resamples", type=int, default=DEFAULTS.resamples, help="of patients, for the intervals")
    group.add_argument("--threads", type=int, default=DEFAULTS.threads, help="threads of one fit")


def predictor_settings(arguments: argparse.Namespace) -> PredictorSettings:
    """Return the settings that the options stand for."""
    vectors = arguments.representations
    return PredictorSettings(
        names=tuple(arguments.predictor),
        tasks=tuple(arguments.task),
        shots=tuple(arguments.shots),
        replicates=arguments.replicates,
        seed=arguments.predictor_seed,
        hierarchy="none" if arguments.no_hierarchy else "auto",
        valued_events=not arguments.without_valued_events,
        gbm_grid=arguments.gbm_grid,
        ties=arguments.ties,
        final_iterations=arguments.final_iterations,
        resamples=arguments.resamples,
        threads=arguments.threads,
        representations=None if vectors is None else str(vectors.resolve()),
    )


def run(arguments: argparse.Namespace) -> int:
    """Fit, print the table of what was fitted on all samples."""
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
    print_predictions(rows)
    print(f"\n{len(rows):,} fits: {arguments.out}")
    return 0


def print_predictions(rows: list[FitRow]) -> None:
    """Print a table of the fits on all samples, or on the most there are, and how many did not converge."""
    print(render_classes(predictor_rows(rows)))
    stopped = sum(not row.converged for row in rows)
    if stopped:
        print(f"{stopped:,} of {len(rows):,} fits ended at the solver's limit of iterations")
