"""Common and rare: the weights of AgentEHR eq. 11, the two pools they make, and the draw within a pool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from wardround.benchmarks.sample import Stratum
from wardround.benchmarks.split import unit_draw


def label_counts(targets: Sequence[Sequence[str]]) -> Counter[str]:
    """Count(y): in how many candidate samples of the task each label occurs."""
    return Counter(label for target in targets for label in target)


def sample_weights(targets: Sequence[Sequence[str]]) -> list[float]:
    """Return w_S = mean over the labels of S of 1 / Count(y) (eq. 11), counted over these candidate samples."""
    counts = label_counts(targets)
    return [math.fsum(1 / counts[label] for label in target) / len(target) for target in targets]


def strata_of(weights: Sequence[float]) -> list[Stratum]:
    """Common up to the mean weight, rare above it."""
    if not weights:
        return []
    mean = math.fsum(weights) / len(weights)
    return ["common" if weight <= mean else "rare" for weight in weights]


def draw_key(weight: float, *seed: object) -> float:
    """The key of Efraimidis and Spirakis (2006): log(u) / w. The largest k keys are a draw of k without replacement in
    which each next one is taken with a probability in proportion to its weight. ``u`` comes from the seed parts alone,
    so a sample's key does not depend on who else is in the pool."""
    return math.log(unit_draw(*seed)) / weight
