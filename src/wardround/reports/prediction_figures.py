"""Figures of classical predictors: learning curves over labelled samples, and calibration, one of each per task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from wardround.predictors import ALL_SHOTS, FitRow, read_predictions
from wardround.reports.figures import Draw, calibration_figure, learning_figure
from wardround.reports.predictions import CLASSES_VIEW, curves, reliability_bins
from wardround.tasks.benchmarks import Benchmark


def prediction_figures(path: Path, benchmark: Callable[[], Benchmark]) -> dict[str, Draw]:
    """Return the figures of the predictors in a folder, by file name; empty if none were fitted. ``benchmark`` opens
    the one on which they were fitted."""
    rows = [row for row in read_predictions(path) if row.view == CLASSES_VIEW]
    if not rows:
        return {}
    found: dict[str, Draw] = {}
    learnt = curves(rows, lambda row: row.metrics.macro_f1.estimate)
    for task in dict.fromkeys(curve.task for curve in learnt):
        some = [curve for curve in learnt if curve.task == task and len(curve.points) > 1]
        if some:
            found[f"learning-curve-{task.replace('.', '-')}"] = partial(learning_figure, some, "macro-F1")
    targets = {sample.id: tuple(sample.target) for sample in benchmark().all_samples}
    whole = [row for row in rows if row.k == ALL_SHOTS and row.probabilities]
    for task in dict.fromkeys(row.task for row in whole):
        bins = {row.predictor: reliability_bins(row, _truth(row, targets)) for row in whole if row.task == task}
        found[f"calibration-{task.replace('.', '-')}"] = partial(calibration_figure, bins, task)
    return found


def _truth(row: FitRow, targets: Mapping[str, tuple[str, ...]]) -> dict[str, bool]:
    """Return whether a sample's class is not the first, as EHRSHOT treats several classes as two."""
    return {sample: bool(set(targets[sample]) & set(row.classes[1:])) for sample in row.samples}
