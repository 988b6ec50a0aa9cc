"""The SQL gate (being built)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wardround.core import ToolFailure

if TYPE_CHECKING:
    from wardround.records import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """What a statement gave. ``truncated`` when a row or byte cap ended it early."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


class SqlGate:
    """Not yet."""

    def __init__(self, chart: Chart, *, candidates: Mapping[str, Any]) -> None:
        self.chart = chart

    def query(self, sql: str) -> SqlAnswer:
        """Refuse."""
        raise ToolFailure("run_sql_query is not available yet")

    def close(self) -> None:
        """Nothing to free."""
