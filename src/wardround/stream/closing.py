"""Close a bundle: the patient after it, what is reported, and later amendments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from msgspec import structs

from wardround.agents.stays import RuleMemory
from wardround.clinical.bundles import BundleEvent, EventKind, PatientState, StateChange, ValueLevel, event_text
from wardround.clinical.bundles.events import ENDS, HOUR, amends
from wardround.clinical.bundles.fold import fold_events
from wardround.clinical.bundles.text import level_against
from wardround.core import from_microseconds
from wardround.stream.reading import TakenEvents

# Bundles as they read now: a row that was corrected or withdrawn since is placed where it first became known.


_Version = tuple[datetime, int]


@dataclass(slots=True)
class HourEvents:
    """The events of one hour (``hour``: hours since 1970)."""

    hour: int
    events: TakenEvents = field(default_factory=list)


def amended_rows(events: TakenEvents) -> set[str]:
    """Return the rows that some events correct or withdraw."""
    return {
        event.row_id for event, _ in events if (event.revision or event.kind is EventKind.RETRACTION) and amends(event)
    }


def first_hours(bundles: Sequence[HourEvents], rows: set[str]) -> dict[str, int]:
    """Return by row the hour of the bundle in which it became known; rows that none of the bundles has are left out."""
    return {
        event.row_id: each.hour
        for each in reversed(bundles)
        for event, _ in each.events
        if event.row_id in rows and _is_plain(event) and not amends(event)
    }


def as_read_now(bundles: Sequence[HourEvents], elsewhere: Callable[[str], bool]) -> list[HourEvents]:
    """Return bundles, in order, as if their corrections and withdrawals had always held.

    The counterpart of :func:`wardround.clinical.bundles.fold.as_they_read`. A bundle without events left stays, since
    the patient's state was computed then.
    ``elsewhere``: whether an amended row became known before these bundles, so that the state before them has it.
    """
    rows = {row for each in bundles for row in amended_rows(each.events)}
    if not rows:
        return list(bundles)
    readings = _readings(bundles, rows)
    before = {row for row in rows - first_hours(bundles, rows).keys() if elsewhere(row)}
    found = {
        each.hour: HourEvents(each.hour, [pair for pair in each.events if pair[0].row_id not in rows])
        for each in bundles
    }
    for each in bundles:
        for event, alone in each.events:
            if event.row_id not in rows:
                continue
            reading = readings[event.row_id]
            if event.row_id in before:
                if event.kind in ENDS and reading.gone < reading.newest:
                    found[each.hour].events.append((event, alone))
            elif reading.keeps(event):
                first = event.kind not in ENDS
                hour = reading.hour if first else each.hour
                moved = structs.replace(event, known=reading.first, revision=0) if first else event
                found[hour].events.append((moved, alone))
    return list(found.values())


@dataclass(slots=True)
class _Reading:
    """How a row reads now.

    ``first``, ``hour``: when it became known; ``newest``: its last version; ``gone``: its last withdrawal.
    """

    hour: int
    first: datetime = datetime.max
    newest: _Version = (datetime.min, 0)
    gone: _Version = (datetime.min, 0)

    def keeps(self, event: BundleEvent) -> bool:
        """Whether an event of the row is still valid."""
        if event.kind is EventKind.RETRACTION or self.gone >= self.newest:
            return False
        return event.kind in ENDS or _version(event) == self.newest


def _readings(bundles: Sequence[HourEvents], rows: set[str]) -> dict[str, _Reading]:
    found: dict[str, _Reading] = {}
    own = defaultdict(list)
    for each in bundles:
        for event, _ in each.events:
            if event.row_id in rows:
                own[event.row_id].append((each.hour, event))
    for row, several in own.items():
        reading = found[row] = _Reading(several[0][0])
        for hour, event in several:
            if event.kind is EventKind.RETRACTION:
                reading.gone = max(reading.gone, _version(event))
            elif _is_plain(event):
                reading.newest = max(reading.newest, _version(event))
                if event.known < reading.first:
                    reading.first, reading.hour = event.known, hour
    return found


def _version(event: BundleEvent) -> _Version:
    return event.known, event.revision


def _is_plain(event: BundleEvent) -> bool:
    return event.kind is not EventKind.RETRACTION and event.kind not in ENDS


# A closed bundle: the patient after it, and its output line. Both depend on bundle and patient alone.


Responder = Callable[[tuple[BundleEvent, ...], PatientState, RuleMemory], Mapping[str, Any]]
"""Returns fields of the output line for a bundle and the state after it.

It must depend on these and on the patient's memory alone, which it may change. After a correction it is called again
for the bundles since the corrected row, and the result is dropped; if it has a method ``remember`` (same arguments),
that is called instead."""
FirstValues = dict[str, tuple[float, str]]
"""By measurement without reference limits: the person's own first value, and its row."""
_ABNORMAL = (ValueLevel.LOW, ValueLevel.HIGH, ValueLevel.BELOW_BASELINE, ValueLevel.ABOVE_BASELINE)


