"""Whether the clock of one place explains the offsets that a file's times have.

Exports of several systems hold times of one record in several offsets, or all in UTC. Which place they are of no
resource says; a person does, at ingest.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any

from wardround.records.sources.fhir.files import Json

_TIME = re.compile(r"\s*(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\s*")
_SHORTEST = 17
_CHANGES_A_YEAR = 2
"""Clocks are put forward in one month of a year and back in another."""


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
