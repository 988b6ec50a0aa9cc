"""The first rows of one file of unknown making, as text: CSV of any delimiter and encoding, Parquet, JSON lines."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import UserError
from wardround.records.reading.json_lines import JSON_LINES, read_object
from wardround.records.specs.spec import ColumnType

BYTES_READ = 4 << 20
_DELIMITERS = (",", ";", "\t", "|")
_LINES_COMPARED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """``header`` as the file spells it; every row has a cell for each. ``encoding`` is empty where every one would do,
    ``delimiter`` where none parts the cells; ``types`` are those that the file itself states."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    delimiter: str = ""
    encoding: str = ""
    types: Mapping[str, ColumnType] = field(default_factory=dict)


def first_rows(file: Path, most: int) -> FirstRows:
    """Read at most so many rows of a file. UserError: it is empty, damaged, or none that can be read."""
    name = file.name.lower()
    if name.endswith(".parquet"):
        return _parquet(file, most)
    if name.endswith(JSON_LINES):
        return _json_lines(file, most)
    encoding, text = _text(file)
    try:
        delimiter = _delimiter(text.split("\n"))
        read = list(itertools.islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), most + 1))
    except csv.Error as error:
        raise UserError(f"{file}: no table ({error})") from None
    header, rows = (read[0], read[1:]) if read else ([], [])
    if not any(name.strip() for name in header):
        raise UserError(f"{file}: its first line names no column")
    whole = [row for row in rows if len(row) == len(header)]
    return FirstRows(header=tuple(header), rows=whole, delimiter=delimiter, encoding=encoding)


def _text(file: Path) -> tuple[str, str]:
    """Return the encoding, empty where every one would do, and the first whole lines of a file."""
    try:
        with pa.input_stream(str(file), compression="gzip" if file.name.lower().endswith(".gz") else None) as stream:
            data = bytes(stream.read(BYTES_READ))
    except OSError as error:
        raise UserError(f"{file}: damaged ({error})") from None
    if not data.strip():
        raise UserError(f"{file}: the file is empty")
    if b"\0" in data and data[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise UserError(f"{file}: no text")
    for encoding in ("utf-8", "cp1252", "latin-1"):
        encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else encoding
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(data).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
        whole = text if len(data) < BYTES_READ else text[: text.rfind("\n") + 1]
        return "" if text.isascii() and encoding == "utf-8" else encoding, whole
    raise UserError(f"{file}: cannot be read as text")


def _delimiter(lines: Sequence[str]) -> str:
    """Return what cuts the header and the next lines into most cells, and all of them into as many."""
    some = [line for line in lines[:_LINES_COMPARED] if line.strip()]

    def agreement(mark: str) -> tuple[float, int]:
        counts = Counter(len(row) for row in csv.reader(some, delimiter=mark))
        width = len(next(csv.reader(some[:1], delimiter=mark), ()))
        return (counts[width] / sum(counts.values()) if width > 1 else 0.0), width

    return max(_DELIMITERS, key=agreement)


def _json_lines(file: Path, most: int) -> FirstRows:
    """Numbers have points, whatever sign the texts of other files have; no line is an object of another encoding."""
    try:
        with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb") as stream:
            lines = itertools.islice(stream, most)
            found = [body for line in lines if (body := read_object(line.removeprefix(codecs.BOM_UTF8))) is not None]
    except (OSError, EOFError) as error:
        raise UserError(f"{file}: damaged ({error})") from None
    header = tuple(dict.fromkeys(name for body in found for name in body))
    if not header:
        raise UserError(f"{file}: no line of it is a JSON object")
    return FirstRows(header=header, rows=[[_cell(body.get(name)) for name in header] for body in found])


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value if isinstance(value, str) else str(value)


def _parquet(file: Path, most: int) -> FirstRows:
    try:
        with pq.ParquetFile(file) as opened:
            batch = next(opened.iter_batches(most), None)
            schema = opened.schema_arrow
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{file}: cannot be read as Parquet ({error})") from None
    columns = [[] if batch is None else batch.column(name).to_pylist() for name in schema.names]
    types = {one.name: kind for one in schema if (kind := _stated(one.type)) is not None}
    rows = [list(map(_cell, row)) for row in zip(*columns, strict=True)]
    return FirstRows(header=tuple(schema.names), rows=rows, types=types)


def _stated(kind: Any) -> ColumnType | None:
    """Return the type that a column of Parquet states; None for a text, which may be anything."""
    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float"
    if pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_date(kind):
        return "date"
    return None if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "text"
