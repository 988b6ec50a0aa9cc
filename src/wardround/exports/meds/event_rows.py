"""Events as columns, the codes seen, and what is counted: what the parts of an export hand to each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.rules.language import ALWAYS_TIME, NO_TIME, Times

TimeMode = Literal["known", "event"]
Integers = npt.NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class CodeBook:
    """What was seen of every code: how often under which description, and the groups that it belongs to."""

    descriptions: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    parents: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def saw(self, code: str, description: str, count: int) -> None:
        """Note a code with its description; one that only repeats the code says nothing."""
        self.descriptions[code][description if description != code else ""] += count


@dataclass(slots=True, kw_only=True)
class EventCounts:
    """What an export wrote and left out."""

    events: int = 0
    later: int = 0
    """Events that are a row once more, with cells that were not known at first."""
    never_visible: int = 0
    births: int = 0
    deaths: int = 0
    masked_births: int = 0
    """Dates of birth that would make a person older than people get: how a source hides the age of the very old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRows:
    """Events as columns, not yet in order. ``time`` holds what goes into the MEDS column, ``NO_TIME`` for null;
    ``tells``: whether they tell how rows read, so that a later telling of a row takes the place of one before."""

    subject: Integers
    time: Times
    event: Times
    known: Times
    number: Integers
    concept: Integers
    value: npt.NDArray[np.float64]
    codes: tuple[str, ...]
    text: Any
    unit: Any
    row_id: Any
    tells: bool = False

    @property
    def telling_of(self) -> Any:
        """The rows that they tell of, null where they do not."""
        return self.row_id if self.tells else pa.nulls(len(self.row_id), pa.string())


def plain_events(
    *,
    subject: Integers,
    event: Times,
    known: Times,
    time: Times,
    concept: Integers,
    codes: tuple[str, ...],
    row_id: Any,
) -> EventRows:
    """Return events that are a code and nothing else."""
    nothing = pa.nulls(len(subject), pa.string())
    return EventRows(
        subject=subject,
        time=null_static(time),
        event=null_static(event),
        known=null_static(known),
        number=np.zeros(len(subject), np.int64),
        concept=concept,
        value=np.full(len(subject), np.nan),
        codes=codes,
        text=nothing,
        unit=nothing,
        row_id=row_id,
    )


def null_static(times: Times) -> Times:
    return np.where(times <= ALWAYS_TIME, NO_TIME, times)
