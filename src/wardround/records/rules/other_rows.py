"""Time rules that read other rows of the subject: the next row, what was in progress, and the end of what began."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
NO_TIME = int(np.iinfo(np.int64).min)
"""Null as an integer; the same bits as NumPy's NaT."""

FOREVER = int(np.iinfo(np.int64).max)

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def following(times: Times, wanted: Mask, barriers: Mask | None, subjects: Integers) -> Times:
    """Return per row the smallest time of a wanted row of its subject that is not before its own time; null if a
    barrier comes first.

    If a barrier and a wanted row have one time, the wanted one counts. A barrier at a row's own time does not count: a
    row at the moment of an admission belongs to the stay that begins.
    """
    marked = wanted if barriers is None else wanted | barriers
    marks = np.flatnonzero(marked & (times != NO_TIME))
    if not len(marks):
        return np.full(len(times), NO_TIME)
    marks = marks[np.lexsort((~wanted[marks], times[marks], subjects[marks]))]
    owners, moments = np.unique(subjects[marks]), np.unique(times[marks])
    # One number per (subject, time), so that one search finds the first mark at or after a row in its subject.
    owner = np.minimum(np.searchsorted(owners, subjects), len(owners) - 1)
    width = len(moments) + 1
    numbers = owner * width + np.searchsorted(moments, times)
    ordered = numbers[marks]
    places = np.searchsorted(ordered, numbers)
    here = np.minimum(places, len(marks) - 1)
    begins = (ordered[here] == numbers) & (times[marks[here]] == times) & ~wanted[marks[here]]
    places = np.where(begins, np.searchsorted(ordered, numbers, side="right"), places)
    nearest = marks[np.minimum(places, len(marks) - 1)]
    found = (times != NO_TIME) & (subjects[nearest] == subjects) & (times[nearest] >= times) & wanted[nearest]
    return np.where(found, times[nearest], NO_TIME)


def closed(times: Times, which: Integers, names: Integers, subjects: Integers) -> Times:
    """Return per row that begins something (``which`` 0) when all that its subject began under its name has ended (1).

    Several that run at once are not told apart: each waits for the last end. An end without a beginning is ignored; at
    one moment ends count before beginnings.
    """
    result = np.full(len(times), NO_TIME)
    rows = np.flatnonzero((which >= 0) & (times != NO_TIME))
    if not len(rows):
        return result
    rows = rows[np.lexsort((times[rows], names[rows], subjects[rows]))]
    same_name = (subjects[rows][1:] == subjects[rows][:-1]) & (names[rows][1:] == names[rows][:-1])
    fresh = np.r_[True, ~(same_name & (times[rows][1:] == times[rows][:-1]))]
    # From here on one cell per subject, name and moment; `group` numbers subject and name.
    cell = np.cumsum(fresh) - 1
    group = np.cumsum(np.r_[True, ~same_name])[fresh]
    moments = times[rows][fresh]
    begun = np.bincount(cell, which[rows] == 0).astype(np.int64)
    ended = np.bincount(cell, which[rows] == 1).astype(np.int64)
    running = _never_below_zero(begun - ended, group)
    before = np.where(np.r_[True, group[1:] != group[:-1]], 0, np.r_[0, running[:-1]])
    closing = np.flatnonzero((ended > 0) & (ended >= before))
    after = np.searchsorted(closing, np.arange(len(group)), side="right")
    nearest = np.r_[closing, len(group)][after]
    known = np.r_[group, -1][nearest] == group
    closes = np.where(running == 0, moments, np.where(known, np.r_[moments, NO_TIME][nearest], NO_TIME))
    begins = which[rows] == 0
    result[rows[begins]] = closes[cell[begins]]
    return result


def over(times: Times, subjects: Integers, owners: Integers, starts: Times, ends: Times) -> Times:
    """Return per row the latest end of its subject's spans that have begun by then, or its own time if that is later.

    Null if such a span has no end. Spans without a start are ignored.
    """
    rows = np.flatnonzero(starts != NO_TIME)
    if not len(rows):
        return times
    rows = rows[np.lexsort((starts[rows], owners[rows]))]
    # One number per (subject, time) finds the last span that has begun; ends as ranks, so that sums cannot overflow.
    people, moments = np.unique(owners[rows]), np.unique(starts[rows])
    numbers = np.searchsorted(people, owners[rows]) * len(moments) + np.searchsorted(moments, starts[rows])
    owner = np.minimum(np.searchsorted(people, subjects), len(people) - 1)
    wanted = owner * len(moments) + np.searchsorted(moments, times, side="right") - 1
    found = rows[np.maximum(np.searchsorted(numbers, wanted, side="right") - 1, 0)]
    begun = (times != NO_TIME) & (owners[found] == subjects) & (starts[found] <= times)
    latest = np.full(len(owners), NO_TIME)
    latest[rows] = _latest_so_far(np.where(ends[rows] == NO_TIME, FOREVER, ends[rows]), owners[rows])
    known = np.where(begun, np.maximum(times, latest[found]), times)
    return np.where(known == FOREVER, NO_TIME, known)


def _latest_so_far(ends: Times, owners: Integers) -> Times:
    """Return the running maximum of ``ends`` within each run of equal ``owners``."""
    values, ranks = np.unique(ends, return_inverse=True)
    apart = np.cumsum(np.r_[0, owners[1:] != owners[:-1]]) * len(values)
    result: Times = values[np.maximum.accumulate(ranks + apart) - apart]
    return result


def _never_below_zero(steps: Integers, group: Integers) -> Integers:
    """Return running sums of ``steps`` within each group; a step below zero stays at zero."""
    total = np.cumsum(steps)
    starts = np.r_[True, group[1:] != group[:-1]]
    total = total - (total - steps)[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    # Groups are moved apart, each below the one before, so that the running least does not reach into the next.
    apart = (np.cumsum(starts) - 1) * (2 * int(np.abs(steps).sum()) + 1)
    lowest = np.minimum.accumulate(np.minimum(total, 0) - apart) + apart
    return np.asarray(total - lowest)
