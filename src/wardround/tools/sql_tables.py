"""Filling the gate's database: one typed SQLite table per chart table or candidate space, when first named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from wardround.tools.sql_functions import LONGEST_VALUE
from wardround.tools.table_view import column_kind, dense, time_texts

if TYPE_CHECKING:
    from wardround.records import Chart
    from wardround.tools.candidates import CandidateSpace

_AFFINITY = {"int": "INTEGER", "float": "REAL", "text": "TEXT", "time": "TEXT", "date": "TEXT"}
_LONGEST_CELL_BYTES = LONGEST_VALUE - 10_000


def quoted(name: str) -> str:
    """Return an identifier in SQL quotes where it needs them."""
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


class TableLoader:
    """Knows which tables there are and which are built; fills one at a time."""

    def __init__(self, chart: Chart | None, candidates: Mapping[str, CandidateSpace]) -> None:
        self._chart = chart
        self._candidates = candidates
        names = (*(chart.table_names if chart is not None else ()), *candidates)
        self._by_folded = {name.lower(): name for name in names}
        self.built: set[str] = set()
        self._longest: dict[str, int] = {}

    @classmethod
    def of_connection(cls, connection: sqlite3.Connection) -> TableLoader:
        """Return a loader for tables that are already there."""
        loader = cls(None, {})
        found = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        loader._by_folded = {name.lower(): name for name in found if not name.startswith("sqlite_")}
        loader.built = set(loader._by_folded)
        return loader

    @property
    def names(self) -> tuple[str, ...]:
        """All tables by their own spelling."""
        return tuple(self._by_folded.values())

    def missing(self, wanted: Iterable[str]) -> list[str]:
        """Return the tables among lower-case names that are not built yet, in a fixed order."""
        named = set(wanted)
        return [name for folded, name in self._by_folded.items() if folded in named and folded not in self.built]

    def longest_cell(self, wanted: Iterable[str]) -> int:
        """Return the longest text, in bytes, of the tables among some names."""
        return max((self._longest.get(name, 0) for name in wanted), default=0)

    def columns(self, connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
        """Return a built table's columns."""
        cursor = connection.execute(f"SELECT * FROM {quoted(name)} LIMIT 0")
        return tuple(entry[0] for entry in cursor.description)

    def build(self, connection: sqlite3.Connection, name: str) -> None:
        """Create and fill one table."""
        if name in self._candidates:
            columns = [pa.array(self._candidates[name].labels.labels, pa.string())]
            header = ["candidate TEXT"]
        else:
            assert self._chart is not None
            batch = self._chart.table(name).batch
            columns = [dense(array) for array in batch.columns]
            header = [f'"{field.name}" {_AFFINITY[column_kind(field.type)]}' for field in batch.schema]
        connection.execute(f"CREATE TABLE {quoted(name)} ({', '.join(header)})")
        filled = [array for array in columns if array.null_count < len(array)]
        marks = ",".join("?" if array.null_count < len(array) else "NULL" for array in columns)
        rows = zip(*map(python_values, filled), strict=True)
        connection.execute("BEGIN")
        connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)
        connection.execute("COMMIT")
        self._longest[name.lower()] = max(map(_longest_text, columns), default=0)
        self.built.add(name.lower())


def python_values(array: pa.Array) -> list[Any]:
    """Return a column as SQLite values: numbers, texts, times and dates as text; a text that is too long says so."""
    kind = column_kind(array.type)
    if kind == "time":
        return time_texts(array)
    if kind == "date":
        return array.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    values: list[Any] = array.to_pylist()
    return [_cut(value) for value in values] if _longest_text(array) > _LONGEST_CELL_BYTES else values


def _longest_text(array: pa.Array) -> int:
    """Return the bytes of the longest text of a column, 0 where it holds none."""
    if not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
        return 0
    return pc.max(pc.binary_length(array)).as_py() or 0


def _cut(value: str | None) -> str | None:
    if value is None or len(value.encode("utf-8", "replace")) <= _LONGEST_CELL_BYTES:
        return value
    kept = value.encode("utf-8", "replace")[: _LONGEST_CELL_BYTES - 100].decode("utf-8", "ignore")
    return f"{kept} [{len(value) - len(kept):,} more characters; read the row with get_records_by_value]"
