"""What the page of a stream shows: how it keeps up, and its patients, those with new alerts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from wardround.serve.viewer.live.patient_query import ORDERS, REFRESHES, SHOWS, ListedPatients, PatientQuery
from wardround.serve.viewer.live.viewed_stream import StreamMoment, ViewedStream
from wardround.stream.ledger_reading import PaceMinute

MINUTES = 60
BAR, HEIGHT = 12, 60
"""Width of a minute's bar with the gap beside it, and height of the drawing."""
MOST_RULES = 200
"""So many rules may be chosen from; a protocol of more is asked by its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMinute:
    """A minute as a bar; ``told``: in words."""

    x: float
    y: float
    height: float
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPace:
    """The last hour. ``rate``: bundles a minute over it; ``longest``: seconds; ``ago``: seconds since the last commit,
    None where there was none; ``most``: bundles of the fullest minute."""

    bars: Sequence[DrawnMinute]
    rate: float
    longest: float
    ago: float | None
    most: int


def overview(stream: ViewedStream, moment: StreamMoment, query: PatientQuery, found: ListedPatients) -> dict[str, Any]:
    """Return what the page shows."""
    held = {rule for line in moment.patients for rule in line.held}
    return {
        "stream": stream,
        "moment": moment,
        "looked": told_time(moment.looked),
        "pace": draw_pace(moment),
        "size": (MINUTES * BAR, HEIGHT),
        "query": query,
        "found": found,
        "shows": tuple(SHOWS),
        "orders": ORDERS,
        "rules": sorted(held)[:MOST_RULES],
        "refreshes": REFRESHES,
    }


def told_time(seconds: float) -> str:
    """Say a moment of the wall clock."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def draw_pace(moment: StreamMoment) -> DrawnPace:
    """Draw the hour before the moment, minute by minute; of a stream without a commit in it nothing is drawn."""
    last = int(moment.looked // 60)
    by_minute = {each.minute: each for each in moment.pace if last - MINUTES < each.minute <= last}
    most = max((each.told for each in by_minute.values()), default=0)
    return DrawnPace(
        bars=tuple(_bar(by_minute[minute], minute - last + MINUTES - 1, most) for minute in sorted(by_minute)),
        rate=sum(each.told for each in by_minute.values()) / MINUTES,
        longest=max((each.longest for each in by_minute.values()), default=0.0),
        ago=max(0.0, moment.looked - moment.pace[-1].last) if moment.pace else None,
        most=most,
    )


def _bar(minute: PaceMinute, place: int, most: int) -> DrawnMinute:
    height = round((HEIGHT - 2) * minute.told / most, 1) if most else 0.0
    when = datetime.fromtimestamp(minute.minute * 60, UTC)
    told = (
        f"{when:%H:%M} UTC: {minute.told:,} bundles, {minute.lines:,} lines in {minute.commits:,} commits; no line "
        f"waited longer than {minute.longest:.2f} s"
    )
    return DrawnMinute(x=place * BAR, y=round(HEIGHT - height, 1), height=height, told=told)
