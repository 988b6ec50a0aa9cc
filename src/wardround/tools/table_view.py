"""A chart table prepared for showing and searching, once per environment.

Each column is factorised: a code per row and the text of each distinct value. Searching, counting and folding then cost
one pass over distinct values and one over integer codes, and a value becomes text once however often it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from wardround.core import format_time, from_microseconds
from wardround.records.rules import ALWAYS_TIME, Combined, MedianDelay, Rule
from wardround.records.rules import Column as ColumnRule

if TYPE_CHECKING:
    from wardround.records import ChartTable

Kind = Literal["int", "float", "text", "time", "date"]
IntArray = np.ndarray[Any, np.dtype[np.int32]]
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

_PLAIN_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d*)(?:\.\d+)?|[-+]?\.\d+")
_NULLS = frozenset({"", "null", "none", "nan", "na", "<null>"})
_NAT = np.iinfo(np.int64).min


def format_number(value: float) -> str:
    """Write a number as short as it can be read back: ``123.0`` is ``123``."""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def plain_number(text: str) -> float | None:
    """Read a number written plainly; ``0389`` is a code, not a number, and gives None."""
    text = text.strip()
    return float(text) if _PLAIN_NUMBER.fullmatch(text) else None


class ViewColumn:
    """One column: its kind, a code per row (-1 = null) and the text of each distinct value, in order of appearance."""

    def __init__(self, name: str, array: pa.Array) -> None:
        self.name = name
        self.kind: Kind = column_kind(array.type)
        array = dense(array)
        if array.null_count == len(array):
            self.codes: IntArray = np.full(len(array), -1, dtype=np.int32)
            values = array.slice(0, 0)
        else:
            encoded = array.dictionary_encode()
            indices = encoded.indices.fill_null(-1) if encoded.indices.null_count else encoded.indices
            self.codes = np.asarray(indices, dtype=np.int32)
            values = encoded.dictionary
        self.texts: list[str] = _texts(values, self.kind)

    @cached_property
    def folded(self) -> list[str]:
        """The distinct texts, case-folded."""
        return [text.casefold() for text in self.texts]

    @cached_property
    def cells(self) -> list[str]:
        """The distinct texts as table cells: on one line, quoted where they hold the column separator; the last, empty,
        stands for null."""
        return [*(self.texts if self.kind != "text" else map(as_cell, self.texts)), ""]

    @cached_property
    def numbers(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The distinct values as numbers, NaN where a text is no plain number; shape (distinct values + 1,), the last
        entry, NaN, stands for null."""
        return np.array([*map(plain_number, self.texts), None], dtype=np.float64)

    def rows_where(self, accepts: Callable[[int], bool]) -> BoolArray:
        """Return a mask of the rows whose distinct value (by its number) is accepted."""
        table = np.zeros(len(self.texts) + 1, dtype=bool)  # the last entry stands for null
        for number in range(len(self.texts)):
            table[number] = accepts(number)
        return table[self.codes]

    def containing(self, keyword: str) -> BoolArray:
        """Rows whose text holds the case-folded ``keyword`` literally."""
        hits = [number for number, text in enumerate(self.folded) if keyword in text]
        if not hits:
            return np.zeros(len(self.codes), dtype=bool)
        table = np.zeros(len(self.texts) + 1, dtype=bool)
        table[hits] = True
        return table[self.codes]

    def equal_to(self, value: str) -> BoolArray:
        """Rows whose value is ``value``: null by name, numbers by size, times by moment or day, text without case."""
        wanted = value.strip().casefold()
        nulls = self.codes == -1 if wanted in _NULLS else np.zeros(len(self.codes), dtype=bool)
        number = plain_number(value)
        if self.kind in ("time", "date"):
            day = wanted.replace("t", " ")
            return nulls | self.rows_where(lambda i: self.texts[i] == day or self.texts[i][:10] == day)
        if number is not None:
            same: BoolArray = self.numbers[self.codes] == number
            return nulls | same | self.rows_where(lambda i: self.folded[i] == wanted)
        return nulls | self.rows_where(lambda i: self.folded[i].strip() == wanted)

    def counts(self, rows: IntArray | None = None) -> tuple[IntArray, int]:
        """Return how often each distinct value occurs, and how many nulls there are."""
        codes = self.codes if rows is None else self.codes[rows]
        found = np.bincount(codes + 1, minlength=len(self.texts) + 1)
        return found[1:].astype(np.int32), int(found[0])


def as_cell(text: str) -> str:
    """Return a text as one table cell: one line, and in JSON quotes when it is empty or holds `` | ``."""
    line = " ".join(text.split()) if ("\n" in text or "\t" in text or "\r" in text or "  " in text) else text.strip()
    if line and "|" not in line:
        return line
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"'


