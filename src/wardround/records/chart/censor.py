"""Censor a table's stored rows at a moment. Every leak rule of the chart is applied here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import UserError
from wardround.core.table import Table, as_html
from wardround.records.rules.language import NO_TIME, Times
from wardround.records.shards.layout import (
    AVAILABLE,
    EVENT,
    GROUP,
    NEVER_TIME,
    PENDING,
    PUBLISHED,
    UNTIL,
    VERSION,
    TableLayout,
)
from wardround.records.shards.row_ids import numbered_ids
from wardround.records.specs.spec import AgeColumns, PendingRows, TableSpec, integers, microseconds

Mask = npt.NDArray[np.bool_]
Cut = tuple[pa.RecordBatch, Times]
_AGE_CEILING = 90
NEWEST_ROWS = 10
"""Rows of a table that a notebook shows."""
_LONGEST_CELL = 200
_NO_TIMES = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTable:
    """The visible rows of one table, ordered by event time, then key. ``event_time`` is NaT for static rows."""

    name: str
    spec: TableSpec
    batch: pa.RecordBatch
    event_time: npt.NDArray[np.datetime64]

    @property
    def num_rows(self) -> int:
        """The number of visible rows."""
        return int(self.batch.num_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names, ``row_id`` first."""
        return tuple(self.batch.schema.names)

    def to_arrow(self) -> pa.Table:
        """Return the visible rows, ``event_time`` (null for static rows) after ``row_id``."""
        times = pa.array(self.event_time, pa.timestamp("us"))
        return pa.Table.from_batches([self.batch.add_column(1, pa.field("event_time", times.type), times)])

    def to_pandas(self) -> Any:
        """Return the visible rows as a pandas DataFrame, ``event_time`` after ``row_id``. UserError: no pandas."""
        return as_frame(self.to_arrow())

    def newest(self, number: int) -> pa.Table:
        """Return the newest rows in the form of :meth:`to_arrow`, newest first."""
        rows = self.to_arrow()
        return rows.take(np.arange(rows.num_rows)[::-1][:number])

    def __repr__(self) -> str:
        return f"ChartTable({self.name!r}: {self.num_rows:,} rows of {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        newest = self.newest(NEWEST_ROWS)
        rows = [list(map(_cell, row.values())) for row in newest.to_pylist()]
        return as_html(Table(header=newest.column_names, rows=rows))


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 3]}..."


@cache
def chart_template(name: str) -> jinja2.Template:
    """Return a template of a chart's HTML for notebooks; every cell is escaped, since records may hold any text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("wardround.records.chart", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def as_frame(table: pa.Table) -> Any:
    """Return a table as a pandas DataFrame. UserError: pandas is not installed."""
    try:
        return table.to_pandas()
    except ModuleNotFoundError as error:
        raise UserError("a data frame needs pandas: pip install pandas (to_arrow() does without)") from error


def censored(layout: TableLayout, stored: pa.RecordBatch | None, as_of: datetime, now: int) -> Cut:
    """Policy ``known_at``: return the visible rows with late cells nulled, and their event times."""
    if stored is None:
        return layout.empty(), _NO_TIMES
    event = clock(stored, EVENT)
    visible = (clock(stored, AVAILABLE) <= now) & (event <= now) & holds(stored, now)
    if layout.spec.pending is not None:
        heads = ~visible & (clock(stored, PENDING) <= now)
        if heads.any():
            return _with_pending(
                layout, layout.spec.pending, stored, visible=visible, ordered=heads, event=event, as_of=as_of, now=now
            )
    stored, event = _select(stored, visible, event)
    batch = hand_out(layout, stored, as_of, late_masks(layout, stored, now), ())
    return pa.concat_batches([batch]), event.copy()  # a slice would keep the memory of rows that were cut away


def published(layout: TableLayout, stored: pa.RecordBatch | None, as_of: datetime, now: int) -> Cut:
    """Policy ``published``: return the rows visible by the papers' clock, without the columns that they drop."""
    papers = layout.spec.published
    if stored is None:
        return layout.empty(papers.hide), _NO_TIMES
    event = clock(stored, EVENT)
    stored, event = _select(stored, first_versions(stored), event)
    if papers.time is not None:
        times = clock(stored, PUBLISHED)
        stored, event = _select(stored, times <= now if papers.operator == "<=" else times < now, event)
    return pa.concat_batches([hand_out(layout, stored, as_of, {}, papers.hide)]), event.copy()  # as above


