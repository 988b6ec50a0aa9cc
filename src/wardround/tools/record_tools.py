"""Tools that read rows of the chart: by time, latest, by keyword, by value, distinct values, counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from wardround.core import ToolFailure, format_time, from_microseconds, parse_time_bound, to_microseconds
from wardround.tools.render import rows_page, span_text, table_page
from wardround.tools.sql_tool import run_sql_query
from wardround.tools.table_view import IntArray, TableView
from wardround.tools.tool import Tool, ToolResult

if TYPE_CHECKING:
    from wardround.tools.environment import Environment


def get_records_by_time(
    environment: Environment, *, table_name: str, start_time: str = "", end_time: str = "", offset: int = 0
) -> ToolResult:
    """Rows whose event time lies in a range, both ends included, in time order."""
    view = environment.view(table_name)
    start, end = _range(start_time, end_time)
    rows, untimed = view.rows_between(start, end)
    arguments = {"table_name": view.name, "start_time": start_time, "end_time": end_time}
    if not view.has_times and view.num_rows:
        raise ToolFailure(
            f"the rows of {view.name!r} have no time. Use get_latest_records, get_records_by_keyword or run_sql_query."
        )
    note = f"{untimed:,} rows without a time not shown" if untimed else ""
    if not len(rows):
        return _none(view, f"between {_bound(start, 'the start')} and {_bound(end, 'now')}")
    return _page(environment, view, rows, get_records_by_time, arguments, offset, note=note)


def get_latest_records(environment: Environment, *, table_name: str, offset: int = 0) -> ToolResult:
    """The rows at the latest event time of a table; all rows of a table without times."""
    view = environment.view(table_name)
    if not view.num_rows:
        return _none(view, "")
    if view.has_times:
        rows = np.flatnonzero(view.times == view.times.max()).astype(np.int32)
        note = f"the latest of {view.num_rows:,}"
    else:
        rows, note = np.arange(view.num_rows, dtype=np.int32), "rows have no time, all shown"
    return _page(environment, view, rows, get_latest_records, {"table_name": view.name}, offset, note=note)


def get_records_by_keyword(environment: Environment, *, table_name: str, keyword: str, offset: int = 0) -> ToolResult:
    """Rows in which any cell holds a text, literally and without regard to case."""
    view = environment.view(table_name)
    wanted = keyword.strip().casefold()
    if not wanted:
        raise ToolFailure("get_records_by_keyword: 'keyword' is empty; give the text to look for.")
    found = np.zeros(view.num_rows, dtype=bool)
    holding = []
    for column in view.columns_of(view.columns):
        hits = column.containing(wanted)
        if hits.any():
            holding.append(column.name)
            found |= hits
    rows = np.flatnonzero(found).astype(np.int32)
    if not len(rows):
        return _none(view, f"containing {keyword!r}")
    arguments = {"table_name": view.name, "keyword": keyword}
    return _page(environment, view, rows, get_records_by_keyword, arguments, offset, focus=wanted, keep=holding)


def get_records_by_value(
    environment: Environment, *, table_name: str, column_name: str, value: str | None, offset: int = 0
) -> ToolResult:
    """Rows whose cell in one column is a value: ``123`` is ``123.0``, text without case, ``null`` the empty cell."""
    value = "null" if value is None else value
    view = environment.view(table_name)
    column = view.column(environment.column(view, column_name))
    rows = np.flatnonzero(column.equal_to(value)).astype(np.int32)
    if not len(rows):
        return _none(view, f"with {column.name} = {value!r}{_near_values(column.texts, value)}")
    arguments = {"table_name": view.name, "column_name": column.name, "value": value}
    return _page(environment, view, rows, get_records_by_value, arguments, offset, keep=[column.name])


def get_unique_values(environment: Environment, *, table_name: str, column_name: str, offset: int = 0) -> ToolResult:
    """The distinct values of a column with how often each occurs, the most frequent first."""
    view = environment.view(table_name)
    column = view.column(environment.column(view, column_name))
    counts, nulls = column.counts()
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (-int(counts[number]), column.texts[number]))
    rows = [(_shorten(column.cells[number]), str(counts[number])) for number in order]
    arguments = {"table_name": view.name, "column_name": column.name}
    note = f"distinct values in {view.num_rows:,} rows" + (f", {nulls:,} of them empty" if nulls else "")
    cursor_at = environment.continuation(get_unique_values, arguments)
    name = f"{view.name}.{column.name}"
    text, shown, cursor = table_page(
        environment, name, (column.name, "count"), rows, offset=offset, cursor_at=cursor_at, note=note
    )
    return ToolResult(text=text, table=view.name, rows_total=len(rows), rows_shown=shown, cursor=cursor)


def get_event_counts_by_time(
    environment: Environment, *, start_time: str = "", end_time: str = "", offset: int = 0
) -> ToolResult:
    """For each table how many rows lie in a range of event time, and when the first and the last of them is."""
    start, end = _range(start_time, end_time)
    rows, none, static = [], [], []
    for name in environment.chart.table_names:
        view = environment.view(name)
        found, _ = view.rows_between(start, end)
        if len(found):
            first, _, last = span_text(view, found).partition(" to ")
            rows.append((name, f"{len(found):,}", first, last or first))
        elif view.num_rows and not view.has_times:
            static.append(name)
        else:
            none.append(name)
    note = f"between {_bound(start, 'the start')} and {_bound(end, 'now')}"
    cursor_at = environment.continuation(get_event_counts_by_time, {"start_time": start_time, "end_time": end_time})
    header = ("table", "rows", "first", "last")
    text, shown, cursor = table_page(
        environment, "event counts", header, rows, offset=offset, cursor_at=cursor_at, note=note
    )
    tail = [f"no rows: {', '.join(none)}"] if none else []
    tail += [f"rows without a time: {', '.join(static)}"] if static else []
    return ToolResult(text="\n".join((text, *tail)), rows_total=len(rows), rows_shown=shown, cursor=cursor)


def _page(
    environment: Environment,
    view: TableView,
    rows: IntArray,
    function: Callable[..., ToolResult],
    arguments: dict[str, Any],
    offset: int,
    *,
    note: str = "",
    focus: str = "",
    keep: Sequence[str] = (),
) -> ToolResult:
    cursor_at = environment.continuation(function, arguments)
    return rows_page(environment, view, rows, offset=offset, cursor_at=cursor_at, note=note, focus=focus, keep=keep)


def _none(view: TableView, condition: str) -> ToolResult:
    """Say that nothing was found, and what there is instead."""
    if not view.num_rows:
        rest = "the table is empty"
    else:
        span = span_text(view, np.arange(view.num_rows, dtype=np.int32))
        rest = f"the table has {view.num_rows:,} rows" + (f", {span}" if span else "")
    condition = f" {condition}" if condition else ""
    return ToolResult(text=f"{view.name}: 0 rows{condition}; {rest}.", table=view.name, rows_total=0, rows_shown=0)


def _range(start_time: str, end_time: str) -> tuple[int | None, int | None]:
    start, end = _moment(start_time, "start_time", start=True), _moment(end_time, "end_time", start=False)
    if start is not None and end is not None and start > end:
        raise ToolFailure(f"start_time {start_time!r} is after end_time {end_time!r}; swap them.")
    return start, end


def _moment(text: str, name: str, *, start: bool) -> int | None:
    if not text.strip():
        return None
    try:
        moment: datetime = parse_time_bound(text, start=start)
    except ValueError as error:
        raise ToolFailure(
            f"{name} {text!r} is not a time; write 'YYYY-MM-DD HH:MM:SS', or 'YYYY-MM-DD' for a whole day."
        ) from error
    return to_microseconds(moment)


def _bound(moment: int | None, open_end: str) -> str:
    return open_end if moment is None else format_time(from_microseconds(moment))


def _near_values(texts: list[str], value: str) -> str:
    from_table = [text for text in texts[:5000] if value.strip() and value.strip().casefold() in text.casefold()]
    if not from_table:
        return ""
    return "; values that contain it: " + ", ".join(repr(_shorten(text)) for text in from_table[:5])


def _shorten(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:180]} [{len(text) - 180:,} more characters]"


def _tool(name: str, description: str, function: Callable[..., ToolResult], **properties: dict[str, Any]) -> Tool:
    required = [key for key, schema in properties.items() if "default" not in schema]
    parameters = {"type": "object", "properties": properties, "required": required}
    return Tool(name=name, category="record", description=description, parameters=parameters, function=function)


_TABLE = {"type": "string", "description": "Name of a record table."}
_COLUMN = {"type": "string", "description": "Name of a column of the table."}
_START = {"type": "string", "default": "", "description": "YYYY-MM-DD[ HH:MM:SS]; empty: from the first record."}
_END = {
    "type": "string",
    "default": "",
    "description": "YYYY-MM-DD[ HH:MM:SS], included; a date is its whole day; empty: until now.",
}

RECORD_TOOLS: tuple[Tool, ...] = (
    _tool(
        "get_records_by_time",
        "Rows of a table whose time lies in a range, oldest first.",
        get_records_by_time,
        table_name=_TABLE,
        start_time=_START,
        end_time=_END,
    ),
    _tool(
        "get_event_counts_by_time",
        "For every table the number of rows in a time range, with first and last time.",
        get_event_counts_by_time,
        start_time=_START,
        end_time=_END,
    ),
    _tool("get_latest_records", "Rows at the latest time of a table.", get_latest_records, table_name=_TABLE),
    _tool(
        "get_records_by_keyword",
        "Rows of a table in which any cell contains a text (literal, case ignored).",
        get_records_by_keyword,
        table_name=_TABLE,
        keyword={"type": "string", "description": "Literal text."},
    ),
    _tool(
        "get_records_by_value",
        "Rows of a table whose column equals a value (numbers by size, text without case, null for empty cells).",
        get_records_by_value,
        table_name=_TABLE,
        column_name=_COLUMN,
        value={"type": ["string", "null"], "description": "The value; a date matches its whole day in a time column."},
    ),
    _tool(
        "run_sql_query",
        "Run one read-only SQLite SELECT over this chart's tables (column row_id in each: select row_id to cite a row; "
        "candidate tables have only the column candidate). Times are text 'YYYY-MM-DD HH:MM:SS'; 'now' is the time of "
        "the chart.",
        run_sql_query,
        sql_query={"type": "string", "description": "One SELECT statement."},
    ),
    _tool(
        "get_unique_values",
        "Distinct values of a column with their counts, most frequent first.",
        get_unique_values,
        table_name=_TABLE,
        column_name=_COLUMN,
    ),
)
