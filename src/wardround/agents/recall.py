"""Experiences for an episode: recall them from a bank, adapt them, render them for the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from wardround.agents.loop.episode import Episode, prompt_text
from wardround.agents.loop.loop import AgentSpec, Hooks
from wardround.agents.loop.side_reader import SideReader
from wardround.core import Sealed, UserError, unsealed
from wardround.memory import (
    GRAPH_PROMPT,
    Experience,
    Findings,
    Key,
    Kind,
    KnownCase,
    OfferedExperience,
    Recall,
    RecallQuestion,
    Subject,
    known_case,
    render_experiences,
    render_offered,
    scope_of,
    text_key,
)
from wardround.memory.peer import PEERS, PeerCase, PeerSettings
from wardround.memory.reading import BankReader
from wardround.models import Model, read_value
from wardround.models.schema import object_schema
from wardround.tools.retrieval import Encoder

# What an episode asks a memory with: whose case it is, its question and what its record looks like. Sees no target.


_CASE_TOKENS = 600
"""How much of a chart's recent events tells what case it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseQuery:
    """One episode's query of a bank. ``description`` is the part of the record that the question does not state."""

    subject: Subject
    findings: Findings
    question: RecallQuestion
    description: str


def read_case_query(episode: Episode, bank: BankReader, encoder: Encoder) -> CaseQuery:
    """Read the case from its chart, or from its text. Blocks. Raises UserError without either."""
    case = case_before(episode)
    description = case.description(_CASE_TOKENS)
    text = f"{episode.history.prompt[1].content or ''}\n{description}"
    return CaseQuery(
        subject=case.subject,
        findings=case.findings(),
        question=RecallQuestion(text=text, key=_key(bank, encoder, text)),
        description=description,
    )


def case_before(episode: Episode) -> KnownCase:
    """Return the case of an episode. Raises UserError without a chart and without a text case."""
    case = known_case(episode.environment.chart, episode.environment.text_case)
    if case is None:
        raise UserError(f"agent {episode.agent.name!r} finds experiences by the chart, and this environment has none")
    return case


def _key(bank: BankReader, encoder: Encoder, text: str) -> Key | None:
    """Return the vector of a text, if the bank has vectors to compare it with."""
    return None if bank.encoder is None else text_key(encoder, text)


# ReMe's last step: a model ranks what was recalled and rewrites it for the case. One call; where its reply cannot be
# used, the notes stay as they were recalled.


_REPLY_TOKENS = 2_048
_ADVICE = object_schema({"lesson": {"type": "integer"}, "advice": {"type": "string", "minLength": 1, "maxLength": 800}})
_SCHEMA = {"type": "array", "items": _ADVICE}


async def adapted(episode: Episode, notes: Sequence[Experience], description: str) -> list[Experience]:
    """Return the notes as a model wants them shown: a selection, in its order, in its words. The log notes the
    changes."""
    beside = SideReader(episode, role="adapter", system=prompt_text("peers.system"))
    instruction = prompt_text("peers.adapt", description=description, lessons=list(notes))
    written = await beside.ask(instruction, purpose="adapt", limit_tokens=_REPLY_TOKENS, flaw=_broken)
    if written.problem is not None:
        episode.recorder.note("not_adapted", {"problem": written.problem})
        return list(notes)
    chosen = _chosen(read_value(written.text, _SCHEMA)[0], notes)
    episode.recorder.note("adapted", {"ids": [note.id for note in chosen]})
    return chosen


def _broken(text: str) -> str:
    return read_value(text, _SCHEMA)[1] or ""


def _chosen(choices: Sequence[dict[str, Any]], notes: Sequence[Experience]) -> list[Experience]:
    """Return the notes by their numbers, each once, in new words."""
    numbered = dict(enumerate(notes, start=1))
    advice = {choice["lesson"]: choice["advice"] for choice in reversed(choices) if choice["lesson"] in numbered}
    order = dict.fromkeys(choice["lesson"] for choice in choices if choice["lesson"] in numbered)
    return [replace(numbered[number], content=advice[number]) for number in order]


# Experiences that were retrieved for an episode, as the block of text that goes into one of its prompts.


def served_text(episode: Episode, kind: Kind, *, share: float, tools: frozenset[str] | None = None) -> str:
    """Return the experiences of a kind within a share of the actor's room, empty if there are none.

    ``tools`` keeps the advice on these only. What did not fit is noted.
    """
    experiences = [
        experience for experience in episode.lessons.get(kind, ()) if tools is None or experience.tool in tools
    ]
    served = render_experiences(
        _interleaved(experiences) if kind == "tool" else experiences,
        max_tokens=int(episode.room() * share),
        count=episode.counter.count,
    )
    if served.left_out:
        episode.recorder.note("experiences_left_out", {"turn": episode.turn, "kind": kind, **served.facts()})
    return served.text


