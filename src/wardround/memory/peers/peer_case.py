"""One case before a peer's memory: the ways to look for notes, all under the bank's guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.memory.candidates import RecallQuestion
from wardround.memory.experience import Experience, Kind, Subject
from wardround.memory.peers.settings import PeerSettings
from wardround.memory.reading import BankReader
from wardround.memory.recall import SeedSettings
from wardround.retrieval.lexical import is_lexical_identity

POOL = 50
"""How many notes each way of looking gives."""
_RANK_CONSTANT = 60
_WORDS = SeedSettings(k=POOL, pool=POOL, lexical=1.0, dense=0.0, entity=0.0)
_STAND_IN = SeedSettings(k=POOL, pool=POOL, entity=0.0)
_VECTOR = SeedSettings(k=POOL, pool=POOL, lexical=0.0, dense=1.0, entity=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A note for one case, and how it came."""

    note: Experience
    score: float
    why: str

    def facts(self) -> dict[str, Any]:
        """What an episode's log notes of it."""
        return {"id": self.note.id, "score": round(self.score, 6), "why": self.why}


@dataclass(slots=True, kw_only=True)
class PeerCase:
    """A question for a subject to a peer's notes; ``task``: only those of that task. What comes has passed guards."""

    peer: str
    bank: BankReader
    subject: Subject
    question: RecallQuestion
    settings: PeerSettings
    task: str | None = None
    withheld: Mapping[str, int] = field(default_factory=dict, init=False)
    revision: int = field(default=0, init=False)
    _fetch: Callable[[str], Experience | None] = field(init=False)

    def __post_init__(self) -> None:
        self._fetch = self.bank.served_to(self.subject, kinds=("note",), task=self.task, tool=self.peer)

    def by_words(self) -> list[Remembered]:
        """Notes by BM25, best first."""
        return self._found(replace(self.question, key=None, entities=()), _WORDS, "words")

    def by_meaning(self) -> list[Remembered]:
        """Notes by the similarity of their vectors, best first; none where the bank has no vectors.

        Vectors of hashed words stand in for an encoder that learnt what texts mean: where they are all there is, words
        lead and vectors follow, as in the recall of a graph (nDCG@10 on MedQuAD 0.54 by such vectors, 0.89 so).
        """
        if self.question.key is None:
            return []
        if is_lexical_identity(self.question.key.encoder):
            return self._found(replace(self.question, entities=()), _STAND_IN, "words and vector")
        return self._found(replace(self.question, text="", entities=()), _VECTOR, "vector")

    def note(self, name: str) -> Experience | None:
        """A note by its id; None where it may not be served for this case."""
        return self._fetch(name)

    def linked(self, name: str) -> list[tuple[Experience, float]]:
        """The notes that a note is linked to and that may be served, strongest link first."""
        edges = sorted(self.bank.graph().edges(name), key=lambda edge: (-edge.weight, edge.target))
        found = [(self._fetch(edge.target), edge.weight) for edge in edges]
        return [(note, weight) for note, weight in found if note is not None]

    def _found(self, question: RecallQuestion, settings: SeedSettings, way: str) -> list[Remembered]:
        kinds: tuple[Kind, ...] = ("note",)
        recall = self.bank.seeds(
            question, for_subject=self.subject, kinds=kinds, task=self.task, tool=self.peer, settings=settings
        )
        self.withheld, self.revision = recall.withheld, recall.revision
        return [
            Remembered(note=one.experience, score=one.score, why=f"{way} {one.score:.2f}")
            for one in recall.seeds
            if one.score > 0
        ]


def fused(rankings: Sequence[Sequence[Remembered]]) -> list[Remembered]:
    """Rankings as one by reciprocal ranks (Cormack et al., 2009): the sum of 1 / (60 + rank), equals by id."""
    scores: dict[str, float] = {}
    ways: dict[str, list[str]] = {}
    notes: dict[str, Experience] = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, start=1):
            name = one.note.id
            notes[name] = one.note
            scores[name] = scores.get(name, 0.0) + 1 / (_RANK_CONSTANT + rank)
            ways.setdefault(name, []).append(f"{one.why} (rank {rank})")
    order = sorted(scores, key=lambda name: (-round(scores[name], 12), name))
    return [Remembered(note=notes[name], score=scores[name], why=", ".join(ways[name])) for name in order]
