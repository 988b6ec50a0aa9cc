"""A table's rows as they became known: each row once, and once more whenever a cell of its event was filled in later.

This keeps exported events and bundles free of leaks: a revision holds only what a chart shows at its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.chart.censor import Mask, clock, hand_out, holds, late_masks
from wardround.records.chart.events import spoken_columns
from wardround.records.rules.language import NO_TIME, Times
from wardround.records.shards.layout import AVAILABLE, EVENT, GROUP, NEVER_TIME, PENDING, UNTIL, VERSION, TableLayout
from wardround.records.shards.row_ids import numbered_ids
from wardround.records.specs.spec import integers, valid

Integers = npt.NDArray[np.int64]
_SOME_DAY = datetime.max
"""Passed where a function needs a moment for ages, which are not part of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """Rows as known from ``known`` on.

    ``batch``: the rows as a chart returns them; beside it ``subject``, ``event`` (event time, ``ALWAYS_TIME`` for
    static rows), ``number`` (0 first) and ``rows`` (places of the stored rows). ``is_pending``: orders without
    a result; ``answered``: when the first result was in; ``is_withdrawn``: the row does not exist from ``known`` on.
    """

    batch: pa.RecordBatch
    subject: Integers
    event: Times
    known: Times
    number: Integers
    rows: Integers
    is_pending: bool = False
    answered: Times | None = None
    is_withdrawn: bool = False


def first_known(stored: pa.RecordBatch) -> Times:
    """Return the moment from which a chart shows each row; ``NEVER_TIME`` for those that no chart shows."""
    available = clock(stored, AVAILABLE)
    known = np.where(available == NEVER_TIME, NEVER_TIME, np.maximum(clock(stored, EVENT), available))
    return np.where(holds(stored, known), known, NEVER_TIME)


def read_revisions(
    layout: TableLayout, stored: pa.RecordBatch, subject: Integers, wanted: frozenset[str] | None = None
) -> Iterator[Revisions]:
    """Yield the rows of a table as they became known, then their later revisions, then pending orders.

    ``wanted``: columns whose late cells make a revision (default: those of the table's events).
    """
    base = first_known(stored)
    clocks = _late_clocks(layout, stored, base, event_cells(layout) if wanted is None else wanted)
    for place, times in enumerate([base, *clocks]):
        rows = np.flatnonzero(times != NEVER_TIME)
        number = _version_numbers(stored)[rows] + min(place, 1)
        for other in clocks:
            number += other[rows] < times[rows]
        if len(rows):
            yield _revision(layout, stored, subject, rows, times[rows], number)
    yield from _withdrawals(layout, stored, subject, base)
    if layout.spec.pending is not None:
        rows, starts, answered = _orders(stored, subject, base)
        if len(rows):
            yield replace(_order_rows(layout, stored, subject, rows, starts), answered=answered)


def last_revisions(layout: TableLayout, stored: pa.RecordBatch, subject: Integers) -> Iterator[Revisions]:
    """Yield every row that a chart ever shows once, in its final form, and orders without any result.

    ``known``: when all of the row was known.
    """
    base = first_known(stored)
    clocks = _late_clocks(layout, stored, base, event_cells(layout))
    known = np.maximum.reduce([base, *(np.where(times == NEVER_TIME, base, times) for times in clocks)])
    rows = np.flatnonzero((base != NEVER_TIME) & holds(stored, NEVER_TIME - 1))
    if len(rows):
        yield _revision(layout, stored, subject, rows, known[rows], np.zeros(len(rows), np.int64))
    if layout.spec.pending is not None:
        rows, starts, _ = _orders(stored, subject, base, unanswered=True)
        if len(rows):
            yield _order_rows(layout, stored, subject, rows, starts)


def _version_numbers(stored: pa.RecordBatch) -> Integers:
    place = stored.schema.get_field_index(VERSION)
    return np.zeros(stored.num_rows, np.int64) if place < 0 else integers(stored.column(place), null=0)


def _withdrawals(layout: TableLayout, stored: pa.RecordBatch, subject: Integers, base: Times) -> Iterator[Revisions]:
    """Yield withdrawn rows, from the time of their withdrawal (until a later version is shown, if any)."""
    if stored.schema.get_field_index(UNTIL) < 0:
        return
    until, number = clock(stored, UNTIL), _version_numbers(stored)
    names = stored.column(0).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((number, names, subject))
    order = order[base[order] != NEVER_TIME]
    same = (names[order][1:] == names[order][:-1]) & (subject[order][1:] == subject[order][:-1])
    following = np.full(len(base), NEVER_TIME)
    following[order[:-1][same]] = base[order[1:][same]]
    rows = np.flatnonzero((base != NEVER_TIME) & (until != NEVER_TIME) & (until < following))
    if len(rows):
        gone = _revision(layout, stored, subject, rows, until[rows], number[rows] + 1)
        yield replace(gone, is_withdrawn=True)


