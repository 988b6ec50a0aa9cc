"""The open bundles of a stream, and which of them are closed with a line.

What comes out depends on the order of the lines alone, not on how they were cut into commits, what is in memory, or any
clock: an hour is over when a line of a later hour comes. Then the patient's own bundle is closed at once, and those of
others one with every line; where a whole hospital waits, one with every fourth, so that no line waits for them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from wardround.stream.closing import OpenBundle
from wardround.stream.ledger import Commit, LoggedBundle
from wardround.stream.logged import LoggedEvents
from wardround.stream.patients import Patients
from wardround.stream.reading import TakenEvents

NO_HOUR = -(1 << 40)
MANY = 1_000
"""Where so many bundles wait to be closed, a line is followed by one only if its number is a multiple of ..."""
EVERY = 4
_TOGETHER = 64
"""Patients who are read back are read so many at a time."""


@dataclass(slots=True, kw_only=True)
class StreamEngine:
    """Takes events line by line and yields what is told. ``commit`` is told which bundles are opened and closed."""

    patients: Patients
    logged: LoggedEvents
    hour: int = NO_HOUR
    open: dict[int, OpenBundle] = field(default_factory=dict)
    over: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Subjects whose open bundle is of an hour that is over, in the order in which these were opened."""
    opened: list[int] = field(default_factory=list)
    """Subjects with a bundle of the hour that is open, in the order in which they were opened."""
    size: int = 0
    """Events of open bundles in memory."""

    @property
    def commit(self) -> Commit:
        """The commit that is being made."""
        return self.logged.commit

    def recover(self) -> None:
        """Take up the bundles that the ledger has open; nothing of them is read before they are closed."""
        hour = self.logged.ledger.last_hour()
        self.hour = NO_HOUR if hour is None else hour
        for bundle in self.logged.ledger.open_bundles():
            lines = list(bundle.lines)
            self.open[bundle.subject] = OpenBundle(hour=bundle.hour, lines=lines, unread=len(lines))
            if bundle.hour < self.hour:
                self.over[bundle.subject] = None
            else:
                self.opened.append(bundle.subject)

    def take(self, subject: int, number: int, hour: int, events: TakenEvents) -> Iterator[dict[str, Any]]:
        """Take one line's events; yield what is told with it."""
        if hour > self.hour:
            self.hour = hour
            self.over.update(dict.fromkeys(self.opened))
            self.opened = []
        if subject in self.over:
            yield self._close(subject)
        bundle = self.open.get(subject)
        if bundle is None:
            bundle = self.open[subject] = OpenBundle(hour=hour)
            self.opened.append(subject)
            self.commit.opened.append(LoggedBundle(subject, hour, (number,)))
        bundle.lines.append(number)
        bundle.events += events
        self.size += len(events)
        if self.over and (len(self.over) < MANY or number % EVERY == 0):
            yield self._close(next(iter(self.over)))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Close every open bundle; yield what is told."""
        self.over.update(dict.fromkeys(self.opened))
        self.opened = []
        while self.over:
            yield self._close(next(iter(self.over)))

    def forget_events(self, most_entries: int) -> None:
        """Keep no more events of open bundles in memory, those opened first aside: they are in the ledger."""
        bundles = iter(list(self.open.values()) if self.size > most_entries else ())
        while self.size > most_entries:
            bundle = next(bundles)
            self.size -= len(bundle.events)
            bundle.events, bundle.unread = [], len(bundle.lines)

    def _close(self, subject: int) -> dict[str, Any]:
        if not self._is_ready(subject):
            waiting = (each for each in islice(self.over, _TOGETHER) if not self._is_ready(each))
            self._read_back(dict.fromkeys([subject, *waiting]))
        bundle = self.open.pop(subject)
        del self.over[subject]
        self.size -= len(bundle.events)
        told = self.patients.close(subject, bundle)
        self.commit.closed.append(LoggedBundle(subject, bundle.hour, bundle.lines))
        return told

    def _is_ready(self, subject: int) -> bool:
        return subject in self.patients and not self.open[subject].unread

    def _read_back(self, subjects: dict[int, None]) -> None:
        self.patients.load(subjects)
        bundles = [self.open[subject] for subject in subjects]
        events = self.logged.by_number(number for bundle in bundles for number in bundle.lines[: bundle.unread])
        for bundle in bundles:
            again = [event for number in bundle.lines[: bundle.unread] for event in events[number]]
            bundle.events = [*again, *bundle.events]
            bundle.unread = 0
            self.size += len(again)
