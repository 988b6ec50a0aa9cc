"""The hook that puts what a peer's memory remembers before an agent's first turn: k texts, pinned and noted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

from wardround.agents.experiences.adapting import ADAPT_PROMPTS, adapted
from wardround.agents.experiences.asked_case import asked_case
from wardround.agents.experiences.recalling import Memory
from wardround.agents.loop.agent import AgentSpec, Hooks
from wardround.agents.loop.episode import Episode
from wardround.core import Sealed, UserError, unsealed
from wardround.memory import BankReader, Experience, render_experiences
from wardround.memory.peers import PEERS, PeerCase, PeerSettings


def with_peer(agent: AgentSpec, memory: Memory, peer: str, settings: PeerSettings) -> AgentSpec:
    """An agent with the notes of a peer's memory before its first turn."""
    recollection = partial(PeerRecalling, Sealed(memory), peer=peer, settings=settings)
    prompts = ("memory/served_note", *(ADAPT_PROMPTS if PEERS.get(peer).adapted and settings.adapt else ()))
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
        """What the peer remembers, what is noted of it, and what the case looks like. Blocks."""
        asked = asked_case(episode, unsealed(self._bank), unsealed(self._memory).encoder)
        case = PeerCase(
            peer=self._peer.name,
            bank=unsealed(self._bank),
            subject=asked.subject,
            question=asked.question,
            settings=self._settings,
            task=episode.task if self._settings.same_task else None,
        )
        found = self._peer.recall(case)[: self._settings.k]
        facts = {
            "kind": "note",
            "peer": self._peer.name,
            "task": episode.task,
            "served": [one.facts() for one in found],
            "withheld": dict(case.withheld),
            "bank_revision": unsealed(self._bank).revision,
        }
        return [one.note for one in found], facts, asked.description
