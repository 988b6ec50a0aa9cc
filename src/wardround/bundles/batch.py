"""The states of many subjects at once, as columns: what the fold comes to, with no step per event."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wardround.bundles.amendments import as_if_always_so, joined
from wardround.bundles.events import HOUR, BundleEvents, BundleStream, Integers, in_order, is_amendment
from wardround.bundles.fold import DONE, ROWS_KEPT, RUNNING, TRENDS
from wardround.bundles.kinds import STOPS, EventKind
from wardround.bundles.levels import with_levels
from wardround.bundles.state import (
    ActiveMedication,
    ActiveProblem,
    DoneAction,
    KnownAllergy,
    PatientState,
    StateEncounter,
    StateLimits,
    Trend,
    TrendReading,
    admitted_at,
)
from wardround.core import from_microseconds

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Entries of one section, by subject and the order in which they were last touched.

    ``first``, ``last``: places of the events that made and last touched each; ``members``: the places of all its events
    that still count, entry by entry: entry e has those from ``starts[e]`` to ``starts[e + 1]``.
    """

    first: Integers
    last: Integers
    members: Integers
    starts: Integers

    def of(self, subject: int, events: BundleEvents) -> range:
        """Return the entries of one subject."""
        low, high = np.searchsorted(events.subject[self.last], [subject, subject + 1])
        return range(int(low), int(high))

    def rows(self, entry: int) -> list[int]:
        """Return the places of an entry's events."""
        return [int(place) for place in self.members[self.starts[entry] : self.starts[entry + 1]]]


@dataclass(frozen=True, kw_only=True)
class BatchStates:
    """The states of a stream's subjects after their last bundles. History and evictions are the fold's alone: a subject
    with more entries than the limits has to be folded.

    ``events`` are those that count: amended rows read as they do in the end.
    """

    stream: BundleStream = field(repr=False)
    events: BundleEvents = field(repr=False)
    limits: StateLimits
    problems: Entries
    medications: Entries
    trends: Entries
    allergies: Entries
    actions: Entries

    @cached_property
    def last_hours(self) -> dict[int, int]:
        """The hour of each subject's last bundle."""
        return dict(zip(self.stream.subjects.tolist(), self.stream.hours.tolist(), strict=True))

    def of(self, subject: int) -> PatientState:
        """Return one subject's state. KeyError: it has no bundle."""
        hour = from_microseconds(self.last_hours[subject] * HOUR)
        return PatientState(
            subject_id=subject,
            hour=hour,
            problems={each.concept: each for each in map(self._problem, self.problems.of(subject, self.events))},
            medications={
                each.row_id: each for each in map(self._medication, self.medications.of(subject, self.events))
            },
            trends={
                (each.kind, each.concept, each.unit or ""): each
                for each in map(self._trend, self.trends.of(subject, self.events))
            },
            allergies={each.concept: each for each in map(self._allergy, self.allergies.of(subject, self.events))},
            actions={
                (each.kind, each.concept): each for each in map(self._action, self.actions.of(subject, self.events))
            },
            limits=self.limits,
            encounter=self._encounters.get(subject),
        )

    @cached_property
    def _encounters(self) -> dict[int, StateEncounter]:
        found = encounters(self.events)
        return {int(self.events.subject[place]): encounter for place, encounter in found}

    def _concept(self, place: int) -> str:
        return self.events.names[int(self.events.concept[place])]

    def _row_id(self, place: int) -> str:
        return str(self.events.row_id[place].as_py())

    def _problem(self, entry: int) -> ActiveProblem:
        rows = self.problems.rows(entry)
        return ActiveProblem(
            concept=self._concept(rows[0]),
            since=from_microseconds(int(self.events.known[rows[0]])),
            last=from_microseconds(int(self.events.known[rows[-1]])),
            row_ids=tuple(map(self._row_id, rows[-ROWS_KEPT:])),
        )

    def _medication(self, entry: int) -> ActiveMedication:
        place = int(self.medications.last[entry])
        value = float(self.events.value[place])
        return ActiveMedication(
            concept=self._concept(place),
            dose=self.events.text[place].as_py() if np.isnan(value) else f"{value:g}",
            unit=self.events.unit[place].as_py(),
            since=from_microseconds(int(self.events.event[place])),
            kind=EventKind(int(self.events.kind[place])),
            row_id=self._row_id(place),
        )

    def _trend(self, entry: int) -> Trend:
        rows = self.trends.rows(entry)
        unit = self.events.unit[rows[-1]].as_py()
        kind = EventKind(int(self.events.kind[rows[-1]]))
        readings = tuple(map(self._reading, rows))
        return Trend(concept=self._concept(rows[-1]), unit=unit, kind=kind, readings=readings)

    def _reading(self, place: int) -> TrendReading:
        event = next(iter(self.events.slice(place, place + 1)))
        assert event.value is not None
        return TrendReading(time=event.time, value=event.value, level=event.level, row_id=event.row_id)

    def _allergy(self, entry: int) -> KnownAllergy:
        rows = self.allergies.rows(entry)
        return KnownAllergy(
            concept=self._concept(rows[-1]),
            reaction=self.events.text[rows[-1]].as_py(),
            since=from_microseconds(int(self.events.known[rows[0]])),
            row_id=self._row_id(rows[-1]),
        )

    def _action(self, entry: int) -> DoneAction:
        rows = self.actions.rows(entry)
        newest = max(rows, key=self.events.event.__getitem__)
        place = max(row for row in rows if self.events.event[row] == self.events.event[newest])
        return DoneAction(
            concept=self._concept(place),
            kind=EventKind(int(self.events.kind[place])),
            last=from_microseconds(int(self.events.event[place])),
            count=len(rows),
            row_id=self._row_id(place),
        )


