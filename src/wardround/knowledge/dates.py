"""Dates as publishers write them, read as the last day that they can mean: what is not surely earlier is later."""

from __future__ import annotations

import calendar
import re
from datetime import date

from wardround.core import UserError

_MONTHS = {name.casefold(): number for number, name in enumerate(calendar.month_abbr) if name}
_SEASONS = {"winter": 12, "spring": 6, "summer": 9, "autumn": 12, "fall": 12}
_NUMBERS = re.compile(r"\s*(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?(?!\d)")
_WORDS = re.compile(r"\s*(\d{4})\s+([A-Za-z]{3,})\.?(?:\s+(\d{1,2}))?")
_SPAN = re.compile(r"\s*(\d{4})(?:\s+[A-Za-z]{3,}\.?)?(?:\s+\d{1,2})?\s*[-/]\s*(\d{4}\b)?\s*([A-Za-z]{3,}.*)?$")


def last_day(written: str) -> date | None:
    """Return the last day that a written date can mean, None where it is no date.

    >>> last_day("2011"), last_day("2011 Feb"), last_day("2011-03-05T10:00:00Z")
    (datetime.date(2011, 12, 31), datetime.date(2011, 2, 28), datetime.date(2011, 3, 5))
    """
    span = _SPAN.match(written)
    if span is not None and (span[2] or span[3]):
        return last_day(f"{span[2] or span[1]} {span[3] or ''}")
    found = _WORDS.match(written)
    if found is not None and _month(found[2]) is not None:
        return _last(int(found[1]), _month(found[2]), found[3])
    found = _NUMBERS.match(written)
    if found is None:
        return None
    return _last(int(found[1]), int(found[2]) if found[2] else None, found[3])


def read_day(written: str, what: str) -> date:
    """Return the day that a person wrote as YYYY-MM-DD. UserError: it is none. ``what`` names it."""
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise UserError(f"{what} is a day written like 2024-01-31, not {written!r}") from None


def _month(word: str) -> int | None:
    return _MONTHS.get(word[:3].casefold()) or _SEASONS.get(word.casefold())


def _last(year: int, month: int | None, day: str | None) -> date | None:
    try:
        if month is None:
            return date(year, 12, 31)
        return date(year, month, int(day) if day else calendar.monthrange(year, month)[1])
    except (ValueError, calendar.IllegalMonthError):
        return None
