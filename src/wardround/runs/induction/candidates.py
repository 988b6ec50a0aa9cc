"""What holds at a step, as triggers that rules could have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from wardround.agents.stays.charted import StateFacts
from wardround.bundles import EventKind, Trend
from wardround.protocols import ChangedBy, spell
from wardround.vocabulary import Window, baseline, clinical_name, find_measurement, highest

FRESH_HOURS = 3
"""A result counts as new so long after its specimen: a laboratory takes an hour or two."""
WAITS = (1, 2, 3, 4, 6, 8, 12, 18, 24)
"""Hours since something was last done, as triggers."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Cut points of a measurement: these shares of the training values lie below them."""
CHANGES = (10, 25, 50, 100)
"""Percent by which a value rises or falls, as triggers."""
CHANGE_HOURS: Mapping[EventKind, int] = {EventKind.LAB: 24, EventKind.VITAL: 4}
"""Within so many hours, never more than a state's trends look back: what induction counts is what a run reads."""
AFTER = (
    *((0, 2), (0, 4), (0, 8), (0, 12), (1, 2), (1, 4), (2, 4), (2, 8), (3, 6), (3, 8), (4, 8), (4, 12), (6, 12)),
    *((8, 12), (8, 24), (12, 24)),
)
"""From and below so many hours after something was done, as triggers."""
_REPEATED = (EventKind.LAB, EventKind.CULTURE)
_DONE_ONCE = (EventKind.PROCEDURE, EventKind.MEDICATION_START)
Cuts = Mapping[str, Sequence[float]]
"""By clinical name."""


def cut_points(values: Mapping[str, Sequence[float]]) -> Cuts:
    """Return the cut points of every measurement from training values."""
    return {
        name: sorted({float(f"{cut:.3g}") for cut in np.quantile(some, SHARES)})
        for name, some in values.items()
        if len(some) >= 20
    }


def candidate_triggers(facts: StateFacts, cuts: Cuts) -> Iterator[str]:
    """Yield every trigger of the vocabulary that holds: new results against their limits and cut points, where they go,
    what was done in which hours before, what was last done how long ago, the first hours of a stay, the time of day.
    """
    yield "hours since stay < 2" if (facts.hours_since("stay") or 0) < 2 else "hours since stay >= 2"
    begin = facts.hour.hour - facts.hour.hour % 2
    yield f"hour of day >= {begin} AND hour of day < {begin + 2}"
    for trend in facts.state.trends.values():
        yield from _of_trend(facts, trend, cuts.get(clinical_name(trend.concept), ()))
    for action in facts.state.actions.values():
        hours = facts.hours_since(action.concept)
        if hours is None:
            continue
        since = f"hours since {spell(action.concept, 'done')}"
        if action.kind in _DONE_ONCE:
            for first, end in AFTER:
                if first <= hours < end:
                    yield f"{since} < {end}" if not first else f"{since} >= {first} AND {since} < {end}"
        if action.kind in _REPEATED:
            yield from (f"{since} >= {wait}" for wait in WAITS if hours >= wait)


def _of_trend(facts: StateFacts, trend: Trend, cuts: Sequence[float]) -> Iterator[str]:
    """Yield what a new value says: of a laboratory result only while it is new."""
    if facts.value(trend.concept) is None:
        return
    name, value = spell(trend.concept), trend.last.value
    fresh = ""
    if trend.kind is EventKind.LAB:
        hours = facts.hours_since(trend.concept)
        if hours is None or hours >= FRESH_HOURS:
            return
        fresh = f" AND hours since {name} < {FRESH_HOURS}"
    level = facts.level(trend.concept)
    if level in ("low", "high"):
        yield f"{name} is {level}{fresh}"
    for cut in cuts:
        yield f"{name} {'>' if value > cut else '<='} {cut:g}{fresh}"
    for direction in ("rising", "falling"):
        if facts.trend(trend.concept) == direction:
            yield f"{name} is {direction}{fresh}"
    for changed in _changes(trend):
        yield f"{changed}{fresh}"


def _changes(trend: Trend) -> Iterator[ChangedBy]:
    """Yield by how much a measurement rose and fell, as ``ChangedBy`` has it. Of a percentage (a hematocrit) a percent
    means points: its change is told by its direction alone."""
    hours = CHANGE_HOURS.get(trend.kind)
    known = find_measurement(trend.concept)
    if hours is None or "%" in (trend.unit, known and known.units[0].unit):
        return
    series = [(one.time, one.value) for one in trend.readings]
    window = Window(now=trend.last.time, hours=hours)
    lowest, top = baseline(series, window), highest(window.of(series)[:-1])
    last = trend.last.value
    ways: tuple[tuple[Literal["rises", "falls"], float | None], ...] = (("rises", lowest), ("falls", top))
    for direction, first in ways:
        if first is None or first <= 0:
            continue
        percent = 100 * (last - first if direction == "rises" else first - last) / first
        for least in CHANGES:
            if percent >= least:
                yield ChangedBy(concept=trend.concept, direction=direction, amount=least, hours=hours, share=True)
