"""The graph of a bank in its file: qualities, edges between experiences, names that mean the same; all by revision.

Nothing is overwritten: a quality or an edge is what its last row up to a revision says. It is read from the file where
it is asked for (microseconds a node), so that opening a bank costs nothing for it and a past revision costs no more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from wardround.memory.edges import Edge, edge_of, edges_from
from wardround.memory.effect import PRIOR_QUALITY, MaskingTrial
from wardround.memory.entities import normal_name
from wardround.memory.graph_cache import GraphCache
from wardround.memory.trials import all_trials, quality_of, sums_of, trial_history, trials_by_task

_FIRST_WEIGHT = "SELECT weight FROM edge WHERE source = ? AND target = ? ORDER BY number LIMIT 1"
_QUALITY = "SELECT value FROM quality WHERE experience = ? AND number <= ? ORDER BY number DESC LIMIT 1"
_HISTORY = "SELECT number, value FROM quality WHERE experience = ? ORDER BY number"
_ALIAS = "SELECT entity FROM alias WHERE name = ? AND number <= ? ORDER BY number DESC LIMIT 1"
_ALIASES_OF = "SELECT DISTINCT name FROM alias WHERE entity = ? AND number <= ? ORDER BY name"
_ALL_QUALITIES = "SELECT experience, value, max(number) FROM quality WHERE number <= ? GROUP BY experience ORDER BY 1"
_ALL_EDGES = """
SELECT source, target, live, relation, weight, entity, structure, synergy, task, phi, max(number) FROM edge
WHERE number <= ? GROUP BY source, target ORDER BY source, target
"""
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
    """The graph as of a revision; qualities are those for a ``task``, or over all of them. ``cache`` holds them where
    the revision is the one that is asked all the time."""

    connection: sqlite3.Connection
    revision: int
    task: str = ""
    cache: GraphCache | None = None

    def quality(self, experience: str) -> float | None:
        """The quality of an experience; None while nothing is known of it. Where it was on trial, what it was set to
        is the prior."""
        if self.cache is not None and self.cache.revision == self.revision:
            return self.cache.quality(experience, self.task)
        row = self.connection.execute(_QUALITY, (experience, self.revision)).fetchone()
        known = None if row is None or row[0] is None else float(row[0])
        trials = self.trials(experience)
        return quality_of(trials, self.task, prior=PRIOR_QUALITY if known is None else known) if trials else known

    def trials(self, experience: str) -> dict[str, MaskingTrial]:
        """The masking trials of an experience by task."""
        return trials_by_task(self.connection, experience, self.revision)

    def first_weight(self, source: str, target: str) -> float | None:
        """The weight an edge was made with."""
        row = self.connection.execute(_FIRST_WEIGHT, (source, target)).fetchone()
        return None if row is None else float(row[0])

    def edges(self, experience: str) -> tuple[Edge, ...]:
        """The live edges that lead from an experience, by their targets' ids."""
        if self.cache is not None and self.cache.revision == self.revision:
            return self.cache.edges(self.connection, experience)
        return edges_from(self.connection, experience, self.revision)

    def set_qualities(self) -> dict[str, float]:
        """Every quality that was set, by experience: without what trials say."""
        rows = self.connection.execute(_ALL_QUALITIES, (self.revision,))
        return {name: float(value) for name, value, _ in rows if value is not None}

    def every_edge(self) -> Iterator[Edge]:
        """All live edges, by their ends' ids."""
        rows = self.connection.execute(_ALL_EDGES, (self.revision,))
        return (edge_of(row) for row in rows if row[2])

    def facts(self) -> dict[str, Any]:
        """Everything the graph says, as plain values: qualities, live edges, aliases; trials where there are any, so
        that the hash of a bank without them stays what it was."""
        trials = [[one, task, *sums_of(trial)] for one, task, trial in all_trials(self.connection, self.revision)]
        return {
            "qualities": self.set_qualities(),
            "edges": [edge_facts(edge) for edge in self.every_edge()],
            "aliases": {name: entity for name, entity, _ in self.connection.execute(_ALL_ALIASES, (self.revision,))},
        } | ({"trials": trials} if trials else {})

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


def quality_history(connection: sqlite3.Connection, experience: str) -> tuple[tuple[int, float | None], ...]:
    """Every quality an experience had over all tasks, with the revision from which it had it; None from where it was
    taken back."""
    known: dict[int, float | None] = dict(connection.execute(_HISTORY, (experience,)))
    changes: dict[int, dict[str, MaskingTrial]] = {}
    for number, task, trial in trial_history(connection, experience):
        changes.setdefault(number, {})[task] = trial
    found: list[tuple[int, float | None]] = []
    trials: dict[str, MaskingTrial] = {}
    value: float | None = None
    for number in sorted({*known, *changes}):
        value = known.get(number, value)
        trials = {task: trial for task, trial in {**trials, **changes.get(number, {})}.items() if trial.episodes}
        prior = PRIOR_QUALITY if value is None else value
        found.append((number, quality_of(trials, "", prior=prior) if trials else value))
    return tuple(found)


def write_qualities(connection: sqlite3.Connection, number: int, qualities: Mapping[str, float | None]) -> None:
    """Write qualities as of a revision."""
    rows = [(name, number, value) for name, value in qualities.items()]
    connection.executemany("INSERT INTO quality VALUES (?, ?, ?)", rows)


def write_edges(connection: sqlite3.Connection, number: int, edges: Iterable[Edge]) -> None:
    """Write edges as of a revision."""
    columns = "(source, target, number, live, relation, weight, entity, structure, synergy, task, phi)"
    connection.executemany(
        f"INSERT INTO edge {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(one.source, one.target, number, int(one.live), one.relation, one.weight),
                *(one.entity, one.structure, one.synergy, one.task, one.phi),
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
