"""Seeded chance for one subject.

Built on ``random.random`` alone, whose stream Python promises to keep: a seed means the same hospital everywhere.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
_SQRT3 = math.sqrt(3.0)


class Dice:
    """Draws for one subject; every method advances the same stream."""

    __slots__ = ("unit",)

    def __init__(self, seed: int) -> None:
        self.unit = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.unit() < probability

    def between(self, low: float, high: float) -> float:
        """Uniform."""
        return low + (high - low) * self.unit()

    def whole(self, low: int, high: int) -> int:
        """Uniform whole number, both ends included."""
        return low + int((high - low + 1) * self.unit())

    def normal(self, mean: float, deviation: float) -> float:
        """Bell-shaped with tails cut at 3.5 deviations (sum of four uniforms): nobody gets a sodium of 190 by luck."""
        unit = self.unit
        return mean + deviation * _SQRT3 * (unit() + unit() + unit() + unit() - 2.0)

    def skewed(self, median: float, spread: float) -> float:
        """Log-normal-shaped around a median; ``spread`` 0.5 gives about 0.4 to 2.5 times it."""
        return median * math.exp(self.normal(0.0, spread))

    def waiting(self, mean: float) -> float:
        """Exponential waiting time."""
        return -mean * math.log(1.0 - self.unit())

    def pick(self, items: Sequence[T]) -> T:
        """One of these, all alike."""
        return items[int(self.unit() * len(items))]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """One key, in proportion to its weight."""
        point = self.unit() * sum(weights.values())
        for item, weight in weights.items():  # noqa: B007
            point -= weight
            if point < 0:
                break
        return item
