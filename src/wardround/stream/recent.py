"""The last states of patients with the events of their bundles, in memory: a correction is folded from the one before
what it corrects, without a look at the ledger. Nothing that is told depends on what is held here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from operator import attrgetter

from wardround.agents.stays.router import RuleMemory
from wardround.bundles import PatientState
from wardround.stream.amending import HourEvents
from wardround.stream.closing import FirstValues, Patient

MOST_HOURS = 26
"""Of one patient the states of so many bundles, the last: what is corrected is seldom older than a day."""
_SHARED = 8
"""A state shares with those beside it what did not change: it takes such a part of its entries."""
_hour = attrgetter("bundle.hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentState:
    """A patient after a bundle, whose events are as they were taken. ``unsaved``: bundles since the snapshot."""

    bundle: HourEvents
    state: PatientState
    first_values: FirstValues
    memory: RuleMemory
    unsaved: int

    @property
    def size(self) -> int:
        """About how many entries it holds in memory."""
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
    """Patients by when something was last kept of them. ``size``: entries of all."""

    size: int = 0
    _held: OrderedDict[int, list[RecentState]] = field(default_factory=OrderedDict)

    def keep(self, patient: Patient, bundle: HourEvents) -> None:
        """Keep a patient after a bundle."""
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
        """Return what is held of a patient before an hour, by hour."""
        own = self._held.get(subject, [])
        return own[: bisect_left(own, hour, key=_hour)]

    def drop_after(self, subject: int, hour: int | None) -> None:
        """Forget a patient's states after an hour (None: all): they are not so any more."""
        own = self._held.get(subject, [])
        first = 0 if hour is None else bisect_right(own, hour, key=_hour)
        self.size -= sum(each.size for each in own[first:])
        del own[first:]

    def forget(self, most_entries: int) -> None:
        """Hold no more entries than so many."""
        while self.size > most_entries and self._held:
            _, own = self._held.popitem(last=False)
            self.size -= sum(each.size for each in own)


def copied(memory: RuleMemory) -> RuleMemory:
    """Return what is remembered, so that it does not change with the other."""
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
