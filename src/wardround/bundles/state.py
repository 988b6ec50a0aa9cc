"""A subject's typed state (TRACE's individual protocol): what holds after a bundle, with the rows it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isclose
from typing import Literal

import msgspec

from wardround.bundles.kinds import EventKind, ValueLevel

Section = Literal["problems", "medications", "trends", "allergies", "actions"]
Direction = Literal["rising", "falling", "steady"]
STEADY_SHARE = 0.05
"""A change of so little of the first value is none (ours)."""
BEFORE_ADMISSION = timedelta(hours=24)
"""What was done so long before an admission, in the emergency department say, belongs to it (ours)."""
CONTINUES = timedelta(hours=6)
"""A stay that begins so soon after the end of another goes on with it: a ward after the emergency department."""


class ActiveProblem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A diagnosis on the chart. ``since``, ``last``: when it was first and last made known."""

    concept: str
    since: datetime
    last: datetime
    row_ids: tuple[str, ...]


class ActiveMedication(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An order that runs, or an infusion: nothing says yet that it ended. ``dose`` as written."""

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
    """A measurement over a window that ends at its last reading. ``readings``: those in the window, by time."""

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
        """The last value less the first of the window, in ``unit``."""
        return self.last.value - self.readings[0].value

    @property
    def hours(self) -> float:
        """Hours between the first reading of the window and the last."""
        return (self.last.time - self.readings[0].time).total_seconds() / 3600

    @property
    def direction(self) -> Direction:
        """Where it goes: see ``STEADY_SHARE``."""
        least = abs(self.readings[0].value) * STEADY_SHARE
        if abs(self.change) < least or isclose(abs(self.change), least):
            return "steady"
        return "rising" if self.change > 0 else "falling"


class KnownAllergy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the person does not tolerate, and how it shows."""

    concept: str
    reaction: str | None
    since: datetime
    row_id: str


class DoneAction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something decided and done: a test taken, a drug started or given, a procedure. ``last``: when the last time."""

    concept: str
    kind: EventKind
    last: datetime
    count: int
    row_id: str


class StateChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the state's history: what changed when, on which row."""

    hour: datetime
    section: Section
    what: str
    concept: str
    row_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """What a state keeps. What goes beyond is evicted, the oldest first, and counted (the paper prints no limits)."""

    window_hours: int = 24
    """How far a trend looks back from its last reading."""
    problems: int = 200
    medications: int = 200
    trends: int = 400
    allergies: int = 100
    actions: int = 400
    readings: int = 48
    """Of one trend."""
    history: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEncounter:
    """The stay that the subject is in, or was in last. ``since``: what was done after it belongs to it; ``ended``:
    None while it lasts."""

    since: datetime
    ended: datetime | None = None

    def ended_at(self, time: datetime) -> StateEncounter:
        """Return it with its end."""
        return StateEncounter(since=self.since, ended=time)


def admitted_at(time: datetime, before: StateEncounter | None) -> StateEncounter:
    """Return the encounter of somebody admitted at a moment, after the one before it."""
    if before is None:
        return StateEncounter(since=time - BEFORE_ADMISSION)
    if before.ended is None or time <= before.ended + CONTINUES:
        return StateEncounter(since=before.since)
    return StateEncounter(since=max(time - BEFORE_ADMISSION, before.ended))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientState:
    """What holds of a subject after some bundles. Entries are in the order in which they were last touched.

    ``problems``, ``allergies`` by concept; ``medications`` by row id; ``trends`` by kind, concept and unit;
    ``actions`` by kind and concept. ``evicted``: how many entries each section has lost to its limit. ``encounter`` is
    None where no admission was told.
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
        """The trend of a concept that was touched last, whatever its kind and unit."""
        return next((each for each in reversed(list(self.trends.values())) if each.concept == concept), None)
