"""The patients of a stream: those who are idle lie in their snapshots, and are read back with the bundles since."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wardround.agents.stays.router import RuleMemory
from wardround.bundles import PatientState
from wardround.stream.closing import Closing, OpenBundle, Patient, size_of
from wardround.stream.ledger_reading import LedgerReading
from wardround.stream.logged import LoggedEvents

SNAPSHOT_BUNDLES = 24
"""A patient is written down after so many bundles: more are never folded again."""


class _Snapshot(msgspec.Struct):
    state: PatientState
    first_values: dict[str, float]
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
    closing: Closing
    size: int = 0
    _held: OrderedDict[int, Patient] = field(default_factory=OrderedDict)
    _due: set[int] = field(default_factory=set)

    def __contains__(self, subject: int) -> bool:
        return subject in self._held

    def __len__(self) -> int:
        return len(self._held)

    def load(self, subjects: Iterable[int]) -> None:
        """Read some patients back who are not in memory, or begin them."""
        wanted = [subject for subject in subjects if subject not in self._held]
        bodies = self.ledger.snapshots(wanted)
        for subject in wanted:
            self._held[subject] = _opened(subject, bodies.get(subject))
        since = list(self.ledger.closed_bundles(wanted))
        events = self.logged.by_number(number for bundle in since for number in bundle.lines)
        for bundle in since:
            taken = [event for number in bundle.lines for event in events[number]]
            self.closing.close(
                self._held[bundle.subject], OpenBundle(hour=bundle.hour, lines=[*bundle.lines], events=taken)
            )
        self.size += sum(self._held[subject].size for subject in wanted)

    def close(self, subject: int, bundle: OpenBundle) -> dict[str, Any]:
        """Bring a patient in memory up to a bundle; return what is told."""
        patient = self._held[subject]
        self._held.move_to_end(subject)
        self.size -= patient.size
        told = self.closing.close(patient, bundle)
        self.size += patient.size
        if patient.unsaved >= SNAPSHOT_BUNDLES:
            self._due.add(subject)
        return told

    def snapshots(self, most_entries: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield what is to be written with this commit: whoever's turn it is, and those who are dropped so that no more
        entries than so many are in memory."""
        for subject in self._due & self._held.keys():
            yield _written(self._held[subject])
        self._due.clear()
        while self.size > most_entries and self._held:
            _, patient = self._held.popitem(last=False)
            self.size -= patient.size
            if patient.unsaved:
                yield _written(patient)

    def states(self) -> dict[int, PatientState]:
        """Return the states of those who are in memory."""
        return {subject: patient.state for subject, patient in self._held.items()}


def _opened(subject: int, body: bytes | None) -> Patient:
    if body is None:
        return Patient(state=PatientState(subject_id=subject))
    read = _DECODER.decode(zlib.decompress(body))
    return Patient(state=read.state, first_values=read.first_values, memory=read.memory, size=size_of(read.state))


def _written(patient: Patient) -> tuple[int, int, bytes]:
    snapshot = _Snapshot(state=patient.state, first_values=patient.first_values, memory=patient.memory)
    patient.unsaved = 0
    return patient.state.subject_id, patient.hour, zlib.compress(_ENCODER.encode(snapshot), 1)
