"""Edges between experiences, and how one is read from a row of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Relation = Literal["related", "boundary", "conflict"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)

_FACT = "number, source, target, live, relation, weight, entity, structure, synergy, task"
_FROM = f"SELECT {_FACT} FROM edge WHERE source = ? AND number <= ? ORDER BY number"
_EVERY = f"SELECT {_FACT} FROM edge WHERE number <= ? ORDER BY source, target, number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A directed edge between two experiences, with what its weight was made of.

    ``boundary``: alike, but their conditions differ. ``conflict``: same condition, opposite polarity. A component that
    nobody judged is None, never 0. ``live`` is False from the revision on at which it was taken away. ``phi`` is what
    outcomes have moved it by (equation 10).
    """

    source: str
    target: str
    weight: float
    relation: Relation = "related"
    live: bool = True
    entity: float | None = None
    structure: float | None = None
    synergy: float | None = None
    task: float | None = None
    phi: float = 0.0

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"an edge is one of {', '.join(RELATIONS)}, not {self.relation!r}")
        if self.source == self.target:
            raise ValueError(f"an edge leads from {self.source!r} to itself")
        parts = (self.weight, self.entity, self.structure, self.synergy, self.task)
        if not all(part is None or 0.0 <= part <= 1.0 for part in parts):
            raise ValueError("an edge's weight and components lie between 0 and 1")


EdgeFact = tuple[int, Edge]
"""An edge as it was set, and the number it was set at."""


def facts_from(connection: sqlite3.Connection, experience: str, revision: int) -> list[EdgeFact]:
    """Every setting of the edges that lead from an experience as of a revision, oldest first."""
    return [_fact(row) for row in connection.execute(_FROM, (experience, revision)).fetchall()]


def every_edge_fact(connection: sqlite3.Connection, revision: int) -> Iterator[EdgeFact]:
    """Every setting of every edge as of a revision, by ends, oldest first."""
    return map(_fact, connection.execute(_EVERY, (revision,)))


def _fact(row: Sequence[Any]) -> EdgeFact:
    number, source, target, live, relation, weight, entity, structure, synergy, task = row
    return number, Edge(
        source=source,
        target=target,
        live=bool(live),
        relation=relation,
        weight=weight,
        entity=entity,
        structure=structure,
        synergy=synergy,
        task=task,
    )