def _interleaved(experiences: list[Experience]) -> list[Experience]:
    """Order advice so that every tool's best piece comes before any tool's second."""
    seen: dict[str, int] = {}
    places = []
    for experience in experiences:
        places.append(seen.setdefault(experience.tool, 0))
        seen[experience.tool] += 1
    order = sorted(range(len(experiences)), key=lambda index: (places[index], index))
    return [experiences[index] for index in order]


# What an agent may have of a bank: a search that knows whom it is for. Nothing here writes, and nothing sees a target.
#
# The bank's own guards keep back what came from the same patient or from outside training; what they kept back, and
# what was served, is noted in the episode.


_FOR_THE_ACTOR: tuple[Kind, ...] = ("actor", "reasoning")
_PINNED_SHARE = 0.15
"""The largest share of the actor's room for experiences: nothing removes them later."""


class ReadableBank(Protocol):
    """The part of a bank that may be read; ``memory.Bank``, ``PinnedBank`` and ``BankState`` are such."""

    def search(self, key: Key, *, kind: Kind, for_subject: Subject, k: int = 1, task: str | None = None) -> Recall:
        """Return the experiences behind the nearest keys."""
        ...

    def recall(
        self, *, kind: Kind, for_subject: Subject, limit: int, task: str | None = None, tool: str | None = None
    ) -> Recall:
        """Return the best scored experiences, without a key."""
        ...


PINNED_SHARE = 0.2
"""The most of the actor's room that experiences before the first turn may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A bank to read, and the encoder of its keys.

    ``masks(episode, experience, is_barred)`` returns whether chance hides an experience, in a training stream that
    measures its effect. ``serves`` returns whether a task is served at all: held-out evidence may be against it.
    ``retriever`` is the model that walks the graph, if it is not the agent's. ``served_tokens`` limits what a graph or
    a peer serves to an episode.
    """

    bank: ReadableBank
    encoder: Encoder
    masks: Callable[[str, str, bool], bool] | None = None
    serves: Callable[[str], bool] = lambda task: True
    retriever: Model | None = None
    served_tokens: int | None = None

    def pinned_room(self, room: int) -> int:
        """Return the most tokens that are pinned in an actor's room; nothing removes pinned tokens."""
        share = int(room * PINNED_SHARE)
        return share if self.served_tokens is None else min(share, self.served_tokens)

    def close(self) -> None:
        """Close the bank's file, where it holds one open."""
        if isinstance(self.bank, BankReader):
            self.bank.close()


class Recalling(Hooks):
    """Before the first turn: fetch experiences of some kinds for the case, and pin those for the actor.

    The agent can reach its hooks, so the memory, which contains other patients' experiences, is sealed.
    ``k``: episodes (top-1 by default); ``advice``: pieces per tool. Only experiences of the same task are fetched.
    """

    def __init__(self, memory: Sealed[Memory], *, kinds: Sequence[Kind], k: int, advice: int) -> None:
        self._memory = memory
        self._kinds = tuple(kinds)
        self._k = k
        self._advice = advice

    async def before_episode(self, episode: Episode) -> None:
        """Fetch, note, pin."""
        if not unsealed(self._memory).serves(episode.task):
            episode.recorder.note("gate_closed", {"task": episode.task})
            return
        case = await asyncio.to_thread(case_before, episode)
        subject = case.subject
        keyed = [kind for kind in self._kinds if kind != "tool"]
        if keyed:
            key = await asyncio.to_thread(case.key, unsealed(self._memory).encoder)
            for kind in keyed:
                self._search(episode, key, kind, subject)
        if "tool" in self._kinds:
            self._recall(episode, subject)
        for pinned in _FOR_THE_ACTOR:
            text = served_text(episode, pinned, share=_PINNED_SHARE) if pinned in self._kinds else ""
            if text:
                episode.pin(text)

    def _without_duplicates(self, found: Sequence[Experience], subject: Subject) -> tuple[Experience, ...]:
        bank = unsealed(self._memory).bank
        return bank.without_duplicates(found, subject) if isinstance(bank, BankReader) else tuple(found)

    def _search(self, episode: Episode, key: Key, kind: Kind, subject: Subject) -> None:
        task = episode.task or None
        found = unsealed(self._memory).bank.search(key, kind=kind, for_subject=subject, k=self._k, task=task)
        episode.lessons[kind] = self._without_duplicates(found.experiences, subject)
        episode.recorder.note("experiences", {"kind": kind, "task": episode.task, "k": self._k, **found.facts()})

    def _recall(self, episode: Episode, subject: Subject) -> None:
        task = episode.task or None
        advice: list[Experience] = []
        for schema in episode.schemas:
            found = unsealed(self._memory).bank.recall(
                kind="tool", for_subject=subject, limit=self._advice, task=task, tool=schema.name
            )
            advice += self._without_duplicates(found.experiences, subject)
            if found.matches or any(found.withheld.values()):
                detail = {"kind": "tool", "tool": schema.name, "task": episode.task, **found.facts()}
                episode.recorder.note("experiences", detail)
        episode.lessons["tool"] = tuple(advice)


