"""Equations 2 and 3 of the EHR-RAG paper: when a chunk happened, and how that weighs against what it says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

_MICROSECONDS_PER_DAY = 86_400_000_000.0
_PERIOD_DAYS = 90.0
_SAME_PERIOD_COSTS = 0.1


def time_relevance(times: Times, *, now: int, first: int, recent_days: float, early_days: float) -> Scores:
    """Eq. 2: max(exp(-(now - t) / recent), exp(-(t - first) / early)), from 0 to 1.

    ``times``, ``now`` (the prediction time) and ``first`` (the earliest time of the record) are microseconds since
    1970; the two lengths are days. At ``now`` and at ``first`` the score is 1. A time after ``now`` or before ``first``
    counts as that end: the printed formula would exceed 1 there.
    """
    since = np.maximum(now - times, 0) / _MICROSECONDS_PER_DAY
    onward = np.maximum(times - first, 0) / _MICROSECONDS_PER_DAY
    relevance: Scores = np.maximum(np.exp(-since / recent_days), np.exp(-onward / early_days))
    return relevance


def combined_score(similarity: npt.ArrayLike, relevance: npt.ArrayLike, *, alpha: float) -> Scores:
    """Eq. 3: alpha * similarity + (1 - alpha) * time relevance.

    ``similarity`` is the cosine as it is: below zero it stays below zero, as in the paper. It only ranks, and a floor
    at zero would tie everything unlike the query.
    """
    score: Scores = alpha * np.asarray(similarity, np.float64) + (1.0 - alpha) * np.asarray(relevance, np.float64)
    return score


def spread_out(score: Scores, times: Times, k: int) -> npt.NDArray[np.int64]:
    """Return the places of ``k`` scores, the best first, where each one taken costs those of its period a tenth.

    A long stay fills all places by itself where its chunks resemble the query and each other a little more than those
    of the stay that the question is about. ``times`` are microseconds; a period is 90 days to either side.
    """
    left = score.astype(np.float64).copy()
    chosen: list[int] = []
    for _ in range(min(k, len(score))):
        best = int(np.lexsort((-np.arange(len(left)), -left))[0])
        chosen.append(best)
        left[np.abs(times - times[best]) <= _PERIOD_DAYS * _MICROSECONDS_PER_DAY] -= _SAME_PERIOD_COSTS
        left[best] = -np.inf
    return np.asarray(chosen, np.int64)


def stretched(similarity: Scores) -> Scores:
    """Map the cosines of a pool to 0..1, the least like 0, the most like 1; all alike are all 0.

    Eq. 3 weighs two numbers of one scale. Time runs from 0 to 1, but the cosines of one record's chunks with a query
    may lie within a tenth of each other: then time decides alone, whatever alpha says.
    """
    if not len(similarity) or similarity.max() <= similarity.min():
        return np.zeros(len(similarity))
    scaled: Scores = (similarity - similarity.min()) / (similarity.max() - similarity.min())
    return scaled
