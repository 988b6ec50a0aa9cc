"""The open bundles of a stream, and which of them are closed with a line.

What comes out depends on the order of the lines alone, not on how they were cut into commits, what is in memory, or any
clock: an hour is over when a line of a later hour comes. Then the patient's own bundle is closed at once, and those of
others one with every line; where a whole hospital waits, one with every fourth line, whoever's it is: no line waits for
all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from wardround.stream.closing import OpenBundle
from wardround.stream.ledger import Commit
from wardround.stream.ledger_reading import LoggedBundle
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
    """Takes events line by line and yields what is told. ``commit`` is told which bundles are opened and closed.

    ``open``: the bundles of the hour that is open, ``over``: those of hours that are over, both in the order in which
    they were opened; ``waiting``: the hours in ``over``, by subject; ``size``: events of all of them in memory.
    """

    patients: Patients
    logged: LoggedEvents
    hour: int = NO_HOUR
    open: dict[int, OpenBundle] = field(default_factory=dict)
    over: OrderedDict[tuple[int, int], OpenBundle] = field(default_factory=OrderedDict)
    waiting: dict[int, list[int]] = field(default_factory=dict)
    size: int = 0

    @property
    def commit(self) -> Commit:
        """The commit that is being made."""
        return self.logged.commit

    def recover(self) -> None:
        """Take up the bundles that the ledger has open; nothing of them is read before they are closed."""
        for logged in self.logged.ledger.open_bundles():
            self._turn(logged.hour)
            lines = list(logged.lines)
            self.open[logged.subject] = OpenBundle(hour=logged.hour, lines=lines, unread=len(lines))
        hour = self.logged.ledger.last_hour()
        self._turn(self.hour if hour is None else hour)

    def take(self, subject: int, number: int, hour: int, events: TakenEvents) -> Iterator[dict[str, Any]]:
        """Take one line's events; yield what is told with it."""
        self._turn(hour)
        if subject in self.waiting and len(self.over) < MANY:
            yield from [self._close(subject, each) for each in tuple(self.waiting[subject])]
        bundle = self.open.get(subject)
        if bundle is None:
            bundle = self.open[subject] = OpenBundle(hour=hour)
            self.commit.opened.append(LoggedBundle(subject, hour, (number,)))
        bundle.lines.append(number)
        bundle.events += events
        self.size += len(events)
        if self.over and (len(self.over) < MANY or number % EVERY == 0):
            yield self._close(*next(iter(self.over)))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Close every open bundle; yield what is told."""
        self._turn(self.hour + 1)
        while self.over:
            yield self._close(*next(iter(self.over)))

    def forget_events(self, most_entries: int) -> None:
        """Keep no more events in memory than so many, those of the oldest bundles aside: they are in the ledger."""
        bundles = iter([*self.over.values(), *self.open.values()] if self.size > most_entries else ())
        while self.size > most_entries:
            bundle = next(bundles)
            self.size -= len(bundle.events)
            bundle.events, bundle.unread = [], len(bundle.lines)

    def _turn(self, hour: int) -> None:
        """Begin an hour, if it is a later one: what is open is over."""
        if hour <= self.hour:
            return
        for subject, bundle in self.open.items():
            self.over[subject, bundle.hour] = bundle
            self.waiting.setdefault(subject, []).append(bundle.hour)
        self.hour, self.open = hour, {}

    def _close(self, subject: int, hour: int) -> dict[str, Any]:
        if not self._is_ready(subject, hour):
            front = (each for each in islice(self.over, _TOGETHER) if not self._is_ready(*each))
            self._read_back(dict.fromkeys([(subject, hour), *front]))
        bundle = self.over.pop((subject, hour))
        self.waiting[subject].remove(hour)
        if not self.waiting[subject]:
            del self.waiting[subject]
        self.size -= len(bundle.events)
        told = self.patients.close(subject, bundle)
        self.commit.closed.append(LoggedBundle(subject, hour, bundle.lines))
        return told

    def _is_ready(self, subject: int, hour: int) -> bool:
        return subject in self.patients and not self.over[subject, hour].unread

    def _read_back(self, bundles: Iterable[tuple[int, int]]) -> None:
        """Have the patients of some bundles in memory, and all their events."""
        self.patients.load(dict.fromkeys(subject for subject, _ in bundles))
        behind = [self.over[each] for each in bundles]
        events = self.logged.by_number(number for bundle in behind for number in bundle.lines[: bundle.unread])
        for bundle in behind:
            again = [event for number in bundle.lines[: bundle.unread] for event in events[number]]
            bundle.events = [*again, *bundle.events]
            bundle.unread = 0
            self.size += len(again)
