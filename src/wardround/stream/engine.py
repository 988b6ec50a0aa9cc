"""The open bundles of a stream, and which of them are closed with a line.

Every patient has a clock: the latest hour of the patient's own lines, and at least the clock of the source (its lines
``clock``) or the wall clock. A bundle is over when its patient's clock is past it: no other patient's line closes it.
The output of a patient depends on the patient's lines and the declared clock alone, not on how lines are cut into
commits or on what is in memory. A bundle that ends with a line of its patient is closed with that line. Bundles that
end at the turn of an hour are closed over time, and one more with every line (every tenth line if a whole hospital
waits), so no line waits for all of them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from wardround.clinical.bundles.events import HOUR, amends
from wardround.core import from_microseconds, to_microseconds
from wardround.stream.closing import OpenBundle
from wardround.stream.ledger import Commit, LoggedBundle, LoggedLine
from wardround.stream.patients import NO_HOUR, LoggedEvents, Patients
from wardround.stream.reading import TakenEvents, packed_events

MANY = 256
"""From this many waiting bundles on, one is closed with every ``EVERY``-th line only."""
EVERY = 10
EACH_MICROSECONDS, MOST_OWED, WITH_A_LINE = 2_000, 2_000, 8
"""Waiting bundles are closed over time: one becomes due every ``EACH_MICROSECONDS`` of clock or lines in its hour;
at most ``MOST_OWED`` are due at once, and at most ``WITH_A_LINE`` are closed with one line."""
_TOGETHER = 64
"""How many patients are read back from the ledger at a time."""


@dataclass(slots=True, kw_only=True)
class StreamEngine:
    """Puts the events of lines into bundles, closes bundles and yields their output; the commit records both.

    ``time``, ``clock``: time of the source or the wall, in microseconds, and its hour; ``latest``: the latest time in
    that hour which a line or the clock gave, with how many bundles are due (``owed``); ``reached``: the hours of
    patients' own clocks; ``open``: bundles that are not over, by subject and hour; ``over``: bundles that are over and
    wait, closed by hour and first line; ``waiting``: the hours in ``over``, by subject; ``size``: their events in
    memory; ``late``: lines of hours that were over.
    """

    patients: Patients
    logged: LoggedEvents
    time: int = NO_HOUR * HOUR
    clock: int = NO_HOUR
    latest: int = NO_HOUR * HOUR
    owed: int = 0
    reached: dict[int, int] = field(default_factory=dict)
    open: defaultdict[int, dict[int, OpenBundle]] = field(default_factory=lambda: defaultdict(dict))
    over: dict[tuple[int, int], OpenBundle] = field(default_factory=dict)
    waiting: dict[int, list[int]] = field(default_factory=dict)
    size: int = 0
    late: int = 0
    _queue: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def commit(self) -> Commit:
        """The commit that is being made."""
        return self.logged.commit

    @property
    def lines(self) -> int:
        """The number of the last line that was read."""
        return self.logged.ledger.lines + len(self.commit.lines)

    def recover(self) -> None:
        """Restore the open bundles of the ledger; their events are read when they are closed."""
        clock = self.logged.ledger.clock()
        for logged in self.logged.ledger.open_bundles():
            lines = list(logged.lines)
            bundle = OpenBundle(hour=logged.hour, lines=lines, unread=len(lines), reached=logged.reached)
            self.open[logged.subject][logged.hour] = bundle
            if logged.reached:
                self.reached[logged.subject] = max(logged.hour, self.reached.get(logged.subject, NO_HOUR))
        subjects = list(self.open)
        self._know(subjects)
        for subject in subjects:
            self._end(subject, self.reached.get(subject, NO_HOUR))
        if clock is not None:
            self.time = clock
            self._turn(clock // HOUR)
            self.latest, self.owed = self.logged.ledger.pace_of_closing() or (clock, 0)

    def prepare(self, subjects: Iterable[int]) -> None:
        """Look up the clocks of the patients of some lines."""
        self._know([subject for subject in dict.fromkeys(subjects) if subject not in self.reached])

    def _know(self, subjects: list[int]) -> None:
        found = self.logged.ledger.reached(subjects) if subjects else {}
        for subject in subjects:
            self.reached[subject] = max(found.get(subject, NO_HOUR), self.reached.get(subject, NO_HOUR))

    def turn(self, time: int, most: int) -> Iterator[dict[str, Any]]:
        """Set the clock of the source or the wall to a time in microseconds: earlier hours are over.

        Yields the output of the bundles that are closed now, at most ``most``.
        """
        if time > self.time:
            self.time = self.commit.clock = time
            if time // HOUR > self.clock:
                self._turn(time // HOUR)
                self._pace(self.clock * HOUR, most)
            self.go_on(time)
            yield from self._close_owed(most)

    def go_on(self, time: int) -> None:
        """Note the time of a line; if it is within the clock's hour, more waiting bundles become due."""
        if time > self.latest and time // HOUR == self.clock:
            self._pace(time, self.owed + (time - self.latest) // EACH_MICROSECONDS)

    def _pace(self, time: int, owed: int) -> None:
        self.latest, self.owed = self.commit.closing = time, min(owed, MOST_OWED, len(self.over))

    def _close_owed(self, most: int) -> Iterator[dict[str, Any]]:
        most = min(most, self.owed, len(self.over))
        if most:
            yield from self.drain(most)
            self._pace(self.latest, self.owed - most)

    def take(
        self, subject: int, events: TakenEvents, *, reach: int | None, parked: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Add one line's events; yield the output that it causes.

        ``reach``: the hour to which the line brings the patient's clock, None if it does not; ``parked``: the line is
        further ahead than is allowed.
        """
        before = self.reached.get(subject, NO_HOUR)
        if reach is not None and reach > before:
            self.reached[subject] = reach
        now = max(self.reached.get(subject, NO_HOUR), self.clock)
        own = self.open.get(subject)
        if own and min(own) < now:
            self._end(subject, now)
        if subject in self.waiting and len(self.over) < MANY:
            yield from [self._close(subject, each) for each in tuple(self.waiting[subject])]
        is_shown = False
        by_hour, is_late = _by_hour(events, now)
        for hour, several in by_hour.items():
            ahead = parked or (hour > now)
            self._add(subject, hour, several, ahead=ahead, parked=parked)
            is_shown |= not ahead
        self.late += is_late
        if reach is not None and reach > before and not is_shown:
            self.commit.reached[subject] = reach
        if self.over and (len(self.over) < MANY or self.lines % EVERY == 0):
            yield self._close(*self._next())
        if self.owed:
            yield from self._close_owed(WITH_A_LINE)

    def _add(self, subject: int, hour: int, events: TakenEvents, *, ahead: bool, parked: bool) -> None:
        number, commit, own = self.lines + 1, self.commit, self.open[subject]
        commit.lines.append(LoggedLine(number, subject, hour, packed_events(events), ahead, parked))
        bundle = own.get(hour)
        if bundle is None:
            bundle = own[hour] = OpenBundle(hour=hour)
        bundle.reached |= not ahead
        bundle.lines.append(number)
        bundle.events += events
        self.size += len(events)
        key = subject, hour
        commit.emptied.discard(key)
        commit.changed[key] = LoggedBundle(subject, hour, bundle.lines, bundle.reached)

    def is_open(self, subject: int, hour: int) -> bool:
        """Whether a patient's bundle of an hour is still open."""
        return hour in self.open.get(subject, ())

    def now(self, subject: int) -> int:
        """The hour of a patient's clock."""
        return max(self.reached.get(subject, NO_HOUR), self.clock)

    def withdraw(self, subject: int, hour: int, number: int) -> None:
        """Remove a line from an open bundle: it no longer holds."""
        bundle = self.open[subject][hour]
        self.size -= len(bundle.events)
        bundle.lines.remove(number)
        bundle.events, bundle.unread = [], len(bundle.lines)
        if bundle.lines:
            self.commit.changed[subject, hour] = LoggedBundle(subject, hour, bundle.lines, bundle.reached)
            return
        del self.open[subject][hour]
        if not self.open[subject]:
            del self.open[subject]
        self.commit.changed.pop((subject, hour), None)
        self.commit.emptied.add((subject, hour))
        if bundle.reached:
            self.commit.reached[subject] = max(hour, self.reached.get(subject, NO_HOUR))

    def drain(self, most: int) -> Iterator[dict[str, Any]]:
        """Close up to ``most`` bundles that are over, without a line."""
        while self.over and most > 0:
            most -= 1
            yield self._close(*self._next())

    def finish(self, *, ahead: bool) -> Iterator[dict[str, Any]]:
        """Close every open bundle and yield the output; hours ahead of the clock only with ``ahead``."""
        for subject in list(self.open):
            now = self.now(subject)
            self._end(subject, 1 << 40 if ahead else now + 1)
        yield from self.drain(len(self.over))

    def forget_events(self, most_entries: int) -> None:
        """Drop events of the oldest bundles from memory until ``most_entries`` are left; the ledger has them."""
        if self.size <= most_entries:
            return
        for bundle in [*self.over.values(), *(each for several in self.open.values() for each in several.values())]:
            if self.size <= most_entries:
                break
            self.size -= len(bundle.events)
            bundle.events, bundle.unread = [], len(bundle.lines)

    def _turn(self, hour: int) -> None:
        self.clock = max(self.clock, hour)
        for subject in list(self.open):
            self._end(subject, self.clock)

    def _end(self, subject: int, now: int) -> None:
        """Move a subject's bundles before an hour to those that wait to be closed."""
        bundles = self.open.get(subject)
        ended = () if bundles is None else [hour for hour in bundles if hour < now]
        if bundles is None or not ended:
            return
        for hour in sorted(ended):
            bundle = self.over[subject, hour] = bundles.pop(hour)
            self.waiting.setdefault(subject, []).append(hour)
            heapq.heappush(self._queue, (hour, bundle.lines[0], subject))
        if not bundles:
            del self.open[subject]

    def _next(self) -> tuple[int, int]:
        """Return subject and hour of the next bundle to close."""
        while (self._queue[0][2], self._queue[0][0]) not in self.over:
            heapq.heappop(self._queue)
        hour, _, subject = self._queue[0]
        return subject, hour

    def _front(self) -> list[tuple[int, int]]:
        """Return subject and hour of the next bundles to close."""
        front = [heapq.heappop(self._queue) for _ in range(min(_TOGETHER, len(self._queue)))]
        for each in front:
            heapq.heappush(self._queue, each)
        return [(subject, hour) for hour, _, subject in front]

    def _close(self, subject: int, hour: int) -> dict[str, Any]:
        if not self._is_ready(subject, hour):
            behind = [each for each in self._front() if each in self.over and not self._is_ready(*each)]
            self._read_back(dict.fromkeys([(subject, hour), *behind]))
        bundle = self.over.pop((subject, hour))
        self.waiting[subject].remove(hour)
        if not self.waiting[subject]:
            del self.waiting[subject]
        self.size -= len(bundle.events)
        output = self.patients.close(subject, bundle)
        self.commit.changed.pop((subject, hour), None)
        self.commit.closed.setdefault(subject, []).append(LoggedBundle(subject, hour, bundle.lines))
        return output

    def _is_ready(self, subject: int, hour: int) -> bool:
        return subject in self.patients and not self.over[subject, hour].unread

    def _read_back(self, bundles: Iterable[tuple[int, int]]) -> None:
        """Read the patients of some bundles and all events of these bundles into memory."""
        self.patients.load(dict.fromkeys(subject for subject, _ in bundles))
        behind = [self.over[each] for each in bundles]
        events = self.logged.by_number(number for bundle in behind for number in bundle.lines[: bundle.unread])
        for bundle in behind:
            again = [event for number in bundle.lines[: bundle.unread] for event in events[number]]
            bundle.events = [*again, *bundle.events]
            bundle.unread = 0
            self.size += len(again)


def _by_hour(events: TakenEvents, now: int) -> tuple[dict[int, TakenEvents], bool]:
    """Group events by the hour of their bundle; return also whether one came too late.

    An event of an hour before the patient's clock is put into the clock's hour. Amendments are not counted as late.
    """
    found: dict[int, TakenEvents] = {}
    is_late = False
    for event, alone in events:
        hour = to_microseconds(event.known) // HOUR
        if hour < now:
            is_late = is_late or not amends(event)
            event, hour = structs.replace(event, known=from_microseconds(now * HOUR)), now
        found.setdefault(hour, []).append((event, alone))
    return found, is_late
