"""The clock on the wall of one place: times that say how far they are from UTC, read in its time zone.

Exports of several systems hold times of one record in several offsets, or all in UTC. Which place they are of no
resource says; a person does, at ingest.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from wardround.core import UserError
from wardround.records.sources.fhir.files import Found, Json

_TIME = re.compile(r"\s*(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\s*")
_SHORTEST = 17
_SECOND = timedelta(seconds=1)
_CHANGES_A_YEAR = 2
"""Clocks are put forward in one month of a year and back in another."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """Reads times on the clock of a zone."""

    zone: ZoneInfo

    @classmethod
    def named(cls, name: str) -> WallClock:
        """Return the clock of a zone of the IANA list. UserError: there is none of that name."""
        try:
            return cls(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UserError(
                f"no time zone {name!r}; names are those of the IANA list, as America/New_York "
                "(where the system has none of them: pip install tzdata)"
            ) from error

    def of(self, found: Found) -> Found:
        """Return a resource with every time that has an offset on this clock, without one."""
        return replace(found, resource=self._read(found.resource)) if found.resource else found

    def text(self, value: str) -> str:
        """Return what the clock showed at a time; what is no time, or has no offset, as it is.

        In the hour that is gone through twice in autumn the second pass reads as its end: so order is kept.
        """
        parts = _TIME.fullmatch(value) if len(value) >= _SHORTEST else None
        if parts is None:
            return value
        seconds, fraction, offset = parts.groups()
        try:
            shown = self._shown(f"{seconds}{offset}")
        except (ValueError, OverflowError):
            return value  # no day of any calendar, or at its edge: whoever reads the cell says so
        if shown.fold:
            return _end_of_second_pass(shown).isoformat()
        return shown.replace(tzinfo=None).isoformat() + (f".{fraction}" if fraction else "")

    def _shown(self, value: str) -> datetime:
        return datetime.fromisoformat(value).astimezone(self.zone)

    def _read(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self._read(each) for name, each in value.items()}
        return [self._read(each) for each in value] if isinstance(value, list) else value


def _end_of_second_pass(shown: datetime) -> datetime:
    """Return what the clock shows when the repeated hour is over for good: where it was first put back from."""
    before, after = shown.replace(fold=0).utcoffset(), shown.utcoffset()
    assert before is not None
    assert after is not None
    start = shown.astimezone(UTC).replace(microsecond=0) - (before - after)
    seconds = range(int((before - after).total_seconds()) + 1)
    put_back = bisect_left(
        seconds, True, key=lambda passed: (start + passed * _SECOND).astimezone(shown.tzinfo).utcoffset() == after
    )
    return (start + put_back * _SECOND + before).replace(tzinfo=None)


@dataclass(slots=True)
class OffsetCounts:
    """How many times of a file say which offset, by month: whether one place's clock explains them."""

    months: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, resource: Json) -> None:
        """Count the times of a resource."""
        for value in _times(resource):
            self.months[value[:7]][value[-1] if value[-1] == "Z" else value[-6:]] += 1

    @property
    def unexplained(self) -> int:
        """How many times have another offset than most of their month, beyond what summer time explains: an hour, in
        two months of a year."""
        mixed = {month: counts for month, counts in self.months.items() if len(_apart(counts)) > 1}
        years = Counter(month[:4] for month in mixed)
        return sum(
            counts.total() - max(counts.values())
            for month, counts in mixed.items()
            if years[month[:4]] > _CHANGES_A_YEAR or max(_apart(counts)) - min(_apart(counts)) > timedelta(hours=1)
        )


def _apart(counts: Counter[str]) -> set[timedelta]:
    return set(map(_from_utc, counts))


@lru_cache(maxsize=256)
def _from_utc(offset: str) -> timedelta:
    if offset == "Z":
        return timedelta(0)
    away = timedelta(hours=int(offset[1:3]), minutes=int(offset[4:6]))
    return -away if offset[0] == "-" else away


def _times(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _SHORTEST and value[10] == "T" and _TIME.fullmatch(value):
            yield value.strip()
    elif isinstance(value, dict):
        for each in value.values():
            yield from _times(each)
    elif isinstance(value, list):
        for each in value:
            yield from _times(each)
