"""Windows and courses over readings, and three-valued logic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

# Three-valued logic (Kleene): true, false, or None where it is not known; and numbers known only within bounds.


Truth = bool | None
"""True, False, or None: unknown. An unknown truth never counts as false."""
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
        """Return whether the number itself is known."""
        return self.low == self.high

    def holds(self, relation: Relation, threshold: float) -> Truth:
        """Compare the number; unknown if part of the range meets the threshold and part does not.

        >>> Bounds(1, 5).holds("<", 2), Bounds(3, 7).holds(">=", 2), Bounds(0, 1).holds(">=", 2)
        (None, True, False)
        """
        compare = RELATIONS[relation]
        low, high = bool(compare(self.low, threshold)), bool(compare(self.high, threshold))
        if relation == "=" and not self.is_exact:
            return None if self.low <= threshold <= self.high else False
        return low if low == high else None


def all_of(truths: Iterable[Truth]) -> Truth:
    """Return AND: false where one is false, else unknown if one is unknown."""
    unknown = False
    for truth in truths:
        if truth is False:
            return False
        unknown = unknown or truth is None
    return None if unknown else True


def any_of(truths: Iterable[Truth]) -> Truth:
    """Return OR: true where one is true, else unknown if one is unknown."""
    unknown = False
    for truth in truths:
        if truth is True:
            return True
        unknown = unknown or truth is None
    return None if unknown else False


def negate(truth: Truth) -> Truth:
    """Return NOT: unknown stays unknown."""
    return None if truth is None else not truth


# Windows and courses over a series of readings: what a rule says of the last hours, of a rise, of "for 30 minutes".
#
# A series is (time, value), oldest first, of known values; a missing value is unknown, never false.


Reading = tuple[datetime, float]
Series = Sequence[Reading]
MAX_GAP_MINUTES = 120.0
"""Between readings further apart than this, and than the requested time, the value is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span that ends now. ``hours``: how far it reaches back; ``encounter``: when the encounter began, before which
    nothing counts; ``since``: another moment before which nothing counts."""

    now: datetime
    hours: float | None = None
    encounter: datetime | None = None
    since: datetime | None = None

    @property
    def start(self) -> datetime:
        """The first moment in it."""
        oldest = datetime.min if self.hours is None else self.now - timedelta(hours=self.hours)
        return max(oldest, self.encounter or datetime.min, self.since or datetime.min)

    def covers(self, time: datetime) -> bool:
        """Return whether a moment lies in it, both ends included."""
        return self.start <= time <= self.now

    def of(self, series: Series) -> tuple[Reading, ...]:
        """Return the readings in it."""
        start = self.start
        return tuple(reading for reading in series if start <= reading[0] <= self.now)


def latest(series: Series, window: Window | None = None) -> float | None:
    """Return the newest value; None without one."""
    found = _within(series, window)
    return max(found, key=lambda reading: reading[0])[1] if found else None


def lowest(series: Series, window: Window | None = None) -> float | None:
    """Return the lowest value; None without one."""
    return min((value for _, value in _within(series, window)), default=None)


def highest(series: Series, window: Window | None = None) -> float | None:
    """Return the highest value; None without one."""
    return max((value for _, value in _within(series, window)), default=None)


def count(series: Series, window: Window | None = None) -> int:
    """Return the number of readings; the caller decides what a count of 0 means."""
    return len(_within(series, window))


def change(series: Series, within: float) -> float | None:
    """Return the newest value less the first within so many hours before it; None if there are not two."""
    found = _before_newest(series, within)
    return found[-1][1] - found[0][1] if len(found) > 1 else None


def rises_by(series: Series, d: float, within: float) -> Truth:
    """Return whether the newest value is at least d above the lowest of the hours before it; unknown of one reading."""
    found = _before_newest(series, within)
    return None if len(found) < 2 else _at_least(found[-1][1] - min(value for _, value in found[:-1]), d)


def falls_by(series: Series, d: float, within: float) -> Truth:
    """Return whether the newest value is at least d below the highest of the hours before it; unknown of one
    reading."""
    return rises_by([(time, -value) for time, value in series], d, within)


def held_for(series: Series, predicate: Callable[[float], Truth], minutes: float) -> Truth:
    """Return whether a predicate has held without a break for so many minutes up to the newest reading.

    Unknown if the readings do not reach back so far, are too far apart, or one of them is unknown.
    """
    ordered = sorted(series)
    if not ordered:
        return None
    newest = after = ordered[-1][0]
    gap = timedelta(minutes=max(minutes, MAX_GAP_MINUTES))
    for time, value in reversed(ordered):
        truth = predicate(value)
        if truth is False:
            return False if time == newest or newest - time < timedelta(minutes=minutes) else None
        if truth is None or after - time > gap:
            return None
        if newest - time >= timedelta(minutes=minutes):
            return True
        after = time
    return None


def baseline(series: Series, window: Window) -> float | None:
    """Return the lowest value of a window, without the newest reading; None if no other was charted in it."""
    found = window.of(sorted(series))
    return min((value for _, value in found[:-1]), default=None)


def _within(series: Series, window: Window | None) -> tuple[Reading, ...]:
    return tuple(series) if window is None else window.of(series)


def _before_newest(series: Series, within: float) -> tuple[Reading, ...]:
    ordered = sorted(series)
    return () if not ordered else Window(now=ordered[-1][0], hours=within).of(ordered)


def _at_least(difference: float, d: float) -> bool:
    """Return whether a difference is at least ``d``, with a tolerance: 1.3 - 1.0 is at least 0.3."""
    return difference >= d - 1e-9 * max(1.0, abs(d))
