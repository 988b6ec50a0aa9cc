"""Cells of one CSV block as typed columns: the whole block at once, and row by row only where that fails.

The fast path is Arrow's typed CSV reader. A block in which it finds anything odd is read again as text, converted with
the tolerance real files need (``28925885.0`` is an integer, ``___`` is a masked cell), and what still cannot be read is
handed back as broken rows.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from wardround.core import parse_time
from wardround.records.reading.csv_blocks import Block
from wardround.records.reading.quarantine import BrokenRow
from wardround.records.specs.arrow_types import ARROW_TYPES, DAY_MICROSECONDS, microseconds
from wardround.records.specs.spec import ColumnType

_NULL_WORDS = frozenset({"", "NULL", "null", "NaN", "nan", "NA", "None", "\\N"})
_MASKED = "___"
_INTEGER = re.compile(r"[+-]?\d{1,18}(\.0*)?")
_WIDEST_RECORD_LINES = 100_000
_RAW_LIMIT = 2_000
_BLANK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The good rows of a block and the broken ones. ``masked`` counts cells that held ``___`` in place of a number."""

    table: pa.Table
    broken: Sequence[BrokenRow] = ()
    masked: int = 0


def read_cells(
    block: Block, names: Sequence[str], columns: Mapping[str, ColumnType], needed: Sequence[str], file: str
) -> Cells:
    """Convert one block. ``names`` are the file's columns, ``columns`` those that are wanted, with their types; a row
    without a value in a ``needed`` column is broken."""
    if block.problem is not None:
        return _unread(block, columns, file)
    types = {name: pa.timestamp("us") if kind == "date" else ARROW_TYPES[kind] for name, kind in columns.items()}
    try:
        table = _parse(block, names, types)
    except pa.ArrowInvalid:
        try:
            table = _parse_float_ids(block, names, types)
        except pa.ArrowInvalid:
            return _read_slowly(block, names, columns, needed, file)
    if _may_hold_bare_dates(table, block, columns) or any(table.column(name).null_count for name in needed):
        return _read_slowly(block, names, columns, needed, file)
    return Cells(table=_days(table, columns))


def _unread(block: Block, columns: Mapping[str, ColumnType], file: str) -> Cells:
    """Set aside a record of which only the beginning was read."""
    raw = bytes(block.data[:_RAW_LIMIT]).decode("utf-8", "replace")
    row = BrokenRow(file=file, line=block.first_line, reason=block.problem or "", raw=raw)
    return Cells(
        table=pa.table({name: pa.array([], ARROW_TYPES[kind]) for name, kind in columns.items()}), broken=[row]
    )


def _parse(block: Block, names: Sequence[str], types: Mapping[str, Any]) -> pa.Table:
    data, is_quoted = block.data, block.separator == ","
    if bytes(data[:_BLANK]).isspace() and bytes(data).isspace():
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    return pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(names)),
        parse_options=pa_csv.ParseOptions(
            delimiter=block.separator, quote_char='"' if is_quoted else False, newlines_in_values=is_quoted
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=[""], strings_can_be_null=True
        ),
    )


def _parse_float_ids(block: Block, names: Sequence[str], types: Mapping[str, Any]) -> pa.Table:
    """Parse a block whose integers are written like ``28925885.0``, as tools that know no null integers do."""
    loose = {name: pa.float64() if kind == pa.int64() else kind for name, kind in types.items()}
    return _parse(block, names, loose).cast(pa.schema(list(types.items())))


def _days(table: pa.Table, columns: Mapping[str, ColumnType]) -> pa.Table:
    for index, name in enumerate(table.column_names):
        if columns[name] == "date":
            table = table.set_column(index, name, table.column(name).cast(pa.date32(), safe=False))
    return table


