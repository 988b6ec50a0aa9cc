"""Tools that read rows of the chart, also by SQL, tools about its tables, and clinical scores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from wardround.clinical.definitions import DEFINITIONS, score_at
from wardround.core import ToolFailure, UserError, format_time, from_microseconds, parse_time_bound, to_microseconds
from wardround.core.errors import shortened
from wardround.core.messages import estimate_tokens
from wardround.tools.definition import Range, tool
from wardround.tools.render import SEPARATOR, cell_limit, long_text, rows_page, table_page
from wardround.tools.session import Page, Session, ToolResult
from wardround.tools.sql_gate import SqlAnswer
from wardround.tools.table_view import TableView, as_cell, column_kind, format_number

StartTime = Annotated[str, "YYYY-MM-DD[ HH:MM:SS]."]
EndTime = Annotated[str, "Included; a date is its whole day."]


@tool("record")
def get_records_by_time(
    session: Session, page: Page, *, table_name: str, start_time: StartTime = "", end_time: EndTime = ""
) -> ToolResult:
    """Rows of a table whose time lies in a range, oldest first; all rows without a range."""
    view = session.view(table_name)
    start, end = _range(start_time, end_time)
    rows, untimed = view.rows_between(start, end)
    if not view.has_times and view.num_rows:
        raise ToolFailure(
            f"the rows of {view.name!r} have no time. Use get_latest_records, get_records_by_keyword or run_sql_query."
        )
    note = f"{untimed:,} rows without a time not shown" if untimed else ""
    if not len(rows):
        return _none(view, f"between {_bound(start, 'the start')} and {_bound(end, 'now')}")
    return rows_page(session, page.of(table_name=view.name), view, rows, note=note)


@tool("record")
def get_event_counts_by_time(
    session: Session, page: Page, *, start_time: StartTime = "", end_time: EndTime = ""
) -> ToolResult:
    """For every table the number of rows in a time range, with first and last time."""
    start, end = _range(start_time, end_time)
    rows, none, static = [], [], []
    for name in session.chart.table_names:
        view = session.view(name)
        found, _ = view.rows_between(start, end)
        if len(found):
            first, _, last = view.span(found).partition(" to ")
            rows.append((name, f"{len(found):,}", first, last or first))
        elif view.num_rows and not view.has_times:
            static.append(name)
        else:
            none.append(name)
    note = f"between {_bound(start, 'the start')} and {_bound(end, 'now')}"
    text, shown, cursor = table_page(page, "event counts", ("table", "rows", "first", "last"), rows, note=note)
    tail = [f"no rows: {', '.join(none)}"] if none else []
    tail += [f"rows without a time: {', '.join(static)}"] if static else []
    return ToolResult(text="\n".join((text, *tail)), rows_total=len(rows), rows_shown=shown, cursor=cursor)


@tool("record")
def get_latest_records(session: Session, page: Page, *, table_name: str) -> ToolResult:
    """Rows at the latest time of a table."""
    view = session.view(table_name)
    if not view.num_rows:
        return _none(view, "")
    if view.has_times:
        rows = np.flatnonzero(view.times == view.times.max()).astype(np.int32)
        note = f"the latest of {view.num_rows:,}"
    else:
        rows, note = np.arange(view.num_rows, dtype=np.int32), "rows have no time, all shown"
    return rows_page(session, page.of(table_name=view.name), view, rows, note=note)


@tool("record")
def get_records_by_keyword(session: Session, page: Page, *, table_name: str, keyword: str) -> ToolResult:
    """Rows of a table in which any cell contains a text (literal, case ignored)."""
    view = session.view(table_name)
    wanted = keyword.strip().casefold()
    if not wanted:
        raise ToolFailure("get_records_by_keyword: 'keyword' is empty; give the text to look for.")
    found = np.zeros(view.num_rows, dtype=bool)
    holding = []
    for column in view.shown:
        hits = column.containing(wanted)
        if hits.any():
            holding.append(column.name)
            found |= hits
    rows = np.flatnonzero(found).astype(np.int32)
    if not len(rows):
        return _none(view, f"containing {shortened(keyword)!r}")
    return rows_page(session, page.of(table_name=view.name), view, rows, focus=wanted, keep=holding)


@tool("record")
def get_records_by_value(
    session: Session,
    page: Page,
    *,
    table_name: str,
    column_name: str,
    value: Annotated[str | None, "A date is its whole day in a time column."],
) -> ToolResult:
    """Rows of a table whose column equals a value (numbers by size, text without case, null for empty cells)."""
    value = "null" if value is None else value
    view = session.view(table_name)
    column = view.column(session.column(view, column_name))
    rows = np.flatnonzero(column.equal_to(value)).astype(np.int32)
    if not len(rows):
        return _none(view, f"with {column.name} = {value!r}{_near_values(column.texts, value)}")
    page = page.of(table_name=view.name, column_name=column.name, value=value)
    return rows_page(session, page, view, rows, keep=[column.name])


@tool("record")
def get_unique_values(session: Session, page: Page, *, table_name: str, column_name: str) -> ToolResult:
    """Distinct values of a column with their counts, most frequent first."""
    view = session.view(table_name)
    column = view.column(session.column(view, column_name))
    counts, nulls = column.counts()
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (-int(counts[number]), column.texts[number]))
    rows = [(_shorten(column.cells[number]), str(counts[number])) for number in order]
    note = f"distinct values in {view.num_rows:,} rows" + (f", {nulls:,} of them empty" if nulls else "")
    page = page.of(table_name=view.name, column_name=column.name)
    text, shown, cursor = table_page(page, f"{view.name}.{column.name}", (column.name, "count"), rows, note=note)
    return ToolResult(text=text, table=view.name, rows_total=len(rows), rows_shown=shown, cursor=cursor)


def _none(view: TableView, condition: str) -> ToolResult:
    """Return the message that nothing was found, and what exists instead."""
    if not view.num_rows:
        rest = "the table is empty"
    else:
        span = view.span(np.arange(view.num_rows, dtype=np.int32))
        rest = f"the table has {view.num_rows:,} row{'' if view.num_rows == 1 else 's'}" + (f", {span}" if span else "")
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


# Tools about tables: their names, and the meanings of their columns.


_LONGEST_DESCRIPTION = 110


@tool("table")
def get_table_names(session: Session, page: Page) -> ToolResult:
    """List the tables of this chart with their row counts, and the candidate tables."""
    chart = session.chart
    candidates = [
        (name, "candidates", f"{len(space.labels.labels):,}", "possible answers; look names up")
        for name, space in session.candidates.items()
    ]
    tables = [
        (table.name, "record", f"{table.num_rows:,}", _brief(table.spec.description))
        for table in map(chart.table, chart.table_names)
    ]
    empty: list[str] = []
    if session.aids.short_pages:
        header: tuple[str, ...] = ("table", "rows", "columns")
        empty = [name for name, _, count, _ in tables if count == "0"]
        rows: list[tuple[str, ...]] = [
            (name, count, _columns(session, name)) for name, _, count, _ in tables if count != "0"
        ]
        rows += [(name, count, f"candidate: {label_kind}, or SELECT it") for name, _, count, label_kind in candidates]
    else:
        header = ("table", "kind", "rows", "description")
        rows = [*tables, *candidates]
    clock = "" if chart.policy == "known_at" else f" ({chart.policy} clock)"
    name = f"tables of subject {chart.subject_id} as of {format_time(chart.as_of)}{clock}"
    note = f"empty: {', '.join(empty)}" if empty else ""
    text, shown, cursor = table_page(page, name, header, rows)
    return ToolResult(text=f"{text}\n{note}" if note else text, rows_total=len(rows), rows_shown=shown, cursor=cursor)


def _columns(session: Session, name: str) -> str:
    """Return the main columns of a table that has rows, so that SQL can be written without another call."""
    table = session.chart.table(name)
    if not table.num_rows:
        return ""
    columns = [column for column in table.columns if column != "row_id"]
    wanted = dict.fromkeys((*table.spec.default_columns, table.spec.value))  # the number too: texts do not compare
    main = [column for column in wanted if column in columns] if table.spec.default_columns else columns
    rest = len(columns) - len(main)
    return ", ".join(main) + (f" (+{rest})" if rest else "")


@tool("table")
def get_column_names(session: Session, page: Page, *, table_name: str) -> ToolResult:
    """List the columns of a table with type and meaning, and say what a row is."""
    if session.is_candidate_table(table_name):
        return ToolResult(
            text=f"{table_name}: 1 row\ncolumn | type | description\ncandidate | text | a possible answer"
        )
    view = session.view(table_name)
    described = view.table.spec.describe or {}
    schema = view.table.batch.schema
    rows = [(name, column_kind(schema.field(name).type), described.get(name, "")) for name in view.shown_columns]
    header = ("column", "type", "description")
    text, shown, cursor = table_page(page.of(table_name=view.name), f"columns of {view.name}", header, rows)
    if session.aids.short_pages:
        spec, delay = view.table.spec, _usual_delay(view)
        about = (
            f"{view.name}: {_brief(spec.description)}" if spec.description else "",
            f"one row per: {', '.join(spec.key)}" if spec.key else "",
            delay,
        )
        text = "\n".join((text, *filter(None, about)))
    return ToolResult(text=text, table=view.name, rows_total=len(rows), rows_shown=shown, cursor=cursor)


@tool("table")
def get_table_description(session: Session, *, table_name: str) -> ToolResult:
    """Say what a table holds and what one row of it is."""
    if session.is_candidate_table(table_name):
        space = session.space(table_name)
        return ToolResult(text=f"{space.name}: {len(space.labels.labels):,} possible answers, one per row.")
    view = session.view(table_name)
    return ToolResult(text="\n".join(_about(session, view)), table=view.name)


def _about(session: Session, view: TableView) -> list[str]:
    """Return what a table contains, in lines."""
    spec = view.table.spec
    lines = [f"{view.name}: {spec.description or 'no description'}"]
    if spec.key:
        lines.append(f"one row per: {', '.join(spec.key)}")
    roles = [
        f"{role}={column}"
        for role in ("code", "label", "value", "text", "unit", "encounter")
        if (column := getattr(spec, role, None)) and column in view.columns
    ]
    if roles:
        lines.append("main columns: " + ", ".join(roles))
    if session.aids.short_pages and (delay := _usual_delay(view)):
        lines.append(delay)
    lines.append(f"rows known at {format_time(session.chart.as_of)}: {view.num_rows:,}")
    return lines


def _usual_delay(view: TableView) -> str:
    """Return how long after their time the rows of this chart were filed, from the rows on it."""
    filed = view.filing_column
    if filed is None or filed not in view.columns:
        return ""
    times = np.asarray(view.table.batch.column(filed).cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0))
    known = (times > 0) & (view.times > 0)
    if not known.any():
        return ""
    minutes = float(np.median(times[known] - view.times[known])) / 60e6
    delay = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    return f"usual delay: a row is filed {delay} after its time (median of the {int(known.sum()):,} rows here)"


def _brief(text: str) -> str:
    line = as_cell(text) if text else ""
    return line if len(line) <= _LONGEST_DESCRIPTION else line[: _LONGEST_DESCRIPTION - 3] + "..."


@tool("table")
def load_ehr(
    session: Session,
    *,
    timestamp: Annotated[str | None, "Optional; the record is always as of the time of the question."] = None,
) -> str:
    """Open the patient's record as of the time of the question. It is open already: calling this only says so."""
    return (
        f"The record of subject {session.chart.subject_id} is open as of {format_time(session.chart.as_of)}; neither "
        f"can be changed. Tables: {', '.join(session.chart.table_names)}. get_table_description tells what one holds."
    )


