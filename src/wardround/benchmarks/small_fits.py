"""Two small fits without a library, for contenders that read almost nothing: a ridge logistic and nearest neighbours.

Columns are spread by their ranks among the training rows, so that no unit and no outlier has a part in a fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wardround.benchmarks.columns import Flags, Ints

Table = npt.NDArray[np.float64]
_RIDGE = 1.0
_STEPS = 25
_DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaUnderCurve:
    """An AUC with its interval: 2.5 to 97.5 % of draws of people with replacement."""

    value: float
    low: float
    high: float
    samples: int

    def to_json(self) -> dict[str, float]:
        """Return it for a manifest."""
        return {"auc": self.value, "low": self.low, "high": self.high, "samples": self.samples}


def spread(training: Table, rows: Table) -> Table:
    """Return ranks from 0 to 1 among the training rows; a missing cell is -1/2, outside of all that are there."""
    made = np.full(rows.shape, -0.5)
    for place in range(rows.shape[1]):
        held = np.sort(training[:, place][np.isfinite(training[:, place])])
        there = np.isfinite(rows[:, place])
        if len(held):
            low, high = (np.searchsorted(held, rows[there, place], side) for side in ("left", "right"))
            made[there, place] = (low + high) / (2 * len(held))
    return made


def shares(training: Table, classes: Ints, rows: Table, count: int) -> Table:
    """Fit each class against the rest and return the share of every class for some rows, (rows, ``count``)."""
    first, second = (_curved(spread(training, part)) for part in (training, rows))
    found = np.column_stack([_logistic(first, (classes == one).astype(float), second) for one in range(count)])
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12))


def neighbours(training: Table, rows: Table, count: int) -> Ints:
    """Return for each row the places of the ``count`` nearest training rows."""
    first, second = spread(training, training), spread(training, rows)
    found = np.empty((len(rows), min(count, len(training))), np.int64)
    for place, row in enumerate(second):
        away = ((first - row) ** 2).sum(axis=1)
        found[place] = np.argsort(away, kind="stable")[: found.shape[1]]
    return found


def area(values: Table, positive: Flags) -> float:
    """Return the AUC of some values; NaN where all rows are of one class."""
    order = np.sort(values)
    ranks = (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right") + 1) / 2
    yes, no = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - yes * (yes + 1) / 2) / (yes * no)) if yes and no else float("nan")


def area_with_interval(values: Table, positive: Flags, people: Ints, seed: int = 0) -> AreaUnderCurve:
    """Return the AUC with an interval over people; of one class alone it is a half, between nought and one."""
    value = area(values, positive)
    if not np.isfinite(value):
        return AreaUnderCurve(value=0.5, low=0.0, high=1.0, samples=len(values))
    rng = np.random.default_rng(seed)
    _, person = np.unique(people, return_inverse=True)
    order = np.argsort(person, kind="stable")
    rows_of = np.split(order, np.flatnonzero(np.diff(person[order])) + 1)
    drawn = []
    for _ in range(_DRAWS):
        rows = np.concatenate([rows_of[one] for one in rng.integers(0, len(rows_of), len(rows_of))])
        drawn.append(area(values[rows], positive[rows]))
    held = np.array([one for one in drawn if np.isfinite(one)])
    low, high = (float(one) for one in np.quantile(held, [0.025, 0.975])) if len(held) else (0.0, 1.0)
    return AreaUnderCurve(value=value, low=low, high=high, samples=len(values))


def _curved(ranks: Table) -> Table:
    """A constant, each rank and its square, and whether it is missing."""
    missing = (ranks < 0).astype(float)
    there = np.where(ranks < 0, 0.5, ranks) - 0.5
    return np.column_stack([np.ones(len(ranks)), there, 2 * there**2, missing])


def _logistic(rows: Table, wanted: Table, asked: Table) -> Table:
    """Newton's steps on the ridge likelihood; the constant is not held back."""
    weight = np.zeros(rows.shape[1])
    ridge = np.full(rows.shape[1], _RIDGE)
    ridge[0] = 1e-6
    for _ in range(_STEPS):
        share = _sigmoid(rows @ weight)
        slope = rows.T @ (wanted - share) - ridge * weight
        curve = (rows * (share * (1 - share))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        weight = weight + step
        if np.abs(step).max() < 1e-6:
            break
    return _sigmoid(asked @ weight)


def _sigmoid(values: Table) -> Table:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))
