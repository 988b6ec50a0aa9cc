"""Detect the formats of time cells, and whether day and month can be told apart."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

_DAYS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%b-%Y",
    "%d %b %Y",
)
_WITHOUT_OFFSET = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_CLOCKS = (*_WITHOUT_OFFSET, *(f"{clock}%z" for clock in _WITHOUT_OFFSET[1:6]))
_FORMATS = tuple(f"{day}{clock}" for day in _DAYS for clock in _CLOCKS)
_CELLS_READ = 400
_SHORTEST, _LONGEST = 6, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeFormats:
    """``formats`` read every cell. ``others`` also read every cell, but as other days: the cells do not decide it."""

    formats: tuple[str, ...]
    others: tuple[str, ...] = ()


def time_formats(cells: Collection[str]) -> TimeFormats | None:
    """Return the formats of some cells; None if one of them is not a time."""
    ordered = sorted(cells)
    left = (
        ordered
        if len(ordered) <= _CELLS_READ
        else [ordered[n * len(ordered) // _CELLS_READ] for n in range(_CELLS_READ)]
    )
    if not all(_SHORTEST <= len(cell) <= _LONGEST and any(map(str.isdigit, cell)) for cell in left):
        return None
    found: list[str] = []
    others: list[str] = []
    while left:
        reads = {written: [cell for cell in left if _is(cell, written)] for written in _FORMATS}
        best = max(_FORMATS, key=lambda written: len(reads[written]))
        if not reads[best]:
            return None
        found.append(best)
        same = (w for w in _FORMATS if w != best and reads[w] == reads[best] and _swapped(w) == _swapped(best))
        others += same
        left = [cell for cell in left if cell not in set(reads[best])]
    return TimeFormats(formats=tuple(found), others=tuple(others))


def _is(cell: str, written: str) -> bool:
    try:
        datetime.strptime(cell, written)
    except ValueError:
        return False
    return True


def _swapped(written: str) -> str:
    """Return a format with day and month exchanged for one common sign."""
    return written.replace("%d", "%m")
