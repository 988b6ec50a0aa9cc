"""Track what one combination of kind, task, tool and splits may serve, kept up to date as the bank changes."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wardround.memory.rows import Entry


@dataclass(slots=True, kw_only=True)
class EligibleEntries:
    """The eligible entries by name, by subject and, once keys are compared, by the position of their key; ineligible
    entries are counted."""

    kind: str
    task: str | None
    tool: str | None
    splits: frozenset[str]
    entries: dict[str, Entry] = field(default_factory=dict)
    _keyed: int = 0
    _by_row: dict[int, list[Entry]] | None = None
    _by_subject: dict[str, dict[str, Entry]] = field(default_factory=dict)
    _wrong_split: set[str] = field(default_factory=set)
    _evaluated: set[str] = field(default_factory=set)
    _penalty: npt.NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))

    def put(self, entry: Entry, evaluated: Collection[str]) -> None:
        """Add a new entry to its groups."""
        if not entry.live or entry.kind != self.kind:
            return
        if self.task not in (None, entry.task) or self.tool not in (None, entry.tool):
            return
        if not self.splits.issuperset(entry.splits):
            self._wrong_split.add(entry.name)
        elif evaluated and any(subject in evaluated for subject in entry.subjects):
            self._evaluated.add(entry.name)
        else:
            self._open(entry)

    def drop(self, entry: Entry) -> None:
        """Forget an entry, as it was when it was put."""
        self._wrong_split.discard(entry.name)
        self._evaluated.discard(entry.name)
        if self.entries.pop(entry.name, None) is None:
            return
        for subject in entry.subjects:
            del self._by_subject[subject][entry.name]
        if entry.place is None:
            return
        self._keyed -= 1
        if self._by_row is not None:
            entries_at_place = self._by_row[entry.place]
            entries_at_place.remove(entry)
            if not entries_at_place:
                del self._by_row[entry.place]
                self._penalty[entry.place] = -np.inf

    def of_subject(self, subject: str) -> Collection[Entry]:
        """Return the entries that a subject contributed to."""
        return self._by_subject.get(subject, {}).values()

    @property
    def has_keys(self) -> bool:
        """Whether any entry has a key."""
        return self._keyed > 0

    @property
    def by_row(self) -> dict[int, list[Entry]]:
        """The entries by the position of their key, in order of age."""
        if self._by_row is None:
            self._by_row = {}
            for entry in self.entries.values():
                if entry.place is not None:
                    self._put_at(self._by_row, entry.place, entry)
        return self._by_row

    def penalty(self, rows: int) -> npt.NDArray[np.float32]:
        """Return what to add to the similarity of each key: 0, or minus infinity for an entry that may not be
        served."""
        _ = self.by_row
        self._grow(rows)
        return self._penalty[:rows]

    def withheld(self, own: int, *, counts_evaluated: bool) -> dict[str, int]:
        """Return how many entries were withheld, by reason."""
        counts = {"same_subject": own, "split": len(self._wrong_split)}
        return counts | ({"evaluated": len(self._evaluated)} if counts_evaluated else {})

    def _open(self, entry: Entry) -> None:
        self.entries[entry.name] = entry
        for subject in entry.subjects:
            self._by_subject.setdefault(subject, {})[entry.name] = entry
        if entry.place is None:
            return
        self._keyed += 1
        if self._by_row is not None:
            self._put_at(self._by_row, entry.place, entry)

    def _put_at(self, by_row: dict[int, list[Entry]], place: int, entry: Entry) -> None:
        insort(by_row.setdefault(place, []), entry, key=_age)
        self._grow(place + 1)
        self._penalty[place] = 0.0

    def _grow(self, rows: int) -> None:
        if rows > len(self._penalty):
            longer = np.full(max(64, rows, 2 * len(self._penalty)), -np.inf, np.float32)
            longer[: len(self._penalty)] = self._penalty
            self._penalty = longer


def total(choices: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up what several choices withheld."""
    sums: dict[str, int] = {}
    for counts in choices:
        for reason, count in counts.items():
            sums[reason] = sums.get(reason, 0) + count
    return sums


def _age(entry: Entry) -> int:
    return entry.order