@tool("inner")
def get_next_page(session: Session, *, cursor: str) -> ToolResult:
    """Continue an earlier result (rows, or a long text) from the cursor it gave."""
    return session.cursors.resume(cursor)


# The SQL tool: one statement through the gate, shown in pages; long cells are cut with a cursor, as everywhere.


_LONGEST_NAME = 80


@tool("record")
def run_sql_query(session: Session, page: Page, *, sql_query: str) -> ToolResult:
    """Run one read-only SQLite SELECT over this chart's tables (column row_id in each: select row_id to cite a row;
    candidate tables have only the column candidate). Times are text 'YYYY-MM-DD HH:MM:SS'; 'now' is the time of the
    chart."""
    answer = session.gate.query(sql_query)
    header = tuple(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..." for name in answer.columns)
    if estimate_tokens(SEPARATOR.join(header)) > page.tokens // 2:
        raise ToolFailure(
            f"the result has {len(header)} columns, too many to show; select fewer, or give them short names."
        )
    note = f"cut at {len(answer.rows):,} rows: there are more, aggregate or add WHERE" if answer.truncated else ""
    cells = _Cells(session, page, sql_query, answer)
    text, shown, cursor = table_page(page, "result", header, cells, note=note, whole=cells.whole)
    return ToolResult(
        text=text,
        table=", ".join(name for name in answer.tables if name not in session.candidates) or None,
        row_ids=_row_ids(session, answer, page.offset, shown),
        rows_total=None if answer.truncated else len(answer.rows),
        rows_shown=shown,
        cursor=cursor,
    )


class _Cells(Sequence[tuple[str, ...]]):
    """The rows of an answer as cells, made only for the rows that are shown."""

    def __init__(self, session: Session, page: Page, sql: str, answer: SqlAnswer) -> None:
        self._session, self._page, self._sql, self._answer = session, page, sql, answer
        self._limit = cell_limit(page.tokens, len(answer.rows))

    def __len__(self) -> int:
        return len(self._answer.rows)

    def __getitem__(self, row: Any) -> Any:
        values = self._answer.rows[row]
        return tuple(self._cell(row, column, value) for column, value in enumerate(values))

    def whole(self, row: int) -> tuple[str, ...]:
        """Return a row uncut."""
        return tuple(map(value_text, self._answer.rows[row]))

    def _cell(self, row: int, column: int, value: object) -> str:
        if not isinstance(value, str):
            return value_text(value)
        if len(value) <= self._limit:
            return as_cell(value)
        cursor = _text_cell(self._session, self._page, self._sql, row, column).cursor(self._limit)
        return f"{as_cell(value[: self._limit])} [{len(value) - self._limit:,} more characters: cursor={cursor}]"


def _text_cell(session: Session, page: Page, sql: str, row: int, column: int) -> Page:
    """Return the page of a long text in a cell of an answer. Reading it runs the statement again."""

    def made_by(page: Page) -> ToolResult:
        answer = session.gate.query(sql)
        text, cursor = long_text(
            page, f"result row {row + 1}, column {column + 1}", value_text(answer.rows[row][column])
        )
        row_ids = _row_ids(session, answer, row, 1)
        return ToolResult(text=text, row_ids=row_ids, rows_total=1, rows_shown=1, cursor=cursor)

    return page.part(made_by, "sql text", sql, row, column)


def _row_ids(session: Session, answer: SqlAnswer, offset: int, shown: int) -> tuple[str, ...]:
    """Return the row ids in a column of the shown rows."""
    tables = set(session.chart.table_names)
    found = dict.fromkeys(
        value
        for row in answer.rows[offset : offset + shown]
        for value in row
        if isinstance(value, str) and ":" in value and value.partition(":")[0] in tables
    )
    return tuple(found)


def value_text(value: object) -> str:
    """Return an SQLite value as text; null is empty."""
    if value is None:
        return ""
    if isinstance(value, float):
        return format_number(value)
    return f"x'{value.hex()[:200]}'" if isinstance(value, bytes) else str(value)


# ``get_clinical_score``: a published score of the patient as of the session's moment, with what it does not know.


_LONGEST_HOURS = 168


@tool("record")
def get_clinical_score(
    session: Session,
    *,
    name: Annotated[
        str,
        "Which: gcs, sofa, qsofa, sirs, kdigo, meld, urine_output, vasopressors, ventilation, "
        "suspicion_of_infection or sepsis3.",
    ],
    hours: Annotated[int, Range(0, _LONGEST_HOURS), "Look back so many hours; 0 for the published window."] = 0,
) -> str:
    """Compute a clinical score from the chart as it stands now: the worst values of the window that ends now. What was
    not charted is unknown: a score of which parts are missing is given as the least and the most that it can be."""
    try:
        found = score_at(session.chart, name.strip().lower(), hours=hours or None)
    except UserError as error:
        raise ToolFailure(str(error)) from None
    definition = DEFINITIONS[found.name]
    value = "unknown" if found.value is None else f"{found.value}"
    if found.bounds is not None and not found.bounds.is_exact:
        value = f"at least {found.bounds.low:g}, at most {found.bounds.high:g}"
    lines = [f"{definition.title} as of {format_time(found.as_of)}, last {found.hours} h: {value} ({definition.unit})"]
    lines += [f"{part}: {'unknown' if points is None else points}" for part, points in found.parts.items()]
    if found.unknown:
        lines.append(f"not charted: {', '.join(found.unknown)}")
    lines.append(f"published: doi {definition.doi}{f'; {definition.variant}' if definition.variant else ''}")
    return "\n".join(lines)
