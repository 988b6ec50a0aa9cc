"""How an outcome moves the memory that was used: equations 4 and 8 to 10 of the GSEM paper, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

DECAY = 0.8
QUALITY_RATE = 0.1
WEIGHT_RATE = 0.05
Pair = tuple[str, str]
WeightReading = Literal["prior", "compounding"]
WEIGHT_READINGS: tuple[WeightReading, ...] = get_args(WeightReading)


def first_quality(successes: int, trials: int) -> float:
    """Equation 4: sigmoid of the accuracy above the baseline mu, the least share of trials that is at least half."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} successes of {trials} trials")
    baseline = math.ceil(trials / 2) / trials
    return 1.0 / (1.0 + math.exp(baseline - successes / trials))


def node_credit(ranked: Sequence[str], *, decay: float = DECAY) -> dict[str, float]:
    """Equation 8: the share of each experience by its rank (the first has rank 1); the shares add up to 1.

    Whether ranks start at 0 or 1 does not matter: the factor cancels.
    """
    if len(set(ranked)) != len(ranked):
        raise ValueError("an experience is ranked twice")
    powers = [decay**rank for rank in range(1, len(ranked) + 1)]
    return {name: power / sum(powers) for name, power in zip(ranked, powers, strict=True)}


def edge_credit(credit: Mapping[str, float], edges: Iterable[Pair]) -> dict[Pair, float]:
    """Equation 9: the share of each existing edge between experiences that were used; the shares add up to 1."""
    products = {
        (source, target): credit[source] * credit[target]
        for source, target in edges
        if {source, target} <= credit.keys()
    }
    total = sum(products.values())
    return {pair: product / total for pair, product in products.items()} if total else {}


def signal(score: float) -> float:
    """Delta: -1 for a score of 0, 1 for a score of 1."""
    return 2.0 * score - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBaseline:
    """The mean score of a task type so far. Against it Delta does not drift with the base rate: where most episodes
    succeed, the printed Delta lifts whatever is served, useful or not. It starts as one episode of score 1/2."""

    total: float = 0.5
    episodes: int = 1

    def signal(self, score: float) -> float:
        """Delta as the score less the mean of the earlier ones: in -1 to 1 without a cut, which would drift again."""
        return score - self.total / self.episodes

    def with_score(self, score: float) -> ScoreBaseline:
        """One episode more."""
        return ScoreBaseline(total=self.total + score, episodes=self.episodes + 1)


def moved_quality(quality: float, credit: float, delta: float, *, rate: float = QUALITY_RATE) -> float:
    """Equation 10, first line."""
    return _clip(quality + rate * credit * delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeHistory:
    """An edge's weight when it was made, its weight now, and phi, what its outcomes have added up to."""

    prior: float
    weight: float
    phi: float = 0.0


def moved_edge(
    edge: EdgeHistory, credit: float, delta: float, *, rate: float = WEIGHT_RATE, reading: WeightReading = "prior"
) -> EdgeHistory:
    """Equation 10, second and third line.

    ``prior`` adds phi to the weight the edge was made with, as the text says (priors are refined); printed is
    ``compounding``, which adds all of phi to the last weight at every step, so that old outcomes count again and again.
    """
    phi = edge.phi + rate * credit * delta
    start = edge.prior if reading == "prior" else edge.weight
    return EdgeHistory(prior=edge.prior, weight=_clip(start + phi), phi=phi)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