def column_kind(dtype: pa.DataType) -> Kind:
    """Return the kind of an Arrow type in the words of a source spec."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    if pa.types.is_integer(dtype) or pa.types.is_boolean(dtype):
        return "int"
    if pa.types.is_floating(dtype):
        return "float"
    if pa.types.is_timestamp(dtype):
        return "time"
    return "date" if pa.types.is_date(dtype) else "text"


def dense(array: pa.Array) -> pa.Array:
    """Return an array without dictionary encoding, so that no value of another row hangs on it."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _texts(values: pa.Array, kind: Kind) -> list[str]:
    if kind == "time":
        return time_texts(values)
    if kind == "date":
        return texts(values.cast(pa.string()))
    if kind == "float":
        return [format_number(value) for value in values.to_pylist()]
    if kind == "int":
        return list(map(str, values.to_pylist()))
    return texts(values)


def texts(values: pa.Array) -> list[Any]:
    """Return the texts of a column, None where it is null; by way of numpy, which takes half the time."""
    return values.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def time_texts(values: pa.Array) -> list[str]:
    """Return times as ``YYYY-MM-DD HH:MM:SS``, with microseconds only on those that have any; nulls stay None."""
    micros = np.asarray(values.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0))
    whole = not (micros % 1_000_000).any()
    written = texts(values.cast(pa.timestamp("s" if whole else "us")).cast(pa.string()))
    return written if whole else [text and text.removesuffix(".000000") for text in written]


class TableView:
    """One chart table and its prepared columns. Columns are prepared when first asked for; sharing across threads is
    safe, at worst a column is prepared twice.

    ``times``: microseconds, (rows,), the least int64 where a row has none. ``shown_columns``: the spec's default ones
    first.
    """

    def __init__(self, table: ChartTable) -> None:
        self.table = table
        self.name: str = table.name
        self.num_rows: int = table.num_rows
        times = np.asarray(table.event_time).astype("datetime64[us]").view(np.int64)
        self.times = np.where(times <= ALWAYS_TIME, _NAT, times)
        self.has_times = bool((self.times != _NAT).any())
        names = table.batch.schema.names
        self.columns: tuple[str, ...] = tuple(name for name in names if name != "row_id")
        first = [name for name in table.spec.default_columns or () if name in self.columns]
        self.shown_columns: tuple[str, ...] = (*first, *(name for name in self.columns if name not in first))
        self._position = {name: place for place, name in enumerate(names)}
        self._prepared: dict[str, ViewColumn] = {}

    @cached_property
    def row_ids(self) -> list[str]:
        """The row ids, turned into Python strings when first asked for."""
        return texts(dense(self.table.batch.column(0)))

    @cached_property
    def shown(self) -> list[ViewColumn]:
        """All columns, prepared, in the order in which they are shown."""
        return [self.column(name) for name in self.shown_columns]

    @cached_property
    def number_and_text(self) -> tuple[ViewColumn, ViewColumn] | None:
        """The column with a row's number and the one with its text, if the table has both."""
        number, text = self.table.spec.value, self.table.spec.text
        if not number or not text or number == text or not {number, text} <= set(self.columns):
            return None
        return self.column(number), self.column(text)

    @cached_property
    def filing_column(self) -> str | None:
        """The column with the time at which a row was filed, if it differs from the row's own time."""
        about = _own_columns(self.table.spec.event_time)
        filed = (name for name in _own_columns(self.table.spec.available_at) if name not in about)
        return next(filed, None)

    def column(self, name: str) -> ViewColumn:
        """Return a prepared column."""
        found = self._prepared.get(name)
        if found is None:
            found = self._prepared.setdefault(name, ViewColumn(name, self.table.batch.column(self._position[name])))
        return found

    def resolve(self, name: str) -> str | None:
        """Return the column a name means, whatever its case, or None."""
        wanted = name.strip().strip("\"`[]'").casefold()
        wanted = wanted.removeprefix(self.name.casefold() + ".")
        return next((column for column in self.columns if column.casefold() == wanted), None)

    def rows_between(self, start: int | None, end: int | None) -> tuple[IntArray, int]:
        """Return the rows with an event time in ``[start, end]`` (microseconds), and how many rows have no time."""
        timed = self.times != _NAT
        chosen = timed.copy()
        if start is not None:
            chosen &= self.times >= start
        if end is not None:
            chosen &= self.times <= end
        return np.flatnonzero(chosen).astype(np.int32), int(self.num_rows - timed.sum())

    def span(self, rows: IntArray) -> str:
        """Return ``FIRST to LAST`` event time of some rows, empty when none has one."""
        times = self.times[rows]
        times = times[times != _NAT]
        if not len(times):
            return ""
        first, last = (format_time(from_microseconds(int(moment))) for moment in (times.min(), times.max()))
        return first if first == last else f"{first} to {last}"


def _own_columns(rule: Rule) -> list[str]:
    if isinstance(rule, ColumnRule):
        return [rule.name]
    if isinstance(rule, MedianDelay):
        return [rule.end]
    parts = rule.parts if isinstance(rule, Combined) else ()
    return [name for part in parts for name in _own_columns(part)]
