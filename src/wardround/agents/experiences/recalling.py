"""What an agent may have of a bank: a search that knows whom it is for. Nothing here writes, and nothing sees a target.

The bank's own guards keep back what came from the same patient or from outside training; what they kept back, and what
was served, is noted in the episode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wardround.agents.experiences.asked_case import case_before
from wardround.agents.experiences.served import served_text
from wardround.agents.loop.agent import Hooks
from wardround.agents.loop.episode import Episode
from wardround.core import Sealed, unsealed
from wardround.memory import BankReader, Experience, Key, Kind, Recall, Subject
from wardround.models import Model
from wardround.retrieval import Encoder

_FOR_THE_ACTOR: tuple[Kind, ...] = ("actor", "reasoning")
_PINNED_SHARE = 0.15
"""The most of the actor's room that experiences may take: nothing removes them from there."""


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
    """A bank to read, and the encoder that its keys were made with. ``masks`` says of an episode, an experience
    and whether it is barred, whether it is held back by chance, where a training stream finds out what it does.
    ``serves`` says whether a task is served at all: held-out evidence may be against it. ``retriever`` is the model
    that walks its graph, where that is not the one that plays. ``served_tokens`` bounds what a graph or a peer gives an
    episode."""

    bank: ReadableBank
    encoder: Encoder
    masks: Callable[[str, str, bool], bool] | None = None
    serves: Callable[[str], bool] = lambda task: True
    retriever: Model | None = None
    served_tokens: int | None = None

    def pinned_room(self, room: int) -> int:
        """The most tokens that are pinned out of an actor's room: nothing removes them from there."""
        share = int(room * PINNED_SHARE)
        return share if self.served_tokens is None else min(share, self.served_tokens)

    def close(self) -> None:
        """Close the bank's file, where it holds one open."""
        if isinstance(self.bank, BankReader):
            self.bank.close()


class Recalling(Hooks):
    """Before the first turn: fetch experiences of some kinds by the case, pin those that are meant for the actor.

    An episode's agent has its hooks, so the memory, in which other people's experiences lie, is sealed.
    ``k``: episodes (top-1 by default); ``advice``: pieces per tool. Only experiences of the same task are asked for.
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

    def _said_once(self, found: Sequence[Experience], subject: Subject) -> tuple[Experience, ...]:
        bank = unsealed(self._memory).bank
        return bank.said_once(found, subject) if isinstance(bank, BankReader) else tuple(found)

    def _search(self, episode: Episode, key: Key, kind: Kind, subject: Subject) -> None:
        task = episode.task or None
        found = unsealed(self._memory).bank.search(key, kind=kind, for_subject=subject, k=self._k, task=task)
        episode.lessons[kind] = self._said_once(found.experiences, subject)
        episode.recorder.note("experiences", {"kind": kind, "task": episode.task, "k": self._k, **found.facts()})

    def _recall(self, episode: Episode, subject: Subject) -> None:
        task = episode.task or None
        advice: list[Experience] = []
        for schema in episode.schemas:
            found = unsealed(self._memory).bank.recall(
                kind="tool", for_subject=subject, limit=self._advice, task=task, tool=schema.name
            )
            advice += self._said_once(found.experiences, subject)
            if found.matches or any(found.withheld.values()):
                detail = {"kind": "tool", "tool": schema.name, "task": episode.task, **found.facts()}
                episode.recorder.note("experiences", detail)
        episode.lessons["tool"] = tuple(advice)
