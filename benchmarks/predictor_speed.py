"""CPU time of the predictors: counting a chart's events, one fit of each predictor by shots, and the figures of a fit.

    python benchmarks/predictor_speed.py STORE BENCHMARK
    python benchmarks/predictor_speed.py demo/store demo/ehrshot --charts 100

The benchmark is one with classes (``wardround bench build ehrshot``). CPU time of this process on one thread, so that
a busy machine changes little; a fit includes its whole grid and the bootstrap of its figures.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from wardround.predictors import PredictorSettings, count_table, fit_predictors
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import PatientDraws, class_metrics

SETTINGS = PredictorSettings(shots=("1", "16", "128", "all"), replicates=1)


def counting_ms(store: Store, benchmark: Benchmark, charts: int) -> float:
    """CPU milliseconds per chart."""
    keys = sorted({(sample.subject_id, sample.prediction_time) for sample in benchmark.all_samples})
    keys = keys[:: max(1, len(keys) // charts)][:charts]
    started = time.process_time()
    count_table(store, keys, policy=benchmark.policy)
    return (time.process_time() - started) / len(keys) * 1e3


def fit_seconds(store: Store, benchmark: Benchmark, task: str) -> dict[tuple[str, str, str], float]:
    """CPU seconds of every fit of a task, by predictor, view and shots."""
    spent: dict[tuple[str, str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        first = replace(SETTINGS, names=("count-lr",), shots=("1",), tasks=(task,))
        fit_predictors(store, benchmark, Path(folder), first)  # leaves the counts behind
        for name in SETTINGS.names:
            for k in SETTINGS.shots:
                for left in Path(folder).glob("predictions*"):
                    left.unlink()
                started = time.process_time()
                rows = fit_predictors(store, benchmark, Path(folder), replace(first, names=(name,), shots=(k,)))
                share = (time.process_time() - started) / len(rows)
                spent |= {(name, row.view, k): share for row in rows}
    return spent


def figures_ms(samples: int, subjects: int) -> float:
    """CPU milliseconds of accuracy, macro-F1 and F1 of four classes, each with 1,000 resamples."""
    truth = [(str(n % 4),) for n in range(samples)]
    draws = PatientDraws.of([n % subjects for n in range(samples)], seed=0)
    spent = []
    for _ in range(5):
        started = time.process_time()
        class_metrics(truth, truth[1:] + truth[:1], draws, classes=("0", "1", "2", "3"))
        spent.append(time.process_time() - started)
    return statistics.median(spent) * 1e3


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="a store made by `wardround ingest`")
    parser.add_argument("benchmark", type=Path, help="a benchmark with classes, of that store")
    parser.add_argument("--charts", type=int, default=300, help="how many charts to count (default: %(default)s)")
    given = parser.parse_args()
    store, benchmark = Store.open(given.store), Benchmark.open(given.benchmark)
    spent = counting_ms(store, benchmark, given.charts)
    print(f"{len(store.subjects):,} subjects; counting: {spent:.1f} ms CPU per chart")
    task = next(task.name for task in benchmark.tasks if task.answer.views)
    for (name, view, k), seconds in fit_seconds(store, benchmark, task).items():
        print(f"{task} {view}, {name}, k = {k}: {seconds:.2f} s CPU per fit")
    print(f"figures of 600 samples of 300 patients: {figures_ms(600, 300):.0f} ms CPU; 58,000 of 2,000: ", end="")
    print(f"{figures_ms(58_000, 2_000):.0f} ms CPU")


if __name__ == "__main__":
    main()
