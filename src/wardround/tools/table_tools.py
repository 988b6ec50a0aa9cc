"""Tools about tables: which there are, what their columns mean."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from wardround.core import format_time
from wardround.tools.main_columns import filing_column
from wardround.tools.page import Page
from wardround.tools.render import table_page
from wardround.tools.result import ToolResult
from wardround.tools.session import Session
from wardround.tools.signature import tool
from wardround.tools.table_view import TableView, as_cell, describe_types

_LONGEST_DESCRIPTION = 110


@tool("table")
def get_table_names(session: Session, page: Page) -> ToolResult:
    """List the tables of this chart with their row counts, and the candidate tables."""
    chart = session.chart
    candidates = [
        (name, "candidates", f"{len(space.labels.labels):,}", "possible answers; look names up")
        for name, space in session.candidates.items()
    ]
    tables = _record_tables(session)
    empty: list[str] = []
    if session.aids.short_pages:
        header: tuple[str, ...] = ("table", "rows", "columns")
        empty = [name for name, _, count, _ in tables if count == "0"]
        rows: list[tuple[str, ...]] = [
            (name, count, _columns(session, name)) for name, _, count, _ in tables if count != "0"
        ]
        rows += [(name, count, f"candidate: {said}, or SELECT it") for name, _, count, said in candidates]
    else:
        header = ("table", "kind", "rows", "description")
        rows = [*tables, *candidates]
    clock = "" if chart.policy == "known_at" else f" ({chart.policy} clock)"
    name = f"tables of subject {chart.subject_id} as of {format_time(chart.as_of)}{clock}"
    note = f"empty: {', '.join(empty)}" if empty else ""
    text, shown, cursor = table_page(page, name, header, rows)
    return ToolResult(text=f"{text}\n{note}" if note else text, rows_total=len(rows), rows_shown=shown, cursor=cursor)


def _record_tables(session: Session) -> list[tuple[str, str, str, str]]:
    tables = (session.chart.table(name) for name in session.chart.table_names)
    return [(table.name, "record", f"{table.num_rows:,}", _brief(table.spec.description)) for table in tables]


def _columns(session: Session, name: str) -> str:
    """The main columns of a table that has rows, so that SQL can be written without asking for them."""
    table = session.chart.table(name)
    if not table.num_rows:
        return ""
    there = [column for column in table.columns if column != "row_id"]
    wanted = dict.fromkeys((*table.spec.default_columns, table.spec.value))  # the number too: texts do not compare
    main = [column for column in wanted if column in there] if table.spec.default_columns else there
    rest = len(there) - len(main)
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
    kinds = describe_types(view)
    rows = [(name, kinds[name], described.get(name, "")) for name in view.shown_columns]
    header = ("column", "type", "description")
    text, shown, cursor = table_page(page.of(table_name=view.name), f"columns of {view.name}", header, rows)
    if session.aids.short_pages:
        text = "\n".join((text, *_what_a_row_is(view)))
    return ToolResult(text=text, table=view.name, rows_total=len(rows), rows_shown=shown, cursor=cursor)


@tool("table")
def get_table_description(session: Session, *, table_name: str) -> ToolResult:
    """Say what a table holds and what one row of it is."""
    if session.is_candidate_table(table_name):
        space = session.space(table_name)
        return ToolResult(text=f"{space.name}: {len(space.labels.labels):,} possible answers, one per row.")
    view = session.view(table_name)
    return ToolResult(text="\n".join(_about(session, view)), table=view.name)


def _what_a_row_is(view: TableView) -> list[str]:
    """What a table holds, one row of which key, filed how late, in lines."""
    spec = view.table.spec
    delay = _usual_delay(view)
    return [
        *([f"{view.name}: {_brief(spec.description)}"] if spec.description else []),
        *([f"one row per: {', '.join(spec.key)}"] if spec.key else []),
        *([delay] if delay else []),
    ]


def _about(session: Session, view: TableView) -> list[str]:
    """What a table holds, in lines."""
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
    """How long after their time the rows of this chart were filed, by those that are on it."""
    filed = filing_column(view.table.spec)
    if filed is None or filed not in view.columns:
        return ""
    times = np.asarray(view.table.batch.column(filed).cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0))
    known = (times > 0) & (view.times > 0)
    if not known.any():
        return ""
    minutes = float(np.median(times[known] - view.times[known])) / 60e6
    said = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    return f"usual delay: a row is filed {said} after its time (median of the {int(known.sum()):,} rows here)"


def _brief(text: str) -> str:
    line = as_cell(text) if text else ""
    return line if len(line) <= _LONGEST_DESCRIPTION else line[: _LONGEST_DESCRIPTION - 3] + "..."
