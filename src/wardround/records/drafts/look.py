"""Read the first rows of files of unknown origin: delimiter, encoding, columns, files that are one table."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import UserError
from wardround.records.reading.csv_blocks import JSON_LINES, read_object
from wardround.records.reading.source_files import DATA_SUFFIXES, is_empty, matching_files, table_files
from wardround.records.specs.file_format import has_time_of_day
from wardround.records.specs.spec import ColumnType

# Formats of times, found from cells alone.


_DAYS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%b-%Y",
    "%d %b %Y",
)
_WITHOUT_OFFSET = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_CLOCKS = (*_WITHOUT_OFFSET, *(f"{clock}%z" for clock in _WITHOUT_OFFSET[1:6]))
_FORMATS = tuple(f"{day}{clock}" for day in _DAYS for clock in _CLOCKS)
_CELLS_READ = 400
_SHORTEST, _LONGEST = 6, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeFormats:
    """``formats`` read every cell. ``others`` also read every cell, but as other days: the cells do not decide it."""

    formats: tuple[str, ...]
    others: tuple[str, ...] = ()


def time_formats(cells: Collection[str]) -> TimeFormats | None:
    """Return the formats of some cells; None if one of them is not a time."""
    ordered = sorted(cells)
    left = (
        ordered
        if len(ordered) <= _CELLS_READ
        else [ordered[n * len(ordered) // _CELLS_READ] for n in range(_CELLS_READ)]
    )
    if not all(_SHORTEST <= len(cell) <= _LONGEST and any(map(str.isdigit, cell)) for cell in left):
        return None
    found: list[str] = []
    others: list[str] = []
    while left:
        reads = {written: [cell for cell in left if _is(cell, written)] for written in _FORMATS}
        best = max(_FORMATS, key=lambda written: len(reads[written]))
        if not reads[best]:
            return None
        found.append(best)
        same = (w for w in _FORMATS if w != best and reads[w] == reads[best] and _swapped(w) == _swapped(best))
        others += same
        left = [cell for cell in left if cell not in set(reads[best])]
    return TimeFormats(formats=tuple(found), others=tuple(others))


def _is(cell: str, written: str) -> bool:
    try:
        datetime.strptime(cell, written)
    except ValueError:
        return False
    return True


def _swapped(written: str) -> str:
    """Return a format with day and month exchanged for one common sign."""
    return written.replace("%d", "%m")


# The first rows of one file of unknown origin, as text: CSV of any delimiter and encoding, Parquet, JSON lines.


BYTES_READ = 4 << 20
_DELIMITERS = (",", ";", "\t", "|")
_LINES_COMPARED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The first rows of a file. ``header`` is as in the file; each row has a cell for each column. ``encoding`` is
    empty if any would do, ``delimiter`` if none divides the cells; ``types`` are those that the file declares."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    delimiter: str = ""
    encoding: str = ""
    types: Mapping[str, ColumnType] = field(default_factory=dict)


def first_rows(file: Path, most: int) -> FirstRows:
    """Read at most ``limit`` rows of a file. UserError: it is empty, damaged, or has no readable table."""
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
        raise UserError(f"{file}: not a table ({error})") from None
    header, rows = (read[0], read[1:]) if read else ([], [])
    if not any(name.strip() for name in header):
        raise UserError(f"{file}: the first line has no column name")
    whole = [row for row in rows if len(row) == len(header)]
    return FirstRows(header=tuple(header), rows=whole, delimiter=delimiter, encoding=encoding)


def _text(file: Path) -> tuple[str, str]:
    """Return the encoding (empty if any would do) and the first whole lines of a file."""
    try:
        with pa.input_stream(str(file), compression="gzip" if file.name.lower().endswith(".gz") else None) as stream:
            data = bytes(stream.read(BYTES_READ))
    except OSError as error:
        raise UserError(f"{file}: damaged ({error})") from None
    if not data.strip():
        raise UserError(f"{file}: the file is empty")
    if b"\0" in data and data[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise UserError(f"{file}: not a text file")
    for encoding in ("utf-8", "cp1252", "latin-1"):
        encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else encoding
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(data).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
        whole = text if len(data) < BYTES_READ else text[: text.rfind("\n") + 1]
        bare = text.isascii() and not data.startswith(codecs.BOM_UTF8)  # a byte order mark is UTF-8's alone
        return "" if bare and encoding == "utf-8" else encoding, whole
    raise UserError(f"{file}: cannot be read as text")


def _delimiter(lines: Sequence[str]) -> str:
    """Return the character that divides the header and the next lines into most cells, the same number in each."""
    some = [line for line in lines[:_LINES_COMPARED] if line.strip()]

    def agreement(mark: str) -> tuple[float, int]:
        counts = Counter(len(row) for row in csv.reader(some, delimiter=mark))
        width = len(next(csv.reader(some[:1], delimiter=mark), ()))
        return (counts[width] / sum(counts.values()) if width > 1 else 0.0), width

    return max(_DELIMITERS, key=agreement)


def _json_lines(file: Path, most: int) -> FirstRows:
    """Read JSON lines. Their numbers always have decimal points."""
    try:
        with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb") as stream:
            lines = itertools.islice(stream, most)
            found = [body for line in lines if (body := read_object(line.removeprefix(codecs.BOM_UTF8))) is not None]
    except (OSError, EOFError) as error:
        raise UserError(f"{file}: damaged ({error})") from None
    header = tuple(dict.fromkeys(name for body in found for name in body))
    if not header:
        raise UserError(f"{file}: no line is a JSON object")
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
    types = {column.name: kind for column in schema if (kind := _stated(column.type)) is not None}
    rows = [list(map(_cell, row)) for row in zip(*columns, strict=True)]
    return FirstRows(header=tuple(schema.names), rows=rows, types=types)


def _stated(kind: Any) -> ColumnType | None:
    """Return the type that a Parquet column declares; None for text, which may hold anything."""
    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float"
    if pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_date(kind):
        return "date"
    return None if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "text"


# The files of one table of unknown origin: their delimiter, encoding and columns, from their first rows.


ROWS_READ = 5_000
_FILES_READ = 12
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
    """The first cells of a column. ``header`` is its name in the file, ``name`` a name that rules can write."""

    name: str
    header: str
    kind: ColumnType
    cells: frozenset[str]
    is_full: bool
    is_unique: bool
    times: TimeFormats | None = None
    has_comma: bool = False
    words_for_nothing: frozenset[str] = frozenset()
    """Cells that may mean "empty"; in a text they may also be names (NA is sodium)."""

    @property
    def has_point(self) -> bool:
        """Whether it has numbers with a decimal point."""
        return self.kind == "float" and any("." in cell for cell in self.cells)

    @property
    def may_be_thousands(self) -> bool:
        """Whether every comma is before three digits: a decimal sign, or a separator of thousands."""
        with_comma = [cell for cell in self.cells if "," in cell]
        return bool(with_comma) and self.has_comma and all(map(_THOUSANDS.fullmatch, with_comma))

    @property
    def has_bare_dates(self) -> bool:
        """Whether some cells are times and others are dates without a time of day."""
        return self.kind == "time" and self.times is not None and not all(map(has_time_of_day, self.times.formats))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLook:
    """The first rows of a table's file. ``path`` is the path for a spec, ``shown`` the file's name for people."""

    name: str
    path: str
    shown: str
    rows: int
    columns: tuple[ColumnLook, ...]
    delimiter: str = ""
    encoding: str = ""
    empty: frozenset[str] = frozenset()

    def column(self, name: str) -> ColumnLook | None:
        """Return the column of a name, None if there is none."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def decimal(self) -> str:
        """The decimal sign of its numbers; empty if no number has one, a question if it cannot be determined."""
        commas = [column for column in self.columns if column.has_comma]
        points = [column.name for column in self.columns if column.has_point]
        if commas and points:
            both = f"{commas[0].name} has commas in its numbers, {points[0]} has points"
            return f"TODO: {both}: which is the decimal sign? The other column is read as text"
        if commas and self.delimiter == ",":
            return f"TODO: {commas[0].name} has commas in its numbers and between cells: declare it as text"
        if commas and all(column.may_be_thousands for column in commas):
            meanings = "between 1 and 2 (write ,) or more than a thousand (declare it as text)"
            return f"TODO: {commas[0].name}: is 1,234 a number {meanings}?"
        return "," if commas else "." if points else ""

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of times and dates."""
        return tuple(column.name for column in self.columns if column.kind in ("time", "date"))


def spelt(text: str) -> str:
    """Return a name of letters, digits and underscores, as rules and SQL can write it: accents are removed."""
    lower = unicodedata.normalize("NFC", text.strip().lower()).translate(_LETTERS)
    plain = "".join(letter if letter.isascii() else _without_accent(letter) for letter in lower)
    name = _NO_NAME.sub("_", plain).strip("_")
    return name if name and not name[0].isdigit() else f"c_{name}".rstrip("_")


def _without_accent(letter: str) -> str:
    """Return the Latin letter without its accent; a space for letters of other scripts."""
    found = _LATIN.fullmatch(unicodedata.name(letter, ""))
    return found[1].lower() if found else unicodedata.normalize("NFKD", letter) if letter in "ªº²³¹" else " "


def _different(columns: Sequence[ColumnLook]) -> tuple[ColumnLook, ...]:
    """Return columns with different names: a number is added to a name that is already used."""
    used: set[str] = set()
    found = []
    for column in columns:
        numbered = (f"{column.name}_{n}" for n in itertools.count(2))
        name = column.name if column.name not in used else next(name for name in numbered if name not in used)
        used.add(name)
        found.append(replace(column, name=name))
    return tuple(found)


def look_at(files: Sequence[Path], path: str, shown: str, name: str) -> FileLook:
    """Read the first rows of one table's files (some of the files, if there are many). UserError: a file is empty or
    not a table."""
    some = [files[n * len(files) // _FILES_READ] for n in range(_FILES_READ)] if len(files) > _FILES_READ else files
    read = [first_rows(file, ROWS_READ // len(some)) for file in some]
    headers = list(dict.fromkeys(name.strip().lower() for file in read for name in file.header))
    columns = _different([_column(header, read) for header in headers])
    words = {word for column in columns if column.kind != "text" for word in column.words_for_nothing}
    return FileLook(
        name=name,
        path=path,
        shown=shown,
        rows=sum(len(file.rows) for file in read),
        columns=columns,
        delimiter=read[0].delimiter,
        encoding=next((file.encoding for file in read if file.encoding), ""),
        empty=frozenset(words),
    )


def _column(header: str, read: Sequence[FirstRows]) -> ColumnLook:
    """Return what is seen of a column over some files; a column that a file lacks has empty cells."""
    cells: list[str] = []
    stated = None
    is_everywhere = True
    for file in read:
        names = [name.strip().lower() for name in file.header]
        is_everywhere &= header in names
        if header in names:
            place = names.index(header)
            cells += [row[place].strip() for row in file.rows]
            stated = file.types.get(file.header[place], stated)
    filled = [cell for cell in cells if cell and cell not in _WORDS_FOR_NOTHING]
    distinct = frozenset(filled)
    kind, times, has_comma = _kind(distinct) if stated is None else (stated, None, False)
    return ColumnLook(
        name=spelt(header),
        header=header,
        kind=kind,
        cells=distinct,
        is_full=is_everywhere and len(filled) == len(cells) > 0,
        is_unique=len(distinct) == len(filled) > 0,
        times=times,
        has_comma=has_comma,
        words_for_nothing=frozenset(cell for cell in cells if cell in _WORDS_FOR_NOTHING),
    )


def _kind(cells: frozenset[str]) -> tuple[ColumnType, TimeFormats | None, bool]:
    """Return the type of cells, their time formats, and whether they have decimal commas. Without any cell: text."""
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
    """Whether a number begins with zeros, which a number type would lose (``058``)."""
    return any(len(cell) > 1 and cell[0] == "0" and cell[1].isdigit() for cell in cells)


# Files of a folder that may be one table: their names differ in a number or a month, and their headers are equal.


_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december|"
    "januar|februar|märz|maerz|mai|juni|juli|oktober|dezember|"
    "janvier|février|fevrier|mars|avril|juin|juillet|août|aout|septembre|octobre|novembre|décembre|decembre|"
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|"
    "jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|okt|nov|dec|dez|mrz|mär|ene|abr|ago|dic"
)
_TURN = re.compile(rf"\d+|(?<![^\W\d_])(?:{_MONTHS})(?![^\W\d_])", re.IGNORECASE)
"""The part that differs between files of one table: a number, or a month as a word of its own."""
_ROWS_COMPARED = 5
_ALIKE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """Files that may be one table: the path for a spec, and a name for people. ``note``: what a person should check."""

    path: str
    shown: str
    files: tuple[Path, ...]
    note: str = ""


def grouped_files(folder: Path) -> tuple[list[TableFiles], dict[str, str]]:
    """Return the possible tables of a folder, and every other file with the reason why it is not used."""
    left_out = {
        path.relative_to(folder).as_posix(): _why(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (not path.name.lower().endswith(DATA_SUFFIXES) or is_empty(path) or _is_hidden(path))
    }
    tables: list[TableFiles] = []
    for path, shown, files in table_files(folder):
        try:
            for file in files:
                first_rows(file, _ROWS_COMPARED)
        except UserError as error:
            left_out |= {file.relative_to(folder).as_posix(): str(error).rpartition(": ")[2] for file in files}
            continue
        tables.append(TableFiles(path=path, shown=shown, files=files))
    return list(_together(folder, tables)), left_out


def _is_hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _why(path: Path) -> str:
    if not path.name.lower().endswith(DATA_SUFFIXES):
        endings = ", ".join(DATA_SUFFIXES)
        return f"its name does not end in one of {endings}; if it is a table in text form, rename it to .csv"
    return "its name begins with a point or an underscore" if _is_hidden(path) else "it is empty"


def _together(folder: Path, tables: Sequence[TableFiles]) -> Iterable[TableFiles]:
    """Yield one table for files whose names differ in a number or a month and whose headers are equal, else one per
    file."""
    by_form: dict[str, list[TableFiles]] = {}
    for table in tables:
        by_form.setdefault(_TURN.sub("#", table.path.casefold()), []).append(table)
    for several in by_form.values():
        merged = _one(folder, several) if len(several) > 1 else None
        yield from several if merged is None else (merged,)


def _one(folder: Path, several: Sequence[TableFiles]) -> TableFiles | None:
    """Return several files as one table; None if their headers differ much, or if no pattern matches exactly them."""
    files = tuple(file for table in several for file in table.files)
    heads = [first_rows(file, _ROWS_COMPARED) for file in files]
    headers = [frozenset(name.strip().lower() for name in head.header) for head in heads]
    every, shared = frozenset().union(*headers), headers[0].intersection(*headers)
    marks = {head.delimiter for head in heads}
    encodings = {head.encoding for head in heads if head.encoding}
    if len(shared) < _ALIKE * len(every) or len(marks) > 1 or len(encodings) > 1:
        return None
    for pattern in _patterns([table.path for table in several]):
        if set(matching_files([folder], pattern)) == set(files):
            some = sorted(every - shared)
            note = f"not in all of these files: {', '.join(some)}" if some else ""
            shown = f"{several[0].shown} and {len(files) - 1} more with similar names"
            return TableFiles(path=pattern, shown=shown, files=files, note=note)
    return None


def _patterns(paths: Sequence[str]) -> Iterable[str]:
    """Yield patterns for some names, the widest first, so that next month's file matches too."""
    first = paths[0]
    turns = list(_TURN.finditer(first))
    begin, end = turns[0].start(), turns[-1].end()
    if "/" not in first[begin:end]:
        yield f"{first[:begin]}*{first[end:]}"
    yield _TURN.sub("*", first)
    yield _TURN.sub("[0-9]*", first)


def plain_name(pattern: str) -> str:
    """Return the fixed part of a pattern as a name: ``labor`` of ``Labor_*``."""
    return re.sub(r"[\W_]+", " ", pattern.replace("[0-9]*", " ").replace("*", " ")).strip()
