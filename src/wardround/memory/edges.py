"""Edges between experiences, and how one is read from a row of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Relation = Literal["related", "boundary", "conflict"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)

_EDGES = """
SELECT source, target, live, relation, weight, entity, structure, synergy, task, phi, max(number) FROM edge
WHERE source = ? AND number <= ? GROUP BY target ORDER BY target
"""


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


def edges_from(connection: sqlite3.Connection, experience: str, revision: int) -> tuple[Edge, ...]:
    """The live edges that lead from an experience as of a revision, by their targets' ids."""
    rows = connection.execute(_EDGES, (experience, revision)).fetchall()
    return tuple(edge_of(row) for row in rows if row[2])


def edge_of(row: Sequence[Any]) -> Edge:
    """The edge of a row."""
    source, target, live, relation, weight, entity, structure, synergy, task, phi, _ = row
    return Edge(
        source=source,
        target=target,
        live=bool(live),
        relation=relation,
        weight=weight,
        entity=entity,
        structure=structure,
        synergy=synergy,
        task=task,
        phi=phi,
    )
