"""Track what one combination of kind, task, tool and splits may serve, kept up to date as the bank changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wardround.memory.entries import Entry, EntryReader, as_text

_SERVED = "splits = ?"
_OTHER_SPLITS = ("splits < ?", "splits > ?")


@dataclass(slots=True, kw_only=True)
class EligibleEntries:
    """Says which entries are eligible, and counts those that are not. What it counts is asked of the file once, and
    then follows ``put`` and ``drop``.

    ``splits`` are what may be served: one split at most, so that an entry's splits are among them or differ.
    """

    source: EntryReader
    kind: str
    task: str | None
    tool: str | None
    splits: tuple[str, ...]
    evaluated_subjects: Collection[str]
    evaluated: dict[str, Entry] = field(init=False)
    _outside: int = field(init=False)
    _served: int | None = None
    _has_keys: bool | None = None
    _own: dict[str, list[Entry]] = field(default_factory=dict)
    _keys_at: npt.NDArray[np.int32] | None = None
    _penalty: npt.NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))

    def __post_init__(self) -> None:
        live = self.source.of_subjects(self.evaluated_subjects)
        self.evaluated = {entry.name: entry for entry in live if self._is_asked_for(entry) and self._is_inside(entry)}
        self._outside = sum(self._count(those) for those in _OTHER_SPLITS)

    def serves(self, entry: Entry) -> bool:
        """Return whether an entry may be served, to others than whom it came from."""
        return entry.splits == self.splits and self._is_asked_for(entry) and not self._is_evaluated(entry)

    def of_subject(self, subject: str) -> list[Entry]:
        """Return the entries that may be served to others than the subject that they came from."""
        if subject not in self._own:
            self._own[subject] = [entry for entry in self.source.of_subjects((subject,)) if self.serves(entry)]
        return self._own[subject]

    def put(self, entry: Entry) -> None:
        """Add a new entry to its group."""
        self._move(entry, 1)
        if self._is_asked_for(entry) and self._is_inside(entry) and self._is_evaluated(entry):
            self.evaluated[entry.name] = entry

    def drop(self, entry: Entry) -> None:
        """Forget an entry that another one replaces."""
        self._move(entry, -1)
        self.evaluated.pop(entry.name, None)

    @property
    def served(self) -> int:
        """How many entries may be served."""
        if self._served is None:
            self._served = self._count(_SERVED) - len(self.evaluated)
        return self._served

    @property
    def has_keys(self) -> bool:
        """Whether any entry has a key."""
        if self._has_keys is None:
            evaluated = sum(entry.place is not None for entry in self.evaluated.values())
            self._has_keys = self._count(f"{_SERVED} AND key IS NOT NULL", most=evaluated + 1) > evaluated
        return self._has_keys

    def best(self, limit: int) -> list[Entry]:
        """Return entries that may be served, the best scored first, then the newest."""
        which, values = self._which(_SERVED)
        rest = "ORDER BY coalesce(score, 0.0) DESC, age DESC LIMIT ?"
        best = self.source.select(which, values, rest, max(0, limit) + len(self.evaluated))
        return [entry for entry in best if self.serves(entry)]

    def penalty(self, rows: int) -> npt.NDArray[np.float32]:
        """Return what to add to the similarity of each key: 0, or minus infinity for an entry that may not be
        served."""
        self._keys(rows)
        return self._penalty[:rows]

    def only(self, entries: Iterable[Entry]) -> list[int]:
        """Return the positions of the keys that belong to some eligible entries alone."""
        places = [entry.place for entry in entries if entry.place is not None]
        counts = self._keys(max(places, default=-1) + 1)
        return [place for place in set(places) if counts[place] == places.count(place)]

    def withheld(self, own: int, *, counts_evaluated: bool) -> dict[str, int]:
        """Return how many entries were withheld, by reason."""
        counts = {"same_subject": own, "split": self._outside}
        return counts | ({"evaluated": len(self.evaluated)} if counts_evaluated else {})

    def _is_asked_for(self, entry: Entry) -> bool:
        return (
            entry.live
            and entry.kind == self.kind
            and self.task in (None, entry.task)
            and self.tool in (None, entry.tool)
        )

    def _is_inside(self, entry: Entry) -> bool:
        return entry.splits == self.splits

    def _is_evaluated(self, entry: Entry) -> bool:
        return bool(self.evaluated_subjects) and any(one in self.evaluated_subjects for one in entry.subjects)

    def _which(self, *more: str) -> tuple[str, list[str]]:
        """Return the condition of kind, task and tool; ``more`` compares the splits of an entry with those served."""
        conditions = {"kind = ?": self.kind, "task = ?": self.task, "tool = ?": self.tool}
        given = {name: value for name, value in conditions.items() if value is not None}
        return " AND ".join(("live", *given, *more)), [*given.values(), as_text(self.splits)]

    def _count(self, those: str, *, most: int = -1) -> int:
        which, values = self._which(those)
        return self.source.count(which, values, most=most)

    def _move(self, entry: Entry, by: int) -> None:
        """Count an entry that comes or goes."""
        for subject in entry.subjects:
            self._own.pop(subject, None)
        if not self._is_asked_for(entry):
            return
        if not self._is_inside(entry):
            self._outside += by
        elif not self._is_evaluated(entry):
            if self._served is not None:
                self._served += by
            if entry.place is not None:
                self._move_key(entry.place, by)

    def _move_key(self, place: int, by: int) -> None:
        if by > 0:
            self._has_keys = True
        elif self._has_keys:
            self._has_keys = None
        if self._keys_at is not None:
            keys = self._keys(place + 1)
            keys[place] += by
            self._penalty[place] = 0.0 if keys[place] else -np.inf

    def _keys(self, rows: int) -> npt.NDArray[np.int32]:
        """Return how many eligible entries each key has."""
        if self._keys_at is None:
            which, values = self._which(_SERVED)
            places = self.source.places(which, values)
            self._keys_at = np.bincount(places, minlength=rows).astype(np.int32)
            np.subtract.at(self._keys_at, [one.place for one in self.evaluated.values() if one.place is not None], 1)
            self._penalty = np.where(self._keys_at > 0, 0.0, -np.inf).astype(np.float32)
        if rows > len(self._keys_at):
            more = max(64, rows, 2 * len(self._keys_at)) - len(self._keys_at)
            self._keys_at = np.concatenate((self._keys_at, np.zeros(more, np.int32)))
            self._penalty = np.concatenate((self._penalty, np.full(more, -np.inf, np.float32)))
        return self._keys_at


def total(choices: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up what several choices withheld."""
    sums: dict[str, int] = {}
    for counts in choices:
        for reason, count in counts.items():
            sums[reason] = sums.get(reason, 0) + count
    return sums
