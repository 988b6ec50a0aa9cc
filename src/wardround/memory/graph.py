"""The graph of a bank: qualities, edges between experiences, names that mean the same; all as of a revision.

Nothing is overwritten in the file. What was set and what outcomes have moved since is computed from it in one pass
(:mod:`wardround.memory.graph_cache`); edges and names are read node by node where they are asked for.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, astuple, dataclass, field
from itertools import islice
from typing import Any

from wardround.memory.edges import Edge
from wardround.memory.effect import CoinEvidence, EffectPosterior
from wardround.memory.entities import normal_name
from wardround.memory.graph_cache import GraphCache

_ALIAS = "SELECT entity FROM alias WHERE name = ? AND number <= ? ORDER BY number DESC LIMIT 1"
_ALIASES_OF = "SELECT DISTINCT name FROM alias WHERE entity = ? AND number <= ? ORDER BY name"
_ALL_ALIASES = "SELECT name, entity, max(number) FROM alias WHERE number <= ? GROUP BY name ORDER BY name"
_MENTIONS = "SELECT experience FROM mention WHERE name = ? ORDER BY experience"
_MENTIONS_OF = """
SELECT name, experience FROM mention WHERE name IN (SELECT value FROM json_each(?)) ORDER BY name, experience
"""
_RENAMED = """
SELECT value FROM json_each(?)
WHERE EXISTS (SELECT 1 FROM alias WHERE name = value) OR EXISTS (SELECT 1 FROM alias WHERE entity = value)
"""
_TOO_COMMON = """
SELECT value FROM json_each(?) WHERE EXISTS (
    SELECT 1 FROM mention WHERE name = value
    LIMIT 1 OFFSET ? + max(0, coalesce((SELECT max(rowid) FROM experience), 0) - ?)
)
"""
"""Names that more than so many experiences mention even if all that are not live mention them: rows are counted in the
index and none is read, which is most of the cost of a question full of common names."""


@dataclass(frozen=True, slots=True)
class GraphReader:
    """The graph as of a revision; qualities are those for a ``task``, or over all of them. ``cache`` holds what was
    computed; a reader whose cache has gone further, because the bank has grown, computes its own."""

    connection: sqlite3.Connection
    revision: int
    task: str = ""
    cache: GraphCache = field(default_factory=GraphCache)

    def quality(self, experience: str) -> float | None:
        """The quality of an experience; None while nothing is known of it. Where coins were tossed for it, what it was
        set to is the prior."""
        return self._view.quality(experience, self.task)

    def effect(self, experience: str, task: str | None = None) -> EffectPosterior | None:
        """The effect of showing an experience in a task, this reader's unless another is named; None where no coin was
        ever tossed for it."""
        return self._view.effect(experience, self.task if task is None else task)

    def evidence(self, experience: str) -> dict[str, CoinEvidence]:
        """What coins showed of an experience, and of others that say the same, by task."""
        return self._view.evidence(experience)

    def edges(self, experience: str) -> tuple[Edge, ...]:
        """The live edges that lead from an experience, by their targets' ids."""
        return self._view.edges(experience)

    def set_qualities(self) -> dict[str, float]:
        """Every quality that was set or moved by equation 10, by experience: without what coins say."""
        return self._view.set_qualities()

    def every_edge(self) -> Iterator[Edge]:
        """All live edges, by their ends' ids."""
        return self._view.every_edge()

    @property
    def _view(self) -> GraphCache:
        if self.cache.revision > self.revision:
            own = GraphCache()
            own.follow(self.connection, self.revision)
            object.__setattr__(self, "cache", own)
        self.cache.follow(self.connection, self.revision)
        return self.cache

    def facts(self) -> dict[str, Any]:
        """Everything the graph says, as plain values: qualities, edges, aliases, evidence by experience and task."""
        evidence = [
            [name, task, *astuple(one)]
            for name, tasks in sorted(self._view.own_evidence().items())
            for task, one in sorted(tasks.items())
        ]
        return {
            "qualities": self.set_qualities(),
            "edges": [edge_facts(edge) for edge in self.every_edge()],
            "aliases": {name: entity for name, entity, _ in self.connection.execute(_ALL_ALIASES, (self.revision,))},
        } | ({"evidence": evidence} if evidence else {})

    def entity(self, name: str) -> str:
        """The one name of everything that is called so."""
        row = self.connection.execute(_ALIAS, (normal_name(name), self.revision)).fetchone()
        return normal_name(name) if row is None else str(row[0])

    def entities(self, names: Sequence[str]) -> list[str]:
        """``entity`` of each name; the file is asked once where nobody renamed any."""
        normal = [normal_name(name) for name in names]
        renamed = self._among(_RENAMED, normal)
        return [self.entity(name) if name in renamed else name for name in normal]

    def names(self, entity: str) -> tuple[str, ...]:
        """Every name that means an entity, its own first."""
        rows = self.connection.execute(_ALIASES_OF, (entity, self.revision)).fetchall()
        return (entity, *(name for (name,) in rows if name != entity and self.entity(name) == entity))

    def mentions(
        self, entity: str, *, known: Callable[[str], bool] = lambda name: True, most: int | None = None
    ) -> tuple[str, ...] | None:
        """The experiences that speak of an entity under any of its names, retired and later ones too where ``known``
        lets them; None where they are more than asked for."""
        found: dict[str, None] = {}
        for name in self.names(entity):
            rows = self.connection.execute(_MENTIONS, (name,))
            live = filter(known, (experience for (experience,) in rows))
            found.update(dict.fromkeys(live if most is None else islice(live, most + 1)))
            if most is not None and len(found) > most:
                return None
        return tuple(found)

    def mentions_of(self, entities: Sequence[str], *, live: Set[str], most: int) -> dict[str, tuple[str, ...] | None]:
        """``mentions`` of each entity by experiences that are ``live``, in as few queries as can be."""
        common = self._among(_TOO_COMMON, entities, most, len(live))
        rest = [name for name in entities if name not in common]
        renamed = self._among(_RENAMED, rest)
        spoken: dict[str, list[str]] = {name: [] for name in rest if name not in renamed}
        for name, experience in self.connection.execute(_MENTIONS_OF, (json.dumps(list(spoken)),)):
            if experience in live:
                spoken[name].append(experience)
        found = {name: tuple(those) if len(those) <= most else None for name, those in spoken.items()}
        found |= {name: self.mentions(name, known=live.__contains__, most=most) for name in renamed}
        return {name: found.get(name) for name in entities}

    def _among(self, query: str, names: Sequence[str], *values: int) -> set[str]:
        return {name for (name,) in self.connection.execute(query, (json.dumps(names), *values))}


