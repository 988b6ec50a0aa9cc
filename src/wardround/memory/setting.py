"""Which patient an experience was learnt from, in a few names that another record can be compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from wardround.memory.places import PLACES, places_of

_PROBLEMS = frozenset({"diagnosis", "problem", "condition", "triage"})
_PROCEDURES = frozenset({"procedure"})
_DRUGS = frozenset({"prescription", "medication", "drug"})
_LONGEST_NAME = 60
_MOST_OF_A_KIND = 2


class SettingChart(Protocol):
    """A chart as it is needed here; ``records.Chart`` is one."""

    def events(self) -> Iterator[Any]: ...


def setting_of(chart: SettingChart) -> tuple[str, ...]:
    """The service and the unit that a chart ends in, its latest problems and procedures; drugs, which half a hospital
    has, only where there is none of these. No identifiers, no times."""
    events = [one for one in chart.events() if ";" not in str(one.description)]
    places = places_of(events)
    told = [f"{kind}: {places[kind]}" for kind in PLACES if kind in places]
    told += _latest(events, _PROBLEMS) + _latest(events, _PROCEDURES)
    return tuple(told or _latest(events, _DRUGS))


def _latest(events: Sequence[Any], kinds: frozenset[str]) -> list[str]:
    names = [str(one.description) for one in events if one.kind in kinds and len(str(one.description)) <= _LONGEST_NAME]
    return list(dict.fromkeys(reversed(names)))[:_MOST_OF_A_KIND]
