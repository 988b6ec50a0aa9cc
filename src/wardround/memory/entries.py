"""Entries of a bank: what searches and guards go by, as of a revision, read from the file when they are looked at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    hands = [_joined(_words_in(text), name) for text, name in zip(before, hand, strict=True)]
    connection.execute(_REPLACE, (number, experience, STILL))
    connection.execute(_INSERT, (number, STILL, age, int(live), score, *hands, experience))


def _joined(names: Sequence[str], name: str) -> str:
    return as_text(dict.fromkeys((*names, name)))


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
        **_structure_of(structure),
    )


def _structure_of(text: str) -> dict[str, Any]:
    if not text:
        return {}
    parts = json.loads(text)
    return {
        "entities": tuple(Entity(name=name, role=role) for name, role in parts["entities"]),
        "role_edges": tuple(RoleEdge(source=source, target=target) for source, target in parts["role_edges"]),
        "evidence": tuple(SeenIn(step=step, rows=tuple(rows)) for step, rows in parts["evidence"]),
    }
