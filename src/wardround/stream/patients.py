"""The patients of a stream: those who are idle lie in their snapshots, and are read back with the bundles since."""

from __future__ import annotations

import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wardround.agents.stays.router import RuleMemory
from wardround.bundles import PatientState
from wardround.bundles.events import HOUR
from wardround.core import from_microseconds
from wardround.stream.amending import HourEvents, amended_rows, as_read_now, first_hours
from wardround.stream.closing import Closing, FirstValues, OpenBundle, Patient, Responder, size_of
from wardround.stream.ledger_reading import LedgerReading
from wardround.stream.logged import LoggedEvents
from wardround.stream.recent import RecentStates

SNAPSHOT_BUNDLES = 24
"""A patient is written down after so many bundles: more are never folded again."""


class _Snapshot(msgspec.Struct):
    state: PatientState
    first_values: FirstValues
    memory: RuleMemory


_DECODER = msgspec.msgpack.Decoder(_Snapshot)
_ENCODER = msgspec.msgpack.Encoder()


@dataclass(slots=True, kw_only=True)
class Patients:
    """Patients after their last closed bundles, those who are in memory by when they were last looked at.

    ``size``: entries of all states in memory. Patients who are dropped are as they were when they come back.
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
        """Read some patients back who are not in memory, or begin them."""
        wanted = [subject for subject in subjects if subject not in self._held]
        bodies = self.ledger.snapshots(wanted)
        closed = list(self.ledger.closed_bundles(wanted))
        since = defaultdict(list)
        for bundle, events in zip(closed, self.logged.bundles(closed), strict=True):
            since[bundle.subject].append(events)
        for subject in wanted:
            bundles = since[subject]
            patient = self._held[subject] = _opened(subject, bodies.get(subject), bundles)
            for one in self._as_read(subject, bundles, is_whole=subject not in bodies):
                self._closing.replay(patient, one)
            patient.size = size_of(patient.state)
            self.size += patient.size

    def close(self, subject: int, bundle: OpenBundle) -> dict[str, Any]:
        """Bring a patient in memory up to a bundle; return what is told."""
        patient = self._held[subject]
        self._held.move_to_end(subject)
        self.size -= patient.size
        told = self._closing.close(patient, bundle)
        self._recent.keep(patient, HourEvents(bundle.hour, bundle.events))
        self.size += patient.size
        if patient.unsaved >= SNAPSHOT_BUNDLES:
            self._due.add(subject)
        return told

    def _rewind(self, patient: Patient, bundle: OpenBundle) -> HourEvents:
        """Fold again from before the first of the rows that a bundle amends became known, from a state that is held or
        the last such snapshot. The states and snapshots after it are not so any more.
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
        for told, one in zip(bundles, visible, strict=False):
            self._closing.replay(patient, one)
            if patient.unsaved >= SNAPSHOT_BUNDLES:
                self.logged.commit.snapshots.append(_written(patient))
            self._recent.keep(patient, told)
        return left

    def _since_snapshot(
        self, subject: int, rows: set[str], bundles: list[HourEvents]
    ) -> tuple[list[HourEvents], int | None]:
        """Return a patient's bundles since the last snapshot before rows became known, and its hour; None, and all
        bundles, where there is none. ``bundles``: the last of them."""
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
        """Yield what is to be written with this commit: whoever's turn it is, and those who are dropped so that no more
        entries than so many are in memory."""
        for subject in self._due & self._held.keys():
            yield _written(self._held[subject])
        self._due.clear()
        self._recent.forget(max(0, most_entries - self.size))
        while self.size > most_entries and self._held:
            _, patient = self._held.popitem(last=False)
            self.size -= patient.size
            if patient.unsaved:
                yield _written(patient)

    def states(self) -> dict[int, PatientState]:
        """Return the states of those who are in memory."""
        return {subject: patient.state for subject, patient in self._held.items()}


def _opened(subject: int, body: bytes | None, since: Sequence[HourEvents]) -> Patient:
    """Return a patient as a snapshot has it, or before the first bundle, at whose hour what is remembered begins."""
    if body is None:
        began = from_microseconds(since[0].hour * HOUR) if since else None
        return Patient(state=PatientState(subject_id=subject), memory=RuleMemory(began=began, played=began))
    read = _DECODER.decode(zlib.decompress(body))
    return Patient(state=read.state, first_values=read.first_values, memory=read.memory, size=size_of(read.state))


def _written(patient: Patient) -> tuple[int, int, bytes]:
    snapshot = _Snapshot(state=patient.state, first_values=patient.first_values, memory=patient.memory)
    patient.unsaved = 0
    return patient.state.subject_id, patient.hour, zlib.compress(_ENCODER.encode(snapshot), 1)
