"""What trends come to after every reading: the newest reading of a name, and the first of its window."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from wardround.bundles import StateLimits
from wardround.bundles.events import HOUR, BundleEvents, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedReadings:
    """Readings (m,) by name and subject, in the order in which they came. ``places``: the events; ``last``, ``first``:
    once each was there, the newest reading of the name and the first in its trend's window. ``starts``: where those of
    each name begin."""

    places: Integers
    last: Integers
    first: Integers
    starts: Integers


def read_trends(
    events: BundleEvents, places: Integers, names: Integers, unit: Integers, subject: Integers, limits: StateLimits
) -> NamedReadings:
    """Follow the readings at some places. What is asked for by one name may be several trends: each is of one kind,
    concept and unit (``fold``).

    ``names``: by concept the number of the name that it is asked for by; ``unit``, ``subject``: (n,) numbers of each
    event's.
    """
    trend = (events.concept * (int(events.kind.max(initial=0)) + 1) + events.kind) * (
        int(unit.max(initial=0)) + 1
    ) + unit
    name = names[events.concept] * (int(subject.max(initial=0)) + 1) + subject
    ordered = places[np.lexsort((places, name[places]))]
    last, first = ordered.copy(), _window_starts(events, ordered, name, trend, limits)
    for start, stop in _late_groups(events, ordered, name):
        last[start:stop], first[start:stop] = _one_by_one(events, ordered[start:stop], trend, limits)
    starts = np.searchsorted(names[events.concept[ordered]], np.arange(int(names.max(initial=0)) + 2))
    return NamedReadings(places=ordered, last=last, first=first, starts=starts)


def _window_starts(
    events: BundleEvents, ordered: Integers, name: Integers, trend: Integers, limits: StateLimits
) -> Integers:
    """Return the first reading of the window that ends at each, where each came after those before it in time."""
    own = np.lexsort((ordered, trend[ordered], name[ordered]))
    rows = ordered[own]
    window = limits.window_hours * HOUR
    follows = (trend[rows[1:]] == trend[rows[:-1]]) & (name[rows[1:]] == name[rows[:-1]])
    # what lies further apart than the window may as well lie just outside it: all trends fit on one line
    apart = np.where(follows, np.clip(np.diff(events.event[rows]), 0, window + 1), window + 1)
    line = np.cumsum(np.append(0, apart))[: len(rows)]
    start = np.maximum(np.searchsorted(line, line - window), np.arange(len(rows)) - limits.readings + 1)
    heads = np.maximum.accumulate(np.where(np.append(False, follows), 0, np.arange(len(follows) + 1)))[: len(rows)]
    found = np.empty_like(ordered)
    found[own] = rows[np.maximum(start, heads)]
    return found


def _late_groups(events: BundleEvents, ordered: Integers, name: Integers) -> list[tuple[int, int]]:
    """Return where the readings of a name lie of which one came after a reading of a later time."""
    same = name[ordered[1:]] == name[ordered[:-1]]
    late = np.flatnonzero(same & (events.event[ordered[1:]] < events.event[ordered[:-1]]))
    heads = np.append(np.flatnonzero(np.append(True, ~same)), len(ordered))
    groups = np.unique(np.searchsorted(heads, late, side="right") - 1)
    return [(int(heads[group]), int(heads[group + 1])) for group in groups]


def _one_by_one(
    events: BundleEvents, rows: Integers, trend: Integers, limits: StateLimits
) -> tuple[list[int], list[int]]:
    """Put every reading where its time says; the trend whose newest is newest speaks, among equals the one touched
    last."""
    trends: dict[int, list[tuple[int, int]]] = {}
    last, first = [], []
    times = zip(rows.tolist(), events.event[rows].tolist(), trend[rows].tolist(), strict=True)
    for place, time, key in times:
        readings = trends.pop(key, [])
        readings.insert(bisect_right(readings, time, key=lambda each: each[0]), (time, place))
        since = readings[-1][0] - limits.window_hours * HOUR
        trends[key] = [each for each in readings if each[0] >= since][-limits.readings :]
        speaks = max(reversed(trends.values()), key=lambda each: each[-1][0])
        last.append(speaks[-1][1])
        first.append(speaks[0][1])
    return last, first
