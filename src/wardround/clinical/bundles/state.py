"""A subject's typed state (TRACE's individual protocol), with corrections and withdrawals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import isclose
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.clinical.bundles.events import (
    ENDS,
    NUMBERS,
    WORDS,
    BundleEvent,
    BundleEvents,
    BundleStream,
    EventKind,
    Integers,
    ValueLevel,
    cut,
    in_order,
)
from wardround.clinical.bundles.text import with_levels
from wardround.core import to_microseconds

Section = Literal["problems", "medications", "trends", "allergies", "actions"]
Direction = Literal["rising", "falling", "steady"]
STEADY_SHARE = 0.05
"""A change below this share of the first value counts as steady (our choice)."""
BEFORE_ADMISSION = timedelta(hours=24)
"""Actions up to this long before an admission, in the emergency department say, belong to it (our choice)."""
CONTINUES = timedelta(hours=6)
"""A stay that begins this soon after another continues it: a ward after the emergency department."""


class ActiveProblem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A diagnosis on the chart. ``since``, ``last``: when it was first and last made known."""

    concept: str
    since: datetime
    last: datetime
    row_ids: tuple[str, ...]


class ActiveMedication(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A running order or infusion, without a known end. ``dose`` as written."""

    concept: str
    dose: str | None
    unit: str | None
    since: datetime
    kind: EventKind
    row_id: str


class TrendReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One measured value of a trend."""

    time: datetime
    value: float
    level: ValueLevel
    row_id: str


class Trend(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A measurement within a window that ends at its last reading. ``readings``: in the window, by time."""

    concept: str
    unit: str | None
    kind: EventKind
    readings: tuple[TrendReading, ...]

    @property
    def last(self) -> TrendReading:
        """The newest reading."""
        return self.readings[-1]

    @property
    def change(self) -> float:
        """The last value minus the first of the window, in ``unit``."""
        return self.last.value - self.readings[0].value

    @property
    def hours(self) -> float:
        """Hours between the first reading of the window and the last."""
        return (self.last.time - self.readings[0].time).total_seconds() / 3600

    @property
    def direction(self) -> Direction:
        """Rising, falling or steady: see ``STEADY_SHARE``."""
        least = abs(self.readings[0].value) * STEADY_SHARE
        if abs(self.change) < least or isclose(abs(self.change), least):
            return "steady"
        return "rising" if self.change > 0 else "falling"


class KnownAllergy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A substance that the person does not tolerate, and the reaction.

    ``is_listed``: from the chart's list of allergies, which would also name others; a diagnosis of an allergy says
    nothing about others."""

    concept: str
    reaction: str | None
    since: datetime
    row_id: str
    is_listed: bool = True


class DoneAction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A decision carried out: a test, a drug started or given, a procedure. ``last``: the last time."""

    concept: str
    kind: EventKind
    last: datetime
    count: int
    row_id: str


class StateChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the state's history: what changed, when, and by which row."""

    hour: datetime
    section: Section
    what: str
    concept: str
    row_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """Limits of a state. Older entries are evicted and counted (the paper prints no limits)."""

    window_hours: int = 24
    """The window of a trend before its last reading."""
    problems: int = 200
    medications: int = 200
    trends: int = 400
    allergies: int = 100
    actions: int = 400
    readings: int = 48
    """Readings of one trend."""
    history: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEncounter:
    """The subject's current or last stay.

    ``since``: actions after it belong to the stay; ``ended``: None while it lasts."""

    since: datetime
    ended: datetime | None = None

    def ended_at(self, time: datetime) -> StateEncounter:
        """Return the stay with its end."""
        return StateEncounter(since=self.since, ended=time)


def admitted_at(time: datetime, before: StateEncounter | None) -> StateEncounter:
    """Return the encounter of an admission at a moment, given the encounter before it."""
    if before is None:
        return StateEncounter(since=time - BEFORE_ADMISSION)
    if before.ended is None or time <= before.ended + CONTINUES:
        return StateEncounter(since=before.since)
    return StateEncounter(since=max(time - BEFORE_ADMISSION, before.ended))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientState:
    """The state of a subject after some bundles. Entries are in the order of their last change.

    ``problems``, ``allergies`` by concept; ``medications`` by row id; ``trends`` by kind, concept and unit;
    ``actions`` by kind and concept. ``evicted``: entries each section lost to its limit. ``encounter``: None
    without a recorded admission.
    """

    subject_id: int
    hour: datetime | None = None
    problems: Mapping[str, ActiveProblem] = field(default_factory=dict)
    medications: Mapping[str, ActiveMedication] = field(default_factory=dict)
    trends: Mapping[tuple[EventKind, str, str], Trend] = field(default_factory=dict)
    allergies: Mapping[str, KnownAllergy] = field(default_factory=dict)
    actions: Mapping[tuple[EventKind, str], DoneAction] = field(default_factory=dict)
    history: tuple[StateChange, ...] = ()
    evicted: Mapping[str, int] = field(default_factory=dict)
    limits: StateLimits = StateLimits()
    encounter: StateEncounter | None = None

    def trend(self, concept: str) -> Trend | None:
        """Return the last changed trend of a concept, of any kind and unit."""
        return next((each for each in reversed(list(self.trends.values())) if each.concept == concept), None)


# Corrected and withdrawn rows: the events as if the last version had always held.


def joined(parts: Sequence[BundleEvents]) -> BundleEvents:
    """Concatenate the events of several columns."""
    names: dict[str, int] = {}
    concepts = []
    for part in parts:
        own = np.array([names.setdefault(name, len(names)) for name in part.names], np.int64)
        concepts.append(own[part.concept] if len(own) else part.concept)
    numbers = {name: np.concatenate([getattr(part, name) for part in parts]) for name in NUMBERS}
    words = {name: pa.concat_arrays([getattr(part, name) for part in parts]) for name in WORDS}
    return BundleEvents(**(numbers | {"concept": np.concatenate(concepts)}), **words, names=tuple(names))


def as_if_always_so(events: BundleEvents) -> BundleEvents:
    """Return one subject's events as they read now, each row at the time it first became known.

    A row's latest version replaces all earlier ones; withdrawn rows are left out.
    """
    row = np.asarray(events.row_id.dictionary_encode().indices.to_numpy(zero_copy_only=False), np.int64)
    ends, withdrawn = np.isin(events.kind, ENDS), events.kind == EventKind.RETRACTION
    plain = ~ends & ~withdrawn
    newest, gone = (_latest(row, events.known, mask)[row] for mask in (plain, withdrawn))
    kept = ~withdrawn & (gone < newest) & (ends | (events.known == newest))
    first = -_latest(row, -events.known, plain)
    changed = replace(
        events, known=np.where(ends, events.known, first[row]), revision=np.where(ends, events.revision, 0)
    )
    return in_order(changed.take(kept))


def _latest(row: Integers, times: Integers, mask: npt.NDArray[np.bool_]) -> Integers:
    """Return the latest time of every row under a mask; the least integer for rows without one."""
    found = np.full(int(row.max(initial=-1)) + 1, np.iinfo(np.int64).min + 1)
    np.maximum.at(found, row[mask], times[mask])
    return found


# Bundles made of single events: written by hand, or from a stream.


def event_of(
    kind: EventKind,
    concept: str,
    known: datetime,
    *,
    value: float | None = None,
    text: str | None = None,
    unit: str | None = None,
    time: datetime | None = None,
    row_id: str = "",
    revision: int = 0,
) -> BundleEvent:
    """Return an event; without ``time`` it happened when it became known. Its level is computed with the stream."""
    return BundleEvent(
        kind=kind,
        concept=concept,
        value=value,
        text=text,
        unit=unit,
        level=ValueLevel.UNKNOWN,
        time=known if time is None else time,
        known=known,
        row_id=row_id or f"{kind.name.lower()}:{concept}:{known:%Y%m%d%H%M%S}",
        revision=revision,
    )


def stream_of(subject_id: int, events: Iterable[BundleEvent]) -> BundleStream:
    """Return the bundles of one subject's events, given in any order."""
    return cut(with_levels(in_order(columns_of(subject_id, list(events)))))


def columns_of(subject_id: int, events: Sequence[BundleEvent]) -> BundleEvents:
    """Return one subject's events as columns, in their order."""
    names: dict[str, int] = {}
    nothing = np.full(len(events), np.nan)
    return BundleEvents(
        subject=np.full(len(events), subject_id, np.int64),
        event=np.array([to_microseconds(event.time) for event in events], np.int64),
        known=np.array([to_microseconds(event.known) for event in events], np.int64),
        kind=np.array([event.kind for event in events], np.int8),
        concept=np.array([names.setdefault(event.concept, len(names)) for event in events], np.int64),
        value=np.array([np.nan if event.value is None else event.value for event in events], np.float64),
        low=nothing,
        high=nothing,
        level=np.array([event.level for event in events], np.int8),
        revision=np.array([event.revision for event in events], np.int64),
        timed=np.ones(len(events), dtype=bool),
        names=tuple(names),
        text=pa.array([event.text for event in events], pa.string()),
        unit=pa.array([event.unit for event in events], pa.string()),
        row_id=pa.array([event.row_id for event in events], pa.string()),
        encounter=pa.nulls(len(events), pa.string()),
    )
