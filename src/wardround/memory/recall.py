"""Seed recall: experiences by the words, the vector and the entities of a question, fused; under the bank's guards.

Words lead. A cosine is compressed (the vectors of unlike texts still resemble each other), so vectors and entities are
added to the lexical score with small weights: they order what words leave open and bring what words do not reach.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from wardround.core import check_settings, setting
from wardround.memory.candidates import RecallCandidates, RecallQuestion
from wardround.memory.entries import Entry
from wardround.memory.experience import Experience, Kind, Subject
from wardround.memory.keys import Key
from wardround.memory.state import BankState
from wardround.memory.words import rarest_terms

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
