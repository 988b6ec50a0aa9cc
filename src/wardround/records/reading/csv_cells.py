"""Cells of one CSV block as typed columns: the whole block at once, row by row only if that fails.

The fast path is Arrow's typed CSV reader. A block that it cannot read is read again as text, with the tolerance that
real files need (``28925885.0`` is an integer, ``___`` is a masked cell); rows that still cannot be read are returned
as broken.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from wardround.records.reading.cell_texts import LARGEST_EXACT_FLOAT, MASKED, BareDate, on_the_wall, reader_of
from wardround.records.reading.csv_blocks import RecordsBlock
from wardround.records.reading.source_files import BrokenRow
from wardround.records.specs.file_format import FileFormat, plain_pattern
from wardround.records.specs.spec import ARROW_TYPES, DAY_MICROSECONDS, ColumnType, microseconds
from wardround.records.specs.wall_clock import UndeclaredZone

_WIDEST_RECORD_LINES = 100_000
_RAW_LIMIT = 2_000
_BLANK = 64
_PLAIN = FileFormat()
_LAST_OVERFLOW = 3
"""Arrow reads an impossible day as at most the third of the next month: only later days are certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCells:
    """The valid and the broken rows of a block.

    ``emptied``: valid rows with a cell that could not be read and was left empty; ``masked``: number of cells with
    ``___`` instead of a number."""

    table: pa.Table
    broken: Sequence[BrokenRow] = ()
    emptied: Sequence[BrokenRow] = ()
    masked: int = 0


def read_cells(
    block: RecordsBlock,
    names: Sequence[str],
    columns: Mapping[str, ColumnType],
    needed: Sequence[str],
    file: str,
    *,
    files: FileFormat = _PLAIN,
    later: Collection[str] = (),
) -> TypedCells:
    """Convert one block.

    ``names``: the file's columns; ``columns``: the wanted ones with their types. A row without a value in a ``needed``
    column is broken, and so is a row with an unreadable cell, except in ``later`` columns, where the cell is left
    empty: the spelling of an outcome must not decide whether its row exists before.
    """
    if block.problem is not None:
        return _unread(block, columns, file)
    table = _read_quickly(block, names, columns, files)
    if table is None or any(table.column(name).null_count for name in needed):
        return _read_slowly(block, names, columns, needed, file, files=files, later=later)
    return TypedCells(table=table)


def _read_quickly(
    block: RecordsBlock, names: Sequence[str], columns: Mapping[str, ColumnType], files: FileFormat
) -> pa.Table | None:
    """Read a block with Arrow; None if Arrow cannot read it, or may misread a cell.

    An unclosed quote is no error for Arrow: everything after it would be one cell.
    """
    if block.is_quoted and block.quotes % 2:
        return None
    table = None if files.times else _parsed(block, names, columns, pa.timestamp("us"), files)
    if table is not None:
        if _may_hold_bare_dates(table, block, columns):
            return None
        if files.clock is not None:  # times without an offset, as the hospital's clock showed them
            cells = [on_the_wall(column.combine_chunks(), files) for column in table.columns]
            table = pa.table(cells, names=table.column_names)
        return _days(table, columns)
    if files.times or files.clock is not None:
        table = _parsed(block, names, columns, pa.string(), files)
    return None if table is None else _with_times(table, columns, files)


def _parsed(
    block: RecordsBlock, names: Sequence[str], columns: Mapping[str, ColumnType], day: Any, files: FileFormat
) -> pa.Table | None:
    """Read a block with times as ``day``; None if Arrow cannot."""
    types = {name: day if kind in ("time", "date") else ARROW_TYPES[kind] for name, kind in columns.items()}
    for parse in (_parse, _parse_float_ids):
        with contextlib.suppress(pa.ArrowInvalid):
            return _without_nan(parse(block, names, types, files))
    return None


def _with_times(table: pa.Table, columns: Mapping[str, ColumnType], files: FileFormat) -> pa.Table | None:
    """Read columns of times in the spec's format, each distinct text once; None if a text is no time.

    Arrow's own ``strptime`` reads the 31st of February as the 2nd of March.
    """
    for place, (name, kind) in enumerate(columns.items()):
        if kind in ("time", "date"):
            encoded = table.column(name).combine_chunks().dictionary_encode()
            try:
                cells = _times(encoded.dictionary, kind, files)
            except (ValueError, OverflowError, UndeclaredZone):
                return None  # the reader by rows finds what is wrong
            table = table.set_column(place, name, cells.take(encoded.indices))
    return table