def clock(stored: pa.RecordBatch, name: str) -> Times:
    """Return a clock column; a late cell's time column that the file lacks counts as never."""
    place = stored.schema.get_field_index(name)
    return microseconds(stored.column(place)) if place >= 0 else np.full(stored.num_rows, NO_TIME, dtype=np.int64)


def holds(stored: pa.RecordBatch, now: int | Times) -> Mask:
    """Return which rows were neither replaced by a later version nor withdrawn by a moment (one, or one per row)."""
    place = stored.schema.get_field_index(UNTIL)
    if place < 0:
        return np.ones(stored.num_rows, dtype=bool)
    return np.asarray(microseconds(stored.column(place)) > now)


def first_versions(stored: pa.RecordBatch) -> Mask:
    """Return which rows are the first version of their key."""
    place = stored.schema.get_field_index(VERSION)
    if place < 0:
        return np.ones(stored.num_rows, dtype=bool)
    return np.asarray(integers(stored.column(place), null=0) == 0)


def _select(stored: pa.RecordBatch, visible: Mask, event: Times) -> tuple[pa.RecordBatch, Times]:
    """Keep visible rows; without a copy if they are all rows, or the first ones."""
    count = int(np.count_nonzero(visible))
    if count == len(visible):
        return stored, event
    if visible[:count].all():
        return stored.slice(0, count), event[:count]
    return stored.filter(pa.array(visible)), event[visible]


def late_masks(layout: TableLayout, stored: pa.RecordBatch, now: int | Times) -> dict[str, Mask]:
    """Return by column which cells are not known yet; fully known columns are left out.

    ``now``: one moment, or one per row.
    """
    masks: dict[str, Mask] = {}
    for group in layout.late:
        times = clock(stored, group.clock)
        unknown = (times > now) | (times == NO_TIME)
        if unknown.any():
            masks.update(dict.fromkeys(group.columns, unknown))
    return masks


def hand_out(
    layout: TableLayout,
    stored: pa.RecordBatch,
    as_of: datetime,
    hidden: dict[str, Mask],
    hide: tuple[str, ...],
) -> pa.RecordBatch:
    """Build the batch that leaves the store: ids, then public columns, cells under ``hidden`` nulled."""
    view = layout.view(stored, hide)
    batch = stored.select(view.places)
    for place, name in view.added:
        join = layout.joined.get(name)
        if join is not None:
            array = join.source.take(stored.column(stored.schema.get_field_index(join.places)))
        else:
            assert layout.spec.age is not None
            array = age_in_years(layout.spec.age, stored, as_of)
        batch = batch.add_column(place, view.schema.field(place), array)
    rows = np.arange(stored.num_rows)
    kept = {id(mask): pa.array(rows, mask=mask) for mask in hidden.values()}
    for name, mask in hidden.items():
        if name in view.position:
            place = view.position[name]
            array = batch.column(place).take(kept[id(mask)])  # a null alone would leave the cell's bytes in memory
            batch = batch.set_column(place, view.schema.field(place), array)
    return batch


def age_in_years(columns: AgeColumns, stored: pa.RecordBatch, as_of: datetime) -> Any:
    """Return ages at ``as_of``; 90 means 90 and older, null if not recorded."""
    births, known, years = _births(columns, stored)
    ages = [_age(*cells, as_of) for cells in zip(births, known, years, strict=True)]
    return pa.array(ages, pa.int64())


