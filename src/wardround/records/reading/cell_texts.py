"""The text of one cell as a value of its column's type, with the tolerance that real files need.

``28925885.0`` and R's ``1e+05`` are integers, ``___`` is a masked number, ``NaN`` is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

from wardround.core import end_of_day
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import ColumnType
from wardround.records.specs.wall_clock import UndeclaredZone

_NULL_WORDS = frozenset({"", "NULL", "null", "NaN", "nan", "NA", "None", "\\N"})
MASKED = "___"
"""A number removed by de-identification."""
_INTEGER = re.compile(r"[+-]?\d{1,19}(\.0*)?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_SMALLEST_INTEGER, _LARGEST_INTEGER = -(1 << 63), (1 << 63) - 1
LARGEST_EXACT_FLOAT = 1 << 53
"""Above, two whole numbers may be one float."""
_LONGEST_DAY = 10


class BareDate(ValueError):
    """A date where a time is expected, without a declared meaning."""


def reader_of(kind: ColumnType, files: FileFormat) -> Callable[[str | None], Any]:
    """Return a function that parses a cell's text, None for an empty one. It raises ValueError or BareDate."""
    read = _READERS[kind]
    is_text = kind == "text"

    def cell(text: str | None) -> Any:
        if text is None or text in files.empty:
            return None
        if is_text:
            return text or None
        text = text.strip()
        return None if text in _NULL_WORDS or text == MASKED else read(text, files)

    return cell


def _read_float(text: str, files: FileFormat) -> float | None:
    number = float(_with_point(text, files))
    return None if isnan(number) else number


def _with_point(text: str, files: FileFormat) -> str:
    """Return a number with a decimal point. ValueError: with decimal commas, a point would separate thousands."""
    if files.decimal != "." and "." in text:
        raise ValueError(text)
    return text.replace(files.decimal, ".")


def _read_integer(text: str, files: FileFormat) -> int:
    text = _with_point(text, files)
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    number = int(text.partition(".")[0]) if _INTEGER.fullmatch(text) else _whole(Decimal(text))
    if not _SMALLEST_INTEGER <= number <= _LARGEST_INTEGER:
        raise ValueError(text)
    return number


def _whole(number: Decimal) -> int:
    """Return a number that is whole however it is written, such as R's ``1e+05``. ValueError: it is not."""
    if number != number.to_integral_value():
        raise ValueError(str(number))
    return int(number)


def _read_time(text: str, files: FileFormat) -> datetime:
    moment, has_time = _as_written(text, files)
    if has_time:
        return _on_the_wall(moment, text, files)
    if files.bare_dates == "refuse":
        raise BareDate(text)
    return end_of_day(moment.date())


def _read_day(text: str, files: FileFormat) -> date:
    moment, has_time = _as_written(text, files)
    return (_on_the_wall(moment, text, files) if has_time else moment).date()


def _as_written(text: str, files: FileFormat) -> tuple[datetime, bool]:
    """Return a time and whether it has a time of day. ValueError: it is no time."""
    return files.read_time(text) if files.times else (datetime.fromisoformat(text), len(text) > _LONGEST_DAY)


def _on_the_wall(moment: datetime, text: str, files: FileFormat) -> datetime:
    """Return a time on the hospital's clock. UndeclaredZone: it has an offset, and the spec declares no zone."""
    if files.clock is not None:
        return files.clock.moment(moment)
    if moment.tzinfo is not None:
        raise UndeclaredZone(f"{text!r} has an offset from UTC")
    return moment


_READERS: Mapping[ColumnType, Callable[[str, FileFormat], Any]] = {
    "int": _read_integer,
    "float": _read_float,
    "time": _read_time,
    "date": _read_day,
    "text": lambda text, files: text,
}
