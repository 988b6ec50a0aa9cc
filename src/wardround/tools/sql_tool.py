"""The SQL tool: one statement through the gate, shown as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wardround.tools.render import table_page
from wardround.tools.sql_gate import SqlAnswer
from wardround.tools.table_view import as_cell, format_number
from wardround.tools.tool import ToolResult

if TYPE_CHECKING:
    from wardround.tools.environment import Environment


def run_sql_query(environment: Environment, *, sql_query: str, offset: int = 0) -> ToolResult:
    """The rows of one SELECT over the chart's tables."""
    answer = environment.gate.query(sql_query)
    cells = [tuple(map(_cell, row)) for row in answer.rows]
    cursor_at = environment.continuation(run_sql_query, {"sql_query": sql_query})
    note = f"cut at {len(cells):,} rows: there are more, aggregate or add WHERE" if answer.truncated else ""
    text, shown, cursor = table_page(
        environment, "result", answer.columns, cells, offset=offset, cursor_at=cursor_at, note=note
    )
    return ToolResult(
        text=text,
        row_ids=_row_ids(environment, answer, offset, shown),
        rows_total=None if answer.truncated else len(cells),
        rows_shown=shown,
        cursor=cursor,
    )


def _row_ids(environment: Environment, answer: SqlAnswer, offset: int, shown: int) -> tuple[str, ...]:
    """The row ids that the shown rows carry in a column."""
    tables = set(environment.chart.table_names)
    found = dict.fromkeys(
        value
        for row in answer.rows[offset : offset + shown]
        for value in row
        if isinstance(value, str) and ":" in value and value.partition(":")[0] in tables
    )
    return tuple(found)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return format_number(value)
    return as_cell(value) if isinstance(value, str) else str(value)
