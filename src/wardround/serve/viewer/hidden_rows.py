"""The rows and cells of a subject that were not yet known at a moment, for people.

An import contract allows only the viewer to import this: no agent, tool, scorer or export can use it by accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from wardround.clinical.bundles.files import END_OF_TIME
from wardround.core import from_microseconds
from wardround.records import Chart, Event, Store
from wardround.records.chart import stored_rows
from wardround.records.shards import AVAILABLE, VERSION
from wardround.records.specs import microseconds

HIDDEN_ROWS = 200
"""Rows of one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRow:
    """A row that was hidden: when it happened and when it was first known, None without such a time."""

    table: str
    happened: datetime | None
    known: datetime | None
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCell:
    """A cell of a visible row that had another value then; mostly it was still empty."""

    row_id: str
    column: str
    then: str
    later: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRows:
    """What a subject's record gained after a moment: rows by the time at which they were known, and cells of earlier
    rows."""

    as_of: datetime
    rows: Sequence[HiddenRow]
    cells: Sequence[ChangedCell]
    visible: int


def rows_hidden_at(store: Store, subject_id: int, as_of: datetime) -> HiddenRows:
    """Return the whole record of a subject without the part known at a moment (policy ``known_at``)."""
    then, later = store.chart(subject_id, as_of), store.chart(subject_id, END_OF_TIME)
    visible = {event.row_id for event in then.events()}
    known = dict(_known_times(store, subject_id))
    rows = [
        HiddenRow(table=event.table, happened=event.time, known=known.get(event.row_id), event=event)
        for event in later.events()
        if event.row_id not in visible
    ]
    rows.sort(key=lambda row: (row.known or END_OF_TIME, row.happened or END_OF_TIME, row.event.row_id))
    return HiddenRows(as_of=as_of, rows=rows, cells=tuple(_late_cells(then, later)), visible=len(visible))


def _known_times(store: Store, subject_id: int) -> Iterator[tuple[str, datetime]]:
    """Return when each row was first known; rows that always or never are have no such time."""
    for table in store.table_names:
        batch = store.rows(subject_id, table)
        times = microseconds(batch.column(batch.schema.get_field_index(AVAILABLE))).tolist()
        for row_id, time in zip(batch.column(0).to_pylist(), times, strict=True):
            moment = from_microseconds(time)
            if datetime.min.year < moment.year < END_OF_TIME.year:
                yield row_id, moment


def _late_cells(then: Chart, later: Chart) -> Iterator[ChangedCell]:
    """Return cells that differ in the whole record. Rows are matched by their ids, since their places differ."""
    for table in then.table_names:
        before, after = then.table(table).batch, later.table(table).batch
        row_ids, late = before.column("row_id").to_pylist(), _may_change(then, table)
        places = {row_id: place for place, row_id in enumerate(after.column("row_id").to_pylist())} if late else {}
        shared = [(n, places[row_id]) for n, row_id in enumerate(row_ids) if row_id in places]
        for name in (name for name in before.schema.names if shared and name in late):
            old, new = before.column(name).to_pylist(), after.column(name).to_pylist()
            yield from (
                ChangedCell(row_id=row_ids[n], column=name, then=_said(old[n]), later=_said(new[place]))
                for n, place in shared
                if old[n] != new[place]
            )


def _may_change(chart: Chart, table: str) -> set[str]:
    """Return the columns of a table that are filled late; all columns if its rows can be amended."""
    layout, stored = chart.layouts[table], stored_rows(chart, table)
    if stored is not None and VERSION in stored.schema.names:
        return set(layout.all_columns)
    return {name for group in layout.late for name in group.columns}


def _said(value: object) -> str:
    return "" if value is None else str(value)


def page_count(hidden: HiddenRows) -> int:
    """Return the number of pages of rows and cells, at least one."""
    return max(1, -(-max(len(hidden.rows), len(hidden.cells)) // HIDDEN_ROWS))


def page_of(hidden: HiddenRows, number: int) -> HiddenRows:
    """Return the rows and cells of a page, from 1."""
    part = slice((number - 1) * HIDDEN_ROWS, number * HIDDEN_ROWS)
    return replace(hidden, rows=hidden.rows[part], cells=hidden.cells[part])
