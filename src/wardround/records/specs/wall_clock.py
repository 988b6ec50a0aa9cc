"""The hospital's local time: convert times with a UTC offset, or of another zone.

When daylight saving time ends, an hour is repeated. All times of its second pass become the end of that hour, so that a
later row never seems earlier; a time without an offset in such an hour is read as the later of its two meanings.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from wardround.core import UserError, from_microseconds, to_microseconds

Microseconds = npt.NDArray[np.int64]
_TIME = re.compile(r"\s*(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?(Z|[+-]\d\d(?::?\d\d)?)\s*")
_OFFSET = re.compile(r"[+-](?:0\d|1[0-4]):[0-5]\d")
SHORTEST_TIME = 17
"""Shorter texts are no times with an offset."""
_SECOND, _DAY = 1_000_000, 86_400_000_000
_FIRST_YEAR, _LAST_YEAR = 3, 9997
"""Clocks are looked up in the years beside these too, and the calendar has no day before its first."""

_TICK = timedelta(microseconds=1)
_DAYS = [timedelta(days=day) for day in range(367)]
"""From the first day of a year to the first of the next, in a leap year."""

Change = tuple[int, int, int]
"""An instant at which a clock is put forward or back, and its offsets from UTC before and after, in microseconds."""


def offsets(value: Any) -> Iterator[str]:
    """Yield the UTC offsets of the times in texts, lists and tables, as written."""
    if isinstance(value, str):
        if len(value) >= SHORTEST_TIME and (parts := _TIME.fullmatch(value)) is not None:
            yield parts[3]
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from offsets(each)


class UndeclaredZone(Exception):
    """A time has a UTC offset or a zone, and no time zone of the hospital is declared."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """Converts times to the local time of a zone. Arrays are microseconds since 1970: UTC, or local time."""

    zone: tzinfo

    @classmethod
    def named(cls, name: str) -> WallClock:
        """Return the clock of an IANA zone, or of a fixed UTC offset (``-05:00``). UserError: unknown name."""
        return _named(name)

    def read(self, value: Any) -> Any:
        """Convert texts, and lists and tables of them, with :meth:`text`."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.read(each) for name, each in value.items()}
        return [self.read(each) for each in value] if isinstance(value, list) else value

    def text(self, value: str) -> str:
        """Convert a time to local time; a text that is not a time, or has no offset, is returned as it is.

        An impossible day, or one at the edge of the calendar, loses its offset: the reader of the cell reports the
        problem.
        """
        parts = _TIME.fullmatch(value) if len(value) >= SHORTEST_TIME else None
        if parts is None:
            return value
        seconds, fraction, offset = parts.groups()
        try:
            shift = self._steady_shift(seconds[:10], offset)
            if shift is None:
                whole = datetime.fromisoformat(f"{seconds}{offset}")
                shown = self.moment(whole)
                is_exact = shown == whole.astimezone(self.zone).replace(tzinfo=None)
            else:
                shown, is_exact = datetime.fromisoformat(seconds) + shift, True
                if not shift and len(seconds) == 19 and shown.day == int(seconds[8:10]):  # not 24:00:00
                    return seconds + (f".{fraction}" if fraction else "")
        except (ValueError, OverflowError):
            return seconds + (f".{fraction}" if fraction else "")
        return shown.isoformat("T" if seconds[10] == "T" else " ") + (f".{fraction}" if fraction and is_exact else "")

    def cell(self, value: str) -> str:
        """Convert a cell of a time column: as :meth:`text`; a time without an offset as :meth:`latest`."""
        try:
            naive = datetime.fromisoformat(value.strip()) if len(value) >= SHORTEST_TIME - 1 else None
        except ValueError:
            naive = None
        if naive is None or naive.tzinfo is not None or (latest := self.moment(naive)) == naive:
            return self.text(value)
        return latest.isoformat(" ")

    def moment(self, time: datetime) -> datetime:
        """Convert a time to local time; one without an offset as :meth:`latest`."""
        if time.tzinfo is None:
            return from_microseconds(self._latest(to_microseconds(time), time.year))
        utc = time.astimezone(UTC).replace(tzinfo=None)
        instant = to_microseconds(utc)
        near = _beside(self.zone, utc.year)
        at, before, after = next((change for change in near[::-1] if change[0] <= instant), near[0])
        return from_microseconds(max(instant + after, at + before))

    def _steady_shift(self, day: str, offset: str) -> timedelta | None:
        """Return the difference of local time to a time written with an offset; None near a clock change."""
        for first, last, away in _steady_days(self.zone, day[:4]):
            if first <= day <= last:
                return away - _away(offset)
        return None

    def _latest(self, local: int, year: int) -> int:
        for at, before, after in _beside(self.zone, year):
            if at + min(before, after) <= local < at + max(before, after):
                return at + before if after < before else local + after - before
        return local

    def shown(self, instants: Microseconds) -> Microseconds:
        """Return the local times of UTC instants: never earlier for a later instant."""
        changes = self._changes(instants)
        place = np.maximum(np.searchsorted(changes[:, 0], instants, side="right") - 1, 0)
        at, before, after = changes[place].T
        shown: Microseconds = np.maximum(instants + after, at + before)
        return shown

    def latest(self, times: Microseconds) -> Microseconds:
        """Return times without an offset; a time that occurs twice or never is read as the later possible one."""
        changes = self._changes(times)
        begins, ends = changes[:, 0] + changes[:, 1:].min(axis=1), changes[:, 0] + changes[:, 1:].max(axis=1)
        place = np.maximum(np.searchsorted(begins, times, side="right") - 1, 0)
        forward = (changes[:, 2] - changes[:, 1])[place]
        return np.where(times < ends[place], np.where(forward < 0, ends[place], times + forward), times)

    def repeated(self, times: Microseconds) -> int:
        """Return how many times are in an hour that occurs twice, its end included."""
        changes = self._changes(times)
        back = changes[changes[:, 2] < changes[:, 1]]
        place = np.searchsorted(back[:, 0] + back[:, 2], times, side="right") - 1
        inside = (place >= 0) & (times <= (back[:, 0] + back[:, 1])[place]) if len(back) else np.zeros(0, bool)
        return int(np.count_nonzero(inside))

    def joined(self, times: Microseconds) -> npt.NDArray[np.bool_]:
        """Return which times are the end of an hour that occurs twice: all times of its second pass are there."""
        changes = self._changes(times)
        back = changes[changes[:, 2] < changes[:, 1]]
        return np.isin(times, back[:, 0] + back[:, 1])

    def _changes(self, times: Microseconds) -> Microseconds:
        """Return the clock changes around some times, one row each; years without a change have a row without
        effect."""
        years = np.unique(times.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64)) + 1970
        return np.array(self._near(years.tolist()), np.int64)

    def _near(self, years: Sequence[int]) -> list[Change]:
        """Return the clock changes of some years and those beside them; for years after a gap also the start."""
        inside = (min(max(year, _FIRST_YEAR), _LAST_YEAR) for year in years or [1970])
        near = sorted({year + away for year in inside for away in (-1, 0, 1)})
        return [change for year in near for change in _changes_of(self.zone, year)[year - 1 in near :]]


