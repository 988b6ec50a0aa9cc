"""Which rows speak of which concept: codes are read once each, counted, and a concept without any code is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wardround.benchmarks.ehrshot.concepts import TaskConcept
from wardround.core import RecordError
from wardround.records import RowRole, Store
from wardround.records.specs.coded_rows import CodedRows, Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a code says: the concept (a place in the list, -1: none of them) and the unit, if the code names it."""

    concept: int
    unit: str | None


@dataclass(slots=True, kw_only=True)
class CodeMatcher:
    """Finds the rows of some concepts in one place. ``rows`` counts the rows of every matching code, by concept;
    ``listed`` are the matching codes of the source's dictionary, which need not occur in any row."""

    place: RowRole
    concepts: Sequence[TaskConcept]
    descendants: Mapping[str, frozenset[str]] = field(default_factory=dict)
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    listed: dict[str, set[str]] = field(default_factory=dict)
    coded: int = 0
    """How many rows have a code at all."""
    _meanings: dict[Codes, Meaning] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that say what a row's code is."""
        return tuple(filter(None, (self.place.code, self.place.system_column)))

    def match(self, rows: CodedRows) -> tuple[npt.NDArray[np.int64], list[Meaning]]:
        """Return, for every row, the place of its meaning in a list, and the list."""
        if not rows.has(self.columns):
            return np.zeros(rows.batch.num_rows, np.int64), [Meaning(concept=-1, unit=None)]
        places, keys = rows.combined(self.columns)
        meanings = [self.meaning(key) for key in keys]
        counts = np.bincount(places, minlength=len(keys)).tolist()
        self.coded += sum(count for key, count in zip(keys, counts, strict=True) if key[0])
        for key, meaning, count in zip(keys, meanings, counts, strict=True):
            if meaning.concept >= 0 and count:
                task = self.concepts[meaning.concept].task
                self.rows.setdefault(task, Counter())[key[0]] += count
        return places, meanings

    def meaning(self, key: Codes) -> Meaning:
        """Return what a code (and its system column) says; every code is looked at once."""
        found = self._meanings.get(key)
        if found is None:
            found = self._meanings.setdefault(key, self._read(key))
        return found

    def read_dictionary(self, store: Store) -> None:
        """Note which codes of the source's dictionary belong to a concept, used or not."""
        named = self.place.dictionary
        if not named:
            return
        try:
            table = store.dictionary(named["name"])
        except RecordError:
            return
        columns = [named["code"], *([named["system"]] if "system" in named else [])]
        if not set(columns) <= set(table.column_names):
            return
        for key in zip(*(map(_text, table.column(name).to_pylist()) for name in columns), strict=True):
            meaning = self.meaning(key)
            if meaning.concept >= 0:
                self.listed.setdefault(self.concepts[meaning.concept].task, set()).add(key[0])

    def _read(self, key: Codes) -> Meaning:
        for number, concept in enumerate(self.concepts):
            if key[0] in self.descendants.get(concept.task, ()):
                return Meaning(concept=number, unit=None)
        for system, code, unit in self.place.readings(*key):
            for number, concept in enumerate(self.concepts):
                if concept.matches(system, code):
                    return Meaning(concept=number, unit=unit)
        return Meaning(concept=-1, unit=None)


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)
