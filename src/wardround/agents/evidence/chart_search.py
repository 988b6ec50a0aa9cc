"""How an agent's hooks reach a chart's events: through the index that the environment has of its chart.

Searching blocks (an encoder may be a network away), so it runs off the event loop. What was asked and what came is
noted: how, for which query, which passages.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from wardround.agents.evidence.evidence import Evidence, Fitted, best_first, fit
from wardround.agents.loop.episode import Episode
from wardround.agents.loop.side_reader import Flaw, SideReader, Written, none_found, prompt_text
from wardround.agents.loop.tokens import count_message
from wardround.answers import Question
from wardround.core import Message, UserError, derive_seed
from wardround.retrieval import EvidenceIndex, Passage, RetrievalSettings

_ARGUMENT_SHARE = 0.12
_FRAME_TOKENS, _FRAME_SHARE = 300, 0.05
"""What the words around two arguments take: so many tokens, in a small room so much of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One retrieval: in which index, by which settings, for which query; ``seed`` is for those that draw."""

    index: EvidenceIndex
    settings: RetrievalSettings
    query: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to retrieve. ``find`` may leave the query aside (then ``by_query`` is false), and may block."""

    name: str
    find: Callable[[Lookup], tuple[Passage, ...]]
    by_query: bool = True


class ChartSearch:
    """One episode at work on its chart: index, question, the room for evidence, and a reader beside the actor.

    ``share`` is the part of the free room that all evidence together may take. None: all of it but what two arguments
    need, whether the method argues or not, so that every method of a table reads in one budget.
    """

    def __init__(self, episode: Episode, index: EvidenceIndex, *, share: float | None) -> None:
        self.episode = episode
        self.index = index
        self.settings = index.settings
        self.share = share
        self.question = question_of(episode)
        self.seed = derive_seed("retrieval", episode.id if episode.settings.seed is None else episode.settings.seed)
        self._system = prompt_text("searcher_system")
        self._reader = SideReader(episode, role="searcher", system=self._system)

    @classmethod
    async def open(cls, episode: Episode, *, share: float | None = None) -> ChartSearch:
        """Open the environment's index of the episode's chart; reading the chart's events may block."""
        question_of(episode)
        index = await asyncio.to_thread(lambda: episode.environment.evidence)
        if index is None:
            raise UserError(f"agent {episode.agent.name!r} searches the chart, and this environment has none to search")
        search = cls(episode, index, share=share)
        (words, codes), silent = await asyncio.to_thread(lambda: (index.described, index.lines_left_out))
        search.note("chart", events=len(index), codes=codes, described=words, lines_left_out=silent)
        return search

    async def retrieve(self, way: Way, query: str, **detail: Any) -> Evidence:
        """Retrieve passages for a query and note what came."""
        lookup = Lookup(index=self.index, settings=self.settings, query=query, seed=self.seed)
        found = await asyncio.to_thread(way.find, lookup)
        evidence = Evidence(passages=best_first(found), queries=(query,) if way.by_query else ())
        asked = {"query": query} if way.by_query else {}
        ids = [passage.id for passage in evidence.passages]
        self.note("retrieval", way=way.name, **asked, passages=ids, events=evidence.events, **detail)
        return evidence

    async def ask(
        self,
        instruction: str,
        *,
        purpose: str,
        evidence: Evidence | None = None,
        flaw: Flaw = none_found,
        **detail: Any,
    ) -> Written:
        """Ask beside the actor: given the question, some evidence fitted into the room there is, and an instruction.

        It has no tools and no history; the call is recorded under ``purpose``. ``flaw``: see ``SideReader.ask``.
        """
        said = []
        if evidence is not None:
            fitted = self._fit(evidence, self._room_beside(instruction))
            said.append(self._reader.say(fitted.text or prompt_text("no_evidence")))
            self.note("evidence", role=purpose, **detail, **fitted.facts)
        limit = self.episode.limits.reply_tokens
        written = await self._reader.ask(instruction, purpose=purpose, limit_tokens=limit, flaw=flaw)
        self._reader.take_out(said)
        return written

    def room(self) -> int:
        """Return the counted tokens that are free beside the actor's prompt and what is pinned."""
        episode = self.episode
        pinned = [message for block in episode.history.visible() for message in block.messages]
        return max(0, episode.room() - self._tokens(*episode.history.prompt, *pinned))

    def argument_tokens(self) -> int:
        """Return the most that one argument may take before the actor: a share of the free room, or a whole reply."""
        return min(int(self.room() * _ARGUMENT_SHARE), self.episode.limits.reply_tokens)

    def _evidence_tokens(self) -> int:
        """Return the tokens that all evidence together may take before the actor."""
        room = self.room()
        if self.share is not None:
            return int(room * self.share)
        return room - 2 * self.argument_tokens() - min(_FRAME_TOKENS, int(room * _FRAME_SHARE))

    def pin(self, evidence: Evidence, *, then: str = "") -> None:
        """Put evidence before the actor, and a text after it; note what of the evidence is shown."""
        last = Message(role="user", content=then)
        fitted = self._fit(evidence, self.room() - (self._tokens(last) if then else 0))
        for text in filter(None, (fitted.text, then)):
            self.episode.pin(text)
        self.note("evidence", role="actor", **fitted.facts)

    def _fit(self, evidence: Evidence, most: int) -> Fitted:
        limit = max(0, min(self._evidence_tokens(), most))
        return fit(evidence, self.episode.counter, limit, tools=bool(self.episode.schemas))

    def _room_beside(self, instruction: str) -> int:
        """Return the tokens that evidence may take of a request beside the actor."""
        own = (Message(role="system", content=self._system), Message(role="user", content=instruction))
        return self.episode.room(()) - self._tokens(*own, *self.episode.history.prompt[1:])

    def _tokens(self, *messages: Message) -> int:
        return sum(count_message(self.episode.counter, message) for message in messages)

    def note(self, kind: str, **detail: Any) -> None:
        """Note something in the episode."""
        self.episode.recorder.note(kind, {"turn": self.episode.turn, **detail})


