"""Entries of a bank: what searches and guards go by as of a revision, read when looked at, and which may be served."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from wardround.core import UserError
from wardround.memory.bank_file import BankFile, checked
from wardround.memory.experience import Entity, Experience, Provenance, RoleEdge, SeenIn

# The table ``entry`` holds a row for each revision: what is true of its experience from that revision on, ``until``
# the next one. Every state that a bank ever had is therefore read by the same queries; that of now is one of them. Each
# row is checked by its seal when it is read, and made into an object once.


STILL = 2**62
"""``until`` of an entry that no revision has replaced."""
_COLUMNS = "number, until, experience, age, kind, task, tool, key, live, score, subjects, splits"
_AS_OF = "number <= ? AND until > ?"
_SELECT = f"SELECT {_COLUMNS}, seal FROM entry WHERE"
_AMONG = "IN (SELECT value FROM json_each(?))"
_OF_SUBJECTS = f"live AND experience IN (SELECT experience FROM revision WHERE subject {_AMONG})"
_LAST = "SELECT age, subjects, splits FROM entry WHERE experience = ? AND until = ?"
_REPLACE = "UPDATE entry SET until = ? WHERE experience = ? AND until = ?"
_INSERT = f"""
INSERT INTO entry ({_COLUMNS})
SELECT ?, ?, id, ?, kind, task, tool, key, ?, ?, ?, ? FROM experience WHERE id = ?
"""
_REVISION = "number, experience, live, title, description, content, score, condition, exclusions"
_REVISION_END = "sample, subject, split, reason, at"
_EXPERIENCE = "id, kind, task, tool, key, sample, subject, split, provenance, facts, task_type, structure"
_TEXTS = f"SELECT {_REVISION}, {_REVISION_END}, seal FROM revision WHERE number {_AMONG}"
_ORIGINS = f"SELECT {_EXPERIENCE}, seal FROM experience WHERE id {_AMONG}"
_TEXTS_AT_ONCE = 1000
_By = TypeVar("_By", str, int)
_words_in = msgspec.json.Decoder(tuple[str, ...]).decode


def write_entry(
    connection: sqlite3.Connection,
    number: int,
    experience: str,
    *,
    live: bool,
    score: float | None,
    hand: Sequence[str],
) -> None:
    """Write what is true of an experience from a revision on; ``hand``: the subject and the split of who taught it."""
    age, *before = connection.execute(_LAST, (experience, STILL)).fetchone() or (number, "[]", "[]")
    hands = [as_text(dict.fromkeys((*_words_in(text), name))) for text, name in zip(before, hand, strict=True)]
    connection.execute(_REPLACE, (number, experience, STILL))
    connection.execute(_INSERT, (number, STILL, age, int(live), score, *hands, experience))


def as_text(names: Iterable[str]) -> str:
    """Write names as the columns ``subjects`` and ``splits`` hold them."""
    return json.dumps(list(names), separators=(",", ":"), ensure_ascii=False)


class Entry:
    """One experience as of a state: its key's position, its contributors, its text once it was read."""

    __slots__ = (
        *("_experience", "_texts", "kind", "live", "name", "order", "place", "revision", "score", "splits"),
        *("subjects", "task", "tool"),
    )

    def __init__(self, row: Sequence[Any], texts: Texts) -> None:
        self.revision, _, self.name, self.order, kind, task, tool, key, live, self.score, subjects, splits = row
        self.kind, self.task, self.tool = intern(kind), intern(task), intern(tool)
        self.place: int | None = None if key is None else key - 1
        self.live = bool(live)
        self.subjects = _words_in(subjects)
        self.splits = _words_in(splits)
        self._texts = texts
        self._experience: Experience | None = None

    @property
    def is_read(self) -> bool:
        """Return whether its text is in memory."""
        return self._experience is not None

    @property
    def experience(self) -> Experience:
        """The experience, read from the file on first use."""
        if self._experience is None:
            self._texts.read((self,))
        assert self._experience is not None
        return self._experience

    @experience.setter
    def experience(self, read: Experience) -> None:
        self._experience = read


