"""Metrics: many set scores to one figure, each with its interval over patients."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from wardround.scoring.bootstrap import Floats, Interval, cluster_bootstrap, patient_bootstrap, ratio
from wardround.scoring.sets import SetScore, best_at_k


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMetrics:
    """``f1``, ``precision``, ``recall`` are means over samples (as in the paper); the micro ones weigh labels alike."""

    f1: Interval
    precision: float
    recall: float
    micro_f1: Interval
    micro_precision: float | None
    micro_recall: float | None


def set_metrics(scores: Sequence[SetScore], subjects: Sequence[Hashable], *, seed: int) -> SetMetrics:
    """Aggregate set scores; the order of both arguments is the same."""
    rows = np.array([[score.hits, score.answered, score.wanted] for score in scores], float)
    hits, answered, wanted = rows.sum(axis=0)
    return SetMetrics(
        f1=patient_bootstrap([score.f1 for score in scores], subjects, seed=seed),
        precision=fmean(score.precision for score in scores),
        recall=fmean(score.recall for score in scores),
        micro_f1=cluster_bootstrap(rows, subjects, micro_f1, seed=seed),
        micro_precision=float(hits / answered) if answered else None,
        micro_recall=float(hits / wanted) if wanted else None,
    )


def best_at_k_over_samples(
    scores: Mapping[str, Sequence[float]], subjects: Mapping[str, Hashable], k: int, *, seed: int
) -> tuple[Interval | None, int]:
    """Return the mean Best@K over the samples that have K trajectories or more, and how many have fewer (left out)."""
    deep = [name for name in sorted(scores) if len(scores[name]) >= k]
    values = [best_at_k(scores[name], k) for name in deep]
    interval = patient_bootstrap(values, [subjects[name] for name in deep], seed=seed) if deep else None
    return interval, len(scores) - len(deep)


def micro_f1(sums: Floats) -> Floats:
    """2 hits / (answered + wanted), from the sums of the three columns."""
    return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])
