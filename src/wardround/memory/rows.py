"""Experiences as rows of the file: read with one query, made into objects only when one is looked at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from wardround.memory.entities import Entity, RoleEdge, SeenIn
from wardround.memory.experience import Experience, Provenance, plain_text

_SINCE = """
SELECT revision.number, experience.id, experience.kind, experience.task, experience.tool, experience.key,
    experience.provenance, experience.facts, experience.task_type, experience.structure, revision.live, revision.title,
    revision.description, revision.content, revision.score, revision.condition, revision.exclusions, revision.subject,
    revision.split
FROM revision JOIN experience ON experience.id = revision.experience
WHERE revision.number > ? AND revision.number <= ? ORDER BY revision.number
"""


class RevisionRow(NamedTuple):
    """A revision and what never changes of its experience, as they stand in the file."""

    number: int
    experience: str
    kind: str
    task: str
    tool: str
    key: int | None
    provenance: str
    facts: str
    task_type: str
    structure: str
    live: int
    title: str
    description: str
    content: str
    score: float | None
    condition: str
    exclusions: str
    subject: str
    split: str


def rows_since(connection: sqlite3.Connection, after: int, upto: int) -> Iterator[RevisionRow]:
    """The revisions between two numbers, the second included, oldest first."""
    return map(RevisionRow._make, connection.execute(_SINCE, (after, upto)))


class Entry:
    """One experience as of a state: its last row, its key's place, everybody who had a hand in it."""

    __slots__ = ("_experience", "live", "name", "order", "place", "revision", "row", "score", "splits", "subjects")

    def __init__(self, row: RevisionRow, place: int | None, order: int) -> None:
        self.name = row.experience
        self.place = place
        self.order = order
        self.subjects: tuple[str, ...] = ()
        self.splits: tuple[str, ...] = ()
        self.take(row)

    def take(self, row: RevisionRow) -> None:
        """Stand as a further revision says."""
        self.row = row
        self.revision, self.live, self.score = row.number, bool(row.live), row.score
        if row.subject not in self.subjects:
            self.subjects += (row.subject,)
        if row.split not in self.splits:
            self.splits += (row.split,)
        self._experience: Experience | None = None

    @property
    def experience(self) -> Experience:
        """What the row says, as an object."""
        if self._experience is None:
            self._experience = experience_of(self.row)
        return self._experience


def experience_of(row: RevisionRow) -> Experience:
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
