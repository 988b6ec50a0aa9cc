"""Readings by name after every bundle of a stream, as columns: the newest trend, and the remembered course."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wardround.clinical.bundles import StateLimits
from wardround.clinical.bundles.events import HOUR, BundleEvents, Integers

# Trends after every reading: the newest reading of a name, and the first of its window.


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedReadings:
    """Readings (m,) by name and subject, in the order in which they came.

    ``places``: the events; ``last``, ``first``: after each, the newest reading of the name and the first in its trend's
    window; ``starts``: where the readings of each name begin."""

    places: Integers
    last: Integers
    first: Integers
    starts: Integers


def read_trends(
    events: BundleEvents, places: Integers, names: Integers, unit: Integers, subject: Integers, limits: StateLimits
) -> NamedReadings:
    """Follow the readings at some places. One name may have several trends: each is of one kind, concept and unit
    (``fold``).

    ``names``: by concept, the number of its name; ``unit``, ``subject``: (n,) numbers of each event's.
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
    """Return the first reading of the window that ends at each, if all came in order of time."""
    own = np.lexsort((ordered, trend[ordered], name[ordered]))
    rows = ordered[own]
    window = limits.window_hours * HOUR
    follows = (trend[rows[1:]] == trend[rows[:-1]]) & (name[rows[1:]] == name[rows[:-1]])
    # gaps longer than the window are shortened to just outside it, so that all trends fit on one line
    apart = np.where(follows, np.clip(np.diff(events.event[rows]), 0, window + 1), window + 1)
    line = np.cumsum(np.append(0, apart))[: len(rows)]
    start = np.maximum(np.searchsorted(line, line - window), np.arange(len(rows)) - limits.readings + 1)
    heads = np.maximum.accumulate(np.where(np.append(False, follows), 0, np.arange(len(follows) + 1)))[: len(rows)]
    found = np.empty_like(ordered)
    found[own] = rows[np.maximum(start, heads)]
    return found


def _late_groups(events: BundleEvents, ordered: Integers, name: Integers) -> list[tuple[int, int]]:
    """Return the ranges of names with a reading that came after one of a later time."""
    same = name[ordered[1:]] == name[ordered[:-1]]
    late = np.flatnonzero(same & (events.event[ordered[1:]] < events.event[ordered[:-1]]))
    heads = np.append(np.flatnonzero(np.append(True, ~same)), len(ordered))
    groups = np.unique(np.searchsorted(heads, late, side="right") - 1)
    return [(int(heads[group]), int(heads[group + 1])) for group in groups]


def _one_by_one(
    events: BundleEvents, rows: Integers, trend: Integers, limits: StateLimits
) -> tuple[list[int], list[int]]:
    """Sort every reading by its time; the trend with the newest reading counts, in a tie the last changed."""
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


# Remembered readings of a name (``remember_courses``), for rules that look back on them.


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedBack:
    """Courses of readings (m,) of a name.

    ``of``: (b,) the number of each bundle's course, shared by consecutive bundles without a new reading; ``starts``:
    (c + 1,) where each course begins in ``rows``; ``rows``: (r,) the readings, by time and row; ``course``: (r,) the
    course of each."""

    places: Integers
    of: Integers
    starts: Integers
    rows: Integers
    course: Integers

    @classmethod
    def since(cls, courses: Courses, since: Integers, subject: Integers, events: BundleEvents) -> LookedBack:
        """Leave out readings before each bundle's encounter. ``since``, ``subject``: (b,) its begin and its subject."""
        at = np.searchsorted(courses.bundle, np.arange(len(since)), side="right") - 1
        there = at >= 0
        there[there] = subject[courses.bundle[at[there]]] == subject[there]
        at = np.where(there, at, -1)
        fresh = np.append([True], (at[1:] != at[:-1]) | (since[1:] != since[:-1]))[: len(at)]
        at, moment = at[fresh], since[fresh]
        sizes = np.diff(courses.starts, append=courses.starts[-1])[at]  # 0 at -1, where there is no course
        course = np.repeat(np.arange(len(at)), sizes)
        rows = courses.rows[ranges(courses.starts[at], sizes)]
        own = events.event[courses.places[rows]] > moment[course]
        course = course[own]
        starts = np.searchsorted(course, np.arange(len(at) + 1))
        return cls(places=courses.places, of=np.cumsum(fresh) - 1, starts=starts, rows=rows[own], course=course)


