"""A look at one file of unknown making: its delimiter, encoding and columns, from its first rows."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import UserError
from wardround.records.drafts.time_formats import TimeFormats, time_formats
from wardround.records.specs.file_format import has_time_of_day
from wardround.records.specs.spec import ColumnType

ROWS_READ = 5_000
_BYTES_READ = 4 << 20
_DELIMITERS = (",", ";", "\t", "|")
_LINES_COMPARED = 50
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d{0,17})")
_POINT = re.compile(r"[+-]?\d*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_WORDS_FOR_NOTHING = frozenset({"n/a", "N/A", "k.A.", "k. A.", "-", ".", "NULL", "null", "NA", "None", "NaN", "\\N"})
_NO_NAME = re.compile(r"[^a-z0-9_]+")
_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "µ": "u"})
_LATIN = re.compile(r"LATIN SMALL (?:LETTER|LIGATURE) (?:\w+ )*?(\w+)(?: WITH .*)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLook:
    """What the first rows say of a column. ``header`` is the file's own name for it, ``name`` what a rule can spell."""

    name: str
    header: str
    kind: ColumnType
    cells: frozenset[str]
    is_full: bool
    is_unique: bool
    times: TimeFormats | None = None
    has_comma: bool = False

    @property
    def has_point(self) -> bool:
        """Whether it has numbers with a decimal point."""
        return self.kind == "float" and any("." in cell for cell in self.cells)

    @property
    def may_be_thousands(self) -> bool:
        """Whether every comma stands before three digits: a decimal sign, or one between thousands."""
        with_comma = [cell for cell in self.cells if "," in cell]
        return bool(with_comma) and self.has_comma and all(map(_THOUSANDS.fullmatch, with_comma))

    @property
    def has_bare_dates(self) -> bool:
        """Whether times and dates without a time stand in it together."""
        return self.kind == "time" and self.times is not None and not all(map(has_time_of_day, self.times.formats))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLook:
    """What the first rows of a table's file say. ``path`` is what a spec calls it, ``shown`` the file."""

    name: str
    path: str
    shown: str
    rows: int
    columns: tuple[ColumnLook, ...]
    delimiter: str = ""
    encoding: str = ""
    empty: frozenset[str] = frozenset()

    def column(self, name: str) -> ColumnLook | None:
        """Return a column of this name."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def decimal(self) -> str:
        """The decimal sign of its numbers; empty where none has one, a question where that cannot be told."""
        commas = [column for column in self.columns if column.has_comma]
        points = [column.name for column in self.columns if column.has_point]
        if commas and points:
            both = f"{commas[0].name} has commas in its numbers, {points[0]} points"
            return f"TODO: {both}: which is the decimal sign? The other column is read as text"
        if commas and self.delimiter == ",":
            return f"TODO: {commas[0].name} has commas in its numbers and between its cells: read it as a text"
        if commas and all(column.may_be_thousands for column in commas):
            return f"TODO: {commas[0].name}: is 1,234 between one and two (write ,) or above a thousand (a text)?"
        return "," if commas else "." if points else ""

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of times and dates."""
        return tuple(column.name for column in self.columns if column.kind in ("time", "date"))


def spelt(text: str) -> str:
    """Return a name in letters, digits and underscores, as rules and SQL can write it: letters lose their accents."""
    lower = unicodedata.normalize("NFC", text.strip().lower()).translate(_LETTERS)
    plain = "".join(letter if letter.isascii() else _without_accent(letter) for letter in lower)
    name = _NO_NAME.sub("_", plain).strip("_")
    return name if name and not name[0].isdigit() else f"c_{name}".rstrip("_")


def _without_accent(letter: str) -> str:
    """The Latin letter that Unicode's name of one has; a space for letters of other scripts."""
    found = _LATIN.fullmatch(unicodedata.name(letter, ""))
    return found[1].lower() if found else unicodedata.normalize("NFKD", letter) if letter in "ªº²³¹" else " "


def _different(columns: Sequence[ColumnLook]) -> tuple[ColumnLook, ...]:
    """The columns, a number behind every name that one before has: headers of another script have nothing else."""
    taken: set[str] = set()
    found = []
    for column in columns:
        numbered = (f"{column.name}_{n}" for n in itertools.count(2))
        name = column.name if column.name not in taken else next(one for one in numbered if one not in taken)
        taken.add(name)
        found.append(replace(column, name=name))
    return tuple(found)