def edge_facts(edge: Edge) -> dict[str, Any]:
    """An edge as plain values; ``phi`` only where outcomes have moved it."""
    return {name: value for name, value in asdict(edge).items() if name != "phi" or value}


def write_qualities(connection: sqlite3.Connection, number: int, qualities: Mapping[str, float | None]) -> None:
    """Write qualities as of a revision."""
    rows = [(name, number, value) for name, value in qualities.items()]
    connection.executemany("INSERT INTO quality VALUES (?, ?, ?)", rows)


def write_edges(connection: sqlite3.Connection, number: int, edges: Iterable[Edge]) -> None:
    """Write edges as of a revision."""
    columns = "(source, target, number, live, relation, weight, entity, structure, synergy, task)"
    connection.executemany(
        f"INSERT INTO edge {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(one.source, one.target, number, int(one.live), one.relation, one.weight),
                *(one.entity, one.structure, one.synergy, one.task),
            )
            for one in edges
        ],
    )


def write_alias(connection: sqlite3.Connection, number: int, name: str, entity: str) -> None:
    """Let a name, and everything that meant the same as it, mean an entity from a revision on."""
    reader = GraphReader(connection, number)
    meant = reader.entity(entity)
    renamed = [one for one in reader.names(reader.entity(name)) if one != meant]
    connection.executemany("INSERT INTO alias VALUES (?, ?, ?)", [(one, number, meant) for one in renamed])


def write_own_name(connection: sqlite3.Connection, number: int, name: str) -> None:
    """Let a name mean itself from a revision on."""
    connection.execute("INSERT INTO alias VALUES (?, ?, ?)", (name, number, name))
