"""Qualities, evidence and edges of a bank in memory: computed from its facts once, then taken up where they were.

Rebuildable from the file at any time. A walk asks for hundreds of qualities and dozens of nodes; a query of the file
for each would be most of its cost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from wardround.memory.edges import Edge, EdgeFact, every_edge_fact, facts_from
from wardround.memory.effect import PRIOR_QUALITY, CoinEvidence, EffectPosterior, effect_in, joined, quality_in
from wardround.memory.learned import Learned, words_of
from wardround.memory.outcomes import Counted, LearntEpisode, counted, outcomes_between

_MOST_NODES = 50_000
"""Nodes whose edges are held; with more, those that are asked for next are held instead."""
_CHANGED_EDGES = "SELECT DISTINCT source FROM edge WHERE number > ? AND number <= ?"
_CHANGED_TEXTS = "SELECT 1 FROM revision WHERE number > ? AND number <= ? LIMIT 1"
_SET = "SELECT number, experience, value FROM quality WHERE number > ? AND number <= ? ORDER BY number"
_TURNS = """
SELECT 1 FROM withdrawal WHERE number > ?1 AND number <= ?2 UNION ALL
SELECT 1 FROM undone WHERE number > ?1 AND number <= ?2 LIMIT 1
"""


@dataclass(slots=True)
class GraphCache:
    """Everything that says how good experiences are, and the edges of some of them, as of ``revision``."""

    revision: int = 0
    _connection: sqlite3.Connection | None = None
    _counted: Counted = field(default_factory=lambda: Counted(spans=((0, 0),)))
    _learned: Learned = field(init=False)
    _facts: dict[str, tuple[EdgeFact, ...]] = field(default_factory=dict)
    _edges: dict[str, tuple[Edge, ...]] = field(default_factory=dict)
    _effects: dict[tuple[str, str], EffectPosterior | None] = field(default_factory=dict)
    _qualities: dict[tuple[str, str], float | None] = field(default_factory=dict)
    _words: dict[str, str] = field(default_factory=dict)
    _alike: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._learned = Learned(edges=self._set_edges)

    def follow(self, connection: sqlite3.Connection, upto: int) -> None:
        """Take in what was written up to a revision."""
        self._connection = connection
        if upto <= self.revision:
            return
        if not self.revision or connection.execute(_TURNS, (self.revision, upto)).fetchone():
            self.revision = 0
        after, self.revision = self.revision, upto
        self._counted = counted(connection, upto)
        if not after:
            self._learned = Learned(edges=self._set_edges, gone=self._counted.experiences)
            for held in (self._facts, self._edges, self._words, self._alike):
                held.clear()
        self._drop_changed(connection, after, upto)
        for fact in _in_order(connection, after, upto):
            if isinstance(fact, LearntEpisode):
                if self._counted.holds(fact.number):
                    self._learned.learn(fact)
                    self._forget(one.experience for one in fact.met if one.shown)
            elif self._counted.holds(fact[0]):
                self._learned.set_quality(fact[1], fact[2])
        self._effects.clear()
        self._qualities.clear()
        self._alike.clear()

    def quality(self, experience: str, task: str) -> float | None:
        """The quality of an experience for a task; None while nothing is known of it."""
        name = (experience, task)
        if name not in self._qualities:
            known = self._learned.qualities.get(experience)
            evidence = self.evidence(experience)
            prior = PRIOR_QUALITY if known is None else known
            self._qualities[name] = quality_in(evidence, task, prior=prior) if evidence else known
        return self._qualities[name]

    def effect(self, experience: str, task: str) -> EffectPosterior | None:
        """The effect of an experience in a task; None where no coin was tossed for it or what says the same."""
        name = (experience, task)
        if name not in self._effects:
            evidence = self.evidence(experience)
            self._effects[name] = effect_in(evidence, task) if evidence else None
        return self._effects[name]

    def evidence(self, experience: str) -> dict[str, CoinEvidence]:
        """The evidence on an experience and on all that say the same, by task."""
        if not self._learned.evidence or experience in self._learned.gone:
            return {}
        held = [self._learned.evidence.get(name, {}) for name in self._saying_the_same(experience)]
        tasks = sorted({task for one in held for task in one})
        return {task: joined(one[task] for one in held if task in one) for task in tasks}

    def own_evidence(self) -> dict[str, dict[str, CoinEvidence]]:
        """The evidence on every experience that was met, by task: its own alone."""
        return self._learned.evidence

    def set_qualities(self) -> dict[str, float]:
        """The quality that was set, or moved by equation 10, of every experience that has one."""
        return {name: value for name, value in sorted(self._learned.qualities.items()) if value is not None}

    def edges(self, experience: str) -> tuple[Edge, ...]:
        """The live edges that lead from an experience, by their targets' ids."""
        held = self._edges.get(experience)
        if held is None:
            found = self._set_edges(experience, self.revision)
            weighed = (self._learned.weighed(*found[target]) for target in sorted(found))
            held = self._edges[experience] = tuple(edge for edge in weighed if edge.live)
        return held

    def every_edge(self) -> Iterator[Edge]:
        """All live edges, by their ends' ids; with more than can be held the file is read along."""
        assert self._connection is not None
        facts = filter(self._counts, every_edge_fact(self._connection, self.revision))
        for _, settings in groupby(facts, key=lambda fact: (fact[1].source, fact[1].target)):
            *_, (number, edge) = settings
            if edge.live:
                yield self._learned.weighed(number, edge)

    def _set_edges(self, experience: str, upto: int) -> dict[str, EdgeFact]:
        """The last edge that was set to each target as of a revision."""
        assert self._connection is not None
        held = self._facts.get(experience)
        if held is None:
            if len(self._facts) >= _MOST_NODES:
                self._facts.clear()
                self._edges.clear()
            read = facts_from(self._connection, experience, self.revision)
            held = self._facts[experience] = tuple(fact for fact in read if self._counts(fact))
        return {fact[1].target: fact for fact in held if fact[0] <= upto}

    def _counts(self, fact: EdgeFact) -> bool:
        number, edge = fact
        return self._counted.holds(number) and not {edge.source, edge.target} & self._counted.experiences

    def _drop_changed(self, connection: sqlite3.Connection, after: int, upto: int) -> None:
        if self._facts or self._edges:
            for (source,) in connection.execute(_CHANGED_EDGES, (after, upto)):
                self._facts.pop(source, None)
                self._edges.pop(source, None)
        if self._words and connection.execute(_CHANGED_TEXTS, (after, upto)).fetchone():
            self._words.clear()

    def _forget(self, names: Iterator[str]) -> None:
        for name in names:
            self._edges.pop(name, None)

    def _saying_the_same(self, experience: str) -> list[str]:
        if not self._alike:
            alike: dict[str, list[str]] = {}
            for name in self._learned.evidence:
                alike.setdefault(self._said(name), []).append(name)
            self._alike = alike
        return self._alike.get(self._said(experience), [])

    def _said(self, experience: str) -> str:
        assert self._connection is not None
        if experience not in self._words:
            self._words[experience] = words_of(self._connection, experience, self.revision)
        return self._words[experience]


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
