"""Patients of a stream: snapshots, recent states, logged events."""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec

from wardround.agents.stays import RuleMemory
from wardround.clinical.bundles import PatientState
from wardround.clinical.bundles.events import HOUR
from wardround.core import from_microseconds
from wardround.stream.closing import (
    Closing,
    FirstValues,
    HourEvents,
    OpenBundle,
    Patient,
    Responder,
    amended_rows,
    as_read_now,
    first_hours,
    size_of,
)
from wardround.stream.ledger import Commit, LedgerReading, LoggedBundle
from wardround.stream.reading import TakenEvents, unpacked_events

# The last states of patients in memory, with the events of their bundles: a correction is folded from the state before
# the corrected row, without reading the ledger. No output depends on which states are in memory.


MOST_HOURS = 26
"""States of the last bundles that are kept of a patient: a corrected row is seldom older than a day."""
_SHARED = 8
"""A state shares unchanged entries with its neighbours: only this fraction of its entries is counted."""
_hour = attrgetter("bundle.hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentState:
    """A patient after a bundle, with the events as they were read. ``unsaved``: bundles since the snapshot."""

    bundle: HourEvents
    state: PatientState
    first_values: FirstValues
    memory: RuleMemory
    unsaved: int

    @property
    def size(self) -> int:
        """About how many entries it has in memory."""
        state = self.state
        entries = len(state.trends) + len(state.actions) + len(state.medications) + len(state.problems)
        return 2 + len(self.bundle.events) + entries // _SHARED

    def patient(self) -> Patient:
        """Return the patient as after the bundle."""
        return Patient(
            state=self.state,
            first_values=dict(self.first_values),
            memory=copied(self.memory),
            hour=self.bundle.hour,
            unsaved=self.unsaved,
        )


@dataclass(slots=True)
class RecentStates:
    """Recent states of patients, least recently updated first. ``size``: entries of all."""

    size: int = 0
    _held: OrderedDict[int, list[RecentState]] = field(default_factory=OrderedDict)

    def keep(self, patient: Patient, bundle: HourEvents) -> None:
        """Store a patient's state after a bundle."""
        subject = patient.state.subject_id
        own = self._held.setdefault(subject, [])
        own.append(
            RecentState(
                bundle=bundle,
                state=patient.state,
                first_values=dict(patient.first_values),
                memory=copied(patient.memory),
                unsaved=patient.unsaved,
            )
        )
        self._held.move_to_end(subject)
        self.size += own[-1].size
        if len(own) > MOST_HOURS:
            self.size -= own.pop(0).size

    def before(self, subject: int, hour: int) -> list[RecentState]:
        """Return the stored states of a patient before an hour, by hour."""
        own = self._held.get(subject, [])
        return own[: bisect_left(own, hour, key=_hour)]

    def drop_after(self, subject: int, hour: int | None) -> None:
        """Delete a patient's states after an hour (None: all), because they are no longer valid."""
        own = self._held.get(subject, [])
        first = 0 if hour is None else bisect_right(own, hour, key=_hour)
        self.size -= sum(each.size for each in own[first:])
        del own[first:]

    def forget(self, most_entries: int) -> None:
        """Delete the least recently updated patients until at most ``most_entries`` are left."""
        while self.size > most_entries and self._held:
            _, own = self._held.popitem(last=False)
            self.size -= sum(each.size for each in own)


def copied(memory: RuleMemory) -> RuleMemory:
    """Return a copy of a memory that does not change with the original."""
    return RuleMemory(
        began=memory.began,
        played=memory.played,
        encounter=memory.encounter,
        held_since=dict(memory.held_since),
        suspected=dict(memory.suspected),
        courses=dict(memory.courses),
        counts=dict(memory.counts),
        counted=dict(memory.counted),
    )


# Events of bundles from the ledger and from the commit in progress.


NO_HOUR = -(1 << 40)
"""Before every hour."""


@dataclass(slots=True, kw_only=True)
class LoggedEvents:
    """Events by the numbers of their lines. ``commit``: the commit in progress, which the ledger does not have yet."""

    ledger: LedgerReading
    commit: Commit = field(default_factory=Commit)

    def by_number(self, numbers: Iterable[int]) -> dict[int, TakenEvents]:
        """Return the events of some lines, as they were read."""
        wanted = sorted(numbers)
        split = bisect_right(wanted, self.ledger.lines)
        pending = (self.commit.lines[number - self.ledger.lines - 1] for number in wanted[split:])
        lines = [*self.ledger.lines_by_number(wanted[:split]), *pending] if wanted else []
        return {line.number: unpacked_events(line.events) for line in lines}

    def bundles(self, bundles: Sequence[LoggedBundle]) -> list[HourEvents]:
        """Return closed bundles with their events."""
        events = self.by_number(number for bundle in bundles for number in bundle.lines)
        return [HourEvents(each.hour, [event for number in each.lines for event in events[number]]) for each in bundles]

    def snapshot_hours(self, subject: int) -> list[int]:
        """Return the hours of a subject's valid snapshots, the last first."""
        stale = self.commit.stale.get(subject)
        hours = self.ledger.snapshot_hours(subject)
        return hours if stale is None else [hour for hour in hours if hour < stale]

    def between(self, subject: int, after: int | None, before: int) -> list[HourEvents]:
        """Return a subject's closed bundles between two hours, both excluded (``after`` None: from the first)."""
        pending = (
            each
            for each in self.commit.closed.get(subject, ())
            if each.hour < before and (after is None or each.hour > after)
        )
        return self.bundles([*self.ledger.between(subject, after, before), *pending])

    def drop_snapshots(self, subject: int, after: int | None) -> None:
        """Mark a subject's snapshots after an hour (None: all) as invalid."""
        since = NO_HOUR if after is None else after + 1
        self.commit.stale[subject] = min(since, self.commit.stale.get(subject, since))
        self.commit.snapshots = [each for each in self.commit.snapshots if each[0] != subject or each[1] < since]

    def note_unbased(self, subject: int, rows: set[str]) -> None:
        """Note rows whose first known version is a later one: that version begins the row, it amends nothing."""
        self.commit.unbased.update((subject, row) for row in rows)

    def unbased(self, subject: int) -> frozenset[str]:
        """Return a subject's rows whose first known version is a later one."""
        ours = (row for whose, row in self.commit.unbased if whose == subject)
        return frozenset((*ours, *self.ledger.unbased(subject)))


# The patients of a stream: idle ones are stored as snapshots, and read back with the bundles since.


SNAPSHOT_BUNDLES = 24
"""A snapshot is written after this many bundles: more are never folded again."""


class _Snapshot(msgspec.Struct):
    state: PatientState
    first_values: FirstValues
    memory: RuleMemory


_DECODER = msgspec.msgpack.Decoder(_Snapshot)
_ENCODER = msgspec.msgpack.Encoder()


@dataclass(slots=True, kw_only=True)
class Patients:
    """Patients after their last closed bundles; those in memory are ordered by their last use.

    ``size``: entries of all states in memory. A patient who is dropped from memory is restored unchanged.
    """

    ledger: LedgerReading
    logged: LoggedEvents
    responder: Responder | None = None
    size: int = 0
    _closing: Closing = field(init=False)
    _held: OrderedDict[int, Patient] = field(default_factory=OrderedDict)
    _recent: RecentStates = field(default_factory=RecentStates)
    _due: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._closing = Closing(rewind=self._rewind, responder=self.responder)

    def __contains__(self, subject: int) -> bool:
        return subject in self._held

    def __len__(self) -> int:
        return len(self._held)

    def load(self, subjects: Iterable[int]) -> None:
        """Read patients who are not in memory back, or create them."""
        wanted = [subject for subject in subjects if subject not in self._held]
        bodies = self.ledger.snapshots(wanted)
        closed = list(self.ledger.closed_bundles(wanted))
        since = defaultdict(list)
        for bundle, events in zip(closed, self.logged.bundles(closed), strict=True):
            since[bundle.subject].append(events)
        for subject in wanted:
            bundles = since[subject]
            patient = self._held[subject] = _opened(subject, bodies.get(subject), bundles)
            for hour_events in self._as_read(subject, bundles, is_whole=subject not in bodies):
                self._closing.replay(patient, hour_events)
            patient.size = size_of(patient.state)
            self.size += patient.size

    def close(self, subject: int, bundle: OpenBundle) -> dict[str, Any]:
        """Update a patient in memory with a bundle; return the output line."""
        patient = self._held[subject]
        self._held.move_to_end(subject)
        self.size -= patient.size
        output = self._closing.close(patient, bundle)
        self._recent.keep(patient, HourEvents(bundle.hour, bundle.events))
        self.size += patient.size
        if patient.unsaved >= SNAPSHOT_BUNDLES:
            self._due.add(subject)
        return output

    def _rewind(self, patient: Patient, bundle: OpenBundle) -> HourEvents:
        """Fold again from before the first amended row became known, from a state in memory or the last snapshot.

        Later states and snapshots become invalid.
        """
        subject, bundles = patient.state.subject_id, [HourEvents(bundle.hour, bundle.events)]
        rows, recent = amended_rows(bundle.events), self._recent.before(subject, bundle.hour)
        if first_hours(bundles, rows).keys() == rows:
            (left,) = self._as_read(subject, bundles, is_whole=False)
            return left
        bundles = [*(each.bundle for each in recent), *bundles]
        first = first_hours(bundles, rows)
        earlier = [each for each in recent if each.bundle.hour < min(first.values())] if first.keys() == rows else []
        after: int | None
        if earlier:
            before, after = earlier[-1].patient(), earlier[-1].bundle.hour
            bundles = bundles[len(earlier) :]
        else:
            bundles, after = self._since_snapshot(subject, rows, bundles)
            before = _opened(subject, None if after is None else self.ledger.snapshot(subject, after), bundles)
        self.logged.drop_snapshots(subject, after)
        self._recent.drop_after(subject, after)
        patient.state, patient.first_values, patient.memory = before.state, before.first_values, before.memory
        patient.unsaved = before.unsaved
        *visible, left = self._as_read(subject, bundles, is_whole=after is None)
        for original, amended in zip(bundles, visible, strict=False):
            self._closing.replay(patient, amended)
            if patient.unsaved >= SNAPSHOT_BUNDLES:
                self.logged.commit.snapshots.append(_written(patient))
            self._recent.keep(patient, original)
        return left

    def _since_snapshot(
        self, subject: int, rows: set[str], bundles: list[HourEvents]
    ) -> tuple[list[HourEvents], int | None]:
        """Return a patient's bundles since the last snapshot before some rows became known, and its hour.

        Without such a snapshot: all bundles, and None. ``bundles``: the last of them.
        """
        for after in self.logged.snapshot_hours(subject):
            if after < bundles[0].hour:
                bundles = [*self.logged.between(subject, after, bundles[0].hour), *bundles]
                if first_hours(bundles, rows).keys() == rows:
                    return bundles, after
        bundles = [*self.logged.between(subject, None, bundles[0].hour), *bundles]
        self.logged.note_unbased(subject, rows - first_hours(bundles, rows).keys())
        return bundles, None

    def _as_read(self, subject: int, bundles: Sequence[HourEvents], *, is_whole: bool) -> list[HourEvents]:
        unbased = frozenset[str]() if is_whole else self.logged.unbased(subject)
        return as_read_now(bundles, lambda row: not is_whole and row not in unbased)

    def snapshots(self, most_entries: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield the snapshots to write with this commit: patients who are due, and those dropped from memory.

        Patients are dropped until at most ``most_entries`` are in memory.
        """
        for subject in self._due & self._held.keys():
            yield _written(self._held[subject])
        self._due.clear()
        self._recent.forget(most_entries - self.size)
        while self.size > most_entries and self._held:
            _, patient = self._held.popitem(last=False)
            self.size -= patient.size
            if patient.unsaved:
                yield _written(patient)

    def states(self) -> dict[int, PatientState]:
        """Return the states of the patients in memory."""
        return {subject: patient.state for subject, patient in self._held.items()}


def _opened(subject: int, body: bytes | None, since: Sequence[HourEvents]) -> Patient:
    """Return a patient from a snapshot, or a new one whose memory begins with the hour of the first bundle."""
    if body is None:
        began = from_microseconds(since[0].hour * HOUR) if since else None
        return Patient(state=PatientState(subject_id=subject), memory=RuleMemory(began=began, played=began))
    read = _DECODER.decode(zlib.decompress(body))
    return Patient(state=read.state, first_values=read.first_values, memory=read.memory, size=size_of(read.state))


def _written(patient: Patient) -> tuple[int, int, bytes]:
    snapshot = _Snapshot(state=patient.state, first_values=patient.first_values, memory=patient.memory)
    patient.unsaved = 0
    return patient.state.subject_id, patient.hour, zlib.compress(_ENCODER.encode(snapshot), 1)