class EntryReader:
    """The entries of a bank as of ``revision``; those that were looked at stay in memory."""

    __slots__ = ("_by_name", "_by_number", "_file", "revision", "texts")

    def __init__(self, file: BankFile) -> None:
        self._file = file
        self.texts = Texts(file)
        self.begin(0)

    def begin(self, revision: int) -> None:
        """Look at a revision, and at nothing yet."""
        self.revision = revision
        self._by_name: dict[str, Entry] = {}
        self._by_number: dict[int, Entry] = {}

    def follow(self, upto: int) -> list[tuple[Entry | None, Entry]]:
        """Go on to a later revision; return what was written since, each with the entry that it replaced."""
        with self._file.lock:
            rows = self._file.rows(f"{_SELECT} number > ? AND number <= ? ORDER BY number", (self.revision, upto))
            self.revision = upto
            return [(self._replaced(row), self._kept(row)) for row in rows]

    def named(self, names: Iterable[str]) -> dict[str, Entry]:
        """Return those of some experiences, by id."""
        return self._looked_up(self._by_name, "experience", names)

    def numbered(self, numbers: Iterable[int]) -> dict[int, Entry]:
        """Return those of some revisions, unless another revision has replaced them."""
        return self._looked_up(self._by_number, "number", numbers)

    def _looked_up(self, read: Mapping[_By, Entry], column: str, keys: Iterable[_By]) -> dict[_By, Entry]:
        """Return the entries of some keys; those not read yet are read together."""
        wanted = list(keys)
        missing = [key for key in wanted if key not in read]
        if missing:
            self.select(f"{column} {_AMONG}", (json.dumps(missing),))
        return {key: read[key] for key in wanted if key in read}

    def at_places(self, places: Iterable[int]) -> dict[int, list[Entry]]:
        """Return those behind some keys, oldest first."""
        found: dict[int, list[Entry]] = {}
        keys = json.dumps([place + 1 for place in places])
        for entry in self.select(f"key {_AMONG}", (keys,), "ORDER BY age"):
            assert entry.place is not None
            found.setdefault(entry.place, []).append(entry)
        return found

    def of_subjects(self, subjects: Collection[str]) -> list[Entry]:
        """Return those that are live and that one of some subjects contributed to."""
        found = self.select(_OF_SUBJECTS, (json.dumps(list(subjects)),)) if subjects else []
        return [entry for entry in found if any(subject in subjects for subject in entry.subjects)]

    def select(self, which: str, values: Sequence[Any] = (), rest: str = "", *more: Any) -> list[Entry]:
        """Return the entries of a condition in SQL; ``rest`` orders and limits them."""
        query = f"{_SELECT} {which} AND {_AS_OF} {rest}"
        with self._file.lock:
            rows = self._file.rows(query, (*values, self.revision, self.revision, *more))
            return [self._kept(row) for row in rows]

    def count(self, which: str, values: Sequence[Any] = (), *, most: int = -1) -> int:
        """Return how many entries a condition in SQL has, counted up to ``most``."""
        query = f"SELECT count(*) FROM (SELECT 1 FROM entry WHERE {which} AND {_AS_OF} LIMIT ?)"
        return int(self._file.rows(query, (*values, self.revision, self.revision, most))[0][0])

    def names(self, which: str) -> list[str]:
        """Return the ids of the experiences of a condition in SQL."""
        query = f"SELECT experience FROM entry WHERE {which} AND {_AS_OF}"
        return [name for (name,) in self._file.rows(query, (self.revision, self.revision))]

    def places(self, which: str, values: Sequence[Any] = ()) -> npt.NDArray[np.int64]:
        """Return the position of the key of each entry of a condition that has one."""
        query = f"SELECT group_concat(key) FROM entry WHERE {which} AND key IS NOT NULL AND {_AS_OF}"
        ((keys,),) = self._file.rows(query, (*values, self.revision, self.revision))
        return np.fromstring(keys or "", np.int64, sep=",") - 1

    def _kept(self, row: Sequence[Any]) -> Entry:
        entry = self._by_number.get(row[0])
        if entry is None:
            entry = self._by_number[row[0]] = Entry(checked(self._file, "entry", row), self.texts)
            self._by_name[entry.name] = entry
        return entry

    def _replaced(self, row: Sequence[Any]) -> Entry | None:
        """Forget the entry that a row replaced, and return it."""
        number, _, name, age, *_ = row
        if number == age:
            return None
        before = self._by_name.pop(name, None)
        if before is None:
            rows = self._file.rows(f"{_SELECT} experience = ? AND until = ?", (name, number))
            return Entry(checked(self._file, "entry", rows[0]), self.texts) if rows else None
        del self._by_number[before.revision]
        return before


