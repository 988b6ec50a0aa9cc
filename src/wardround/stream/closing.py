"""A bundle that is over: the patient after it, and what is told of it. Both depend on bundle and patient alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from wardround.agents.stays.router import RuleMemory
from wardround.bundles import BundleEvent, PatientState, ValueLevel, event_text
from wardround.bundles.events import HOUR, amends
from wardround.bundles.fold import fold_events
from wardround.bundles.levels import level_against
from wardround.core import from_microseconds

Responder = Callable[
    [tuple[BundleEvent, ...], PatientState, RuleMemory, Sequence[PatientState] | None], Mapping[str, Any]
]
"""What is answered to a bundle and the state after it: cells of the line that is told. Must depend on these and on what
is remembered of the patient alone, which it may change. Where the bundle amends the record, the last are the states
before it, as if that had always been so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refolded:
    """A subject folded afresh: the state after an hour and those ``before`` it, and the first values."""

    state: PatientState
    before: tuple[PatientState, ...]
    first_values: dict[str, float]


Refold = Callable[[int, int, Sequence[int]], Refolded]
"""A subject after an hour, folded afresh from the log: asked where a row is amended. The numbers are those of the
hour's own lines."""
_ABNORMAL = (ValueLevel.LOW, ValueLevel.HIGH, ValueLevel.BELOW_BASELINE, ValueLevel.ABOVE_BASELINE)


@dataclass(slots=True, kw_only=True)
class Patient:
    """One subject after the last closed bundle. ``unsaved``: bundles since the snapshot; ``size``: entries held."""

    state: PatientState
    first_values: dict[str, float] = field(default_factory=dict)
    memory: RuleMemory = field(default_factory=RuleMemory)
    hour: int = 0
    unsaved: int = 0
    size: int = 0


@dataclass(slots=True, kw_only=True)
class OpenBundle:
    """What has come in of an hour that is open. ``lines``: numbers in the ledger; the first ``unread`` of them have
    their events not in memory."""

    hour: int
    lines: list[int] = field(default_factory=list)
    events: list[tuple[BundleEvent, bool]] = field(default_factory=list)
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a bundle changes its patient. ``refold`` gives the state after an amendment."""

    refold: Refold
    responder: Responder | None = None

    def close(self, patient: Patient, bundle: OpenBundle) -> dict[str, Any]:
        """Bring a patient up to a bundle, all of whose events are in memory; return what is told."""
        hour = from_microseconds(bundle.hour * HOUR)
        events = tuple(_levelled(patient, bundle))
        amended = any(map(amends, events))
        subject = patient.state.subject_id
        before = None
        if amended:
            again = self.refold(subject, bundle.hour, bundle.lines)
            patient.state, patient.first_values, before = again.state, again.first_values, again.before
        else:
            patient.state = fold_events(patient.state, hour, events)
        patient.hour, patient.unsaved, patient.size = bundle.hour, patient.unsaved + 1, size_of(patient.state)
        told = _told(patient.state, hour, events, amended)
        if self.responder is None:
            return told
        return told | dict(self.responder(events, patient.state, patient.memory, before))


def _told(state: PatientState, hour: datetime, events: tuple[BundleEvent, ...], amended: bool) -> dict[str, Any]:
    return {
        "subject": state.subject_id,
        "hour": f"{hour:%Y-%m-%d %H:00}",
        "events": len(events),
        "amended": amended,
        "abnormal": [event_text(event) for event in events if event.level in _ABNORMAL],
        "changes": [
            f"{change.section}: {change.what} {change.concept} [{change.row_id}]"
            for change in state.history
            if change.hour == hour
        ],
        "running": len(state.medications),
    }


def size_of(state: PatientState) -> int:
    """Return about how many entries a state holds in memory."""
    readings = sum(len(trend.readings) for trend in state.trends.values())
    return 10 + readings + len(state.actions) + len(state.medications) + len(state.problems) + len(state.history)


def _levelled(patient: Patient, bundle: OpenBundle) -> Iterator[BundleEvent]:
    """Yield an hour's events by time, with the levels that hang on the subject's first values."""
    for event, alone in sorted(bundle.events, key=_by_time):
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