def batch_states(stream: BundleStream, limits: StateLimits | None = None) -> BatchStates:
    """Return the states of all subjects of a stream after their last bundles."""
    limits = StateLimits() if limits is None else limits
    events = _as_they_read(stream.columns)
    subject = np.unique(events.subject, return_inverse=True)[1].astype(np.int64)
    named = subject * len(events.names) + events.concept
    by_kind = named * (max(EventKind) + 1) + events.kind
    return BatchStates(
        stream=stream,
        events=events,
        limits=limits,
        problems=_entries(events, events.kind == EventKind.DIAGNOSIS, named),
        medications=_running(events, subject),
        trends=_trends(events, by_kind, limits),
        allergies=_entries(events, events.kind == EventKind.ALLERGY, named),
        actions=_entries(events, np.isin(events.kind, DONE), by_kind),
    )


def encounters(events: BundleEvents) -> list[tuple[int, StateEncounter]]:
    """Return the encounter of its subject after each event that begins or ends one, with the event's place."""
    found: list[tuple[int, StateEncounter]] = []
    held: dict[int, StateEncounter] = {}
    for place in np.flatnonzero(np.isin(events.kind, [EventKind.ADMISSION, EventKind.DISCHARGE])).tolist():
        subject, time = int(events.subject[place]), from_microseconds(int(events.event[place]))
        before = held.get(subject)
        if events.kind[place] == EventKind.ADMISSION:
            held[subject] = admitted_at(time, before)
        elif before is not None:
            held[subject] = before.ended_at(time)
        if subject in held:
            found.append((place, held[subject]))
    return found


def _as_they_read(events: BundleEvents) -> BundleEvents:
    """Return the events with what was amended of some subjects read as it does in the end."""
    amended = np.unique(events.subject[is_amendment(events)])
    if not len(amended):
        return events
    changed = np.isin(events.subject, amended)
    return in_order(joined([events.take(~changed), with_levels(as_if_always_so(events.take(changed)))]))


def _entries(events: BundleEvents, mask: Mask, key: Integers) -> Entries:
    places = np.flatnonzero(mask)
    return _grouped(events, places[np.lexsort((places, key[places]))], key)


def _grouped(events: BundleEvents, places: Integers, key: Integers, touched: Integers | None = None) -> Entries:
    """Return one entry for every run of events with one key; ``touched``: when, if not by its last event."""
    fresh = np.append([True], key[places[1:]] != key[places[:-1]])[: len(places)]
    heads = np.flatnonzero(fresh)
    sizes = np.diff(np.append(heads, len(places)))
    last = places[heads + sizes - 1]
    order = np.lexsort((last if touched is None else touched, events.subject[last]))
    starts = np.append([0], np.cumsum(sizes[order]))
    members = np.repeat(heads[order] - starts[:-1], sizes[order]) + np.arange(starts[-1])
    return Entries(first=places[heads][order], last=last[order], members=places[members], starts=starts)


def _trends(events: BundleEvents, key: Integers, limits: StateLimits) -> Entries:
    units = events.unit.dictionary_encode()
    unit = np.asarray(units.indices.fill_null(len(units.dictionary)).to_numpy(zero_copy_only=False), np.int64)
    key = key * (len(units.dictionary) + 1) + unit
    places = np.flatnonzero(np.isin(events.kind, TRENDS) & ~np.isnan(events.value))
    places = places[np.lexsort((places, events.event[places], key[places]))]
    fresh = np.append([True], key[places[1:]] != key[places[:-1]])[: len(places)]
    group = np.cumsum(fresh) - 1
    ends = np.append(np.flatnonzero(fresh)[1:], len(places))
    touched = np.maximum.reduceat(places, np.flatnonzero(fresh)) if len(places) else places
    newest = events.event[places[ends - 1]][group] if len(places) else places
    kept = events.event[places] >= newest - limits.window_hours * HOUR
    kept &= ends[group] - np.arange(len(places)) <= limits.readings if len(places) else kept
    return _grouped(events, places[kept], key, touched)


def _running(events: BundleEvents, subject: Integers) -> Entries:
    """Return the orders and infusions after which there is neither their own end nor a discharge."""
    row = np.asarray(events.row_id.dictionary_encode().indices.to_numpy(zero_copy_only=False), np.int64)
    starts = np.flatnonzero(np.isin(events.kind, RUNNING))
    own = _last_of(row, np.isin(events.kind, [STOPS[kind] for kind in RUNNING]))[row[starts]]
    left = _last_of(subject, events.kind == EventKind.DISCHARGE)[subject[starts]]
    places = starts[(own < starts) & (left < starts)]
    return _grouped(events, places, np.arange(len(events)))


def _last_of(group: Integers, mask: Mask) -> Integers:
    """Return the last place under a mask of every group, -1 where there is none."""
    last = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    places = np.flatnonzero(mask)
    np.maximum.at(last, group[places], places)
    return last