@dataclass(slots=True, kw_only=True)
class Patient:
    """One subject after the last closed bundle. ``unsaved``: bundles since the snapshot; ``size``: entries held."""

    state: PatientState
    first_values: FirstValues = field(default_factory=dict)
    memory: RuleMemory = field(default_factory=RuleMemory)
    hour: int = 0
    unsaved: int = 0
    size: int = 0


@dataclass(slots=True, kw_only=True)
class OpenBundle:
    """The lines of an hour that is not closed.

    ``lines``: numbers in the ledger; events of the first ``unread`` of them are not in memory; ``reached``: the
    patient's clock has come to the hour.
    """

    hour: int
    lines: list[int] = field(default_factory=list)
    events: TakenEvents = field(default_factory=list)
    unread: int = 0
    reached: bool = False


Rewind = Callable[[Patient, OpenBundle], HourEvents]
"""Sets a patient back to before a bundle as if its amendments had always held; returns the rest of the bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a bundle changes its patient. ``rewind`` is called for a bundle that amends the record."""

    rewind: Rewind
    responder: Responder | None = None

    def close(self, patient: Patient, bundle: OpenBundle) -> dict[str, Any]:
        """Update a patient with a bundle whose events are all in memory; return the output line."""
        hour = from_microseconds(bundle.hour * HOUR)
        amended = any(amends(event) for event, _ in bundle.events)
        if amended:
            left = self.rewind(patient, bundle)
            patient.state = fold_events(patient.state, hour, levelled(patient.first_values, left.events))
            events = tuple(_levelled_again(patient.first_values, bundle.events))
        else:
            events = tuple(levelled(patient.first_values, bundle.events))
            patient.state = fold_events(patient.state, hour, events)
        patient.hour, patient.unsaved, patient.size = bundle.hour, patient.unsaved + 1, size_of(patient.state)
        output = _output_line(patient.state, hour, events, amended)
        if self.responder is None:
            return output
        return output | dict(self.responder(events, patient.state, patient.memory))

    def replay(self, patient: Patient, bundle: HourEvents) -> None:
        """Update a patient with a bundle that amends nothing, without output."""
        hour = from_microseconds(bundle.hour * HOUR)
        events = tuple(levelled(patient.first_values, bundle.events))
        patient.state = fold_events(patient.state, hour, events)
        patient.hour, patient.unsaved = bundle.hour, patient.unsaved + 1
        if self.responder is not None:
            getattr(self.responder, "remember", self.responder)(events, patient.state, patient.memory)


def _output_line(state: PatientState, hour: datetime, events: tuple[BundleEvent, ...], amended: bool) -> dict[str, Any]:
    return {
        "subject": state.subject_id,
        "hour": _hour_text(hour),
        "events": len(events),
        "amended": amended,
        "abnormal": [event_text(event) for event in events if event.level in _ABNORMAL],
        "changes": [
            f"{change.section}: {change.what} {change.concept} [{change.row_id}]"
            for change in _changes(state.history, hour)
        ],
        "running": len(state.medications),
    }


@lru_cache(maxsize=4_096)
def _hour_text(hour: datetime) -> str:
    return f"{hour:%Y-%m-%d %H:00}"


def _changes(history: Sequence[StateChange], hour: datetime) -> Sequence[StateChange]:
    """Return the changes of an hour, which are the last in the history."""
    first = len(history)
    while first and history[first - 1].hour == hour:
        first -= 1
    return history[first:]


def size_of(state: PatientState) -> int:
    """Return about how many entries a state has in memory."""
    readings = sum(len(trend.readings) for trend in state.trends.values())
    return 10 + readings + len(state.actions) + len(state.medications) + len(state.problems) + len(state.history)


def levelled(first_values: FirstValues, events: TakenEvents) -> Iterator[BundleEvent]:
    """Yield an hour's events by time, with levels against the subject's first values; new first values are stored."""
    for event, alone in sorted(events, key=_by_time):
        if not alone or event.value is None:
            yield event
            continue
        base = first_values.setdefault(event.concept, (event.value, event.row_id))
        yield event if base[1] == event.row_id else structs.replace(event, level=level_against(event.value, base[0]))


def _levelled_again(first_values: FirstValues, events: TakenEvents) -> Iterator[BundleEvent]:
    """Yield the events of an amending hour by time, with levels against the first values as known now."""
    for event, alone in sorted(events, key=_by_time):
        base = first_values.get(event.concept)
        if not alone or event.value is None or base is None or base[1] == event.row_id:
            yield event
        else:
            yield structs.replace(event, level=level_against(event.value, base[0]))


def _by_time(pair: tuple[BundleEvent, bool]) -> tuple[datetime, datetime, int, str, bool, float]:
    """As :func:`wardround.clinical.bundles.events.in_order` has it."""
    event = pair[0]
    return event.time, event.known, event.kind, event.concept, event.value is None, event.value or 0.0
