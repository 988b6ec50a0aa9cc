"""Seed recall: experiences by the words, the vector and the entities of a question, fused; under the bank's guards.

Words lead. A cosine is compressed (the vectors of unlike texts still resemble each other), so vectors and entities are
added to the lexical score with small weights: they order what words leave open and bring what words do not reach.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from operator import mul

import numpy as np

from wardround.core import check_settings, setting
from wardround.memory.choice import EligibleEntries, total
from wardround.memory.entities import normal_name
from wardround.memory.experience import Experience, Kind, Subject
from wardround.memory.graph import GraphReader
from wardround.memory.key import Key
from wardround.memory.rows import Entry
from wardround.memory.similarity import inverse_document_frequency
from wardround.memory.state import SERVABLE_SPLITS, BankState
from wardround.memory.words import matching, rarest_terms

_KNOWN_NAMES = """
SELECT value FROM json_each(?)
WHERE EXISTS (SELECT 1 FROM mention WHERE name = value) OR EXISTS (SELECT 1 FROM alias WHERE name = value)
"""
_LONGEST_NAME = 3
_MOST_WORDS = 128
_POOL_TO_COMPARE = 20
_MOST_MENTIONS = 100
"""What more experiences than this speak of tells them apart no better than its words do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuestion:
    """What is asked: a text, its vector where one was made, its entities where somebody extracted them.

    Without ``entities`` those are taken whose names stand in the text.
    """

    text: str
    key: Key | None = None
    entities: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSettings:
    """``k`` seeds out of a ``pool`` from each way. The weight of vectors was chosen for the embedded encoder on half of
    two public sets of questions (benchmarks/recall_quality.py); those sets have no entities."""

    k: int = setting(5, "seeds", source="GSEM, K", least=1)
    pool: int = setting(50, "candidates that each way of recalling gives", least=1)
    lexical: float = setting(1.0, "weight of words", least=0)
    dense: float = setting(0.05, "weight of vectors", least=0)
    entity: float = setting(0.2, "weight of entities", least=0)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """An experience and how it came: its parts of the score, each between 0 and 1, None where that way did not ask."""

    experience: Experience
    score: float
    lexical: float | None
    dense: float | None
    entity: float | None
    revision: int

    def why(self) -> str:
        """Say it in one line."""
        parts = {"words": self.lexical, "vector": self.dense, "entities": self.entity}
        told = ", ".join(f"{name} {value:.2f}" for name, value in parts.items() if value is not None)
        return f"score {self.score:.3f} ({told})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRecall:
    """What a recall gave, best first. ``withheld`` counts as in ``Recall``; ``terms`` were the words looked up."""

    seeds: tuple[Seed, ...]
    withheld: Mapping[str, int]
    revision: int
    terms: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """What may be shown, best first."""
        return tuple(seed.experience for seed in self.seeds)

    def facts(self) -> dict[str, object]:
        """What an episode's log notes of it."""
        served = [{"id": seed.experience.id, "score": seed.score, "why": seed.why()} for seed in self.seeds]
        noted = {"withheld": dict(self.withheld), "bank_revision": self.revision}
        return {"served": served, "terms": list(self.terms), "entities": list(self.entities), **noted}


