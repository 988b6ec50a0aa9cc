"""Bundles as they read now: what was corrected or withdrawn since stands where its row first became known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import structs

from wardround.bundles import BundleEvent, EventKind
from wardround.bundles.events import amends
from wardround.bundles.kinds import ENDS
from wardround.stream.taken import TakenEvents

_Version = tuple[datetime, int]


@dataclass(slots=True)
class HourEvents:
    """The events of one hour (hours since 1970)."""

    hour: int
    events: TakenEvents = field(default_factory=list)


def amended_rows(events: TakenEvents) -> set[str]:
    """Return the rows that some events correct or withdraw."""
    return {
        event.row_id for event, _ in events if (event.revision or event.kind is EventKind.RETRACTION) and amends(event)
    }


def first_hours(bundles: Sequence[HourEvents], rows: set[str]) -> dict[str, int]:
    """Return the hours of the bundles in which rows became known, of those that did in some bundles."""
    return {
        event.row_id: each.hour
        for each in reversed(bundles)
        for event, _ in each.events
        if event.row_id in rows and _is_plain(event) and not amends(event)
    }


def as_read_now(bundles: Sequence[HourEvents], elsewhere: Callable[[str], bool]) -> list[HourEvents]:
    """Return bundles, in order, as if what they correct and withdraw of their rows had always been so.

    The counterpart of :func:`wardround.bundles.fold.as_they_read`. A bundle of which nothing is left stays: the patient
    was looked at then.
    ``elsewhere``: whether a row that is amended here became known before these bundles, so that what they say of it is
    in the state before them.
    """
    rows = {row for each in bundles for row in amended_rows(each.events)}
    if not rows:
        return list(bundles)
    readings = _readings(bundles, rows)
    before = {row for row in rows - first_hours(bundles, rows).keys() if elsewhere(row)}
    found = {
        each.hour: HourEvents(each.hour, [one for one in each.events if one[0].row_id not in rows]) for each in bundles
    }
    for each in bundles:
        for event, alone in each.events:
            if event.row_id not in rows:
                continue
            reading = readings[event.row_id]
            if event.row_id in before:
                if event.kind in ENDS and reading.gone < reading.newest:
                    found[each.hour].events.append((event, alone))
            elif reading.keeps(event):
                first = event.kind not in ENDS
                hour = reading.hour if first else each.hour
                moved = structs.replace(event, known=reading.first, revision=0) if first else event
                found[hour].events.append((moved, alone))
    return list(found.values())


@dataclass(slots=True)
class _Reading:
    """How a row reads now: ``first``, ``hour``: when it became known; ``newest``: its last version; ``gone``: when it
    was withdrawn last."""

    hour: int
    first: datetime = datetime.max
    newest: _Version = (datetime.min, 0)
    gone: _Version = (datetime.min, 0)

    def keeps(self, event: BundleEvent) -> bool:
        """Whether an event of the row still stands."""
        if event.kind is EventKind.RETRACTION or self.gone >= self.newest:
            return False
        return event.kind in ENDS or _version(event) == self.newest


def _readings(bundles: Sequence[HourEvents], rows: set[str]) -> dict[str, _Reading]:
    found: dict[str, _Reading] = {}
    own = defaultdict(list)
    for each in bundles:
        for event, _ in each.events:
            if event.row_id in rows:
                own[event.row_id].append((each.hour, event))
    for row, several in own.items():
        reading = found[row] = _Reading(several[0][0])
        for hour, event in several:
            if event.kind is EventKind.RETRACTION:
                reading.gone = max(reading.gone, _version(event))
            elif _is_plain(event):
                reading.newest = max(reading.newest, _version(event))
                if event.known < reading.first:
                    reading.first, reading.hour = event.known, hour
    return found


def _version(event: BundleEvent) -> _Version:
    return event.known, event.revision


def _is_plain(event: BundleEvent) -> bool:
    return event.kind is not EventKind.RETRACTION and event.kind not in ENDS
