"""One question before a bank: what words, vectors and entities find of it, each in its own way, under the guards."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, islice
from operator import attrgetter

import numpy as np

from wardround.memory.choice import EligibleEntries, total
from wardround.memory.entries import Entry
from wardround.memory.experience import Kind, Subject, normal_name
from wardround.memory.graph import GraphReader
from wardround.memory.keys import Key
from wardround.memory.similarity import inverse_document_frequency
from wardround.memory.state import SERVABLE_SPLITS, BankState

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
        return total(
            choice.withheld(len(choice.of_subject(self.subject)), counts_evaluated=self.state.evaluates)
            for choice in self.choices.values()
        )

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
        served = (
            (entry, score)
            for start in range(0, len(matches), at_once)
            for entry, score in self._entries(matches[start : start + at_once])
            if self.serves(entry)
        )
        return dict(islice(served, pool))

    def _entries(self, matches: Sequence[tuple[int, float]]) -> list[tuple[Entry, float]]:
        known = self.state.standing(revision for revision, _ in matches)
        return [(known[revision], score) for revision, score in matches if revision in known]

    def by_vector(self, key: Key, pool: int) -> dict[Entry, float]:
        rows = self.state.rows
        if not self._has_keys:
            return {}
        self.state.check_key(key)
        penalty = np.maximum.reduce([choice.penalty(rows) for choice in self.choices.values()])
        found: dict[Entry, float] = {}
        near = self.state.nearest(key.vector, penalty, [], pool, most_threaded=0)
        entries = self.state.at_places(place for place, _ in near)
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
            known = self.state.named(chain.from_iterable(together))
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
