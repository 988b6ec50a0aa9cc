"""Values in words: low, normal or high against the limits of the row, usual limits, or the person's own first value.

Nothing later is looked at: a person's own baseline is the first value that became known.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from itertools import count

import numpy as np
import numpy.typing as npt

from wardround.bundles.events import BundleEvents, is_amendment
from wardround.bundles.kinds import MEASURED, EventKind, ValueLevel

BASELINE_RISE = 1.5
"""A value above so many times the first is above the baseline, one below its inverse below (ours; KDIGO's first step of
creatinine is 1.5)."""
Floats = npt.NDArray[np.float64]


def with_levels(events: BundleEvents) -> BundleEvents:
    """Return events with the level of every measured value."""
    level, alone = levels_by_limits(events)
    if alone.any():
        level[alone] = _against_own(events, np.flatnonzero(alone))
        for subject in np.unique(events.subject[is_amendment(events)]).tolist():
            start, stop = np.searchsorted(events.subject, [subject, subject + 1]).tolist()
            _against_amended(events, alone, start, stop, level)
    return replace(events, level=level)


def levels_by_limits(events: BundleEvents) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Return the levels against the limits of the rows or usual ones, and which values have neither."""
    measured = np.isin(events.kind, MEASURED) & ~np.isnan(events.value)
    limits = np.array([usual_range(name) for name in events.names] or [(np.nan, np.nan)])
    own = np.isnan(events.low) & np.isnan(events.high)
    low = np.where(own, limits[events.concept, 0], events.low)
    high = np.where(own, limits[events.concept, 1], events.high)
    level = _against(events.value, low, high, ValueLevel.LOW)
    alone = measured & np.isnan(low) & np.isnan(high)
    return np.where(measured & ~alone, level, ValueLevel.UNKNOWN).astype(np.int8), alone


def _against(value: Floats, low: Floats, high: Floats, first: ValueLevel) -> npt.NDArray[np.int8]:
    """Return ``first`` below, the level after it between, and the one after that above the limits."""
    return (first + 1 + (value > high).astype(np.int8) - (value < low).astype(np.int8)).astype(np.int8)


def _against_own(events: BundleEvents, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    order = rows[np.lexsort((rows, events.concept[rows], events.subject[rows]))]
    subject, concept, value = events.subject[order], events.concept[order], events.value[order]
    fresh = np.r_[True, (subject[1:] != subject[:-1]) | (concept[1:] != concept[:-1])]
    base = value[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]]
    least, most = (
        np.minimum(base / BASELINE_RISE, base * BASELINE_RISE),
        np.maximum(base / BASELINE_RISE, base * BASELINE_RISE),
    )
    level = _against(value, least, most, ValueLevel.BELOW_BASELINE)
    level[fresh] = ValueLevel.UNKNOWN
    back = np.empty_like(level)
    back[np.searchsorted(rows, order)] = level
    return back


def _against_amended(
    events: BundleEvents, alone: npt.NDArray[np.bool_], start: int, stop: int, level: npt.NDArray[np.int8]
) -> None:
    """Set the levels of a subject whose rows are amended: the baseline is the first value as it was known then."""
    some = events.slice(start, stop)
    columns = zip(
        some.row_id.to_pylist(),
        *(each.tolist() for each in (some.kind, alone[start:stop], some.hour, some.event, some.concept, some.value)),
        strict=True,
    )
    known = _FirstValues()
    for place, (row, kind, is_alone, hour, event, concept, value) in enumerate(columns):
        if kind == EventKind.RETRACTION:
            known.drop(row)
        if is_alone:
            first, base = known.add(row, hour, event, concept, value)
            level[start + place] = ValueLevel.UNKNOWN if first == row else level_against(value, base)


class _FirstValues:
    """A subject's values as they are known, row by row. The first of a concept is looked up anew only where it changed
    or was withdrawn: otherwise a long record would be read once for every value."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, tuple[tuple[int, int, int], float]]] = defaultdict(dict)
        self._concept: dict[str, int] = {}
        self._first: dict[int, str] = {}
        self._place = count()

    def drop(self, row: str) -> tuple[int, int, int] | None:
        """Forget a row that was withdrawn; return its place in time, None where it was not known."""
        concept = self._concept.pop(row, None)
        if concept is None:
            return None
        if self._first.get(concept) == row:
            del self._first[concept]
        return self._rows[concept].pop(row)[0]

    def add(self, row: str, hour: int, event: int, concept: int, value: float) -> tuple[str, float]:
        """Take in how a row reads, which keeps the hour in which it became known; return the row and value of the
        first of its concept."""
        before = self.drop(row)
        key = (hour if before is None else before[0], event, next(self._place))
        own = self._rows[concept]
        own[row] = (key, value)
        self._concept[row] = concept
        first = self._first.get(concept)
        if first is None:
            first = min(own, key=own.__getitem__)
        elif key < own[first][0]:
            first = row
        self._first[concept] = first
        return first, own[first][1]


def level_against(value: float, base: float) -> ValueLevel:
    """Return how a value lies to the person's own first."""
    least, most = sorted((base / BASELINE_RISE, base * BASELINE_RISE))
    if value > most:
        return ValueLevel.ABOVE_BASELINE
    return ValueLevel.BELOW_BASELINE if value < least else ValueLevel.AT_BASELINE


@cache
def usual_range(name: str) -> tuple[float, float]:
    """Return the limits of what is usual for a measurement by its name, NaN where none are known."""
    folded = name.strip().casefold()
    fits = (limits for names, limits in _usual_ranges() if any(fnmatchcase(folded, pattern) for pattern in names))
    return next(fits, (np.nan, np.nan))


@cache
def _usual_ranges() -> Sequence[tuple[tuple[str, ...], tuple[float, float]]]:
    text = files("wardround.bundles").joinpath("data/usual_ranges.toml").read_text(encoding="utf-8")
    return [(tuple(each["names"]), (float(each["low"]), float(each["high"]))) for each in tomllib.loads(text)["range"]]
