"""The SQL tool: one statement through the gate, shown in pages; long cells are cut with a cursor, as everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wardround.core import ToolFailure
from wardround.core.messages import estimate_tokens
from wardround.tools.definition import ToolResult
from wardround.tools.page import Page
from wardround.tools.render import SEPARATOR, cell_limit, long_text, table_page
from wardround.tools.session import Session
from wardround.tools.signature import tool
from wardround.tools.sql_gate import SqlAnswer
from wardround.tools.table_view import as_cell, format_number

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