def _times(texts: Any, kind: ColumnType, files: FileFormat) -> Any:
    """Read texts as times or days: texts that Arrow certainly reads right together, the others one by one."""
    read = reader_of(kind, files)
    pattern = plain_pattern(files.times[0]) if files.times else None
    if kind != "time" or pattern is None:
        return pa.array([read(text) for text in texts.to_pylist()], ARROW_TYPES[kind])
    fits = pc.match_substring_regex(texts, pattern)
    times = pc.strptime(pc.if_else(fits, texts, None), format=files.times[0], unit="us", error_is_null=True)
    sure = pc.fill_null(pc.greater(pc.day(times), _LAST_OVERFLOW), False)
    values = times.to_numpy(zero_copy_only=False).copy()
    for place in np.flatnonzero(~sure.to_numpy(zero_copy_only=False)):
        moment = read(texts[int(place)].as_py())
        values[place] = np.datetime64("NaT") if moment is None else np.datetime64(moment, "us")
    return on_the_wall(pa.array(values, ARROW_TYPES[kind]), files)


def _unread(block: RecordsBlock, columns: Mapping[str, ColumnType], file: str) -> TypedCells:
    """Return a record of which only the beginning was read as broken."""
    raw = bytes(block.data[:_RAW_LIMIT]).decode("utf-8", "replace")
    row = BrokenRow(file=file, line=block.first_line, reason=block.problem or "", raw=raw)
    return TypedCells(
        table=pa.table({name: pa.array([], ARROW_TYPES[kind]) for name, kind in columns.items()}), broken=[row]
    )


def _parse(block: RecordsBlock, names: Sequence[str], types: Mapping[str, Any], files: FileFormat) -> pa.Table:
    data, is_quoted = block.data, block.is_quoted
    if bytes(data[:_BLANK]).isspace() and bytes(data).isspace():
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    return pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(names)),
        parse_options=pa_csv.ParseOptions(
            delimiter=block.separator, quote_char='"' if is_quoted else False, newlines_in_values=is_quoted
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(types),
            null_values=["", *files.empty],
            strings_can_be_null=True,
            decimal_point=files.decimal,
        ),
    )


def _parse_float_ids(
    block: RecordsBlock, names: Sequence[str], types: Mapping[str, Any], files: FileFormat
) -> pa.Table:
    """Parse a block whose integers are written like ``28925885.0``, as by tools without null integers.

    ArrowInvalid: a number is too large for a float to hold it.
    """
    loose = {name: pa.float64() if kind == pa.int64() else kind for name, kind in types.items()}
    table = _parse(block, names, loose, files)
    for name in (name for name, kind in types.items() if kind == pa.int64()):
        largest = pc.max(pc.abs(table.column(name))).as_py()
        if largest is not None and largest >= LARGEST_EXACT_FLOAT:
            raise pa.ArrowInvalid(f"{name}: {largest:.0f} does not fit a float")
    return table.cast(pa.schema(list(types.items())))


def _without_nan(table: pa.Table) -> pa.Table:
    """Empty cells with "not a number", as in reading one by one."""
    for place, column in enumerate(table.columns):
        if pa.types.is_float64(column.type) and pc.any(pc.is_nan(column)).as_py():
            numbers = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
            table = table.set_column(place, table.column_names[place], numbers)
    return table


def _days(table: pa.Table, columns: Mapping[str, ColumnType]) -> pa.Table:
    for index, name in enumerate(table.column_names):
        if columns[name] == "date":
            table = table.set_column(index, name, table.column(name).cast(pa.date32(), safe=False))
    return table


