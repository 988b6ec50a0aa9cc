"""Cells of lines as columns: typed as ingest reads the text of a file, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from wardround.core.time import parse_time
from wardround.records import SourceSpec, TableSpec
from wardround.records.reading.cell_texts import reader_of
from wardround.records.reading.subject_keys import subject_number
from wardround.records.specs.arrow_types import ARROW_TYPES
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import ColumnType

FIRST_YEAR, LAST_YEAR = 1700, 9000
"""Years of which a time may be at which something became known: others stand for what was never or always so."""
_PLAIN: Mapping[ColumnType, frozenset[type]] = {
    "int": frozenset({int, type(None)}),
    "float": frozenset({int, float, type(None)}),
    "text": frozenset({str, type(None)}),
}
"""Types of cells that are taken as they are."""


def subject_of(spec: SourceSpec, table: TableSpec, row: Mapping[str, Any]) -> int:
    """Return the number of the subject whose row it is. ValueError: it does not say."""
    key = row.get(table.subject or "subject_id")
    if type(key) is int and -(1 << 63) <= key < 1 << 63 and not table.has_text_subject:
        return key
    if key is None or key == "":
        raise ValueError("the row does not say whose it is")
    if table.has_text_subject:
        return subject_number(str(one_cell("text", key, table.files)).strip())
    found = one_cell("int", key, table.files)
    if found is None:
        raise ValueError("the row does not say whose it is")
    return int(found)


def column(cells: Sequence[Any], kind: ColumnType, files: FileFormat) -> Any:
    """Return cells as an Arrow array. ValueError, pa.ArrowException: one of them is no such value."""
    arrow = ARROW_TYPES[kind]
    types = frozenset(map(type, cells))
    if types <= _PLAIN.get(kind, frozenset()):
        return pa.array(cells, arrow)
    return pa.array([one_cell(kind, cell, files) for cell in cells], arrow)


def one_cell(kind: ColumnType, cell: Any, files: FileFormat) -> Any:
    """Return a cell as a value of its column's type, None for an empty one. ValueError: it is none."""
    if cell is None or (kind == "time" and isinstance(cell, datetime)) or (kind == "date" and isinstance(cell, date)):
        return cell
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        if kind == "text" and isinstance(cell, bool):
            return "true" if cell else "false"
        raise ValueError(f"{cell!r:.40} is no {kind}")
    if isinstance(cell, str):
        return _read(kind, cell, files)
    if kind == "text":
        return str(cell)
    if kind == "float":
        return float(cell)
    if kind == "int" and cell == int(cell) and -(1 << 63) <= cell < 1 << 63:
        return int(cell)
    raise ValueError(f"{cell!r:.40} is no {kind}")


def _read(kind: ColumnType, text: str, files: FileFormat) -> Any:
    """Read the text of a cell: as the source's files have it, or a time as records write it."""
    if (
        files.clock is None
        and kind in ("time", "date")
        and (len(text) > 10 or kind == "date")
        and text[4:5] == text[7:8] == "-"
    ):
        moment = _moment(text)
        return moment.date() if kind == "date" else moment
    try:
        return _reader(kind, files)(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is no {kind}") from None


@lru_cache(maxsize=65_536)
def _moment(text: str) -> datetime:
    return parse_time(text)


def _reader(kind: ColumnType, files: FileFormat) -> Callable[[str | None], Any]:
    key = kind, id(files)
    if key not in _READERS:
        _READERS[key] = reader_of(kind, files), files
    return _READERS[key][0]


_READERS: dict[tuple[str, int], tuple[Callable[[str | None], Any], FileFormat]] = {}


@lru_cache(maxsize=65_536)
def line_time(text: str, what: str) -> datetime:
    """Read a time that a line itself says. ValueError: it is none, or of no year in which anything can be known."""
    moment = _moment(text)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"{what} {text!r:.40} is no time: years are {FIRST_YEAR} to {LAST_YEAR}")
    return moment
