"""Which patient an experience was learnt from, in a few names that another record can be compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

_TELLING_KINDS = frozenset({"diagnosis", "problem", "condition", "prescription", "medication", "drug"})
_LONGEST_NAME = 40
MOST_NAMES = 2


class SettingChart(Protocol):
    """A chart as it is needed here; ``records.Chart`` is one."""

    def events(self) -> Iterator[Any]: ...


def setting_of(chart: SettingChart) -> tuple[str, ...]:
    """The latest names of problems and drugs on a chart; no identifiers, no times."""
    latest: dict[str, None] = {}
    for event in chart.events():
        name = str(event.description)
        if event.kind in _TELLING_KINDS and ";" not in name and len(name) <= _LONGEST_NAME:
            latest.pop(name, None)
            latest[name] = None
    return tuple(reversed(latest))[:MOST_NAMES]