def _may_hold_bare_dates(table: pa.Table, block: Block, columns: Mapping[str, ColumnType]) -> bool:
    """Whether a cell of a time column may have been a date without a time, which Arrow reads as midnight."""
    midnights = 0
    for name, kind in columns.items():
        if kind == "time":
            for chunk in table.column(name).chunks:
                times = microseconds(chunk)
                midnights += int(np.count_nonzero(times // DAY_MICROSECONDS * DAY_MICROSECONDS == times))
    if midnights == 0:
        return False
    written = sum(block.buffer.count(mark, 0, block.size) for mark in (b" 00:00:00", b"T00:00:00"))
    return midnights > written


def _read_slowly(
    block: Block, names: Sequence[str], columns: Mapping[str, ColumnType], needed: Sequence[str], file: str
) -> Cells:
    rows: list[tuple[int, str, list[str]]] = []
    broken: list[BrokenRow] = []
    for line, raw, cells, problem in _records(block):
        reason = problem or _shape_problem(raw, cells, len(names))
        if reason:
            broken.append(BrokenRow(file=file, line=line, reason=reason, raw=_printable(raw)))
        else:
            rows.append((line, raw, cells))
    arrays: dict[str, list[Any]] = {}
    bad: dict[int, str] = {}
    masked = 0
    for name, kind in columns.items():
        place = names.index(name)
        texts = [cells[place] for _, _, cells in rows]
        masked += 0 if kind == "text" else texts.count(_MASKED)
        arrays[name] = _convert(name, kind, texts, bad)
        if name in needed:
            missing = (index for index, value in enumerate(arrays[name]) if value is None)
            bad.update({index: f"{name} is missing" for index in missing if index not in bad})
    for index, reason in sorted(bad.items()):
        line, raw, _ = rows[index]
        broken.append(BrokenRow(file=file, line=line, reason=reason, raw=_printable(raw)))
    table = pa.table({name: pa.array(values, ARROW_TYPES[columns[name]]) for name, values in arrays.items()})
    if bad:
        table = table.filter(pa.array([index not in bad for index in range(len(rows))]))
    return Cells(table=table, broken=sorted(broken, key=lambda row: row.line), masked=masked)


def _printable(raw: str) -> str:
    return raw[:_RAW_LIMIT].encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _shape_problem(raw: str, cells: list[str], expected: int) -> str | None:
    if len(cells) != expected:
        return f"expected {expected} cells, found {len(cells)}"
    try:
        raw.encode()
    except UnicodeEncodeError:
        return "not UTF-8 text"
    return None


def _records(block: Block) -> Iterator[tuple[int, str, list[str], str | None]]:
    """Yield (line, text, cells, problem) per record. A quote that never closes costs its own line only."""
    lines = bytes(block.data).decode("utf-8", "surrogateescape").split("\n")
    limit = csv.field_size_limit(max(len(block.data), 1 << 17))
    try:
        index = 0
        while block.separator != "," and index < len(lines):
            if lines[index].strip():
                yield block.first_line + index, lines[index], lines[index].removesuffix("\r").split("\t"), None
            index += 1
        while index < len(lines):
            end, cells, problem = _record(lines, index)
            raw = "\n".join(lines[index:end])
            if raw.strip():
                yield block.first_line + index, raw, cells, problem
            index = end
    finally:
        csv.field_size_limit(limit)


def _record(lines: list[str], start: int) -> tuple[int, list[str], str | None]:
    """Read the record that starts at a line: where it ends, its cells, and what is wrong with its quotes."""
    cells = _split(lines[start : start + 1])
    if cells is not None:
        return start + 1, cells, None
    quotes = lines[start].count('"')
    for end in range(start + 1, min(len(lines), start + _WIDEST_RECORD_LINES)):
        more = lines[end].count('"')
        quotes += more
        if more and quotes % 2 == 0:
            cells = _split(lines[start : end + 1])
            if cells is not None:
                return end + 1, cells, None
            break
    return start + 1, [], "a quote is not closed"


def _split(lines: list[str]) -> list[str] | None:
    """Return the cells of one record given as its lines; None if its quoting is not sound."""
    text = "\n".join(lines).removesuffix("\r")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None if rows else []


def _convert(name: str, kind: ColumnType, texts: list[str], bad: dict[int, str]) -> list[Any]:
    read = _READERS[kind]
    values: list[Any] = []
    for index, text in enumerate(texts):
        try:
            values.append(read(text))
        except (ValueError, OverflowError):
            values.append(None)
            bad.setdefault(index, f"{name}: {text[:80]!r} is no {kind}")
    return values


def _read_text(text: str) -> str | None:
    return text or None


def _read_number(text: str, read: Callable[[str], Any]) -> Any:
    text = text.strip()
    return None if text in _NULL_WORDS or text == _MASKED else read(text)


def _read_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text.partition(".")[0])


def _read_day(text: str) -> Any:
    return parse_time(text).date()


_READERS: Mapping[ColumnType, Callable[[str], Any]] = {
    "int": lambda text: _read_number(text, _read_integer),
    "float": lambda text: _read_number(text, float),
    "text": _read_text,
    "time": lambda text: _read_number(text, parse_time),
    "date": lambda text: _read_number(text, _read_day),
}
