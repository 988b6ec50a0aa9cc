"""Three-valued logic (Kleene): true, false, or None where it is not known; and numbers known only within bounds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Truth = bool | None
"""True, False, or None: unknown. What is unknown is never taken for false."""
Relation = Literal[">", ">=", "<", "<=", "="]
RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number that is known to lie between two others, both included; they are equal where it is known exactly."""

    low: float
    high: float

    @property
    def is_exact(self) -> bool:
        """Whether the number itself is known."""
        return self.low == self.high

    def holds(self, relation: Relation, threshold: float) -> Truth:
        """Compare the number; unknown where part of the range meets the threshold and part does not.

        >>> Bounds(1, 5).holds("<", 2), Bounds(3, 7).holds(">=", 2), Bounds(0, 1).holds(">=", 2)
        (None, True, False)
        """
        compare = RELATIONS[relation]
        low, high = bool(compare(self.low, threshold)), bool(compare(self.high, threshold))
        if relation == "=" and not self.is_exact:
            return None if self.low <= threshold <= self.high else False
        return low if low == high else None


def all_of(truths: Iterable[Truth]) -> Truth:
    """Return AND: false where one is false, else unknown where one is unknown."""
    unknown = False
    for truth in truths:
        if truth is False:
            return False
        unknown = unknown or truth is None
    return None if unknown else True


def any_of(truths: Iterable[Truth]) -> Truth:
    """Return OR: true where one is true, else unknown where one is unknown."""
    unknown = False
    for truth in truths:
        if truth is True:
            return True
        unknown = unknown or truth is None
    return None if unknown else False


def negate(truth: Truth) -> Truth:
    """Return NOT: unknown stays unknown."""
    return None if truth is None else not truth
