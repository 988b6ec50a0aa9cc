"""What a table shows a second before a moment and at it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from wardround.core import parse_time
from wardround.records import Store

Row = dict[str, Any]
View = Callable[[str, str], list[Row]]
"""The rows of a table on one subject's chart as of a moment."""
_SECOND = timedelta(seconds=1)


def view_of(store: Store, subject: int) -> View:
    """Return the view of one subject's chart."""

    def view(table: str, as_of: str) -> list[Row]:
        found: list[Row] = store.chart(subject, parse_time(as_of)).table(table).batch.to_pylist()
        return found

    return view


def before(moment: str) -> str:
    """A second earlier."""
    return str(parse_time(moment) - _SECOND)


def appears(rows: View, table: str, moment: str, count: int = 1) -> None:
    """Assert that ``count`` more rows of a table are there at a moment than a second before."""
    assert len(rows(table, moment)) - len(rows(table, before(moment))) == count


def fills(rows: View, table: str, moment: str, where: Row, **cells: Any) -> None:
    """Assert that cells of one row are empty a second before a moment, and have these values at it."""
    for as_of, expected in ((before(moment), dict.fromkeys(cells)), (moment, cells)):
        (row,) = (row for row in rows(table, as_of) if where.items() <= row.items())
        assert {name: row[name] for name in cells} == expected, as_of
