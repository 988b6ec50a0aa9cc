"""How well scores rank and how well they are calibrated: AUROC, average precision, Brier, each over weighted samples.

Weights are rows: (resamples, samples). Ties are one threshold, as in scikit-learn. Undefined is NaN: AUROC without
both classes, and average precision: scikit-learn says 1 where all are positive, whatever the scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wardround.scoring.bootstrap import Floats, ratio

Truth = npt.NDArray[np.bool_]


def weighted_auroc(truth: Truth, scores: Floats, weights: Floats) -> Floats:
    """Probability that a positive scores above a negative, ties counting half."""
    positive, negative = _by_threshold(truth, scores, weights)
    below = np.cumsum(negative, axis=1) - negative
    won = np.sum(positive * (below + negative / 2), axis=1)
    return ratio(won, positive.sum(axis=1) * negative.sum(axis=1))


def weighted_average_precision(truth: Truth, scores: Floats, weights: Floats) -> Floats:
    """Mean precision over the positives, each at its own threshold: AUPRC without interpolation."""
    positive, negative = (part[:, ::-1] for part in _by_threshold(truth, scores, weights))
    found = np.cumsum(positive, axis=1)
    called = found + np.cumsum(negative, axis=1)
    precision = np.divide(found, called, out=np.zeros_like(found), where=called > 0)
    judged = np.where(called[:, -1] > found[:, -1], found[:, -1], 0)
    return ratio(np.sum(positive * precision, axis=1), judged)


def weighted_brier(truth: Truth, scores: Floats, weights: Floats) -> Floats:
    """Mean squared distance of the probabilities from the truth."""
    return ratio(weights @ (scores - truth) ** 2, weights.sum(axis=1))


def weighted_macro_auroc(truth: npt.NDArray[np.int64], probabilities: Floats, weights: Floats) -> Floats:
    """Mean one-against-rest AUROC over the classes (columns); NaN where one of them has no sample."""
    columns = range(probabilities.shape[1])
    each = [weighted_auroc(truth == c, probabilities[:, c], weights) for c in columns]
    return np.asarray(np.mean(each, axis=0))


def auroc(truth: Sequence[bool] | Truth, scores: Sequence[float] | Floats) -> float:
    """AUROC of unweighted samples; NaN without both classes."""
    values = np.asarray(scores, float)
    return float(weighted_auroc(np.asarray(truth, bool), values, np.ones((1, len(values))))[0])


def average_precision(truth: Sequence[bool] | Truth, scores: Sequence[float] | Floats) -> float:
    """Average precision of unweighted samples; NaN without both classes."""
    values = np.asarray(scores, float)
    return float(weighted_average_precision(np.asarray(truth, bool), values, np.ones((1, len(values))))[0])


def brier(truth: Sequence[bool] | Truth, scores: Sequence[float] | Floats) -> float:
    """Brier score of unweighted samples."""
    values = np.asarray(scores, float)
    return float(weighted_brier(np.asarray(truth, bool), values, np.ones((1, len(values))))[0])


def macro_auroc(truth: npt.NDArray[np.int64], probabilities: Floats) -> float:
    """Macro one-against-rest AUROC of unweighted samples; NaN where a class has no sample."""
    return float(weighted_macro_auroc(truth, probabilities, np.ones((1, len(truth))))[0])


def _by_threshold(truth: Truth, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weight of positives and of negatives at each distinct score, scores ascending."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    taken, is_positive = weights[:, order], truth[order]
    positive = np.add.reduceat(taken * is_positive, starts, axis=1)
    negative = np.add.reduceat(taken * ~is_positive, starts, axis=1)
    return positive, negative