def recall_seeds(
    state: BankState,
    connection: sqlite3.Connection,
    question: RecallQuestion,
    *,
    for_subject: Subject,
    kinds: Sequence[Kind],
    task: str | None,
    settings: SeedSettings,
    tool: str | None = None,
) -> SeedRecall:
    """Return the ``k`` best of everything that may be served to a subject. Equal scores go by age."""
    asked = _Asked(state, connection, kinds, task, for_subject, tool)
    terms = rarest_terms(connection, question.text)
    lexical = asked.by_words(terms, settings.pool)
    named, entity = asked.by_entities(question, settings.pool)
    dense = {} if question.key is None else asked.by_vector(question.key, settings.pool)
    found = {entry.name: entry for entry in (*lexical.keys(), *entity.keys(), *dense.keys())}
    if question.key is not None:
        dense |= asked.missing_similarities(question.key, [one for one in found.values() if one not in dense])
    most_words, most_of = max(lexical.values(), default=0.0), max(entity.values(), default=0.0)
    parts = {
        entry: (
            lexical.get(entry, 0.0) / (most_words or 1.0),
            max(0.0, dense.get(entry, 0.0)),
            entity.get(entry, 0.0) / (most_of or 1.0),
        )
        for entry in found.values()
    }
    weights = (settings.lexical, settings.dense, settings.entity)
    scores = {entry: round(sum(map(mul, weights, three)), 9) for entry, three in parts.items()}
    best = heapq.nsmallest(settings.k, scores, key=lambda entry: (-scores[entry], entry.order))
    seeds = tuple(
        Seed(
            experience=entry.experience,
            score=scores[entry],
            lexical=parts[entry][0],
            dense=None if question.key is None else parts[entry][1],
            entity=parts[entry][2],
            revision=entry.revision,
        )
        for entry in best
    )
    return SeedRecall(seeds=seeds, withheld=asked.withheld(), revision=state.revision, terms=terms, entities=named)


def related_experiences(
    state: BankState, connection: sqlite3.Connection, experience: Experience, *, kinds: Sequence[Kind], limit: int
) -> tuple[Experience, ...]:
    """Experiences to compare one with: by its rare words, its vector and its entities in turn, nearest first."""
    asked = _Asked(state, connection, kinds, None, None)
    own = state.known(experience.id)
    text = f"{experience.title} {experience.condition} {experience.content}"
    names = tuple(entity.name for entity in experience.entities)
    key = None if own is None else state.key_of(own)
    ways = [
        list(asked.by_words(rarest_terms(connection, text), _POOL_TO_COMPARE)),
        [] if key is None else list(asked.by_vector(key, _POOL_TO_COMPARE)),
        list(asked.by_entities(RecallQuestion(text=text, entities=names), _POOL_TO_COMPARE)[1]),
    ]
    in_turn = (entry for ranked in zip_longest(*ways) for entry in ranked if entry is not None)
    others = dict.fromkeys(entry for entry in in_turn if entry is not own)
    return tuple(entry.experience for entry in islice(others, limit))


def nearest_experiences(
    state: BankState, connection: sqlite3.Connection, key: Key, *, kind: Kind, tool: str | None, limit: int
) -> tuple[tuple[Experience, float], ...]:
    """Experiences to compare a text with, by the similarity of their vectors to its key, nearest first."""
    found = _Asked(state, connection, (kind,), None, None, tool).by_vector(key, limit)
    return tuple((entry.experience, similarity) for entry, similarity in islice(found.items(), limit))


def eligible(
    state: BankState, kinds: Sequence[Kind], task: str | None, for_subject: Subject, tool: str | None = None
) -> Callable[[str], Experience | None]:
    """How to fetch an experience that may be served to a subject, by its id: what is walked to, as what is recalled,
    has to pass the guards."""
    choices: Mapping[str, EligibleEntries] = {kind: state.choice(kind, task, tool, SERVABLE_SPLITS) for kind in kinds}
    subject = for_subject.hashed(state.subject_key)
    own = {entry.name for choice in choices.values() for entry in choice.of_subject(subject)}

    def fetch(name: str) -> Experience | None:
        entry = state.known(name)
        choice = None if entry is None else choices.get(entry.row.kind)
        if entry is None or choice is None or name in own or name not in choice.entries:
            return None
        return entry.experience

    return fetch


