"""Bundles as columns: all events that became known of one subject within one clock hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from functools import cached_property
from math import isnan
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import from_microseconds

# Kinds of events, types of decisions, and levels of values.


class EventKind(IntEnum):
    """What happened. The numbers are written in columns and files: they never change."""

    ADMISSION = 1
    TRANSFER = 2
    DISCHARGE = 3
    DIAGNOSIS = 4
    ALLERGY = 5
    MEDICATION_START = 6
    MEDICATION_STOP = 7
    ADMINISTRATION = 8
    LAB = 9
    CULTURE_TAKEN = 10
    """A specimen of which nothing is known yet."""
    CULTURE = 11
    VITAL = 12
    INTAKE = 13
    """An amount, or a rate at a moment, without a recorded end."""
    INFUSION_START = 14
    INFUSION_STOP = 15
    OUTPUT = 16
    PROCEDURE = 17
    PROCEDURE_STOP = 18
    RETRACTION = 19
    """A row was entered in error or cancelled: from here on it does not exist."""
    CODED_ALLERGY = 20
    """A diagnosis that records an allergy (ICD Z88.0); unlike a list of allergies it says nothing about others."""


class ActionType(StrEnum):
    """Types of decisions to predict for the next hours (the paper's three kinds of bundle, appendix A.3)."""

    MEDICATIONS = "MEDICATIONS"
    LABS = "LABS"
    PROCEDURES = "PROCEDURES"


class ValueLevel(IntEnum):
    """A value compared with the limits of its row, else usual limits, else the person's own first value."""

    UNKNOWN = 0
    LOW = 1
    NORMAL = 2
    HIGH = 3
    BELOW_BASELINE = 4
    AT_BASELINE = 5
    ABOVE_BASELINE = 6


STOPS: Mapping[EventKind, EventKind] = {
    EventKind.ADMISSION: EventKind.DISCHARGE,
    EventKind.MEDICATION_START: EventKind.MEDICATION_STOP,
    EventKind.INFUSION_START: EventKind.INFUSION_STOP,
    EventKind.PROCEDURE: EventKind.PROCEDURE_STOP,
}
"""By kind that begins: the kind that ends it."""
ENDS = tuple(STOPS.values())
DIAGNOSED = (EventKind.DIAGNOSIS, EventKind.CODED_ALLERGY)
ALLERGIC = (EventKind.ALLERGY, EventKind.CODED_ALLERGY)
MEASURED = (EventKind.LAB, EventKind.VITAL)
"""Kinds whose values have a level."""


# Events as columns, cut into bundles: all events that became known of one subject within one clock hour.


HOUR = 3_600_000_000
"""Microseconds of an hour."""
Integers = npt.NDArray[np.int64]


class BundleEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One event of a bundle.

    ``time``: when it happened; ``known``: when it became known; ``text``: the value in words, of orders the dose;
    ``revision`` above 0: the row was known before and reads like this from now on."""

    kind: EventKind
    concept: str
    value: float | None
    text: str | None
    unit: str | None
    level: ValueLevel
    time: datetime
    known: datetime
    row_id: str
    revision: int


@dataclass(frozen=True, kw_only=True)
class BundleEvents:
    """Events as columns of one length n, in order of subject, hour, event time and time known.

    ``event``, ``known``: microseconds since 1970; ``concept``: places in ``names``; ``value``: NaN if missing;
    ``timed``: whether the event's time is a moment rather than a day or a stay. Words are Arrow arrays.
    """

    subject: Integers
    event: Integers
    known: Integers
    kind: npt.NDArray[np.int8]
    concept: Integers
    value: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    level: npt.NDArray[np.int8]
    revision: Integers
    timed: npt.NDArray[np.bool_]
    names: tuple[str, ...] = field(repr=False)
    text: Any = field(repr=False)
    unit: Any = field(repr=False)
    row_id: Any = field(repr=False)
    encounter: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.subject)

    @property
    def hour(self) -> Integers:
        """(n,) the clock hour in which each became known, in hours since 1970."""
        return self.known // HOUR

    def slice(self, start: int, stop: int) -> BundleEvents:
        """Return a slice of the events, without a copy."""
        return BundleEvents(
            **{name: getattr(self, name)[start:stop] for name in NUMBERS},
            **{name: getattr(self, name).slice(start, stop - start) for name in WORDS},
            names=self.names,
        )

    def alone(self) -> BundleEvents:
        """Return a copy that keeps no reference to the columns it was cut from, and only its own names."""
        used, concept = np.unique(self.concept, return_inverse=True)
        numbers = {name: getattr(self, name).copy() for name in NUMBERS} | {"concept": concept}
        words = {name: pa.concat_arrays([getattr(self, name)]) for name in WORDS}
        return BundleEvents(**numbers, **words, names=tuple(self.names[place] for place in used.tolist()))

    def take(self, rows: Integers | npt.NDArray[np.bool_]) -> BundleEvents:
        """Return events by their places or by a mask."""
        places = np.flatnonzero(rows) if rows.dtype == bool else rows
        wanted = pa.array(places)
        return BundleEvents(
            **{name: getattr(self, name)[places] for name in NUMBERS},
            **{name: getattr(self, name).take(wanted) for name in WORDS},
            names=self.names,
        )

    def __iter__(self) -> Iterator[BundleEvent]:
        numbers = (getattr(self, name).tolist() for name in ("kind", "concept", "value", "level"))
        times = (getattr(self, name).view("datetime64[us]").tolist() for name in ("event", "known"))
        words = (getattr(self, name).to_pylist() for name in ("text", "unit", "row_id"))
        rows = zip(*numbers, *times, *words, self.revision.tolist(), strict=True)
        for kind, concept, value, level, event, known, text, unit, row_id, revision in rows:
            yield BundleEvent(
                kind=_KINDS[kind],
                concept=self.names[concept],
                value=None if isnan(value) else value,
                text=text,
                unit=unit,
                level=_LEVELS[level],
                time=event,
                known=known,
                row_id=row_id,
                revision=revision,
            )


_TOGETHER = 512
"""Number of bundles whose event objects are made together."""
_KINDS = {int(kind): kind for kind in EventKind}
_LEVELS = {int(level): level for level in ValueLevel}
NUMBERS = ("subject", "event", "known", "kind", "concept", "value", "low", "high", "level", "revision", "timed")
WORDS = ("text", "unit", "row_id", "encounter")


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The events that became known of a subject within the clock hour that begins at ``hour``.

    ``gap_hours``: clock hours since the previous bundle, None for the first. ``within``, ``start``: the columns that
    have its events, and where they begin. ``encounter``: the stay that its rows name.
    """

    subject_id: int
    hour: datetime
    gap_hours: int | None
    events: tuple[BundleEvent, ...]
    within: BundleEvents = field(repr=False)
    start: int

    @cached_property
    def columns(self) -> BundleEvents:
        """Its events as columns, without a copy."""
        return self.within.slice(self.start, self.start + len(self.events))

    @cached_property
    def encounter(self) -> str | None:
        """The stay that the first row with a stay names."""
        return next((name for name in self.columns.encounter.to_pylist() if name is not None), None)

    def of_kind(self, *kinds: EventKind) -> tuple[BundleEvent, ...]:
        """Return its events of some kinds."""
        return tuple(event for event in self.events if event.kind in kinds)


@dataclass(frozen=True, kw_only=True)
class BundleStream:
    """The bundles of some subjects, in order. ``starts``: (b + 1,) where each bundle's events begin."""

    columns: BundleEvents = field(repr=False)
    starts: Integers = field(repr=False)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def subjects(self) -> Integers:
        """(b,) the subject of each bundle."""
        return self.columns.subject[self.starts[:-1]]

    @cached_property
    def hours(self) -> Integers:
        """(b,) the hour of each bundle, in hours since 1970."""
        return self.columns.hour[self.starts[:-1]]

    @cached_property
    def gaps(self) -> Integers:
        """(b,) clock hours since the subject's previous bundle, 0 for the first."""
        follows = self.subjects[1:] == self.subjects[:-1]
        first = np.zeros(min(len(self), 1), np.int64)
        return np.concatenate([first, np.where(follows, np.diff(self.hours), 0)])

    def __getitem__(self, place: int) -> Bundle:
        if not 0 <= place < len(self):
            raise IndexError(place)
        return next(self.between(place, place + 1))

    def __iter__(self) -> Iterator[Bundle]:
        for first in range(0, len(self), _TOGETHER):
            yield from self.between(first, min(first + _TOGETHER, len(self)))

    def hour_at(self, place: int) -> datetime:
        """Return the hour of one bundle, without its events."""
        return from_microseconds(int(self.hours[place]) * HOUR)

    def between(self, first: int, stop: int) -> Iterator[Bundle]:
        """Yield the bundles from ``first`` to before ``stop``; their event objects are made together."""
        if not 0 <= first <= stop <= len(self):
            raise IndexError(stop)
        starts = self.starts[first : stop + 1].tolist()
        columns = self.columns.slice(starts[0], starts[-1]).alone()
        events = tuple(columns)
        each = (self.subjects, self.hours, self.gaps)
        places = zip(*(column[first:stop].tolist() for column in each), starts, starts[1:], strict=False)
        for subject, hour, gap, start, end in places:
            yield Bundle(
                subject_id=subject,
                hour=from_microseconds(hour * HOUR),
                gap_hours=gap or None,
                events=events[start - starts[0] : end - starts[0]],
                within=columns,
                start=start - starts[0],
            )


def in_order(events: BundleEvents) -> BundleEvents:
    """Sort events by subject, hour, event time and time known.

    Ties are sorted by kind, name and value, so the order of a file does not matter; remaining ties keep their order.
    """
    rank = np.empty(len(events.names), np.int64)
    rank[np.argsort(np.array(events.names, dtype=object), kind="stable")] = np.arange(len(events.names))
    name = rank[events.concept] if len(rank) else events.concept
    keys = (events.value, name, events.kind, events.known, events.event, events.hour, events.subject)
    return events.take(np.lexsort(keys))


def cut(columns: BundleEvents) -> BundleStream:
    """Divide sorted events into bundles."""
    if not len(columns):
        return BundleStream(columns=columns, starts=np.zeros(1, np.int64))
    hour, subject = columns.hour, columns.subject
    fresh = np.r_[True, (subject[1:] != subject[:-1]) | (hour[1:] != hour[:-1])]
    return BundleStream(columns=columns, starts=np.r_[np.flatnonzero(fresh), len(columns)])


def amends(event: BundleEvent) -> bool:
    """Whether an event changes an earlier one."""
    return event.kind is EventKind.RETRACTION or (event.revision > 0 and event.kind not in ENDS)


def is_amendment(events: BundleEvents) -> npt.NDArray[np.bool_]:
    """Return which events change earlier ones: the row reads differently from now on, or is withdrawn."""
    changed = (events.revision > 0) & ~np.isin(events.kind, ENDS)
    return np.asarray(changed | (events.kind == EventKind.RETRACTION))