# The hook that puts one named experience before an agent's first turn: how reliable it is, is found out so.


def with_experience(agent: AgentSpec, experience: Experience) -> AgentSpec:
    """Return an agent that is shown one experience, whoever its patient is."""
    hook = partial(Injecting, experience)
    return replace(agent, hooks=(hook, *agent.hooks), prompts=(*agent.prompts, f"memory/{GRAPH_PROMPT}"))


class Injecting(Hooks):
    """Before the first turn: pin the experience as a graph's are pinned, and note it."""

    def __init__(self, experience: Experience) -> None:
        self._experience = experience

    async def before_episode(self, episode: Episode) -> None:
        """Check its scope against the chart, or against the words that tell the case; pin it."""
        scope = scope_of(self._experience, case_before(episode).findings())
        offered = OfferedExperience(experience=self._experience, scope=scope, score=1.0, quality=None, why="injected")
        episode.recorder.note("experiences", {"kind": "injected", "served": [offered.facts()]})
        episode.lessons[self._experience.kind] = (self._experience,)
        episode.pin(render_offered((offered,), count=episode.counter.count).text)


# The hook that puts what a peer's memory remembers before an agent's first turn: k texts, pinned and noted.


def with_peer(agent: AgentSpec, memory: Memory, peer: str, settings: PeerSettings) -> AgentSpec:
    """Return an agent that reads the notes of a peer's memory before its first turn."""
    recollection = partial(PeerRecalling, Sealed(memory), peer=peer, settings=settings)
    prompts = ("memory/served_note", *(("peers",) if PEERS.get(peer).adapted and settings.adapt else ()))
    return replace(agent, hooks=(recollection, *agent.hooks), prompts=(*agent.prompts, *prompts))


class PeerRecalling(Hooks):
    """Before the first turn: ask the peer's reader, pin the first that fit, note what came and why."""

    def __init__(self, memory: Sealed[Memory], *, peer: str, settings: PeerSettings) -> None:
        bank = unsealed(memory).bank
        if not isinstance(bank, BankReader):
            raise UserError(f"{peer} reads a bank of its own, and this memory is none; open the bank itself")
        self._bank = Sealed[BankReader](bank)
        self._memory = memory
        self._peer = PEERS.get(peer)
        self._settings = settings

    async def before_episode(self, episode: Episode) -> None:
        """Recall, note, pin."""
        if not unsealed(self._memory).serves(episode.task):
            episode.recorder.note("gate_closed", {"task": episode.task})
            return
        notes, facts, description = await asyncio.to_thread(self._recalled, episode)
        room = unsealed(self._memory).pinned_room(episode.room())
        served = render_experiences(notes, max_tokens=room, count=episode.counter.count)
        if notes and self._peer.adapted and self._settings.adapt:
            notes = await adapted(episode, [note for note in notes if note.id in served.shown], description)
            served = render_experiences(notes, max_tokens=room, count=episode.counter.count)
        facts["served"] = [one for one in facts["served"] if one["id"] in served.shown]
        episode.recorder.note("experiences", {**facts, "tokens": served.tokens})
        episode.lessons["note"] = tuple(note for note in notes if note.id in served.shown)
        if served.left_out:
            episode.recorder.note("experiences_left_out", {"turn": episode.turn, "kind": "note", **served.facts()})
        if served.text:
            episode.pin(served.text)

    def _recalled(self, episode: Episode) -> tuple[list[Experience], dict[str, Any], str]:
        """Return what the peer remembers, the notes for the log, and the description of the case. Blocks."""
        query = read_case_query(episode, unsealed(self._bank), unsealed(self._memory).encoder)
        case = PeerCase(
            peer=self._peer.name,
            bank=unsealed(self._bank),
            subject=query.subject,
            question=query.question,
            settings=self._settings,
            task=episode.task if self._settings.same_task else None,
        )
        found = self._peer.recall(case)[: self._settings.k]
        facts = {
            "kind": "note",
            "peer": self._peer.name,
            "task": episode.task,
            "served": [remembered.facts() for remembered in found],
            "withheld": dict(case.withheld),
            "bank_revision": unsealed(self._bank).revision,
        }
        return [remembered.note for remembered in found], facts, query.description
