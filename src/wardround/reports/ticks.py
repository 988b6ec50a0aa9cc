"""Round numbers for the axes of charts: each label is exactly the value of its line."""

from __future__ import annotations

import math
from collections.abc import Sequence


def round_ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Return at most ``most`` multiples of 1, 2 or 5 times a power of ten between two ends, the ends included where
    they are such multiples; as many as that allows."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (power * factor for factor in (1, 2, 5, 10, 20)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [round(place * step, digits) + 0.0 for place in range(first, last + 1)]


def tick_labels(ticks: Sequence[float], *, signed: bool = False) -> list[str]:
    """Write ticks with as few decimals as are needed for exact values; ``signed``: with a plus above 0."""
    digits = next((n for n in range(12) if all(abs(round(tick, n) - tick) < 1e-9 for tick in ticks)), 12)
    return [f"{tick:+,.{digits}f}" if signed and tick else f"{tick:,.{digits}f}" for tick in ticks]