def _may_hold_bare_dates(table: pa.Table, block: RecordsBlock, columns: Mapping[str, ColumnType]) -> bool:
    """Whether a cell of a time column may be a date without a time, which Arrow reads as midnight."""
    midnights = 0
    for name, kind in columns.items():
        if kind == "time":
            for chunk in table.column(name).chunks:
                times = microseconds(chunk)
                midnights += int(np.count_nonzero(times // DAY_MICROSECONDS * DAY_MICROSECONDS == times))
    for mark in (b" 00:00:00", b"T00:00:00"):
        if midnights > 0:
            midnights -= block.buffer.count(mark, 0, block.size)
    return midnights > 0


def _read_slowly(
    block: RecordsBlock,
    names: Sequence[str],
    columns: Mapping[str, ColumnType],
    needed: Sequence[str],
    file: str,
    *,
    files: FileFormat,
    later: Collection[str],
) -> TypedCells:
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
    unread: list[dict[int, str]] = []
    masked = 0
    for name, kind in columns.items():
        place = names.index(name)
        texts = [cells[place] for _, _, cells in rows]
        masked += 0 if kind == "text" else texts.count(MASKED)
        unread.append({})
        arrays[name] = _convert(name, kind, texts, unread[-1] if name in later else bad, files)
        if name in needed:
            missing = (index for index, value in enumerate(arrays[name]) if value is None)
            bad.update({index: f"{name} is missing" for index in missing if index not in bad})
    broken += _noted(bad, rows, file)
    kept = ({place: reason for place, reason in each.items() if place not in bad} for each in unread)
    emptied = [row for each in kept for row in _noted(each, rows, file)]
    table = pa.table({name: pa.array(values, ARROW_TYPES[columns[name]]) for name, values in arrays.items()})
    if bad:
        table = table.filter(pa.array([index not in bad for index in range(len(rows))]))
    broken.sort(key=lambda row: row.line)
    return TypedCells(table=table, broken=broken, emptied=emptied, masked=masked)


def _noted(reasons: Mapping[int, str], rows: Sequence[tuple[int, str, list[str]]], file: str) -> list[BrokenRow]:
    """Return by place what is wrong with rows."""
    return [
        BrokenRow(file=file, line=rows[index][0], reason=reason, raw=_printable(rows[index][1]))
        for index, reason in sorted(reasons.items())
    ]


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


def _records(block: RecordsBlock) -> Iterator[tuple[int, str, list[str], str | None]]:
    """Yield (line, text, cells, problem) per record. An unclosed quote loses its own line only."""
    lines = bytes(block.data).decode("utf-8", "surrogateescape").split("\n")
    limit = csv.field_size_limit(max(len(block.data), 1 << 17))
    try:
        index = 0
        while not block.is_quoted and index < len(lines):
            if lines[index].strip():
                yield block.first_line + index, lines[index], lines[index].removesuffix("\r").split("\t"), None
            index += 1
        while index < len(lines):
            end, cells, problem = _record(lines, index, block.separator)
            raw = "\n".join(lines[index:end])
            if raw.strip():
                yield block.first_line + index, raw, cells, problem
            index = end
    finally:
        csv.field_size_limit(limit)


def _record(lines: list[str], start: int, separator: str) -> tuple[int, list[str], str | None]:
    """Read the record that starts at a line: its end, its cells, and the problem of its quotes."""
    cells = _split(lines[start : start + 1], separator)
    if cells is not None:
        return start + 1, cells, None
    quotes = lines[start].count('"')
    for end in range(start + 1, min(len(lines), start + _WIDEST_RECORD_LINES)):
        more = lines[end].count('"')
        quotes += more
        if more and quotes % 2 == 0:
            cells = _split(lines[start : end + 1], separator)
            if cells is not None:
                return end + 1, cells, None
            break
    return start + 1, [], "a quote is not closed"


def _split(lines: list[str], separator: str) -> list[str] | None:
    """Return the cells of one record, given as lines; None if its quoting is invalid."""
    text = "\n".join(lines).removesuffix("\r")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None if rows else []


def _convert(name: str, kind: ColumnType, texts: list[str], bad: dict[int, str], files: FileFormat) -> list[Any]:
    read = reader_of(kind, files)
    values: list[Any] = []
    for index, text in enumerate(texts):
        try:
            values.append(read(text))
        except UndeclaredZone as error:
            raise UndeclaredZone(f"{name}: {error}") from None
        except BareDate:
            values.append(None)
            bad.setdefault(index, f"{name}: {text[:80]!r} is no time but a date, and the spec says no bare_dates")
        except (ValueError, OverflowError):
            values.append(None)
            bad.setdefault(index, f"{name}: {text[:80]!r} is no {kind}")
    return values
