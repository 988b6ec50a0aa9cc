"""What holds at a step, as triggers that rules could have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from wardround.agents.stays.charted import StateFacts
from wardround.bundles import EventKind, Trend
from wardround.protocols import spell
from wardround.vocabulary import clinical_name

FRESH_HOURS = 3
"""A result counts as new so long after its specimen: a laboratory takes an hour or two."""
WAITS = (1, 2, 3, 4, 6, 8, 12, 18, 24)
"""Hours since something was last done, as triggers."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Cut points of a measurement: these shares of the training values lie below them."""
_REPEATED = (EventKind.LAB, EventKind.CULTURE)
_JUST_DONE = (EventKind.PROCEDURE, EventKind.MEDICATION_START)
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
    """Yield every trigger of the vocabulary that holds: new results against their limits and cut points, what was just
    done, what was last done how long ago, the first hours of a stay, the time of day."""
    yield "hours since stay < 2" if (facts.hours_since("stay") or 0) < 2 else "hours since stay >= 2"
    begin = facts.hour.hour - facts.hour.hour % 2
    yield f"hour of day >= {begin} AND hour of day < {begin + 2}"
    for trend in facts.state.trends.values():
        yield from _of_trend(facts, trend, cuts.get(clinical_name(trend.concept), ()))
    for action in facts.state.actions.values():
        hours = facts.hours_since(action.concept)
        if hours is None:
            continue
        if action.kind in _JUST_DONE and hours < 2:
            yield f"hours since {spell(action.concept, 'done')} < 2"
        if action.kind in _REPEATED:
            yield from (f"hours since {spell(action.concept, 'done')} >= {wait}" for wait in WAITS if hours >= wait)


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
