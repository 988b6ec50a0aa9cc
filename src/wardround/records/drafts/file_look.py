"""A look at the files of one table of unknown making: their delimiter, encoding and columns, from their first rows."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.records.drafts.first_rows import FirstRows, first_rows
from wardround.records.drafts.time_formats import TimeFormats, time_formats
from wardround.records.specs.file_format import has_time_of_day
from wardround.records.specs.spec import ColumnType

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
    """What the first rows say of a column. ``header`` is the file's own name for it, ``name`` what a rule can spell."""

    name: str
    header: str
    kind: ColumnType
    cells: frozenset[str]
    is_full: bool
    is_unique: bool
    times: TimeFormats | None = None
    has_comma: bool = False
    words_for_nothing: frozenset[str] = frozenset()
    """Those of its cells that may stand for an empty one; in a text they may be names (NA is sodium)."""

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


def look_at(files: Sequence[Path], path: str, shown: str, name: str) -> FileLook:
    """Look at the files of one table, some of them where there are many. UserError: one is empty or none."""
    some = [files[n * len(files) // _FILES_READ] for n in range(_FILES_READ)] if len(files) > _FILES_READ else files
    read = [first_rows(file, ROWS_READ // len(some)) for file in some]
    headers = list(dict.fromkeys(name.strip().lower() for one in read for name in one.header))
    columns = _different([_column(header, read) for header in headers])
    words = {word for column in columns if column.kind != "text" for word in column.words_for_nothing}
    return FileLook(
        name=name,
        path=path,
        shown=shown,
        rows=sum(len(one.rows) for one in read),
        columns=columns,
        delimiter=read[0].delimiter,
        encoding=next((one.encoding for one in read if one.encoding), ""),
        empty=frozenset(words),
    )


def _column(header: str, read: Sequence[FirstRows]) -> ColumnLook:
    """Look at a column of some files; one that a file lacks is not full."""
    cells: list[str] = []
    stated = None
    is_everywhere = True
    for one in read:
        names = [name.strip().lower() for name in one.header]
        is_everywhere &= header in names
        if header in names:
            place = names.index(header)
            cells += [row[place].strip() for row in one.rows]
            stated = one.types.get(one.header[place], stated)
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
