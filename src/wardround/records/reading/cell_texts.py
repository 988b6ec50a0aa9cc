"""Cells as values of their column's type, of text and of Parquet, with the tolerance that real files need.

``28925885.0`` and R's ``1e+05`` are integers, ``___`` is a masked number, ``NaN`` is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import RecordError, end_of_day
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import (
    ARROW_TYPES,
    DAY_MICROSECONDS,
    END_OF_DAY_MICROSECONDS,
    ColumnType,
    microseconds,
    valid,
)
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


# Cells of Parquet files, which may have another type than the spec's.


_FITTING: Mapping[ColumnType, tuple[Callable[[Any], bool], ...]] = {
    "int": (pa.types.is_integer,),
    "float": (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_list, pa.types.is_large_list),
    "time": (pa.types.is_timestamp,),
    "date": (pa.types.is_date,),
}


def cells_as(array: Any, kind: ColumnType, place: str, files: FileFormat) -> tuple[Any, str | None]:
    """Return a column as a type of the spec, and the cast in words, None without one.

    RecordError: cells would lose content or cannot be read. UndeclaredZone.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), ARROW_TYPES[kind]), None
    fits = any(is_one(array.type) for is_one in _FITTING[kind])
    has_zone = pa.types.is_timestamp(array.type) and array.type.tz is not None
    cast = None if fits and not has_zone else f"{array.type} as {kind}"
    try:
        return _CASTS[kind](on_the_wall(array, files), files), cast
    except BareDate:
        raise RecordError(
            f"{place}: holds dates without a time and is to be read as time; "
            "declare it a date, or say bare_dates = 'end_of_day' under [source.files]"
        ) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise RecordError(f"{place}: {array.type} cannot be read as {kind} ({error})") from None


def on_the_wall(array: Any, files: FileFormat) -> Any:
    """Return a column of times on the hospital's clock; other columns unchanged. UndeclaredZone."""
    if not pa.types.is_timestamp(array.type):
        return array
    clock, has_zone = files.clock, array.type.tz is not None
    if clock is None:
        if has_zone and array.null_count < len(array):
            raise UndeclaredZone(f"times of the type {array.type}")
        return array.cast(pa.timestamp(array.type.unit)) if has_zone else array
    plain = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.timestamp("us"))
    filled = valid(plain)
    times = microseconds(plain).copy()
    times[filled] = (clock.shown if has_zone else clock.latest)(times[filled])
    return pa.array(times, pa.timestamp("us"), mask=~filled)


def as_text(array: Any) -> Any:
    """Return a column as text; items of a list on a line each."""
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return pc.binary_join(array.cast(pa.list_(pa.string())), "\n")
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def _text(array: Any, files: FileFormat) -> Any:
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):  # a code that a tool read as a number
        array = array.cast(pa.int64())
    array = as_text(array)
    # Typed scalars: to guess the type of a bare None, Arrow tries imports every time.
    return pc.if_else(pc.equal(array, pa.scalar("", pa.string())), pa.scalar(None, array.type), array)


def _integer(array: Any, files: FileFormat) -> Any:
    if _is_text(array):
        return _read(array, "int", files)
    if pa.types.is_floating(array.type):
        array = _without_nan(array)
        largest = pc.max(pc.abs(array)).as_py()
        if largest is not None and largest >= LARGEST_EXACT_FLOAT:
            raise ValueError(f"{largest:.0f}: above {LARGEST_EXACT_FLOAT:,} two whole numbers are one float")
    return array.cast(pa.int64())


def _number(array: Any, files: FileFormat) -> Any:
    if _is_text(array):
        return _read(array, "float", files)
    if pa.types.is_decimal(array.type):  # Arrow's own cast is off by the last bit
        return array.cast(pa.string()).cast(pa.float64())
    return _without_nan(array.cast(pa.float64()))


def _time(array: Any, files: FileFormat) -> Any:
    if _is_text(array):
        return _read(array, "time", files)
    if pa.types.is_date(array.type):
        if files.bare_dates == "refuse":
            raise BareDate
        days = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        return pc.add(pc.multiply(days, DAY_MICROSECONDS), END_OF_DAY_MICROSECONDS).cast(ARROW_TYPES["time"])
    return array.cast(ARROW_TYPES["time"], safe=False)


def _day(array: Any, files: FileFormat) -> Any:
    if _is_text(array):
        return _read(array, "date", files)
    return array.cast(pa.date32(), safe=False)


def _is_text(array: Any) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _read(array: Any, kind: ColumnType, files: FileFormat) -> Any:
    """Read text as cells of a CSV file, each distinct text once."""
    encoded = array.dictionary_encode()
    read = reader_of(kind, files)
    return pa.array([read(text) for text in encoded.dictionary.to_pylist()], ARROW_TYPES[kind]).take(encoded.indices)


def _without_nan(array: Any) -> Any:
    """NaN means no value, as in a CSV file."""
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


_CASTS: Mapping[ColumnType, Callable[[Any, FileFormat], Any]] = {
    "int": _integer,
    "float": _number,
    "text": _text,
    "time": _time,
    "date": _day,
}
