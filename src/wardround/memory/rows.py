"""Experiences as rows of the file: what the guards go by is read at once, texts when an experience is looked at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import Any, NamedTuple

from wardround.core import UserError
from wardround.memory.bank_file import BankFile
from wardround.memory.entities import Entity, RoleEdge, SeenIn
from wardround.memory.experience import Experience, Provenance, plain_text

_SINCE = """
SELECT number, experience, live, score, subject, split FROM revision WHERE number > ? AND number <= ? ORDER BY number
"""
_NATURES = "SELECT id, kind, task, tool, key FROM experience"
_TEXTS = """
SELECT number, id, kind, task, tool, provenance, facts, task_type, structure, title, description, content, score,
    condition, exclusions
FROM revision JOIN experience ON id = revision.experience WHERE number IN (SELECT value FROM json_each(?))
"""
_TEXTS_AT_ONCE = 1000


class Mark(NamedTuple):
    """What a revision changed of what the guards go by, and who had a hand in it."""

    number: int
    experience: str
    live: int
    score: float | None
    subject: str
    split: str


Nature = tuple[str, str, str, str, int | None]
"""What never changes of an experience and decides whether it is asked for: id, kind, task, tool, key's number."""


class TextRow(NamedTuple):
    """An experience as it reads at a revision."""

    number: int
    experience: str
    kind: str
    task: str
    tool: str
    provenance: str
    facts: str
    task_type: str
    structure: str
    title: str
    description: str
    content: str
    score: float | None
    condition: str
    exclusions: str


def marks_since(connection: sqlite3.Connection, after: int, upto: int) -> Iterator[Mark]:
    """The revisions between two numbers, the second included, oldest first."""
    return map(Mark._make, connection.execute(_SINCE, (after, upto)))


def natures(connection: sqlite3.Connection, *, every: bool) -> Callable[[str], Nature]:
    """How to look up the nature of an experience: out of all of them read at once, or each when it is asked for."""
    if every:
        return {row[0]: row for row in connection.execute(_NATURES).fetchall()}.__getitem__
    return lambda name: connection.execute(f"{_NATURES} WHERE id = ?", (name,)).fetchone()


class Texts:
    """The texts of a bank's experiences, read from its open file."""

    __slots__ = ("_file",)

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def read(self, entries: Iterable[Entry]) -> None:
        """Give every entry that has none its experience. UserError where one was forgotten since."""
        missing = {entry.revision: entry for entry in entries if not entry.is_read}
        numbers = list(missing)
        for start in range(0, len(numbers), _TEXTS_AT_ONCE):
            asked = numbers[start : start + _TEXTS_AT_ONCE]
            with self._file.lock:
                rows = self._file.rows(_TEXTS, (json.dumps(asked),))
            if len(rows) < len(asked):
                raise UserError(f"something was forgotten in {self._file.path} since it was read; open it again")
            for row in map(TextRow._make, rows):
                missing[row.number].experience = experience_of(row)


class Entry:
    """One experience as of a state: its key's place, everybody who had a hand in it, its text once it was read."""

    __slots__ = (
        *("_experience", "_texts", "kind", "live", "name", "order", "place", "revision", "score", "splits"),
        *("subjects", "task", "tool"),
    )

    def __init__(self, nature: Nature, mark: Mark, order: int, texts: Texts) -> None:
        self.name, kind, task, tool, key = nature
        self.kind, self.task, self.tool = intern(kind), intern(task), intern(tool)
        self.order, self._texts = order, texts
        self.place = None if key is None else key - 1
        self.revision, _, live, self.score, subject, split = mark
        self.live = bool(live)
        self.subjects: tuple[str, ...] = (intern(subject),)
        self.splits: tuple[str, ...] = (intern(split),)
        self._experience: Experience | None = None

    def take(self, mark: Mark) -> None:
        """Stand as a further revision says."""
        self.revision, self.live, self.score = mark.number, bool(mark.live), mark.score
        if mark.subject not in self.subjects:
            self.subjects += (intern(mark.subject),)
        if mark.split not in self.splits:
            self.splits += (intern(mark.split),)
        self._experience = None

    @property
    def is_read(self) -> bool:
        """Whether its text is in memory."""
        return self._experience is not None

    @property
    def experience(self) -> Experience:
        """What it says, read from the file when it is first asked for."""
        if self._experience is None:
            self._texts.read((self,))
        assert self._experience is not None
        return self._experience

    @experience.setter
    def experience(self, read: Experience) -> None:
        self._experience = read


def experience_of(row: TextRow) -> Experience:
    """Make the experience of a row."""
    return Experience(
        id=row.experience,
        kind=row.kind,  # type: ignore[arg-type]
        title=row.title,
        description=row.description,
        content=row.content,
        task=row.task,
        provenance=Provenance(**json.loads(row.provenance)),
        score=row.score,
        tool=row.tool,
        facts=json.loads(row.facts),
        condition=row.condition,
        exclusions=tuple(json.loads(row.exclusions)),
        task_type=row.task_type,
        **_structure_of(row.structure),
    )


def structure_text(experience: Experience) -> str:
    """Entities, their edges and the evidence as the file holds them; empty where there is nothing."""
    parts = {
        "entities": [[one.name, one.role] for one in experience.entities],
        "role_edges": [[one.source, one.target] for one in experience.role_edges],
        "evidence": [[one.step, list(one.rows)] for one in experience.evidence],
    }
    return json_text(parts) if any(parts.values()) else ""


def json_text(value: Any) -> str:
    """Write a value as the file holds it."""
    return plain_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True))


def _structure_of(text: str) -> dict[str, Any]:
    if not text:
        return {}
    parts = json.loads(text)
    return {
        "entities": tuple(Entity(name=name, role=role) for name, role in parts["entities"]),
        "role_edges": tuple(RoleEdge(source=source, target=target) for source, target in parts["role_edges"]),
        "evidence": tuple(SeenIn(step=step, rows=tuple(rows)) for step, rows in parts["evidence"]),
    }
