"""Cutting a table's stored rows down to what was known at a moment. Every leak rule of the chart is applied here."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.arrow_types import microseconds
from wardround.records.identity import fingerprints, row_numbers
from wardround.records.layout import AVAILABLE, EVENT, PENDING, PUBLISHED
from wardround.records.row_ids import numbered_ids, row_ids
from wardround.records.rules import NO_TIME, Times
from wardround.records.spec import AgeColumns, PendingRows
from wardround.records.table_layout import TableLayout

Mask = npt.NDArray[np.bool_]
Cut = tuple[pa.RecordBatch, Times]
_AGE_CEILING = 90
_NO_TIMES = np.empty(0, dtype=np.int64)


def censored(layout: TableLayout, stored: pa.RecordBatch | None, as_of: datetime, now: int) -> Cut:
    """Policy ``known_at``: return the visible rows with late cells nulled, and their event times."""
    if stored is None:
        return _empty(layout, ()), _NO_TIMES
    event, available = _clock(stored, EVENT), _clock(stored, AVAILABLE)
    visible = (available <= now) & (event <= now)
    if layout.spec.pending is not None and not visible.all():
        return _with_pending(layout, layout.spec.pending, stored, visible, event, as_of, now)
    stored, event = _select(stored, visible, event)
    return _hand_out(layout, stored, row_ids(layout.spec, stored), as_of, _late_masks(layout, stored, now), ()), event


def published(layout: TableLayout, stored: pa.RecordBatch | None, as_of: datetime, now: int) -> Cut:
    """Policy ``published``: return the rows that the papers' clock shows, without the columns that they drop."""
    clock = layout.spec.published
    if stored is None:
        return _empty(layout, clock.hide), _NO_TIMES
    event = _clock(stored, EVENT)
    if clock.time is not None:
        times = _clock(stored, PUBLISHED)
        stored, event = _select(stored, times <= now if clock.operator == "<=" else times < now, event)
    return _hand_out(layout, stored, row_ids(layout.spec, stored), as_of, {}, clock.hide), event


def _empty(layout: TableLayout, hide: tuple[str, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=layout.schema(hide))


def _clock(stored: pa.RecordBatch, name: str) -> Times:
    return microseconds(stored.column(stored.schema.get_field_index(name)))


def _select(stored: pa.RecordBatch, visible: Mask, event: Times) -> tuple[pa.RecordBatch, Times]:
    """Keep visible rows; without a copy where they are all, or the first ones."""
    count = int(np.count_nonzero(visible))
    if count == len(visible):
        return stored, event
    if visible[:count].all():
        return stored.slice(0, count), event[:count]
    return stored.filter(pa.array(visible)), event[visible]


def _late_masks(layout: TableLayout, stored: pa.RecordBatch, now: int) -> dict[str, Mask]:
    """Return, per column, which cells are not known yet; columns that are known throughout are left out."""
    masks: dict[str, Mask] = {}
    for group in layout.late:
        times = _clock(stored, group.clock)
        unknown = (times > now) | (times == NO_TIME)
        if unknown.any():
            masks.update(dict.fromkeys(group.columns, unknown))
    return masks


def _hand_out(
    layout: TableLayout,
    stored: pa.RecordBatch,
    ids: Any,
    as_of: datetime,
    hidden: dict[str, Mask],
    hide: tuple[str, ...],
) -> pa.RecordBatch:
    """Build the batch that leaves the store: ids, then public columns, cells under ``hidden`` nulled."""
    arrays = [ids]
    place = stored.schema.get_field_index
    for name in layout.columns:
        if name in hide:
            continue
        join = layout.joined.get(name)
        if join is not None:
            array = join.source.take(stored.column(place(join.places)))
        elif name == "age" and layout.spec.age is not None:
            array = age_in_years(layout.spec.age, stored, as_of)
        else:
            array = stored.column(place(name))
        mask = hidden.get(name)
        if mask is not None:
            array = pc.if_else(pa.array(mask), pa.scalar(None, array.type), array)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=layout.schema(hide))


def age_in_years(columns: AgeColumns, stored: pa.RecordBatch, as_of: datetime) -> Any:
    """Return ages at ``as_of``; 90 stands for 90 and older, null where the record does not say."""
    ages: list[int | None] = []
    for row in stored.to_pylist():
        age: int | None = None
        if columns.birth is not None and row.get(columns.birth) is not None:
            birth = row[columns.birth]
            age = as_of.year - birth.year - ((as_of.month, as_of.day) < (birth.month, birth.day))
        elif columns.anchor_age is not None and columns.anchor_year is not None:
            known, year = row.get(columns.anchor_age), row.get(columns.anchor_year)
            age = None if known is None or year is None else known + as_of.year - year
        ages.append(None if age is None or age < 0 else min(age, _AGE_CEILING))
    return pa.array(ages, pa.int64())


def _with_pending(
    layout: TableLayout,
    pending: PendingRows,
    stored: pa.RecordBatch,
    visible: Mask,
    event: Times,
    as_of: datetime,
    now: int,
) -> Cut:
    """Show one row with only the order's columns for every group of which nothing is known yet."""
    heads, starts, numbers = _pending_heads(layout, pending, stored, visible, now)
    known = np.flatnonzero(visible)
    rows, times = np.r_[known, heads], np.r_[event[known], starts]
    order = np.argsort(times, kind="stable")
    rows, times = rows[order], times[order]
    is_pending = np.r_[np.zeros(len(known), dtype=bool), np.ones(len(heads), dtype=bool)][order]
    stored = stored.take(pa.array(rows))
    hidden = _late_masks(layout, stored, now)
    if is_pending.any():
        for name in layout.columns:
            if name not in pending.columns:
                hidden[name] = hidden.get(name, np.zeros(len(rows), dtype=bool)) | is_pending
    opaque = np.r_[np.zeros(len(known), dtype=np.int64), numbers][order]
    ids = pc.if_else(pa.array(is_pending), numbered_ids(layout.spec.name, opaque), row_ids(layout.spec, stored))
    return _hand_out(layout, stored, ids, as_of, hidden, ()), times


def _pending_heads(
    layout: TableLayout, pending: PendingRows, stored: pa.RecordBatch, visible: Mask, now: int
) -> tuple[npt.NDArray[np.int64], Times, npt.NDArray[np.int64]]:
    """Return, per pending group, its first row, its time and its number."""
    words = fingerprints(stored, pending.group, f"{layout.spec.name} pending")
    groups, group = np.unique(words, return_inverse=True)
    starts = np.full(len(groups), np.iinfo(np.int64).max)
    np.minimum.at(starts, group, _clock(stored, PENDING))
    shown = starts <= now
    shown[group[visible]] = False
    shown[group[_is_reflex(pending, stored)]] = False
    first = np.full(len(groups), stored.num_rows)
    np.minimum.at(first, group, np.arange(stored.num_rows))
    return first[shown], starts[shown], row_numbers(groups[shown])


def _is_reflex(pending: PendingRows, stored: pa.RecordBatch) -> Mask:
    """Return which rows are tests that are only done because of a result."""
    mask = np.zeros(stored.num_rows, dtype=bool)
    if pending.reflex_column is not None:
        texts = stored.column(pending.reflex_column)
        for pattern in pending.reflex_patterns:
            found = pc.match_substring(texts, pattern, ignore_case=True).fill_null(False)
            mask |= found.to_numpy(zero_copy_only=False)
    return mask
