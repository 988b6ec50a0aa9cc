"""The state after a bundle: each kind of event has one exact effect (TRACE's Steward, in code)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from wardround.clinical.bundles.events import Bundle, BundleEvent, BundleStream, EventKind, amends, cut
from wardround.clinical.bundles.state import (
    ActiveMedication,
    ActiveProblem,
    DoneAction,
    KnownAllergy,
    PatientState,
    Section,
    StateChange,
    StateEncounter,
    Trend,
    TrendReading,
    admitted_at,
    as_if_always_so,
    joined,
)
from wardround.clinical.bundles.text import with_levels

RUNNING = (EventKind.MEDICATION_START, EventKind.INFUSION_START)
"""Kinds of medication that run until their end or a discharge."""
TRENDS = (EventKind.LAB, EventKind.VITAL, EventKind.OUTPUT)
"""Repeated measurements (vital signs, laboratory results)."""
DRUGS = frozenset({EventKind.MEDICATION_START, EventKind.ADMINISTRATION, EventKind.INFUSION_START})
TESTS = frozenset({EventKind.LAB})
PROCEDURES = frozenset({EventKind.CULTURE_TAKEN, EventKind.CULTURE, EventKind.PROCEDURE})
DONE = (*sorted(DRUGS), *sorted(TESTS | PROCEDURES))
"""Kinds that count as actions done."""
ROWS_KEPT = 5
"""Rows that are kept of a problem, the last ones."""


def states(bundles: Iterable[Bundle], start: PatientState | None = None) -> Iterator[PatientState]:
    """Yield the state after every bundle of one subject; amended rows are looked up in the earlier bundles."""
    past: list[Bundle] = []
    state = start
    for bundle in bundles:
        state = fold(PatientState(subject_id=bundle.subject_id) if state is None else state, bundle, past)
        past.append(bundle)
        yield state


def fold(state: PatientState, bundle: Bundle, past: Sequence[Bundle] = ()) -> PatientState:
    """Return the state after a bundle.

    ``past``: the subject's earlier bundles, read only if the bundle corrects or withdraws a row; the state is then
    folded anew from the rows as they read now."""
    if any(map(amends, bundle.events)):
        return _folded_afresh(state, [*past, bundle])
    return fold_events(state, bundle.hour, bundle.events)


def as_they_read(bundles: Sequence[Bundle]) -> BundleStream:
    """Return the bundles of one subject as if their corrections and withdrawals had always held."""
    return cut(with_levels(as_if_always_so(joined([bundle.columns for bundle in bundles]))))


def _folded_afresh(state: PatientState, bundles: Sequence[Bundle]) -> PatientState:
    fresh = PatientState(subject_id=state.subject_id, limits=state.limits)
    for bundle in as_they_read(bundles):
        fresh = fold_events(fresh, bundle.hour, bundle.events)
    return replace(fresh, hour=bundles[-1].hour)


def fold_events(state: PatientState, hour: datetime, events: Iterable[BundleEvent]) -> PatientState:
    """Return the state after the events of one hour, in order; none of them amends an earlier row."""
    draft = _Draft.of(state, hour)
    for event in events:
        step = _STEPS.get(event.kind)
        if step is not None:
            step(draft, event)
        if event.kind in DONE:
            draft.done(event)
    return draft.finished(state)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The state during the fold of a bundle."""

    hour: datetime
    window: timedelta
    readings: int
    problems: dict[str, ActiveProblem]
    medications: dict[str, ActiveMedication]
    trends: dict[tuple[EventKind, str, str], Trend]
    allergies: dict[str, KnownAllergy]
    actions: dict[tuple[EventKind, str], DoneAction]
    history: list[StateChange]
    encounter: StateEncounter | None

    @classmethod
    def of(cls, state: PatientState, hour: datetime) -> _Draft:
        return cls(
            hour=hour,
            window=timedelta(hours=state.limits.window_hours),
            readings=state.limits.readings,
            problems=dict(state.problems),
            medications=dict(state.medications),
            trends=dict(state.trends),
            allergies=dict(state.allergies),
            actions=dict(state.actions),
            history=[],
            encounter=state.encounter,
        )

    def note(self, section: Section, what: str, concept: str, row_id: str) -> None:
        change = StateChange(hour=self.hour, section=section, what=what, concept=concept, row_id=row_id)
        self.history.append(change)

    def done(self, event: BundleEvent) -> None:
        """Record an action; the newest time is kept."""
        key = (event.kind, event.concept)
        old = self.actions.pop(key, None)
        newest = old is None or event.time >= old.last
        self.actions[key] = DoneAction(
            concept=event.concept,
            kind=event.kind,
            last=event.time if newest or old is None else old.last,
            count=1 if old is None else old.count + 1,
            row_id=event.row_id if newest or old is None else old.row_id,
        )

    def finished(self, state: PatientState) -> PatientState:
        """Return the state, each section cut to its limit."""
        evicted = dict(state.evicted)
        limits = state.limits
        for name in ("problems", "medications", "trends", "allergies", "actions"):
            _evict(getattr(self, name), getattr(limits, name), name, evicted)
        history = (*state.history, *self.history)
        over = len(history) - limits.history
        if over > 0:
            evicted["history"] = evicted.get("history", 0) + over
        return PatientState(
            subject_id=state.subject_id,
            hour=self.hour,
            problems=self.problems,
            medications=self.medications,
            trends=self.trends,
            allergies=self.allergies,
            actions=self.actions,
            history=history[max(over, 0) :],
            evicted=evicted,
            limits=limits,
            encounter=self.encounter,
        )


