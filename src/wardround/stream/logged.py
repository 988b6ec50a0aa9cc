"""Lines read again from the ledger: events of bundles that are not in memory, and a state folded afresh."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wardround.bundles import PatientState
from wardround.bundles.amendments import as_if_always_so
from wardround.bundles.events import HOUR, BundleEvents, Integers, cut, in_order
from wardround.bundles.fold import fold_events
from wardround.bundles.levels import levels_by_limits, with_levels
from wardround.core import from_microseconds
from wardround.stream.closing import Refolded
from wardround.stream.ledger import Commit
from wardround.stream.ledger_reading import LedgerReading, LoggedLine
from wardround.stream.reading import LineReader, ReadLines, TakenEvents


@dataclass(slots=True, kw_only=True)
class LoggedEvents:
    """Events by the numbers of their lines. ``commit``: the one that is being made, which the ledger does not know."""

    reader: LineReader
    ledger: LedgerReading
    commit: Commit = field(default_factory=Commit)

    def by_number(self, numbers: Iterable[int]) -> dict[int, TakenEvents]:
        """Return the events of some lines, as when they were taken."""
        lines = self._lines(numbers)
        if not lines:
            return {}
        read, hours = self._read(lines)
        return dict(zip((line.number for line in lines), read.by_line(hours), strict=True))

    def refold(self, subject: int, hour: int, own: Sequence[int]) -> Refolded:
        """Return a subject after an hour as if what is amended had always been so."""
        closed = [*self.ledger.history(subject, hour - 1), *(e for e in self.commit.closed if e.subject == subject)]
        numbers = [number for each in closed for number in each.lines]
        read, hours = self._read(self._lines([*numbers, *own]))
        events = with_levels(as_if_always_so(in_order(read.placed(hours))))
        state = PatientState(subject_id=subject)
        now, before = from_microseconds(hour * HOUR), []
        for bundle in cut(events):
            state = fold_events(state, bundle.hour, bundle.events)
            before += [state] if bundle.hour < now else []
        return Refolded(state=replace(state, hour=now), before=tuple(before), first_values=_first_values(events))

    def _lines(self, numbers: Iterable[int]) -> list[LoggedLine]:
        wanted = sorted(numbers)
        split = bisect_right(wanted, self.ledger.lines)
        pending = (self.commit.lines[number - self.ledger.lines - 1] for number in wanted[split:])
        return [*self.ledger.lines_by_number(wanted[:split]), *pending]

    def _read(self, lines: Sequence[LoggedLine]) -> tuple[ReadLines, Integers]:
        read = self.reader.read([self.reader.decode(line.text) for line in lines])
        return read, np.array([line.hour for line in lines], np.int64)


def _first_values(events: BundleEvents) -> dict[str, float]:
    """Return a subject's first value of every measurement that has no limits."""
    _, alone = levels_by_limits(events)
    first: dict[str, float] = {}
    for place in np.flatnonzero(alone).tolist():
        first.setdefault(events.names[int(events.concept[place])], float(events.value[place]))
    return first
