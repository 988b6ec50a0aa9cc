"""Values in words: low, normal or high against the limits of the row, usual limits, or the person's own first value.

Nothing later is looked at: a person's own baseline is the first value that became known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from wardround.bundles.events import BundleEvents
from wardround.bundles.kinds import MEASURED, ValueLevel

BASELINE_RISE = 1.5
"""A value above so many times the first is above the baseline, one below its inverse below (ours; KDIGO's first step of
creatinine is 1.5)."""
Floats = npt.NDArray[np.float64]


def with_levels(events: BundleEvents) -> BundleEvents:
    """Return events with the level of every measured value."""
    measured = np.isin(events.kind, MEASURED) & ~np.isnan(events.value)
    limits = np.array([usual_range(name) for name in events.names] or [(np.nan, np.nan)])
    own = np.isnan(events.low) & np.isnan(events.high)
    low = np.where(own, limits[events.concept, 0], events.low)
    high = np.where(own, limits[events.concept, 1], events.high)
    level = _against(events.value, low, high, ValueLevel.LOW)
    alone = measured & np.isnan(low) & np.isnan(high)
    if alone.any():
        level[alone] = _against_own(events, np.flatnonzero(alone))
    return replace(events, level=np.where(measured, level, ValueLevel.UNKNOWN).astype(np.int8))


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
