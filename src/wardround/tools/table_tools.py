"""Tools about tables: which there are, what their columns mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from wardround.core import format_time
from wardround.tools.main_columns import filing_column
from wardround.tools.render import table_page
from wardround.tools.table_view import TableView, as_cell, describe_types
from wardround.tools.tool import Tool, ToolResult

if TYPE_CHECKING:
    from wardround.tools.environment import Environment

_LONGEST_DESCRIPTION = 110


def get_table_names(environment: Environment, *, offset: int = 0) -> ToolResult:
    """List the chart's tables with row counts, and the candidate tables."""
    chart = environment.chart
    candidates = [
        (name, "candidates", f"{len(space.labels.labels):,}", "possible answers; search with get_candidates_*")
        for name, space in environment.candidates.items()
    ]
    tables = _record_tables(environment)
    empty: list[str] = []
    if environment.aids.short_pages:
        header: tuple[str, ...] = ("table", "rows", "columns")
        empty = [name for name, _, count, _ in tables if count == "0"]
        rows: list[tuple[str, ...]] = [
            (name, count, _columns(environment, name)) for name, _, count, _ in tables if count != "0"
        ]
        rows += [(name, count, f"candidate: {said}, or SELECT it") for name, _, count, said in candidates]
    else:
        header = ("table", "kind", "rows", "description")
        rows = [*tables, *candidates]
    cursor_at = environment.continuation(get_table_names, {})
    clock = "" if chart.policy == "known_at" else f" ({chart.policy} clock)"
    name = f"tables of subject {chart.subject_id} as of {format_time(chart.as_of)}{clock}"
    note = f"empty: {', '.join(empty)}" if empty else ""
    text, shown, cursor = table_page(environment, name, header, rows, offset=offset, cursor_at=cursor_at)
    return ToolResult(text=f"{text}\n{note}" if note else text, rows_total=len(rows), rows_shown=shown, cursor=cursor)


def _record_tables(environment: Environment) -> list[tuple[str, str, str, str]]:
    tables = (environment.chart.table(name) for name in environment.chart.table_names)
    return [(table.name, "record", f"{table.num_rows:,}", _brief(table.spec.description)) for table in tables]


def _columns(environment: Environment, name: str) -> str:
    """The main columns of a table that has rows, so that SQL can be written without asking for them."""
    table = environment.chart.table(name)
    if not table.num_rows:
        return ""
    there = [column for column in table.columns if column != "row_id"]
    wanted = dict.fromkeys((*table.spec.default_columns, table.spec.value))  # the number too: texts do not compare
    main = [column for column in wanted if column in there] if table.spec.default_columns else there
    rest = len(there) - len(main)
    return ", ".join(main) + (f" (+{rest})" if rest else "")


def get_column_names(environment: Environment, *, table_name: str, offset: int = 0) -> ToolResult:
    """List a table's columns with their types and meaning."""
    if environment.is_candidate_table(table_name):
        return ToolResult(
            text=f"{table_name}: 1 row\ncolumn | type | description\ncandidate | text | a possible answer"
        )
    view = environment.view(table_name)
    described = view.table.spec.describe or {}
    kinds = describe_types(view)
    rows = [(name, kinds[name], described.get(name, "")) for name in view.shown_columns]
    cursor_at = environment.continuation(get_column_names, {"table_name": view.name})
    name = f"columns of {view.name}"
    header = ("column", "type", "description")
    text, shown, cursor = table_page(environment, name, header, rows, offset=offset, cursor_at=cursor_at)
    return ToolResult(text=text, table=view.name, rows_total=len(rows), rows_shown=shown, cursor=cursor)


def get_table_description(environment: Environment, *, table_name: str) -> ToolResult:
    """Say what a table holds, what one row is, and which columns carry its code, label, value and text."""
    if environment.is_candidate_table(table_name):
        space = environment.space(table_name)
        return ToolResult(text=f"{space.name}: {len(space.labels.labels):,} possible answers, one per row.")
    view = environment.view(table_name)
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
    if environment.aids.short_pages and (delay := _usual_delay(view)):
        lines.append(delay)
    lines.append(f"rows known at {format_time(environment.chart.as_of)}: {view.num_rows:,}")
    return ToolResult(text="\n".join(lines), table=view.name)


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


_TABLE = {"type": "string", "description": "Name of a table."}

TABLE_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="get_table_names",
        category="table",
        description="List the tables of this chart with their row counts, and the candidate tables.",
        parameters={"type": "object", "properties": {}, "required": []},
        function=get_table_names,
    ),
    Tool(
        name="get_column_names",
        category="table",
        description="List the columns of a table with type and meaning.",
        parameters={"type": "object", "properties": {"table_name": _TABLE}, "required": ["table_name"]},
        function=get_column_names,
    ),
    Tool(
        name="get_table_description",
        category="table",
        description="Say what a table holds and what one row of it is.",
        parameters={"type": "object", "properties": {"table_name": _TABLE}, "required": ["table_name"]},
        function=get_table_description,
    ),
)