def _revision(
    layout: TableLayout, stored: pa.RecordBatch, subject: Integers, rows: Integers, known: Times, number: Integers
) -> Revisions:
    chosen = stored if len(rows) == stored.num_rows else stored.take(pa.array(rows))
    batch = hand_out(layout, chosen, _SOME_DAY, late_masks(layout, chosen, known), ())
    return Revisions(
        batch=batch, subject=subject[rows], event=clock(chosen, EVENT), known=known, number=number, rows=rows
    )


def event_cells(layout: TableLayout) -> frozenset[str]:
    """Return the columns from which :mod:`wardround.records.chart.events` makes a table's events."""
    spec, present = layout.spec, frozenset(layout.columns)
    if present.isdisjoint({spec.code, spec.value, spec.text}):
        return frozenset(spoken_columns(spec, tuple(layout.columns)))
    named = {spec.code, spec.code_system_column, spec.value, spec.text, spec.unit}
    return frozenset(name for name in named if name is not None) & present


def _late_clocks(layout: TableLayout, stored: pa.RecordBatch, base: Times, wanted: frozenset[str]) -> list[Times]:
    """Return for each late clock of the wanted cells when it changes a row, ``NEVER_TIME`` if it does not.

    If several clocks change a row at the same moment, it counts once.
    """
    found: list[Times] = []
    for group in layout.late:
        columns = sorted(group.columns & wanted)
        if not columns:
            continue
        times = clock(stored, group.clock)
        changes = (times > base) & (times != NO_TIME) & (times != NEVER_TIME) & (base != NEVER_TIME)
        changes &= holds(stored, times)
        changes &= _any_filled(layout, stored, columns)
        for other in found:
            changes &= other != times
        if changes.any():
            found.append(np.where(changes, times, NEVER_TIME))
    return found


def _any_filled(layout: TableLayout, stored: pa.RecordBatch, columns: list[str]) -> Mask:
    filled = np.zeros(stored.num_rows, dtype=bool)
    for name in columns:
        join = layout.joined.get(name)
        column = stored.column(stored.schema.get_field_index(name if join is None else join.places))
        filled |= valid(column)
    return filled


def _orders(
    stored: pa.RecordBatch, subject: Integers, base: Times, *, unanswered: bool = False
) -> tuple[Integers, Times, Times]:
    """Return the first row of every group that a chart shows as one order before its results, with begin and end.

    ``unanswered``: only groups that never have a result."""
    group = integers(stored.column(stored.schema.get_field_index(GROUP)), null=0)
    start = clock(stored, PENDING)
    start = np.where(start == NO_TIME, NEVER_TIME, start)
    order = np.lexsort((np.arange(len(start)), start, group, subject))
    fresh = np.r_[True, (subject[order][1:] != subject[order][:-1]) | (group[order][1:] != group[order][:-1])]
    numbers = np.cumsum(fresh) - 1
    shown = np.full(int(fresh.sum()), NEVER_TIME)
    np.minimum.at(shown, numbers, base[order])
    heads = order[fresh]
    runs = (start[heads] != NEVER_TIME) & (start[heads] < shown)
    if unanswered:
        runs &= shown == NEVER_TIME
    return heads[runs], start[heads][runs], shown[runs]


def _order_rows(
    layout: TableLayout, stored: pa.RecordBatch, subject: Integers, rows: Integers, starts: Times
) -> Revisions:
    pending = layout.spec.pending
    assert pending is not None
    orders = stored.take(pa.array(rows))
    hidden = late_masks(layout, orders, starts)
    hidden |= {name: np.ones(len(rows), dtype=bool) for name in layout.columns if name not in pending.columns}
    numbers: Any = integers(orders.column(orders.schema.get_field_index(GROUP)), null=0)
    orders = orders.set_column(0, "row_id", numbered_ids(layout.spec.name, numbers))
    batch = hand_out(layout, orders, _SOME_DAY, hidden, ())
    return Revisions(
        batch=batch,
        subject=subject[rows],
        event=starts,
        known=starts,
        number=np.zeros_like(starts),
        rows=rows,
        is_pending=True,
    )