class Texts:
    """The texts of a bank's experiences, read from its open file."""

    __slots__ = ("_file",)

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def read(self, entries: Iterable[Entry]) -> None:
        """Give every entry that has none its experience. UserError if one was forgotten since."""
        missing = [entry for entry in entries if not entry.is_read]
        for start in range(0, len(missing), _TEXTS_AT_ONCE):
            batch = missing[start : start + _TEXTS_AT_ONCE]
            with self._file.lock:
                revisions = self._rows("revision", _TEXTS, [entry.revision for entry in batch])
                origins = self._rows("experience", _ORIGINS, [entry.name for entry in batch])
            for entry in batch:
                if entry.revision not in revisions or entry.name not in origins:
                    raise forgotten(self._file)
                entry.experience = _experience_of(origins[entry.name], revisions[entry.revision])

    def _rows(self, table: str, query: str, keys: Sequence[Any]) -> dict[Any, Sequence[Any]]:
        rows = self._file.rows(query, (json.dumps(keys),))
        return {row[0]: checked(self._file, table, row) for row in rows}


def forgotten(file: BankFile) -> UserError:
    """Return the error of a reader that looks for what is not in the file any more."""
    return UserError(f"something was forgotten in {file.path} since it was read; open it again")


def _experience_of(origin: Sequence[Any], revision: Sequence[Any]) -> Experience:
    name, kind, task, tool, _, _, _, _, provenance, facts, task_type, structure = origin
    _, _, _, title, description, content, score, condition, exclusions, *_ = revision
    parts = json.loads(structure) if structure else {}
    return Experience(
        id=name,
        kind=kind,
        title=title,
        description=description,
        content=content,
        task=task,
        provenance=Provenance(**json.loads(provenance)),
        score=score,
        tool=tool,
        facts=json.loads(facts),
        condition=condition,
        exclusions=tuple(json.loads(exclusions)),
        task_type=task_type,
        entities=tuple(Entity(name=name, role=role) for name, role in parts.get("entities", ())),
        role_edges=tuple(RoleEdge(source=source, target=target) for source, target in parts.get("role_edges", ())),
        evidence=tuple(SeenIn(step=step, rows=tuple(rows)) for step, rows in parts.get("evidence", ())),
    )


# What one combination of kind, task, tool and splits may serve, kept up to date as the bank changes.


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
        self.evaluated = {
            entry.name: entry for entry in live if self._is_asked_for(entry) and entry.splits == self.splits
        }
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
        if self._is_asked_for(entry) and entry.splits == self.splits and self._is_evaluated(entry):
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

    def withheld(self, own: int) -> dict[str, int]:
        """Return how many entries were withheld, by reason."""
        counts = {"same_subject": own, "split": self._outside}
        return counts | ({"evaluated": len(self.evaluated)} if self.evaluated_subjects else {})

    def _is_asked_for(self, entry: Entry) -> bool:
        return (
            entry.live
            and entry.kind == self.kind
            and self.task in (None, entry.task)
            and self.tool in (None, entry.tool)
        )

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
        if entry.splits != self.splits:
            self._outside += by
        elif not self._is_evaluated(entry):
            if self._served is not None:
                self._served += by
            if entry.place is not None:
                if by > 0:
                    self._has_keys = True
                elif self._has_keys:
                    self._has_keys = None
                if self._keys_at is not None:
                    keys = self._keys(entry.place + 1)
                    keys[entry.place] += by
                    self._penalty[entry.place] = 0.0 if keys[entry.place] else -np.inf

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