def birth_dates(columns: AgeColumns, stored: pa.RecordBatch) -> list[date | None]:
    """Return dates of birth; for an age known in some year, the first day of the implied year."""
    births, known, years = _births(columns, stored)
    anchors = [None if age is None or year is None else year - age for age, year in zip(known, years, strict=True)]
    return [birth or _birth(year, None, None) for birth, year in zip(births, anchors, strict=True)]


def _births(columns: AgeColumns, stored: pa.RecordBatch) -> tuple[list[Any], list[Any], list[Any]]:
    births, known, years = (_cells(stored, name) for name in (columns.birth, columns.anchor_age, columns.anchor_year))
    if columns.birth_year is not None:
        parts = (_cells(stored, name) for name in (columns.birth_year, columns.birth_month, columns.birth_day))
        births = [whole or _birth(*cells) for whole, *cells in zip(births, *parts, strict=True)]
    return births, known, years


def _birth(year: int | None, month: int | None, day: int | None) -> date | None:
    """Return a date of birth from its parts; an impossible day becomes the first of its month or year."""
    for parts in ((year, month or 1, day or 1), (year, month or 1, 1), (year, 1, 1)):
        try:
            return None if year is None else date(parts[0] or 0, parts[1], parts[2])
        except ValueError:
            continue
    return None


def _cells(stored: pa.RecordBatch, name: str | None) -> list[Any]:
    place = stored.schema.get_field_index(name) if name is not None else -1
    return list(stored.column(place).to_pylist()) if place >= 0 else [None] * stored.num_rows


def _age(birth: date | None, known: int | None, year: int | None, as_of: datetime) -> int | None:
    if birth is not None:
        age = as_of.year - birth.year - ((as_of.month, as_of.day) < (birth.month, birth.day))
    elif known is not None and year is not None:
        age = known + as_of.year - year
    else:
        return None
    return None if age < 0 else min(age, _AGE_CEILING)


def _with_pending(
    layout: TableLayout,
    pending: PendingRows,
    stored: pa.RecordBatch,
    *,
    visible: Mask,
    ordered: Mask,
    event: Times,
    as_of: datetime,
    now: int,
) -> Cut:
    """Add a row with only the order's columns for every group that is ordered and has no result yet."""
    heads, starts, numbers = _pending_heads(stored, visible, ordered)
    known = np.flatnonzero(visible)
    rows, times = np.concatenate([known, heads]), np.concatenate([event[known], starts])
    order = np.argsort(times, kind="stable")
    rows, times, is_pending = rows[order], times[order], order >= len(known)
    stored = stored.take(pa.array(rows))
    hidden = late_masks(layout, stored, now)
    if len(heads):
        for name in layout.columns:
            if name not in pending.columns:
                hidden[name] = hidden[name] | is_pending if name in hidden else is_pending
    opaque = np.concatenate([np.zeros(len(known), dtype=np.int64), numbers])[order]
    ids = pc.if_else(pa.array(is_pending), numbered_ids(layout.spec.name, opaque), stored.column(0))
    return hand_out(layout, stored.set_column(0, "row_id", ids), as_of, hidden, ()), times


def _pending_heads(
    stored: pa.RecordBatch, visible: Mask, ordered: Mask
) -> tuple[npt.NDArray[np.int64], Times, npt.NDArray[np.int64]]:
    """Return first row, time and number of every pending group, by time and number."""
    group = integers(stored.column(stored.schema.get_field_index(GROUP)), null=0)
    start = clock(stored, PENDING)
    shown = set(group[visible].tolist())
    first: dict[int, int] = {}
    starts: dict[int, int] = {}
    for row in np.flatnonzero(ordered).tolist():
        number = int(group[row])
        if number not in shown:
            first.setdefault(number, row)
            starts[number] = min(starts.get(number, NEVER_TIME), int(start[row]))
    numbers = sorted(first, key=lambda number: (starts[number], number))
    columns = ([first[n] for n in numbers], [starts[n] for n in numbers], numbers)
    heads, times, names = (np.array(column, dtype=np.int64) for column in columns)
    return heads, times, names
