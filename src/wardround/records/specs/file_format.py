"""How a source writes its files: delimiter, encoding, decimal sign, times.

A spec declares it under ``[source.files]``, and for one table or dictionary under ``[tables.NAME.files]``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from wardround.core import UserError
from wardround.records.specs.wall_clock import WallClock

_EXAMPLE = datetime(2133, 11, 28, 17, 46, 39)
_NUMBERS = {
    "%d": "(0[1-9]|[12][0-9]|3[01])",
    "%m": "(0[1-9]|1[0-2])",
    "%Y": "[12][0-9]{3}",
    "%H": "([01][0-9]|2[0-3])",
    "%M": "[0-5][0-9]",
    "%S": "[0-5][0-9]",
}
_OF_THE_DAY = ("%H", "%I", "%c", "%X", "%T", "%R")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """How a file is written. ``times``: formats of ``strptime``, tried in order; without any, times are ISO 8601.
    ``headers`` maps a header of the file, in lower case, to the column's name."""

    delimiter: str = ""
    """Empty: a comma, or a tab where the header has tabs and no comma."""
    encoding: str = "utf-8"
    decimal: Literal[".", ","] = "."
    times: tuple[str, ...] = ()
    bare_dates: Literal["refuse", "end_of_day"] = "refuse"
    """What a date without a time is in a time column: a broken row, or 23:59:59 of its day."""
    empty: tuple[str, ...] = ()
    """Words that mean an empty cell."""
    headers: Mapping[str, str] = field(default_factory=dict)
    time_zone: str = ""
    """The hospital's: times with an offset or a zone are read on its clock. Empty: such times are refused."""

    def __post_init__(self) -> None:
        if len(self.delimiter) > 1 or self.delimiter in ('"', "\n", "\r"):
            raise UserError(f"delimiter: write one character, not {self.delimiter!r}")
        if self.delimiter and self.delimiter == self.decimal:
            raise UserError(f"delimiter and decimal cannot both be {self.decimal!r}")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise UserError(f"encoding: unknown encoding {self.encoding!r}; try utf-8, cp1252, latin-1") from None
        for text in self.times:
            _check_time_format(text)
        if self.time_zone:
            WallClock.named(self.time_zone)

    @property
    def is_utf8(self) -> bool:
        """Whether a file's bytes are UTF-8 and need no conversion."""
        return codecs.lookup(self.encoding).name == "utf-8"

    @property
    def clock(self) -> WallClock | None:
        """The clock of ``time_zone``."""
        return WallClock.named(self.time_zone) if self.time_zone else None

    def read_time(self, text: str) -> tuple[datetime, bool]:
        """Parse a time by one of ``times``; return it, and whether it has a time of day. ValueError: no format fits."""
        for written in self.times:
            try:
                return datetime.strptime(text, written), has_time_of_day(written)
            except ValueError:
                continue
        raise ValueError(text)


def has_time_of_day(written: str) -> bool:
    """Whether a format has more than a day."""
    return any(part in written for part in _OF_THE_DAY)


def plain_pattern(written: str) -> str | None:
    """Return a regular expression for texts of a numeric format with a time of day, each number in its range and at
    full width; None for other formats."""
    parts = re.split(r"(%.)", written)
    if not {"%d", "%m", "%Y", "%H", "%M"} <= set(parts) or set(parts[1::2]) - set(_NUMBERS):
        return None
    return f"^{''.join(_NUMBERS.get(part, re.escape(part)) for part in parts)}$"


def _check_time_format(text: str) -> None:
    if "%Z" in text:
        raise UserError(f"times: {text!r}: the letters of a zone name no offset; %z reads +0100, +01:00 and Z")
    try:
        read = datetime.strptime(_EXAMPLE.replace(tzinfo=UTC).strftime(text), text)
    except ValueError as error:
        raise UserError(f"times: {text!r} is no format that strptime reads ({error})") from None
    if (read.month, read.day) != (_EXAMPLE.month, _EXAMPLE.day) or read.year == 1900:
        raise UserError(f"times: {text!r} must say year, month and day, like '%d.%m.%Y %H:%M'")
