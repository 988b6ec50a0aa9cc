"""The SQL tool: one statement through the gate, shown in pages; long cells are cut with a cursor, as everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from wardround.core import ToolFailure
from wardround.core.tokens import estimate_tokens
from wardround.tools.render import SEPARATOR, cell_limit, long_text, table_page
from wardround.tools.sql_gate import SqlAnswer
from wardround.tools.table_view import as_cell, format_number
from wardround.tools.tool import ToolResult

if TYPE_CHECKING:
    from wardround.tools.environment import Environment

_LONGEST_NAME = 80


def run_sql_query(environment: Environment, *, sql_query: str, offset: int = 0) -> ToolResult:
    """The rows of one SELECT over the chart's tables."""
    answer = environment.gate.query(sql_query)
    header = tuple(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..." for name in answer.columns)
    if estimate_tokens(SEPARATOR.join(header)) > environment.max_result_tokens // 2:
        raise ToolFailure(
            f"the result has {len(header)} columns, too many to show; select fewer, or give them short names."
        )
    cursor_at = environment.continuation(run_sql_query, {"sql_query": sql_query})
    note = f"cut at {len(answer.rows):,} rows: there are more, aggregate or add WHERE" if answer.truncated else ""
    cells = _Cells(environment, sql_query, answer)
    text, shown, cursor = table_page(
        environment, "result", header, cells, offset=offset, cursor_at=cursor_at, note=note, whole=cells.whole
    )
    return ToolResult(
        text=text,
        table=", ".join(name for name in answer.tables if name not in environment.candidates) or None,
        row_ids=_row_ids(environment, answer, offset, shown),
        rows_total=None if answer.truncated else len(answer.rows),
        rows_shown=shown,
        cursor=cursor,
    )


class _Cells(Sequence[tuple[str, ...]]):
    """The rows of an answer as cells, made only for the rows that are shown."""

    def __init__(self, environment: Environment, sql: str, answer: SqlAnswer) -> None:
        self._environment, self._sql, self._answer = environment, sql, answer
        self._limit = cell_limit(environment.max_result_tokens, len(answer.rows))

    def __len__(self) -> int:
        return len(self._answer.rows)

    def __getitem__(self, row: Any) -> Any:
        values = self._answer.rows[row]
        return tuple(self._cell(row, column, value) for column, value in enumerate(values))

    def whole(self, row: int) -> tuple[str, ...]:
        """Return a row uncut."""
        return tuple(map(value_text, self._answer.rows[row]))

    def _cell(self, row: int, column: int, value: object) -> str:
        text = value_text(value)
        if not isinstance(value, str):
            return text
        if len(text) <= self._limit:
            return as_cell(text)
        cursor = _cursor(self._environment, self._sql, row, column, self._limit)
        return f"{as_cell(text[: self._limit])} [{len(text) - self._limit:,} more characters: cursor={cursor}]"


def _cursor(environment: Environment, sql: str, row: int, column: int, offset: int) -> str:
    page = partial(_text_page, environment, sql, row, column, offset)
    return environment.cursors.name(page, "sql text", sql, row, column, offset)


def _text_page(environment: Environment, sql: str, row: int, column: int, offset: int) -> ToolResult:
    answer = environment.gate.query(sql)
    text = value_text(answer.rows[row][column])

    def cursor_at(end: int) -> str:
        return _cursor(environment, sql, row, column, end)

    shown, cursor = long_text(environment, f"result row {row + 1}, column {column + 1}", text, offset, cursor_at)
    return ToolResult(
        text=shown, row_ids=_row_ids(environment, answer, row, 1), rows_total=1, rows_shown=1, cursor=cursor
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


def value_text(value: object) -> str:
    """Return an SQLite value as text; null is empty."""
    if value is None:
        return ""
    if isinstance(value, float):
        return format_number(value)
    return f"x'{value.hex()[:200]}'" if isinstance(value, bytes) else str(value)