def question_of(episode: Episode) -> Question:
    """Return the question in parts; UserError where the task has none."""
    if episode.question is None:
        raise UserError(f"agent {episode.agent.name!r} searches with the task's queries, and this task has none")
    return episode.question


def _at_random(lookup: Lookup) -> tuple[Passage, ...]:
    """Return chunks drawn at random in a random order: where not all fit, those that do are random too."""
    drawn = lookup.index.uniform(lookup.settings.top_passages, lookup.seed)
    order = list(range(len(drawn)))
    Random(derive_seed(lookup.seed, "order")).shuffle(order)
    return tuple(drawn[place] for place in order)


def _by_code(lookup: Lookup) -> tuple[Passage, ...]:
    """Return the commonest events with a passage per code: where not all fit, the commonest codes do."""
    index = lookup.index
    columns, held = index.columns, defaultdict(list)
    for row in index.frequent_events(lookup.settings.recent_events).rows:
        held[columns.codes[columns.concept[row]]].append(row)
    return tuple(index.passage(rows, score=float(len(rows))) for rows in held.values())


def _recent(lookup: Lookup) -> tuple[Passage, ...]:
    return (lookup.index.recent_events(lookup.settings.recent_events),)


def _nearest(lookup: Lookup) -> tuple[Passage, ...]:
    return lookup.index.nearest(lookup.query, lookup.settings.top_passages)


def _nearest_few(lookup: Lookup) -> tuple[Passage, ...]:
    return lookup.index.nearest(lookup.query, lookup.settings.final)


def _text_evidence(lookup: Lookup) -> tuple[Passage, ...]:
    return lookup.index.text_evidence(lookup.query, lookup.settings.final)


RECENT = Way(name="recent", find=_recent, by_query=False)
FREQUENT = Way(name="frequent", find=_by_code, by_query=False)
UNIFORM = Way(name="uniform", find=_at_random, by_query=False)
NEAREST = Way(name="nearest", find=_nearest)
"""Chunks of all events, as many as vanilla RAG takes at once."""
NEAREST_FEW = Way(name="nearest few", find=_nearest_few)
"""The same, as many as one of several rounds takes."""
TEXT_EVIDENCE = Way(name="ether", find=_text_evidence)
"""The text side of ETHER: chunks of the events without a number, by likeness and time (eq. 2-3)."""
