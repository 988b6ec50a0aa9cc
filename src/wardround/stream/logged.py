"""What a ledger has of patients, and of the commit that is being made: events of bundles, and the past read again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wardround.stream.amending import HourEvents
from wardround.stream.ledger import Commit
from wardround.stream.ledger_reading import LedgerReading, LoggedBundle
from wardround.stream.taken import TakenEvents, unpacked_events

NO_HOUR = -(1 << 40)
"""Before every hour."""


@dataclass(slots=True, kw_only=True)
class LoggedEvents:
    """Events by the numbers of their lines. ``commit``: the one that is being made, which the ledger does not know."""

    ledger: LedgerReading
    commit: Commit = field(default_factory=Commit)

    def by_number(self, numbers: Iterable[int]) -> dict[int, TakenEvents]:
        """Return the events of some lines, as when they were taken."""
        wanted = sorted(numbers)
        split = bisect_right(wanted, self.ledger.lines)
        pending = (self.commit.lines[number - self.ledger.lines - 1] for number in wanted[split:])
        lines = [*self.ledger.lines_by_number(wanted[:split]), *pending] if wanted else []
        return {line.number: unpacked_events(line.events) for line in lines}

    def bundles(self, bundles: Sequence[LoggedBundle]) -> list[HourEvents]:
        """Return closed bundles with their events."""
        events = self.by_number(number for bundle in bundles for number in bundle.lines)
        return [HourEvents(each.hour, [one for number in each.lines for one in events[number]]) for each in bundles]

    def snapshot_hours(self, subject: int) -> list[int]:
        """Return the hours of a subject's snapshots that are still so, the last first."""
        stale = self.commit.stale.get(subject)
        hours = self.ledger.snapshot_hours(subject)
        return hours if stale is None else [hour for hour in hours if hour < stale]

    def between(self, subject: int, after: int | None, before: int) -> list[HourEvents]:
        """Return a subject's closed bundles after an hour (None: from the first) and before another."""
        pending = (
            each
            for each in self.commit.closed.get(subject, ())
            if each.hour < before and (after is None or each.hour > after)
        )
        return self.bundles([*self.ledger.between(subject, after, before), *pending])

    def drop_snapshots(self, subject: int, after: int | None) -> None:
        """Say of a subject's snapshots after an hour, or of all, that they are not so any more."""
        since = NO_HOUR if after is None else after + 1
        self.commit.stale[subject] = min(since, self.commit.stale.get(subject, since))
        self.commit.snapshots = [each for each in self.commit.snapshots if each[0] != subject or each[1] < since]

    def note_unbased(self, subject: int, rows: set[str]) -> None:
        """Note rows of which the first that is known is a later version: they are not amended, they begin."""
        self.commit.unbased.update((subject, row) for row in rows)

    def unbased(self, subject: int) -> frozenset[str]:
        """Return a subject's rows of which the first that is known is a later version."""
        ours = (row for whose, row in self.commit.unbased if whose == subject)
        return frozenset((*ours, *self.ledger.unbased(subject)))