@lru_cache(maxsize=64)
def _named(name: str) -> WallClock:
    try:
        return WallClock(_fixed(name) if _OFFSET.fullmatch(name) else ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UserError(
            f"no time zone {name!r}; names are those of the IANA list, as America/New_York, or an offset, as -05:00 "
            "(where the system has none of them: pip install tzdata)"
        ) from error


def _fixed(offset: str) -> tzinfo:
    away = timedelta(hours=int(offset[1:3]), minutes=int(offset[4:]))
    return timezone(-away if offset[0] == "-" else away)


@lru_cache(maxsize=4096)
def _beside(zone: tzinfo, year: int) -> list[Change]:
    """Return the clock changes of a year and of those beside it."""
    return WallClock(zone)._near([year])


@lru_cache(maxsize=4096)
def _steady_days(zone: tzinfo, year: str) -> list[tuple[str, str, timedelta]]:
    """Return the first and the last day of each part of a year that is two days or more from any clock change and from
    the year's ends, and the offset from UTC there."""
    number = int(year)
    if not _FIRST_YEAR <= number <= _LAST_YEAR:
        return []
    changes = [*_changes_of(zone, number), (to_microseconds(datetime(number + 1, 1, 1)), 0, 0)]
    return [
        (str(from_microseconds(at + 2 * _DAY).date()), str(from_microseconds(end - 3 * _DAY).date()), after * _TICK)
        for (at, _, after), (end, _, _) in pairwise(changes)
    ]


@lru_cache(maxsize=1024)
def _away(offset: str) -> timedelta:
    """Return an offset from UTC as written. ValueError: it is none."""
    return datetime(2000, 1, 1, tzinfo=UTC) - datetime.fromisoformat(f"2000-01-01T00:00{offset}")


@lru_cache(maxsize=4096)
def _changes_of(zone: tzinfo, year: int) -> tuple[Change, ...]:
    """Return the clock changes of a year; the first row is its start, without effect."""
    start = to_microseconds(datetime(year, 1, 1))
    first = datetime(year, 1, 1, tzinfo=UTC)
    offsets = [(first + each).astimezone(zone).utcoffset() for each in _DAYS[: 367 if isleap(year) else 366]]
    changes = [(start, before := _offset(zone, start), before)]
    for number, (earlier, later) in enumerate(pairwise(offsets)):
        if earlier != later:
            day = start + number * _DAY
            before, after = _offset(zone, day), _offset(zone, day + _DAY)
            seconds = range(day, day + _DAY + 1, _SECOND)
            changes.append(
                (seconds[bisect_left(seconds, True, key=lambda at: _offset(zone, at) != before)], before, after)
            )
    return tuple(changes)


def _offset(zone: tzinfo, instant: int) -> int:
    """Return the UTC offset of a zone at an instant."""
    away = from_microseconds(instant).replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert away is not None
    return away // _TICK
