"""Shifted hospital time as integer seconds since 1970-01-01, and its two spellings.

Integers keep the generator fast; nothing outside this room sees them.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

MINUTE = 60
HOUR = 3600
DAY = 86400
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1)


class _Days(dict[int, str]):
    def __missing__(self, day: int) -> str:
        text = self[day] = (_EPOCH + timedelta(days=day)).isoformat()
        return text


class _Clocks(dict[int, str]):
    def __missing__(self, second: int) -> str:
        text = self[second] = f" {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        return text


_DAYS = _Days()
_CLOCKS = _Clocks()


def stamp(moment: int) -> str:
    """Return ``YYYY-MM-DD HH:MM:SS``."""
    day, second = divmod(moment, 86400)
    return _DAYS[day] + _CLOCKS[second]


def day_stamp(moment: int) -> str:
    """Return ``YYYY-MM-DD``."""
    return _DAYS[moment // 86400]


def at_minute(moment: float) -> int:
    """Cut to the whole minute: nurses and laboratories chart minutes."""
    whole = int(moment)
    return whole - whole % 60


def moment_of(year: int, month: int, day: int, hour: int = 0) -> int:
    """Return the moment of a calendar date and hour."""
    return ((date(year, month, day) - _EPOCH).days * 24 + hour) * HOUR


def calendar(moment: int) -> datetime:
    """Return the moment as a datetime."""
    return _EPOCH_TIME + timedelta(seconds=moment)