class _Asked:
    """One question's view of a bank: what may be served of the asked kinds to the one it is for; None where nothing is
    served, but experiences are compared with each other."""

    def __init__(
        self,
        state: BankState,
        connection: sqlite3.Connection,
        kinds: Sequence[Kind],
        task: str | None,
        for_subject: Subject | None,
        tool: str | None = None,
    ) -> None:
        self.state = state
        self.connection = connection
        self.choices: Mapping[str, EligibleEntries] = {
            kind: state.choice(kind, task, tool, SERVABLE_SPLITS) for kind in kinds
        }
        subject = "" if for_subject is None else for_subject.hashed(state.subject_key)
        self.own = {kind: {entry.name for entry in choice.of_subject(subject)} for kind, choice in self.choices.items()}

    def serves(self, entry: Entry | None) -> bool:
        choice = None if entry is None else self.choices.get(entry.row.kind)
        if entry is None or choice is None:
            return False
        return entry.name in choice.entries and entry.name not in self.own[choice.kind]

    def withheld(self) -> dict[str, int]:
        return total(
            choice.withheld(len(self.own[kind]), counts_evaluated=self.state.evaluates)
            for kind, choice in self.choices.items()
        )

    def by_words(self, terms: Sequence[str], pool: int) -> dict[Entry, float]:
        found: dict[Entry, float] = {}
        for revision, score in matching(self.connection, terms, self.state.revision):
            entry = self.state.standing(revision)
            if entry is not None and self.serves(entry):
                found[entry] = score
                if len(found) == pool:
                    break
        return found

    def by_vector(self, key: Key, pool: int) -> dict[Entry, float]:
        rows = self.state.rows
        if not rows or not any(choice.by_row for choice in self.choices.values()):
            return {}
        self.state.check_key(key)
        penalty = np.maximum.reduce([choice.penalty(rows) for choice in self.choices.values()])
        found: dict[Entry, float] = {}
        for place, similarity in self.state.nearest(key.vector, penalty, [], pool, most_threaded=0):
            for choice in self.choices.values():
                found |= {entry: similarity for entry in choice.by_row.get(place, ()) if self.serves(entry)}
        return found

    def missing_similarities(self, key: Key, entries: Sequence[Entry]) -> dict[Entry, float]:
        placed = {entry: entry.place for entry in entries if entry.place is not None}
        if not placed:
            return {}
        known = self.state.similarities(key.vector, sorted(set(placed.values())))
        return {entry: known[place] for entry, place in placed.items()}

    def by_entities(self, question: RecallQuestion, pool: int) -> tuple[tuple[str, ...], dict[Entry, float]]:
        """Experiences by the inverse document frequencies of the entities they share with the question, summed; an
        entity of very many experiences tells nothing."""
        graph = GraphReader(self.connection, self.state.revision)
        asked = self._names_in(question.text) if question.entities is None else list(question.entities)
        named: list[str] = []
        found: dict[Entry, float] = {}
        for name in dict.fromkeys(graph.entity(name) for name in asked):
            mentions = graph.mentions(name, known=self.state.live_names.__contains__, most=_MOST_MENTIONS)
            if mentions != () or question.entities is not None:
                named.append(name)
            if not mentions:
                continue
            tells = inverse_document_frequency(len(self.state), len(mentions))
            entries = [entry for entry in map(self.state.known, mentions) if entry is not None]
            for entry in filter(self.serves, entries):
                found[entry] = found.get(entry, 0.0) + tells
        best = heapq.nsmallest(pool, found, key=lambda entry: (-round(found[entry], 9), entry.order))
        return tuple(named), {entry: found[entry] for entry in best}

    def _names_in(self, text: str) -> list[str]:
        words = [word.strip(".,;:?!()[]\"'") for word in normal_name(text).split()[:_MOST_WORDS]]
        spans = [
            " ".join(words[start : start + length])
            for length in range(_LONGEST_NAME, 0, -1)
            for start in range(len(words) - length + 1)
        ]
        candidates = list(dict.fromkeys(span for span in spans if span))
        known = {name for (name,) in self.connection.execute(_KNOWN_NAMES, (json.dumps(candidates),))}
        return [name for name in candidates if name in known]
