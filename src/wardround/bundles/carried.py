"""What a store carries: which kinds of events, and in which units each measurement is charted.

Somebody's own later readings must not say how an earlier one is read: a unit that one person alone has is none of that
person's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow.compute as pc

from wardround.bundles.events import Integers
from wardround.bundles.fold import TRENDS
from wardround.bundles.kinds import EventKind
from wardround.bundles.playing import PlayedRows, carried_kinds, played_rows
from wardround.bundles.reading import table_events
from wardround.records import Store
from wardround.records.pieces import StoredTable
from wardround.vocabulary import clinical_name

_SEVERAL = -1
"""In place of a subject: several have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """``kinds``: of events; what of them is not there was not done. ``units``: by clinical name the units charted, with
    the only subject that has each, -1 where several have."""

    kinds: frozenset[EventKind] = frozenset()
    units: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)

    def units_of(self, concept: str, subject: int) -> frozenset[str]:
        """Return the units in which others than a subject have a measurement."""
        found = self.units.get(clinical_name(concept), {})
        return frozenset(unit for unit, only in found.items() if only != subject)

    def only_theirs(self, concept: str) -> frozenset[int]:
        """Return the subjects that have a unit of a measurement alone."""
        return frozenset(self.units.get(clinical_name(concept), {}).values()) - {_SEVERAL}

    def for_subject(self, subject: int) -> Carried:
        """Return the same as somebody may be told of it who plays one subject: without whose a unit is."""
        units = {name: dict.fromkeys(self.units_of(name, subject), _SEVERAL) for name in self.units}
        return replace(self, units=units)


NOTHING_KNOWN = Carried()
"""What is known of a feed that says nothing of itself."""


@lru_cache(maxsize=2)
def carried_by(store: Store) -> Carried:
    """Return what a store carries. Trusted: every reading's unit is looked at."""
    first: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    for name, unit, least, most in _charted(store):
        key = (clinical_name(name), unit)
        first[key], last[key] = min(least, first.get(key, least)), max(most, last.get(key, most))
    units: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, unit), subject in sorted(first.items()):
        units[name][unit] = subject if last[name, unit] == subject else _SEVERAL
    return Carried(kinds=carried_kinds(store.spec, store.table_names), units=dict(units))


def _charted(store: Store) -> Iterator[tuple[str, str, int, int]]:
    """Yield names with a unit, and the first and last subject who has it, table by table."""
    played = {
        table: tuple(map(_units_alone, several))
        for table, several in played_rows(store.spec).items()
        if any(each.kind in TRENDS for each in several)
    }
    for shard in range(store.shard_count):
        for table in played:
            found = store.shard_rows(shard, table) if table in store.table_names else None
            if found is None:
                continue
            for cells in table_events(StoredTable(layout=found[0], subject=found[1], stored=found[2]), played[table]):
                if cells.kind in TRENDS:
                    subjects = cells.revision.subject[cells.rows]
                    yield from _counted(cells.labels, cells.unit, ~np.isnan(cells.value), subjects)


def _units_alone(played: PlayedRows) -> PlayedRows:
    """The rows as they are asked here: without the columns that say no unit."""
    return replace(played, text=None, role=replace(played.role, stop=None, low=None, high=None))


def _counted(labels: Any, unit: Any, numbered: Any, subjects: Integers) -> Iterator[tuple[str, str, int, int]]:
    units = pc.fill_null(unit, "").dictionary_encode()
    spelt, names = units.dictionary.to_pylist(), labels.dictionary.to_pylist()
    code = np.asarray(labels.indices, np.int64) * max(len(spelt), 1) + np.asarray(units.indices, np.int64)
    code, subjects = code[numbered], subjects[numbered]
    least = np.full(len(names) * max(len(spelt), 1), np.iinfo(np.int64).max)
    most = np.full(len(least), np.iinfo(np.int64).min)
    np.minimum.at(least, code, subjects)
    np.maximum.at(most, code, subjects)
    for place in np.unique(code).tolist():
        name, said = divmod(place, len(spelt))
        if spelt[said]:
            yield names[name], spelt[said], int(least[place]), int(most[place])