def _evict(section: dict[Any, Any], limit: int, name: str, evicted: dict[str, int]) -> None:
    """Drop the entries whose last change is oldest."""
    over = len(section) - limit
    if over <= 0:
        return
    for key in list(section)[:over]:
        del section[key]
    evicted[name] = evicted.get(name, 0) + over


def _diagnosed(draft: _Draft, event: BundleEvent) -> None:
    old = draft.problems.pop(event.concept, None)
    if old is None:
        draft.note("problems", "added", event.concept, event.row_id)
    draft.problems[event.concept] = ActiveProblem(
        concept=event.concept,
        since=event.known if old is None else old.since,
        last=event.known,
        row_ids=(*(() if old is None else old.row_ids), event.row_id)[-ROWS_KEPT:],
    )


def _allergic(draft: _Draft, event: BundleEvent) -> None:
    old = draft.allergies.pop(event.concept, None)
    if old is None:
        draft.note("allergies", "added", event.concept, event.row_id)
    since = event.known if old is None else old.since
    draft.allergies[event.concept] = KnownAllergy(
        concept=event.concept,
        reaction=event.text,
        since=since,
        row_id=event.row_id,
        is_listed=event.kind is EventKind.ALLERGY or (old is not None and old.is_listed),
    )


def _diagnosed_allergic(draft: _Draft, event: BundleEvent) -> None:
    _diagnosed(draft, event)
    _allergic(draft, event)


def _started(draft: _Draft, event: BundleEvent) -> None:
    dose = event.text if event.value is None else f"{event.value:g}"
    same = next((each for each in reversed(draft.medications.values()) if each.concept == event.concept), None)
    if same is None:
        draft.note("medications", "started", event.concept, event.row_id)
    elif (same.dose, same.unit) != (dose, event.unit):
        what = f"dose {same.dose} {same.unit} -> {dose} {event.unit}"
        draft.note("medications", what, event.concept, event.row_id)
    draft.medications[event.row_id] = ActiveMedication(
        concept=event.concept, dose=dose, unit=event.unit, since=event.time, kind=event.kind, row_id=event.row_id
    )


def _stopped(draft: _Draft, event: BundleEvent) -> None:
    old = draft.medications.pop(event.row_id, None)
    if old is not None and all(each.concept != old.concept for each in draft.medications.values()):
        draft.note("medications", "stopped", old.concept, event.row_id)


def _admitted(draft: _Draft, event: BundleEvent) -> None:
    draft.encounter = admitted_at(event.time, draft.encounter)


def _discharged(draft: _Draft, event: BundleEvent) -> None:
    """End all running orders: they belong to the stay."""
    draft.encounter = None if draft.encounter is None else draft.encounter.ended_at(event.time)
    for name in dict.fromkeys(each.concept for each in draft.medications.values()):
        draft.note("medications", "ended at discharge", name, event.row_id)
    draft.medications.clear()


def _measured(draft: _Draft, event: BundleEvent) -> None:
    if event.value is None:
        return
    key = (event.kind, event.concept, event.unit or "")
    old = draft.trends.pop(key, None)
    new = TrendReading(time=event.time, value=event.value, level=event.level, row_id=event.row_id)
    readings = (new,) if old is None else _by_time(old.readings, new)
    first = bisect_left(readings, readings[-1].time - draft.window, key=_time)
    kept = readings[max(first, len(readings) - draft.readings) :]
    draft.trends[key] = Trend(concept=event.concept, unit=event.unit, kind=event.kind, readings=kept)


def _by_time(readings: tuple[TrendReading, ...], new: TrendReading) -> tuple[TrendReading, ...]:
    if new.time >= readings[-1].time:
        return (*readings, new)
    place = bisect_right(readings, new.time, key=_time)
    return (*readings[:place], new, *readings[place:])


_time = attrgetter("time")
_STEPS: Mapping[EventKind, Callable[[_Draft, BundleEvent], None]] = {
    EventKind.ADMISSION: _admitted,
    EventKind.DIAGNOSIS: _diagnosed,
    EventKind.ALLERGY: _allergic,
    EventKind.CODED_ALLERGY: _diagnosed_allergic,
    EventKind.MEDICATION_START: _started,
    EventKind.INFUSION_START: _started,
    EventKind.MEDICATION_STOP: _stopped,
    EventKind.INFUSION_STOP: _stopped,
    EventKind.DISCHARGE: _discharged,
    **dict.fromkeys(TRENDS, _measured),
}
