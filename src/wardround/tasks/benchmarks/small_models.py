"""Two small models without a library: ridge logistic regression and nearest neighbours, and the area under a curve.

Features are replaced by their ranks among the training rows, so that units and outliers have no effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wardround.tasks.benchmarks.encounters import Flags, Ints

Matrix = npt.NDArray[np.float64]
_RIDGE = 1.0
_STEPS = 25
DRAWS = 400
"""Bootstrap draws over people of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaUnderCurve:
    """An AUC with its 95 % bootstrap interval over people (2.5 to 97.5 %)."""

    value: float
    low: float
    high: float
    samples: int

    def to_json(self) -> dict[str, float]:
        """Return it for a manifest."""
        return {"auc": self.value, "low": self.low, "high": self.high, "samples": self.samples}


def spread(training: Matrix, rows: Matrix) -> Matrix:
    """Return ranks from 0 to 1 among the training rows; a missing value becomes -1/2."""
    ranks = np.full(rows.shape, -0.5)
    for column in range(rows.shape[1]):
        training_values = np.sort(training[:, column][np.isfinite(training[:, column])])
        is_present = np.isfinite(rows[:, column])
        if len(training_values):
            low, high = (np.searchsorted(training_values, rows[is_present, column], side) for side in ("left", "right"))
            ranks[is_present, column] = (low + high) / (2 * len(training_values))
    return ranks


def shares(training: Matrix, classes: Ints, rows: Matrix, count: int) -> Matrix:
    """Fit one-vs-rest models and return class probabilities, shape (rows, ``count``)."""
    training_features, features = (_curved(spread(training, part)) for part in (training, rows))
    scores = np.column_stack(
        [_logistic(training_features, (classes == label).astype(float), features) for label in range(count)]
    )
    return np.asarray(scores / np.maximum(scores.sum(axis=1, keepdims=True), 1e-12))


def neighbours(training: Matrix, rows: Matrix, count: int) -> Ints:
    """Return the indices of the ``count`` nearest training rows, for each row."""
    training_ranks, ranks = spread(training, training), spread(training, rows)
    nearest = np.empty((len(rows), min(count, len(training))), np.int64)
    for index, row in enumerate(ranks):
        distances = ((training_ranks - row) ** 2).sum(axis=1)
        nearest[index] = np.argsort(distances, kind="stable")[: nearest.shape[1]]
    return nearest


def area(values: Matrix, positive: Flags) -> float:
    """Return the AUC of some values; NaN where all rows are of one class."""
    order = np.sort(values)
    ranks = (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right") + 1) / 2
    yes, no = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - yes * (yes + 1) / 2) / (yes * no)) if yes and no else float("nan")


def area_with_interval(values: Matrix, positive: Flags, people: Ints, seed: int = 0) -> AreaUnderCurve:
    """Return the AUC with an interval over people; with one class only: 0.5, from 0 to 1."""
    value = area(values, positive)
    if not np.isfinite(value):
        return AreaUnderCurve(value=0.5, low=0.0, high=1.0, samples=len(values))
    rng = np.random.default_rng(seed)
    _, person = np.unique(people, return_inverse=True)
    order = np.argsort(person, kind="stable")
    rows_of = np.split(order, np.flatnonzero(np.diff(person[order])) + 1)
    drawn = []
    for _ in range(DRAWS):
        rows = np.concatenate([rows_of[index] for index in rng.integers(0, len(rows_of), len(rows_of))])
        drawn.append(area(values[rows], positive[rows]))
    finite = np.array([auc for auc in drawn if np.isfinite(auc)])
    low, high = (float(auc) for auc in np.quantile(finite, [0.025, 0.975])) if len(finite) else (0.0, 1.0)
    return AreaUnderCurve(value=value, low=low, high=high, samples=len(values))


def _curved(ranks: Matrix) -> Matrix:
    """Return the design matrix: constant, centred rank, its square, and a missing indicator."""
    missing = (ranks < 0).astype(float)
    centred = np.where(ranks < 0, 0.5, ranks) - 0.5
    return np.column_stack([np.ones(len(ranks)), centred, 2 * centred**2, missing])


def _logistic(rows: Matrix, labels: Matrix, test_rows: Matrix) -> Matrix:
    """Fit ridge logistic regression by Newton steps and return probabilities for ``test_rows``.

    The intercept is not penalised.
    """
    weight = np.zeros(rows.shape[1])
    ridge = np.full(rows.shape[1], _RIDGE)
    ridge[0] = 1e-6
    for _ in range(_STEPS):
        probability = _sigmoid(rows @ weight)
        gradient = rows.T @ (labels - probability) - ridge * weight
        hessian = (rows * (probability * (1 - probability))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        weight = weight + step
        if np.abs(step).max() < 1e-6:
            break
    return _sigmoid(test_rows @ weight)


def _sigmoid(values: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))
