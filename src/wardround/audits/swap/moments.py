"""Texts that are times, whatever their file: read on the clock on the wall, moved with their form kept."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, time, timedelta
from functools import lru_cache

_TIME = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?(?:([ T])(\d\d):(\d\d)(?::(\d\d))?(\.\d+)?(Z|[+-]\d\d:?\d\d)?)?")
_LAST = time(23, 59, 59)
_END = datetime(9999, 12, 31, 23, 59, 59)


@lru_cache(maxsize=65_536)
def read_moment(text: str) -> datetime | None:
    """Return a time as written, its offset dropped; a day or month without a time is its last second. Kept: every clock
    of a row reads its times again."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, _, hour, minute, second, _, _ = found.groups()
    try:
        if day is None:
            return datetime(int(year), int(month), monthrange(int(year), int(month))[1], 23, 59, 59)
        if hour is None:
            return datetime.combine(datetime(int(year), int(month), int(day)), _LAST)
        return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))
    except ValueError:
        return None


def last_second(moment: datetime) -> datetime:
    """Return the last second of a moment's day."""
    return datetime.combine(moment, _LAST)


def spell(moment: datetime, form: str) -> str:
    """Write a moment in the form of another time's text; in a form without seconds, the minute that is not before it:
    what lies half a minute after an as-of time must not be written as that time."""
    found = _TIME.fullmatch(form.strip())
    if found is None or found[4] is None:
        return f"{moment:%Y-%m-%d}"
    if not found[7] and moment.second:
        moment += timedelta(seconds=60 - moment.second)
    clock = f"{moment:%H:%M:%S}" if found[7] else f"{moment:%H:%M}"
    return f"{moment:%Y-%m-%d}{found[4]}{clock}{found[9] or ''}"


def later(moment: datetime, as_of: datetime, stretch: float) -> datetime:
    """Return where a time lies in the other future: what lay after ``as_of`` still does, in the same order."""
    if moment <= as_of:
        return as_of + timedelta(hours=26) * stretch
    away = (moment - as_of).total_seconds() * stretch
    return as_of + timedelta(seconds=min(max(1.0, round(away)), (_END - as_of).total_seconds()))
