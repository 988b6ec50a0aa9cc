"""The curated input of a question: what of a chart an evidence package shows, as text.

EHR-R1's package, on the chart as of the question: who the patient is, the present admission, the previous discharge
summary, and the latest events of a window, where one event is a run of rows of one table. Tables are found by their
roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from wardround.answers import CuratedWindow
from wardround.core import to_microseconds
from wardround.records import Chart, ChartTable
from wardround.retrieval.event_lines import EventLines, Places, time_texts
from wardround.retrieval.telling import tells

LINE_CHARACTERS = 4_000
"""Of one value: a report stands in a package as a whole."""
_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedInput:
    """``person`` and ``admission`` are cells as ``name: text``; ``summary`` is the previous discharge summary and when
    it was about. ``events``: a text each, of one line or more, with when each begins in ``begins`` (microseconds);
    ``events_left_out``: those of the window before the shown ones; ``first`` is when the first of all begins."""

    person: tuple[str, ...]
    admission: tuple[str, ...]
    summary: str
    summary_time: str
    events: tuple[str, ...]
    events_left_out: int
    start: datetime
    begins: tuple[int, ...] = ()
    first: int | None = None

    def shown_of(self, asked: int) -> tuple[float, float]:
        """Return the hours before ``asked`` that the shown events reach back, and those of all events."""
        whole = 0.0 if self.first is None else (asked - self.first) / _HOUR
        return (asked - self.begins[0]) / _HOUR if self.begins else 0.0, whole


def curated_input(chart: Chart, window: CuratedWindow) -> CuratedInput:
    """Read the package off a chart; what the chart does not show is not in it."""
    runs = _runs(chart, window)
    shown = runs[-window.most_events :]
    times = chart.event_columns().time
    summary, time = _last_summary(chart)
    return CuratedInput(
        person=_person(chart),
        admission=_admission(chart),
        summary=summary,
        summary_time=time,
        events=tuple(_texts(chart, shown)),
        events_left_out=len(runs) - len(shown),
        start=window.start,
        begins=tuple(int(times[run[0]]) for run in shown),
        first=int(times[runs[0][0]]) if runs else None,
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


def _runs(chart: Chart, window: CuratedWindow) -> list[Places]:
    """The events of the window, in order: rows that follow each other in time and are of one table are one event, as
    EHR-R1 counts. Summaries and admissions end a run and are parts of their own; details that stand in the line of
    another row are no rows here."""
    columns = chart.event_columns()
    inside = (columns.time >= to_microseconds(window.start)) & ~columns.is_static & ~columns.notes.shown_elsewhere
    places = np.flatnonzero(inside)
    if not len(places):
        return []
    table = columns.table[places]
    apart = {columns.table_names.index(name) for name in _parts_of_their_own(chart, columns.table_names)}
    runs = np.split(places, np.flatnonzero(table[1:] != table[:-1]) + 1)
    return [run for run in runs if int(columns.table[run[0]]) not in apart]


def _texts(chart: Chart, runs: Sequence[Places]) -> Iterator[str]:
    """The text of each event: a line for each moment and kind. Rows without a name or a value are left out; an event
    that has no other is told by its kind and how many they are."""
    columns = chart.event_columns()
    lines = EventLines(columns, line_characters=LINE_CHARACTERS)
    classes = np.array(columns.class_only, dtype=bool)[columns.concept] if len(columns) else np.empty(0, dtype=bool)
    named = tells(columns) | (classes & ~columns.notes.unnamed)
    for run in runs:
        said = lines.panels(run[named[run]])[1]
        time = time_texts(columns.time[run[:1]], columns.is_static[run[:1]])[0]
        yield "\n".join(said) or f"[{time}] {columns.kinds[columns.concept[run[0]]]} ({len(run):,} without a name)"


def _parts_of_their_own(chart: Chart, names: Sequence[str]) -> list[str]:
    roles = chart.spec.roles
    own = {role.table for role in roles.summary} | ({roles.admission.table} if roles.admission else set())
    return [name for name in names if name in own]