def look_at(file: Path, path: str, shown: str) -> FileLook:
    """Look at a CSV or Parquet file. UserError: it is empty or none."""
    if file.name.lower().endswith(".parquet"):
        return _look_at_parquet(file, path, shown)
    encoding, text = _text(file)
    lines = list(text.split("\n"))
    delimiter = _delimiter(lines)
    header, *rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))[: ROWS_READ + 1]
    whole = [row for row in rows if len(row) == len(header)]
    columns = _different([_column(name, [row[place] for row in whole]) for place, name in enumerate(header)])
    words = {word for row in whole for word in row if word.strip() in _WORDS_FOR_NOTHING}
    return FileLook(
        name=spelt(path.rpartition("/")[2]),
        path=path,
        shown=shown,
        rows=len(whole),
        columns=columns,
        delimiter=delimiter,
        encoding=encoding,
        empty=frozenset(words),
    )


def _text(file: Path) -> tuple[str, str]:
    """Return the encoding, empty where every one would do, and the first whole lines of a file."""
    with pa.input_stream(str(file), compression="gzip" if file.name.lower().endswith(".gz") else None) as stream:
        data = bytes(stream.read(_BYTES_READ))
    if not data.strip():
        raise UserError(f"{file}: the file is empty")
    for encoding in ("utf-8", "cp1252", "latin-1"):
        encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else encoding
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(data).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
        whole = text if len(data) < _BYTES_READ else text[: text.rfind("\n") + 1]
        return "" if text.isascii() and encoding == "utf-8" else encoding, whole
    raise UserError(f"{file}: cannot be read as text")


def _delimiter(lines: Sequence[str]) -> str:
    """Return what cuts the header and the next lines into most cells, and all of them into as many."""
    some = [line for line in lines[:_LINES_COMPARED] if line.strip()]

    def agreement(mark: str) -> tuple[float, int]:
        counts = Counter(len(row) for row in csv.reader(some, delimiter=mark))
        width = len(next(csv.reader(some[:1], delimiter=mark)))
        return (counts[width] / sum(counts.values()) if width > 1 else 0.0), width

    return max(_DELIMITERS, key=agreement)


def _column(header: str, cells: Sequence[str]) -> ColumnLook:
    filled = [cell.strip() for cell in cells if cell.strip() and cell.strip() not in _WORDS_FOR_NOTHING]
    distinct = frozenset(filled)
    kind, times, has_comma = _kind(distinct)
    return ColumnLook(
        name=spelt(header),
        header=header.strip().lower(),
        kind=kind,
        cells=distinct,
        is_full=len(filled) == len(cells) > 0,
        is_unique=len(distinct) == len(filled) > 0,
        times=times,
        has_comma=has_comma,
    )


def _kind(cells: frozenset[str]) -> tuple[ColumnType, TimeFormats | None, bool]:
    """Return the type of some cells, their time formats, and whether they have decimal commas. No cell: text."""
    if not cells:
        return "text", None, False
    if all(map(_INTEGER.fullmatch, cells)):
        return "int", None, False
    if all(map(_POINT.fullmatch, cells)) and not _looks_coded(cells):
        return "float", None, False
    if all(map(_COMMA.fullmatch, cells)) and not _looks_coded(cells):
        return "float", None, True
    times = time_formats(cells)
    if times is None:
        return "text", None, False
    return ("time" if any(map(has_time_of_day, times.formats)) else "date"), times, False


def _looks_coded(cells: Iterable[str]) -> bool:
    """Whether a number has zeros before it, which a number would lose (``058``)."""
    return any(len(cell) > 1 and cell[0] == "0" and cell[1].isdigit() for cell in cells)


def _look_at_parquet(file: Path, path: str, shown: str) -> FileLook:
    try:
        with pq.ParquetFile(file) as opened:
            batch = next(opened.iter_batches(ROWS_READ), None)
            schema = opened.schema_arrow
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{file}: cannot be read as Parquet ({error})") from None
    columns = []
    for field in schema:
        values = [] if batch is None else batch.column(field.name).to_pylist()
        cells = ["" if cell is None else str(cell) for cell in values]
        look = _column(field.name, cells)
        columns.append(_typed(look, field.type))
    return FileLook(
        name=spelt(path.rpartition("/")[2]),
        path=path,
        shown=shown,
        rows=0 if batch is None else batch.num_rows,
        columns=_different(columns),
    )


def _typed(look: ColumnLook, kind: Any) -> ColumnLook:
    """Return a column of Parquet with the type that the file itself says."""
    said: ColumnType = "text"
    if pa.types.is_integer(kind):
        said = "int"
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        said = "float"
    elif pa.types.is_timestamp(kind):
        said = "time"
    elif pa.types.is_date(kind):
        said = "date"
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return look
    return ColumnLook(
        name=look.name,
        header=look.header,
        kind=said,
        cells=look.cells,
        is_full=look.is_full,
        is_unique=look.is_unique,
    )
