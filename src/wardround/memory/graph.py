"""The graph of a bank: qualities, edges and names as of a revision, cached in memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from itertools import chain, groupby, islice
from typing import Any

from wardround.memory.credit import PRIOR_QUALITY, CoinEvidence, EffectPosterior, effect_in, joined, quality_in
from wardround.memory.experience import normal_name
from wardround.memory.outcomes import CountedOutcomes, LearnedState, LearntEpisode, counted, outcomes_between, words_of
from wardround.memory.rows import Edge, EdgeFact, every_edge_fact, facts_from

# Qualities, evidence and edges of a bank in memory: computed from its facts once, then continued from there.
#
# Rebuildable from the file at any time. A walk asks for hundreds of qualities and dozens of nodes; a query of the file
# for each would be most of its cost.


_MOST_NODES = 50_000
"""Nodes whose edges are cached; beyond this limit the cache is emptied and filled anew."""
_CHANGED_EDGES = "SELECT DISTINCT source FROM edge WHERE number > ? AND number <= ?"
_CHANGED_TEXTS = "SELECT 1 FROM revision WHERE number > ? AND number <= ? LIMIT 1"
_SET = "SELECT number, experience, value FROM quality WHERE number > ? AND number <= ? ORDER BY number"
_TURNS = """
SELECT 1 FROM withdrawal WHERE number > ?1 AND number <= ?2 UNION ALL
SELECT 1 FROM undone WHERE number > ?1 AND number <= ?2 LIMIT 1
"""


@dataclass(slots=True)
class GraphCache:
    """All qualities and evidence of experiences, and the edges of some of them, as of ``revision``."""

    revision: int = 0
    _connection: sqlite3.Connection | None = None
    _counted: CountedOutcomes = field(default_factory=lambda: CountedOutcomes(spans=((0, 0),)))
    _learned: LearnedState = field(init=False)
    _facts: dict[str, tuple[EdgeFact, ...]] = field(default_factory=dict)
    _edges: dict[str, tuple[Edge, ...]] = field(default_factory=dict)
    _effects: dict[tuple[str, str], EffectPosterior | None] = field(default_factory=dict)
    _qualities: dict[tuple[str, str], float | None] = field(default_factory=dict)
    _duplicate_keys: dict[str, str] = field(default_factory=dict)
    _duplicates: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._learned = LearnedState(edges=self._set_edges)

    def follow(self, connection: sqlite3.Connection, upto: int) -> None:
        """Read what was written up to a revision."""
        self._connection = connection
        if upto <= self.revision:
            return
        if not self.revision or connection.execute(_TURNS, (self.revision, upto)).fetchone():
            self.revision = 0
        after, self.revision = self.revision, upto
        self._counted = counted(connection, upto)
        if not after:
            self._learned = LearnedState(edges=self._set_edges, gone=self._counted.experiences)
            for cached in (self._facts, self._edges, self._duplicate_keys, self._duplicates):
                cached.clear()
        self._drop_changed(connection, after, upto)
        for fact in _in_order(connection, after, upto):
            if isinstance(fact, LearntEpisode):
                if self._counted.holds(fact.number):
                    self._learned.learn(fact)
                    for name in (trial.experience for trial in fact.met if trial.shown):
                        self._edges.pop(name, None)
            elif self._counted.holds(fact[0]):
                self._learned.set_quality(fact[1], fact[2])
        self._effects.clear()
        self._qualities.clear()
        self._duplicates.clear()

    def quality(self, experience: str, task: str) -> float | None:
        """Return the quality of an experience for a task; None if it is unknown."""
        name = (experience, task)
        if name not in self._qualities:
            known = self._learned.qualities.get(experience)
            evidence = self.evidence(experience)
            prior = PRIOR_QUALITY if known is None else known
            self._qualities[name] = quality_in(evidence, task, prior=prior) if evidence else known
        return self._qualities[name]

    def effect(self, experience: str, task: str) -> EffectPosterior | None:
        """Return the effect of an experience in a task; None if no coin was tossed for it or for a duplicate."""
        name = (experience, task)
        if name not in self._effects:
            evidence = self.evidence(experience)
            self._effects[name] = effect_in(evidence, task) if evidence else None
        return self._effects[name]

    def evidence(self, experience: str) -> dict[str, CoinEvidence]:
        """Return the evidence of an experience and its duplicates, by task."""
        if not self._learned.evidence or experience in self._learned.gone:
            return {}
        evidence_by_task = [self._learned.evidence.get(name, {}) for name in self._duplicates_of(experience)]
        tasks = sorted({task for by_task in evidence_by_task for task in by_task})
        return {task: joined(by_task[task] for by_task in evidence_by_task if task in by_task) for task in tasks}

    def own_evidence(self) -> dict[str, dict[str, CoinEvidence]]:
        """Return the evidence of every experience that was met, by task, without that of its duplicates."""
        return self._learned.evidence

    def set_qualities(self) -> dict[str, float]:
        """Return the quality that was set, or updated by equation 10, of every experience that has one."""
        return {name: value for name, value in sorted(self._learned.qualities.items()) if value is not None}

    def edges(self, experience: str) -> tuple[Edge, ...]:
        """Return the live edges from an experience, by the ids of their targets."""
        live_edges = self._edges.get(experience)
        if live_edges is None:
            found = self._set_edges(experience, self.revision)
            weighed = (self._learned.weighed(*found[target]) for target in sorted(found))
            live_edges = self._edges[experience] = tuple(edge for edge in weighed if edge.live)
        return live_edges

    def every_edge(self) -> Iterator[Edge]:
        """Return all live edges, by the ids of their ends. If there are more than the cache may hold, the file is read
        too."""
        assert self._connection is not None
        facts = filter(self._counts, every_edge_fact(self._connection, self.revision))
        for _, settings in groupby(facts, key=lambda fact: (fact[1].source, fact[1].target)):
            *_, (number, edge) = settings
            if edge.live:
                yield self._learned.weighed(number, edge)

    def _set_edges(self, experience: str, upto: int) -> dict[str, EdgeFact]:
        """Return the last edge that was set to each target as of a revision."""
        assert self._connection is not None
        facts = self._facts.get(experience)
        if facts is None:
            if len(self._facts) >= _MOST_NODES:
                self._facts.clear()
                self._edges.clear()
            read = facts_from(self._connection, experience, self.revision)
            facts = self._facts[experience] = tuple(fact for fact in read if self._counts(fact))
        return {fact[1].target: fact for fact in facts if fact[0] <= upto}

    def _counts(self, fact: EdgeFact) -> bool:
        number, edge = fact
        return self._counted.holds(number) and not {edge.source, edge.target} & self._counted.experiences

    def _drop_changed(self, connection: sqlite3.Connection, after: int, upto: int) -> None:
        if self._facts or self._edges:
            for (source,) in connection.execute(_CHANGED_EDGES, (after, upto)):
                self._facts.pop(source, None)
                self._edges.pop(source, None)
        if self._duplicate_keys and connection.execute(_CHANGED_TEXTS, (after, upto)).fetchone():
            self._duplicate_keys.clear()

    def _duplicates_of(self, experience: str) -> list[str]:
        if not self._duplicates:
            alike: dict[str, list[str]] = {}
            for name in self._learned.evidence:
                alike.setdefault(self._duplicate_key(name), []).append(name)
            self._duplicates = alike
        return self._duplicates.get(self._duplicate_key(experience), [])

    def _duplicate_key(self, experience: str) -> str:
        assert self._connection is not None
        if experience not in self._duplicate_keys:
            self._duplicate_keys[experience] = words_of(self._connection, experience, self.revision)
        return self._duplicate_keys[experience]


def _in_order(
    connection: sqlite3.Connection, after: int, upto: int
) -> Iterator[tuple[int, str, float | None] | LearntEpisode]:
    """Set qualities and outcomes by their numbers; no number has both."""
    outcomes = outcomes_between(connection, after, upto)
    ahead = next(outcomes, None)
    for number, experience, value in connection.execute(_SET, (after, upto)).fetchall():
        while ahead is not None and ahead.number < number:
            yield ahead
            ahead = next(outcomes, None)
        yield number, experience, value
    while ahead is not None:
        yield ahead
        ahead = next(outcomes, None)


# The graph of a bank: qualities, edges between experiences, names that mean the same; all as of a revision.
#
# Nothing is overwritten in the file. What was set and what outcomes have moved since is computed from it in one pass
# (:mod:`wardround.memory.graph`); edges and names are read node by node when needed.


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
    """The graph as of a revision; qualities are those for a ``task``, or over all tasks.

    ``cache`` stores computed values. If the bank has grown and the cache is ahead of ``revision``, the reader computes
    its own.
    """

    connection: sqlite3.Connection
    revision: int
    task: str = ""
    cache: GraphCache = field(default_factory=GraphCache)

    def quality(self, experience: str) -> float | None:
        """Return the quality of an experience; None if it is unknown. If coins were tossed for it, the quality that was
        set is the prior."""
        return self._view.quality(experience, self.task)

    def effect(self, experience: str, task: str | None = None) -> EffectPosterior | None:
        """Return the effect of showing an experience in a task (default: this reader's task); None if no coin was ever
        tossed for it."""
        return self._view.effect(experience, self.task if task is None else task)

    def evidence(self, experience: str) -> dict[str, CoinEvidence]:
        """Return the coin evidence of an experience and of its duplicates, by task."""
        return self._view.evidence(experience)

    def edges(self, experience: str) -> tuple[Edge, ...]:
        """Return the live edges from an experience, by the ids of their targets."""
        return self._view.edges(experience)

    def set_qualities(self) -> dict[str, float]:
        """Return every quality that was set or updated by equation 10, by experience, without the evidence of coins."""
        return self._view.set_qualities()

    def every_edge(self) -> Iterator[Edge]:
        """Return all live edges, by the ids of their ends."""
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
        """Return the whole graph as plain values: qualities, edges, aliases, evidence by experience and task."""
        evidence = [
            [name, task, *astuple(evidence_of_task)]
            for name, tasks in sorted(self._view.own_evidence().items())
            for task, evidence_of_task in sorted(tasks.items())
        ]
        return {
            "qualities": self.set_qualities(),
            "edges": [edge_facts(edge) for edge in self.every_edge()],
            "aliases": {name: entity for name, entity, _ in self.connection.execute(_ALL_ALIASES, (self.revision,))},
        } | ({"evidence": evidence} if evidence else {})

    def entity(self, name: str) -> str:
        """Return the one name of all entities with this name."""
        row = self.connection.execute(_ALIAS, (normal_name(name), self.revision)).fetchone()
        return normal_name(name) if row is None else str(row[0])

    def entities(self, names: Sequence[str]) -> list[str]:
        """Return ``entity`` of each name; one query suffices if none was renamed."""
        normal = [normal_name(name) for name in names]
        renamed = self._among(_RENAMED, normal)
        return [self.entity(name) if name in renamed else name for name in normal]

    def names(self, entity: str) -> tuple[str, ...]:
        """Return every name of an entity, its own name first."""
        rows = self.connection.execute(_ALIASES_OF, (entity, self.revision)).fetchall()
        return (entity, *(name for (name,) in rows if name != entity and self.entity(name) == entity))

    def mentions(
        self, entity: str, *, known: Callable[[str], bool] = lambda name: True, most: int | None = None
    ) -> tuple[str, ...] | None:
        """Return the experiences that mention an entity under any of its names.

        ``known`` selects retired and later experiences too. Return None if there are more than ``most``.
        """
        found: dict[str, None] = {}
        for name in self.names(entity):
            rows = self.connection.execute(_MENTIONS, (name,))
            live = filter(known, (experience for (experience,) in rows))
            found.update(dict.fromkeys(live if most is None else islice(live, most + 1)))
            if most is not None and len(found) > most:
                return None
        return tuple(found)

    def mentions_of(
        self, entities: Sequence[str], *, is_live: Callable[[str], bool], live: int, most: int
    ) -> dict[str, tuple[str, ...] | None]:
        """``mentions`` of each entity by live experiences, of which there are ``live``, in as few queries as can be."""
        common = self._among(_TOO_COMMON, entities, most, live)
        rest = [name for name in entities if name not in common]
        renamed = self._among(_RENAMED, rest)
        names = {name: self.names(name) if name in renamed else (name,) for name in rest}
        spoken: dict[str, list[str]] = {name: [] for every in names.values() for name in every}
        for name, experience in self.connection.execute(_MENTIONS_OF, (json.dumps(list(spoken)),)):
            if is_live(experience):
                spoken[name].append(experience)
        found = {name: tuple(dict.fromkeys(chain(*map(spoken.__getitem__, every)))) for name, every in names.items()}
        return {name: found[name] if name in found and len(found[name]) <= most else None for name in entities}

    def _among(self, query: str, names: Sequence[str], *values: int) -> set[str]:
        return {name for (name,) in self.connection.execute(query, (json.dumps(names), *values))}


def edge_facts(edge: Edge) -> dict[str, Any]:
    """Return an edge as plain values; ``phi`` only if outcomes changed it."""
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
                *(edge.source, edge.target, number, int(edge.live), edge.relation, edge.weight),
                *(edge.entity, edge.structure, edge.synergy, edge.task),
            )
            for edge in edges
        ],
    )


def write_alias(connection: sqlite3.Connection, number: int, name: str, entity: str) -> None:
    """Make a name, and all names with the same meaning, mean an entity from a revision on."""
    reader = GraphReader(connection, number)
    meant = reader.entity(entity)
    renamed = [one for one in reader.names(reader.entity(name)) if one != meant]
    connection.executemany("INSERT INTO alias VALUES (?, ?, ?)", [(one, number, meant) for one in renamed])


def write_own_name(connection: sqlite3.Connection, number: int, name: str) -> None:
    """Make a name mean itself from a revision on."""
    connection.execute("INSERT INTO alias VALUES (?, ?, ?)", (name, number, name))
