"""Student's t: the interval of a mean that the ClinSeekAgent paper prints (appendix B), over samples and unpaired."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

_STEPS = 200
_TINY = 1e-300
_PRECISION = 1e-15


def student_radius(values: Sequence[float], confidence: float = 0.95) -> float | None:
    """Return half the width of the two-sided interval of a mean; None of fewer than two values."""
    if len(values) < 2:
        return None
    return student_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def student_quantile(probability: float, degrees: int) -> float:
    """Return the t below which a share ``probability`` (at least one half) of the distribution lies."""
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError("a quantile of Student's t needs a probability from 0.5 to 1 and a degree of freedom or more")
    low, high = 0.0, 1.0
    while student_share(high, degrees) < probability:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def student_share(t: float, degrees: int) -> float:
    """Return the share of the distribution below a ``t`` that is not negative."""
    return 1 - _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by the continued fraction on the side where it converges fast."""
    if x in (0.0, 1.0):
        return x
    scale = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return scale * _fraction(x, a, b) / a
    return 1 - scale * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the continued fraction of the incomplete beta function."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for step in (even, odd):
            d = 1 / _not_zero(1 + step * d)
            c = _not_zero(1 + step / c)
            value *= c * d
            change = c * d
        if abs(change - 1) < _PRECISION:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
