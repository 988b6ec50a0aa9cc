"""The patients of a stream in memory: open bundles, states, and what is told when a bundle closes.

What comes out depends on the order of the lines alone, not on how they were cut into commits nor on any clock: an hour
is over when a line of a later hour comes, of the same subject or of any; of others, some are told with every line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.bundles import BundleEvent, EventKind, PatientState, ValueLevel, event_text
from wardround.bundles.events import HOUR
from wardround.bundles.fold import fold_events
from wardround.bundles.kinds import ENDS
from wardround.bundles.levels import level_against
from wardround.core import from_microseconds

CLOSED_PER_LINE = 4
"""So many bundles of an hour that is over are told with every line: no line waits for all patients of an hour."""
Responder = Callable[[tuple[BundleEvent, ...], PatientState], Mapping[str, Any]]
"""What is answered to a bundle and the state after it: cells of the line that is told. Must depend on these alone."""
Refold = Callable[[int, int], "tuple[PatientState, dict[str, float]]"]
"""A subject's state after an hour, folded afresh from the log, and its first values: asked where a row is amended."""


@dataclass(slots=True)
class Patient:
    """One subject: the state after the last closed bundle, and what has come in of the hour that is open."""

    state: PatientState
    hour: int = 0
    events: list[tuple[BundleEvent, bool]] = field(default_factory=list)
    """With each event whether its level is against the subject's own first value."""
    first_values: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class StreamEngine:
    """Takes events line by line and yields what is told. ``refold`` gives the state after an amendment."""

    refold: Refold
    responder: Responder | None = None
    patients: dict[int, Patient] = field(default_factory=dict)
    hour: int = -(1 << 40)
    over: deque[int] = field(default_factory=deque)
    """Subjects whose open bundle lies in an hour that is over, in the order in which these were opened."""
    opened: dict[int, None] = field(default_factory=dict)
    """Subjects with a bundle in the hour that is open, in the order in which they were opened."""
    late: int = 0
    """Lines of an hour that was over already: they are told with the hour that is open."""

    def take(self, subject: int, hour: int, events: list[tuple[BundleEvent, bool]]) -> Iterator[dict[str, Any]]:
        """Take one line's events; yield what is told with it."""
        if hour < self.hour:
            self.late += 1
            events = [(_known_later(event, self.hour), alone) for event, alone in events]
        elif hour > self.hour:
            self.hour = hour
            self.over.extend(self.opened)
            self.opened = {}
        patient = self.patients.get(subject)
        if patient is None:
            patient = self.patients[subject] = Patient(PatientState(subject_id=subject))
        if patient.events and patient.hour < self.hour:
            yield self._close(subject, patient)
        if not patient.events:
            patient.hour = self.hour
            self.opened[subject] = None
        patient.events.extend(events)
        yield from self._close_some(CLOSED_PER_LINE)

    def finish(self) -> Iterator[dict[str, Any]]:
        """Close every open bundle; yield what is told."""
        self.over.extend(self.opened)
        self.opened = {}
        yield from self._close_some(len(self.over))

    def _close_some(self, count: int) -> Iterator[dict[str, Any]]:
        for _ in range(min(count, len(self.over))):
            subject = self.over.popleft()
            patient = self.patients[subject]
            if patient.events and (patient.hour < self.hour or subject not in self.opened):
                yield self._close(subject, patient)

    def _close(self, subject: int, patient: Patient) -> dict[str, Any]:
        hour = from_microseconds(patient.hour * HOUR)
        events = tuple(_levelled(patient))
        amends = any(_amends(event) for event in events)
        patient.events = []
        if amends:
            patient.state, patient.first_values = self.refold(subject, patient.hour)
        else:
            patient.state = fold_events(patient.state, hour, events)
        told: dict[str, Any] = {
            "subject": subject,
            "hour": f"{hour:%Y-%m-%d %H:00}",
            "events": len(events),
            "amended": amends,
            "abnormal": [event_text(event) for event in events if event.level in _ABNORMAL],
            "changes": [
                f"{change.section}: {change.what} {change.concept} [{change.row_id}]"
                for change in patient.state.history
                if change.hour == hour
            ],
            "running": len(patient.state.medications),
        }
        return told | dict(self.responder(events, patient.state)) if self.responder else told


def _amends(event: BundleEvent) -> bool:
    return event.kind is EventKind.RETRACTION or (event.revision > 0 and event.kind not in ENDS)


def _levelled(patient: Patient) -> Iterator[BundleEvent]:
    """Yield an hour's events by time, with the levels that hang on the subject's first values."""
    for event, alone in sorted(patient.events, key=_by_time):
        if not alone or event.value is None:
            yield event
            continue
        base = patient.first_values.get(event.concept)
        if base is None:
            patient.first_values[event.concept] = event.value
            yield event
        else:
            yield replace(event, level=level_against(event.value, base))


def _by_time(pair: tuple[BundleEvent, bool]) -> Any:
    return pair[0].time, pair[0].known


def _known_later(event: BundleEvent, hour: int) -> BundleEvent:
    """Return an event that came after its hour as one of the hour that is open."""
    return replace(event, known=max(event.known, from_microseconds(hour * HOUR)))


_ABNORMAL = (ValueLevel.LOW, ValueLevel.HIGH, ValueLevel.BELOW_BASELINE, ValueLevel.ABOVE_BASELINE)