@dataclass(frozen=True, slots=True, kw_only=True)
class Courses:
    """Remembered readings at some places (m,) after every bundle (k,) with a reading: those from its ``starts`` on in
    ``rows``, by time and row."""

    places: Integers
    bundle: Integers
    starts: Integers
    rows: Integers

    @classmethod
    def of(cls, events: BundleEvents, places: Integers, bundle: Integers, unit: Integers, kept: int) -> Courses:
        """Follow readings, by subject and in the order they came. ``bundle``, ``unit``: (m,) of each; ``kept``: length
        of a course in microseconds."""
        heads = np.flatnonzero(np.append([True], bundle[1:] != bundle[:-1])[: len(places)])
        bounds = np.append(heads, len(places))
        order, late = _as_they_happened(events, places, bounds)
        time = events.event[places[order]]
        another = np.append([True], events.subject[places[1:]] != events.subject[places[:-1]])[: len(places)]
        # gaps longer than a course are shortened to just outside it, so that all courses fit on one line
        line = np.cumsum(np.where(another, kept + 1, np.clip(np.diff(time, prepend=time[:1]), 0, kept + 1)))
        first = np.searchsorted(line, line[bounds[1:] - 1] - kept)
        found = dict[int, list[int]]()
        for start, stop in late:
            courses = _one_after_another(events, places, unit, bounds[start : stop + 1].tolist(), kept)
            found.update(enumerate(courses, start))
        sizes = bounds[1:] - first
        sizes[[*found]] = [len(rows) for rows in found.values()]
        starts = np.append([0], np.cumsum(sizes))
        rows = order[np.minimum(ranges(first, sizes), len(order) - 1)]
        for number, several in found.items():
            rows[starts[number] : starts[number + 1]] = several
        return cls(places=places, bundle=bundle[heads], starts=starts, rows=rows)


def _as_they_happened(
    events: BundleEvents, places: Integers, bounds: Integers
) -> tuple[Integers, list[tuple[int, int]]]:
    """Return readings sorted by time and row within each bundle, and the bundles of subjects for whom this is not the
    order of all: a reading came late or twice, or more came at once than a trend keeps."""
    time, subject = events.event[places], events.subject[places]
    run = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    row = np.asarray(pc.rank(events.row_id.take(pa.array(places)), tiebreaker="dense"), np.int64)
    order = np.lexsort((row, time, run))
    limits = StateLimits()
    owner = subject[bounds[:-1]]
    earliest, latest = time[order[bounds[:-1]]], time[order[bounds[1:] - 1]]
    is_late = (np.diff(bounds) > limits.readings) | (latest - earliest > limits.window_hours * HOUR)
    is_late[1:] |= (owner[1:] == owner[:-1]) & (earliest[1:] <= latest[:-1])
    once = (run[order[1:]] != run[order[:-1]]) | (time[order[1:]] != time[order[:-1]])
    again = ~once & (row[order[1:]] == row[order[:-1]])
    is_late[run[order[1:][again]]] = True
    late = np.unique(owner[is_late])
    starts, stops = (np.searchsorted(owner, late, side=side).tolist() for side in ("left", "right"))
    return order, [*zip(starts, stops, strict=True)]


def _one_after_another(
    events: BundleEvents, places: Integers, unit: Integers, bounds: list[int], kept: int
) -> list[list[int]]:
    """Return the courses of one subject after every bundle with readings, equal to those of ``remember_courses``."""
    limits = StateLimits()
    first, window = bounds[0], limits.window_hours * HOUR
    own = places[first : bounds[-1]]
    time = events.event[own].tolist()
    keys = [*zip(time, events.row_id.take(pa.array(own)).to_pylist(), strict=True)]
    kinds, concepts, units = events.kind[own].tolist(), events.concept[own].tolist(), unit[first : bounds[-1]].tolist()
    trend_of = [*zip(kinds, concepts, units, strict=True)]
    trends = defaultdict[tuple[int, int, int], list[int]](list)
    course: list[int] = []
    found = []
    for start, stop in pairwise(bounds):
        for one in range(start - first, stop - first):
            trend = trends[trend_of[one]]
            insort(trend, one, key=time.__getitem__)
            trend[:] = [each for each in trend if time[each] >= time[trend[-1]] - window][-limits.readings :]
        held, visible = {keys[each] for each in course}, {each for trend in trends.values() for each in trend}
        for one in range(start - first, stop - first):
            if one in visible and keys[one] not in held:
                insort(course, one, key=keys.__getitem__)
                held.add(keys[one])
        oldest = time[course[-1]] - kept
        course = [each for each in course if time[each] >= oldest]
        found.append([first + each for each in course])
    return found


def ranges(starts: Integers, sizes: Integers) -> Integers:
    """Return consecutive numbers from each start."""
    return np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
