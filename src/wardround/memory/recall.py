"""Seed recall: experiences by the words, the vector and the entities of a question, fused; under the bank's guards.

Words lead. A cosine is compressed (the vectors of unlike texts still resemble each other), so vectors and entities are
added to the lexical score with small weights: they order what words leave open and bring what words do not reach.
"""

from __future__ import annotations

import heapq
import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, islice, zip_longest
from operator import attrgetter

import numpy as np

from wardround.core import check_settings, setting
from wardround.memory.entries import EligibleEntries, Entry
from wardround.memory.experience import Experience, Kind, Subject, normal_name
from wardround.memory.graph import GraphReader
from wardround.memory.keys import Key
from wardround.memory.state import SERVABLE_SPLITS, BankState
from wardround.memory.words import rarest_terms

_KNOWN_NAMES = """
SELECT value FROM json_each(?)
WHERE EXISTS (SELECT 1 FROM mention WHERE name = value) OR EXISTS (SELECT 1 FROM alias WHERE name = value)
"""
_LONGEST_NAME = 3
_MOST_WORDS = 128
_FIRST_MATCHES = 2
_AT_ONCE = 1.25
"""Of a pool, so much is read at once: some of it may be withheld."""
_MOST_MENTIONS = 100
"""What more experiences than this speak of tells them apart no better than its words do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuestion:
    """A question to a bank: a text, its vector and its entities, if they are known.

    Without ``entities``, the entities whose names occur in the text are used.
    """

    text: str
    key: Key | None = None
    entities: tuple[str, ...] | None = None


def inverse_document_frequency(experiences: int, containing: int) -> float:
    """Equation 11: how much an entity tells that so many of so many experiences speak of."""
    return math.log((experiences + 1) / (containing + 1)) + 1.0


class RecallCandidates:
    """One question's view of a bank: the experiences of the requested kinds that may be served to a subject.

    The subject is None if nothing is served and experiences are only compared with each other.
    """

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
        self.subject = "" if for_subject is None else for_subject.hashed(state.subject_key)

    @property
    def _has_keys(self) -> bool:
        return bool(self.state.rows) and any(choice.has_keys for choice in self.choices.values())

    def serves(self, entry: Entry) -> bool:
        """Return whether an entry may be served to the subject."""
        choice = self.choices.get(entry.kind)
        return choice is not None and choice.serves(entry) and self.subject not in entry.subjects

    def withheld(self) -> dict[str, int]:
        """Return how many entries were withheld, by reason."""
        sums: Counter[str] = Counter()
        for choice in self.choices.values():
            sums.update(choice.withheld(len(choice.of_subject(self.subject))))
        return dict(sums)

    def by_words(self, terms: Sequence[str], pool: int) -> dict[Entry, float]:
        """Return the best experiences that may be served. A small set is searched first, since ordering all matches
        costs more."""
        few = _FIRST_MATCHES * pool
        matches = self.state.words.matching(terms, self.state.revision, most=few)
        found = self._standing(matches, pool)
        if len(found) < pool and len(matches) == few:
            found = self._standing(self.state.words.matching(terms, self.state.revision), pool)
        return found

    def _standing(self, matches: Sequence[tuple[int, float]], pool: int) -> dict[Entry, float]:
        at_once = math.ceil(_AT_ONCE * pool)
        found: dict[Entry, float] = {}
        for start in range(0, len(matches), at_once):
            some = matches[start : start + at_once]
            known = self.state.entries.numbered(revision for revision, _ in some)
            served = ((known[one], score) for one, score in some if one in known and self.serves(known[one]))
            found |= islice(served, pool - len(found))
            if len(found) == pool:
                break
        return found

    def by_vector(self, key: Key, pool: int) -> dict[Entry, float]:
        rows = self.state.rows
        if not self._has_keys:
            return {}
        self.state.check_key(key)
        penalty = np.maximum.reduce([choice.penalty(rows) for choice in self.choices.values()])
        found: dict[Entry, float] = {}
        near = self.state.nearest(key.vector, penalty, [], pool, most_threaded=0)
        entries = self.state.entries.at_places(place for place, _ in near)
        for place, similarity in near:
            served = [entry for entry in entries.get(place, ()) if self.serves(entry)]
            found |= {entry: similarity for kind in self.choices for entry in served if entry.kind == kind}
        return found

    def similarities(self, key: Key | None, entries: Iterable[Entry]) -> dict[Entry, float]:
        """Return the similarities of the candidates that have a vector; none if the question has no vector."""
        if key is None or not self._has_keys:
            return {}
        self.state.check_key(key)
        placed = {entry: entry.place for entry in entries if entry.place is not None}
        known = self.state.similarities(key.vector, sorted(set(placed.values())))
        return {entry: known[place] for entry, place in placed.items()}

    def by_entities(self, question: RecallQuestion, pool: int) -> tuple[tuple[str, ...], dict[Entry, float]]:
        """Experiences by the inverse document frequencies of the entities they share with the question, summed; an
        entity of very many experiences tells nothing."""
        graph = GraphReader(self.connection, self.state.revision)
        names = self._names_in(question.text) if question.entities is None else list(question.entities)
        entities = list(dict.fromkeys(graph.entities(names)))
        retired, live = self.state.retired, len(self.state)
        mentions = graph.mentions_of(entities, is_live=lambda name: name not in retired, live=live, most=_MOST_MENTIONS)
        sums: dict[str, float] = {}
        for experiences in filter(None, mentions.values()):
            tells = inverse_document_frequency(len(self.state), len(experiences))
            for name in experiences:
                sums[name] = sums.get(name, 0.0) + tells
        named = tuple(name for name in entities if mentions[name] != () or question.entities is not None)
        return named, self._best(sums, pool)

    def _best(self, sums: Mapping[str, float], pool: int) -> dict[Entry, float]:
        """Return the served experiences with the greatest sums; ties go by age. Few of them have equal sums, so entries
        are looked up from the greatest on, as many as needed."""
        alike: dict[float, list[str]] = {}
        for name, value in sums.items():
            alike.setdefault(value, []).append(name)
        equal = groupby(sorted(alike, reverse=True), key=lambda value: round(value, 9))
        in_turn = [list(chain.from_iterable(map(alike.__getitem__, values))) for _, values in equal]
        served = filter(self.serves, self._in_turn(in_turn, math.ceil(_AT_ONCE * pool)))
        return {entry: sums[entry.name] for entry in islice(served, pool)}

    def _in_turn(self, groups: Sequence[Sequence[str]], at_once: int) -> Iterator[Entry]:
        """Return the entries of groups of names, group by group, each by age; so many, or a few more, are read at
        once."""
        ends = accumulate(map(len, groups))
        for _, some in groupby(zip(groups, ends, strict=True), key=lambda group: (group[1] - 1) // at_once):
            together = [names for names, _ in some]
            known = self.state.entries.named(chain.from_iterable(together))
            for names in together:
                yield from sorted(filter(None, map(known.get, names)), key=attrgetter("order"))

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


# What the three ways find, fused.


_POOL_TO_COMPARE = 20
_ROUNDING = 1e-6


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
class RecallHit:
    """An experience and how it came: its parts of the score, each between 0 and 1, None where that way did not ask."""

    experience: Experience
    score: float
    lexical: float | None
    dense: float | None
    entity: float | None
    revision: int

    def why(self) -> str:
        """Return the reason in one line."""
        parts = {"words": self.lexical, "vector": self.dense, "entities": self.entity}
        parts_text = ", ".join(f"{name} {value:.2f}" for name, value in parts.items() if value is not None)
        return f"score {self.score:.3f} ({parts_text})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRecall:
    """What a recall gave, best first. ``withheld`` counts as in ``Recall``; ``terms`` were the words looked up."""

    seeds: tuple[RecallHit, ...]
    withheld: Mapping[str, int]
    revision: int
    terms: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """What may be shown, best first."""
        return tuple(seed.experience for seed in self.seeds)

    def facts(self) -> dict[str, object]:
        """Return what the log of an episode notes about this recall."""
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
    candidates = RecallCandidates(state, connection, kinds, task, for_subject, tool)
    terms = rarest_terms(connection, question.text)
    lexical = candidates.by_words(terms, settings.pool)
    named, entity = candidates.by_entities(question, settings.pool)
    fused = FusedCandidates(lexical, entity, settings)
    if question.key is not None:
        most_similar = state.longest_key * question.key.length
        fused.compare(candidates.similarities(question.key, fused.within(most_similar)))
        if not fused.settled(most_similar):
            fused.compare(candidates.similarities(question.key, [*lexical, *entity]))
            fused.compare(candidates.by_vector(question.key, settings.pool))
    state.read(fused.best)
    seeds = tuple(fused.seed(entry, compared=question.key is not None) for entry in fused.best)
    return SeedRecall(seeds=seeds, withheld=candidates.withheld(), revision=state.revision, terms=terms, entities=named)


class FusedCandidates:
    """The candidates of one question with their scores, and the best of them."""

    def __init__(self, lexical: Mapping[Entry, float], entity: Mapping[Entry, float], settings: SeedSettings) -> None:
        most_words, most_of = max(lexical.values(), default=0.0), max(entity.values(), default=0.0)
        self.settings = settings
        self.parts = {
            entry: (lexical.get(entry, 0.0) / (most_words or 1.0), 0.0, entity.get(entry, 0.0) / (most_of or 1.0))
            for entry in dict.fromkeys((*lexical, *entity))
        }
        self.scores: dict[Entry, float] = {}
        self._score(self.parts)

    def compare(self, dense: Mapping[Entry, float]) -> None:
        """Add the similarities of vectors; a vector that points elsewhere takes nothing away."""
        for entry, similarity in dense.items():
            words, _, names = self.parts.get(entry, (0.0, 0.0, 0.0))
            self.parts[entry] = words, max(0.0, similarity), names
        self._score(dense)

    def _score(self, entries: Iterable[Entry]) -> None:
        words, vectors, names = self.settings.lexical, self.settings.dense, self.settings.entity
        for entry in entries:
            word, vector, name = self.parts[entry]
            self.scores[entry] = round(words * word + vectors * vector + names * name, 9)
        self.best = heapq.nsmallest(self.settings.k, self.scores, key=lambda entry: (-self.scores[entry], entry.order))

    def within(self, most_similar: float) -> list[Entry]:
        """Return those that their vectors, not compared yet, may bring among the best."""
        reach = self.settings.dense * most_similar + _ROUNDING
        least = self.scores[self.best[-1]] if len(self.best) == self.settings.k else -reach
        return [entry for entry, score in self.scores.items() if score + reach >= least]

    def settled(self, most_similar: float) -> bool:
        """Return whether nothing that words and entities left out can be among the best: its vector alone, at the most
        that a product can be, would score less than the last of them (a threshold as in Fagin's algorithm, PODS
        2001)."""
        if len(self.best) < self.settings.k:
            return False
        return bool(self.scores[self.best[-1]] > self.settings.dense * most_similar + _ROUNDING)

    def seed(self, entry: Entry, *, compared: bool) -> RecallHit:
        words, vector, entities = self.parts[entry]
        return RecallHit(
            experience=entry.experience,
            score=self.scores[entry],
            lexical=words,
            dense=vector if compared else None,
            entity=entities,
            revision=entry.revision,
        )


def related_experiences(
    state: BankState, connection: sqlite3.Connection, experience: Experience, *, kinds: Sequence[Kind], limit: int
) -> tuple[Experience, ...]:
    """Experiences to compare one with: by its rare words, its vector and its entities in turn, nearest first."""
    candidates = RecallCandidates(state, connection, kinds, None, None)
    own = state.known(experience.id)
    text = f"{experience.title} {experience.condition} {experience.content}"
    names = tuple(entity.name for entity in experience.entities)
    key = None if own is None else state.key_of(own)
    ways = [
        list(candidates.by_words(rarest_terms(connection, text), _POOL_TO_COMPARE)),
        [] if key is None else list(candidates.by_vector(key, _POOL_TO_COMPARE)),
        list(candidates.by_entities(RecallQuestion(text=text, entities=names), _POOL_TO_COMPARE)[1]),
    ]
    in_turn = (entry for ranked in zip_longest(*ways) for entry in ranked if entry is not None)
    others = dict.fromkeys(entry for entry in in_turn if entry is not own)
    return tuple(entry.experience for entry in islice(others, limit))


def nearest_experiences(
    state: BankState, connection: sqlite3.Connection, key: Key, *, kind: Kind, tool: str | None, limit: int
) -> tuple[tuple[Experience, float], ...]:
    """Experiences to compare a text with, by the similarity of their vectors to its key, nearest first."""
    found = RecallCandidates(state, connection, (kind,), None, None, tool).by_vector(key, limit)
    return tuple((entry.experience, similarity) for entry, similarity in islice(found.items(), limit))


def eligible(
    state: BankState,
    connection: sqlite3.Connection,
    kinds: Sequence[Kind],
    task: str | None,
    for_subject: Subject,
    tool: str | None = None,
) -> Callable[[str], Experience | None]:
    """Return a function that fetches an experience by id if it may be served to a subject. What a walk reaches has to
    pass the same guards as what is recalled."""
    candidates = RecallCandidates(state, connection, kinds, task, for_subject, tool)

    def fetch(name: str) -> Experience | None:
        entry = state.known(name)
        return entry.experience if entry is not None and candidates.serves(entry) else None

    return fetch
