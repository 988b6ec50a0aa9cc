"""The words in which a swap table says when something could be known, read into functions of a row.

``storetime`` (a time), ``day chartdate`` (the end of a day), ``dated time`` (midnight stands for its day), ``zero``
(where minutes count from), ``stay ends by hadm_id`` (the last moment of other rows with that key), ``discharge after
time by subject_id unless admission`` (the next such moment, if no ``admission`` lies before it), ``stoptime + 1h``,
``a | b`` (the first that is filled), ``earlier(a, b)``, ``always``, ``never``. A key may be several columns,
``subject_id+time``, or the last part of a code, ``code:tail``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Protocol

from wardround.audits.swap.moments import last_second, read_moment
from wardround.core import RecordError

_LAG = re.compile(r"(.+?)\s*\+\s*(\d+)\s*(min|h|d)")
_AFTER = re.compile(r"(.+?) after (.+) by (\S+?)(?: unless (.+))?")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class Cells(Protocol):
    """A row or a resource: the texts that stand at a path, empty ones left out."""

    def texts(self, path: str) -> Sequence[str]:
        """Return them."""


@dataclass(slots=True, kw_only=True)
class Clockwork:
    """What clocks need besides the row: moments of other rows, and where minutes count from, if times are minutes."""

    anchors: dict[str, dict[str, list[datetime]]] = field(default_factory=dict)
    minutes_of: str | None = None
    zeros: Mapping[str, datetime] = field(default_factory=dict)

    def moment(self, cells: Cells, path: str) -> datetime | None:
        """Return the latest time that stands at a path."""
        found = [each for text in cells.texts(path) if (each := self.read(cells, path, text)) is not None]
        return max(found, default=None)

    def read(self, cells: Cells, path: str, text: str) -> datetime | None:
        """Read one text as a time: as written, or as minutes since the row's zero."""
        if self.minutes_of is None or not path.endswith("offset"):
            return read_moment(text)
        zero = self.zero(cells)
        try:
            return None if zero is None else zero + timedelta(minutes=float(text))
        except (ValueError, OverflowError):
            return None

    def zero(self, cells: Cells) -> datetime | None:
        """Return the moment from which a row's minutes count."""
        keys = cells.texts(self.minutes_of or "")
        return self.zeros.get(keys[0]) if keys else None


Clock = Callable[[Cells, Clockwork], "datetime | None"]


def read_clock(text: str) -> Clock:
    """Read one clock. RecordError: it is not written as above."""
    choices = [part.strip() for part in _split(text, "|")]
    if len(choices) > 1:
        clocks = [read_clock(part) for part in choices]
        return lambda cells, work: next((at for clock in clocks if (at := clock(cells, work)) is not None), None)
    lag = _LAG.fullmatch(text)
    if lag is not None:
        inner, delay = read_clock(lag[1]), int(lag[2]) * _UNITS[lag[3]]
        return lambda cells, work: None if (at := inner(cells, work)) is None else at + delay
    if text.startswith("earlier(") and text.endswith(")"):
        parts = [read_clock(part.strip()) for part in _split(text[8:-1], ",")]
        return lambda cells, work: min((at for part in parts if (at := part(cells, work)) is not None), default=None)
    return _atom(text)


def _split(text: str, mark: str) -> list[str]:
    """Cut at a mark that stands in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _atom(text: str) -> Clock:
    if text == "always":
        return lambda cells, work: datetime.min
    if text == "never":
        return lambda cells, work: datetime.max
    if text == "zero":
        return lambda cells, work: work.zero(cells)
    word, _, rest = text.partition(" ")
    if word in ("day", "dated") and " " not in rest.strip():
        path = rest.strip()
        return lambda cells, work: _by_the_day(work.moment(cells, path), always=word == "day")
    after = _AFTER.fullmatch(text)
    if after is not None:
        return _following(after[1], read_clock(after[2]), after[3], after[4])
    anchor, by, path = text.partition(" by ")
    if by:
        return lambda cells, work: max(_moments(cells, work, anchor, path.strip()), default=None)
    if " " in text or not text:
        raise RecordError(f"swap table: {text!r} is no clock")
    return lambda cells, work: work.moment(cells, text)


def _by_the_day(moment: datetime | None, *, always: bool) -> datetime | None:
    if moment is None or not (always or moment.time() == time.min):
        return moment
    return last_second(moment)


def _following(anchor: str, start: Clock, path: str, other: str | None) -> Clock:
    def clock(cells: Cells, work: Clockwork) -> datetime | None:
        begun = start(cells, work)
        if begun is None:
            return None
        found = min((at for at in _moments(cells, work, anchor, path) if at >= begun), default=None)
        if found is None or other is None:
            return found
        return None if any(begun < at < found for at in _moments(cells, work, other, path)) else found

    return clock


def keys_of(cells: Cells, path: str) -> list[str]:
    """Return the keys that a row names at a path; references without the kind."""
    if "+" in path:
        parts = [keys_of(cells, part) for part in path.split("+")]
        return ["+".join(part[0] for part in parts)] if all(parts) else []
    if path.endswith(":tail"):
        return [text.rpartition("//")[2] for text in cells.texts(path.removesuffix(":tail"))]
    return [text.strip().rpartition("/")[2].removeprefix("urn:uuid:") for text in cells.texts(path)]


def _moments(cells: Cells, work: Clockwork, anchor: str, path: str) -> list[datetime]:
    if anchor not in work.anchors:
        raise RecordError(f"swap table: no anchor {anchor!r}")
    moments = work.anchors[anchor]
    return [at for key in keys_of(cells, path) for at in moments.get(key, ())]


def latest(clocks: Sequence[Clock], cells: Cells, work: Clockwork) -> datetime | None:
    """Return the latest of several clocks; None where none has a time."""
    return max((at for clock in clocks if (at := clock(cells, work)) is not None), default=None)
