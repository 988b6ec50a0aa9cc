"""The curated input of a question: what of a chart an evidence package shows, as text.

EHR-R1's package, on the chart as of the question: who the patient is, the present admission, the previous discharge
summary, and the latest events of a window. Tables are found by their roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from wardround.answers import CuratedWindow
from wardround.core import to_microseconds
from wardround.records import Chart, ChartTable
from wardround.retrieval.event_lines import EventLines
from wardround.retrieval.telling import tells

LINE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedInput:
    """``person`` and ``admission`` are cells as ``name: text``; ``summary`` is the previous discharge summary and when
    it was about. ``events_left_out``: those of the window before the shown ones."""

    person: tuple[str, ...]
    admission: tuple[str, ...]
    summary: str
    summary_time: str
    events: tuple[str, ...]
    events_left_out: int
    start: datetime


def curated_input(chart: Chart, window: CuratedWindow) -> CuratedInput:
    """Read the package off a chart; what the chart does not show is not in it."""
    events, left_out = _events(chart, window)
    summary, time = _last_summary(chart)
    return CuratedInput(
        person=_person(chart),
        admission=_admission(chart),
        summary=summary,
        summary_time=time,
        events=events,
        events_left_out=left_out,
        start=window.start,
    )


def _person(chart: Chart) -> tuple[str, ...]:
    """The cells of the tables that have no time, and the age."""
    static = [chart.table(name) for name in chart.table_names if chart.table(name).spec.is_static]
    return tuple(cell for table in static for row in range(table.num_rows) for cell in _cells(table, row))


def _admission(chart: Chart) -> tuple[str, ...]:
    """The latest stay in hospital that has begun."""
    role = chart.spec.roles.admission
    if role is None or role.table not in chart.table_names:
        return ()
    table = chart.table(role.table)
    return _cells(table, int(np.argmax(table.event_time))) if table.num_rows else ()


def _cells(table: ChartTable, row: int) -> tuple[str, ...]:
    hidden = {"row_id", table.spec.subject}
    names = [name for name in table.columns if name not in hidden]
    cells = ((name, table.batch.column(name)[row].as_py()) for name in names)
    return tuple(f"{name}: {cell}" for name, cell in cells if cell is not None)


def _last_summary(chart: Chart) -> tuple[str, str]:
    """The text of the latest discharge summary, and the day of it."""
    for role in chart.spec.roles.summary:
        if role.table not in chart.table_names or role.text is None:
            continue
        table = chart.table(role.table)
        if table.num_rows:
            last = int(np.argmax(table.event_time))
            return str(table.batch.column(role.text)[last].as_py() or ""), str(table.event_time[last])[:10]
    return "", ""


def _events(chart: Chart, window: CuratedWindow) -> tuple[tuple[str, ...], int]:
    """The latest events of the window, in order; a discharge summary is a part of its own and none of them. As in the
    published packages rows of one moment and kind are one event."""
    columns = chart.event_columns()
    summaries = [columns.table_names.index(name) for name in _summary_tables(chart, columns.table_names)]
    inside = (columns.time >= to_microseconds(window.start)) & ~columns.is_static
    places = np.flatnonzero(inside & tells(columns) & ~np.isin(columns.table, summaries))
    lines = EventLines(columns, line_characters=LINE_CHARACTERS)
    starts = np.append(np.flatnonzero(lines.panel_starts(places)), len(places))
    shown = starts[-1 - window.most_events :]
    return tuple(lines.panels(places[shown[0] :])[1]), len(starts) - len(shown)


def _summary_tables(chart: Chart, names: Sequence[str]) -> list[str]:
    return [role.table for role in chart.spec.roles.summary if role.table in names]
