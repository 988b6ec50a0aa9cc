"""The hook that puts experiences of a bank's graph before an agent's first turn: recalled, walked to, checked, pinned.

``beam`` walks by rule and asks no model; ``model`` walks as in the GSEM paper. The case is the episode's question and,
where there is one, its chart; nothing here sees a target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from wardround.agents.experiences.asked_case import asked_case
from wardround.agents.experiences.model_walk import WALK_PROMPTS, ModelWalk
from wardround.agents.experiences.recalling import Memory
from wardround.agents.loop.agent import AgentSpec, Hooks
from wardround.agents.loop.episode import Episode
from wardround.core import Sealed, UserError, unsealed
from wardround.memory import (
    GRAPH_PROMPT,
    POLARITIES,
    BankReader,
    GraphCase,
    GraphRecallSettings,
    Offered,
    RecallQuestion,
    recall_by_graph,
    render_offered,
)

Walker = Literal["beam", "model"]


def graph_prompts(walker: Walker) -> tuple[str, ...]:
    """The templates a walker may put before a model."""
    return (f"memory/{GRAPH_PROMPT}", *(WALK_PROMPTS if walker == "model" else ()))


def with_graph(agent: AgentSpec, memory: Memory, walker: Walker, settings: GraphRecallSettings) -> AgentSpec:
    """An agent with experiences of a bank's graph before its first turn."""
    recollection = partial(GraphRecalling, Sealed(memory), walker=walker, settings=settings)
    prompts = (*agent.prompts, *graph_prompts(walker))
    return replace(agent, hooks=(recollection, *agent.hooks), prompts=prompts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """One episode's case before the bank: who it is, what is known, what is asked."""

    case: GraphCase
    question: RecallQuestion
    description: str


class GraphRecalling(Hooks):
    """Before the first turn: recall through the graph, pin what is served, note what came and why."""

    def __init__(self, memory: Sealed[Memory], *, walker: Walker, settings: GraphRecallSettings) -> None:
        bank = unsealed(memory).bank
        if not isinstance(bank, BankReader):
            raise UserError("a walk reads a bank's graph, and this memory has none; open the bank itself")
        self._bank = Sealed[BankReader](bank)
        self._memory = memory
        self._walker = walker
        self._settings = settings

    async def before_episode(self, episode: Episode) -> None:
        """Recall, note, pin."""
        if not unsealed(self._memory).serves(episode.task):
            episode.recorder.note("gate_closed", {"task": episode.task})
            return
        asking = await asyncio.to_thread(self._asking, episode)
        offered, facts = await (self._by_model if self._walker == "model" else self._by_beam)(episode, asking)
        room = unsealed(self._memory).pinned_room(episode.room())
        served = render_offered(offered, max_tokens=room, count=episode.counter.count)
        detail = {"kind": "graph", "walker": self._walker, "task": episode.task, **facts}
        masks = unsealed(self._memory).masks
        if masks is not None:
            retested = asking.case.retested
            tossed = [name for name in served.shown if name not in retested]
            masked = [name for name in tossed if masks(episode.id, name, False)]
            shown = [name for name in served.shown if name not in masked]
            masked += [name for name, is_shown in retested.items() if not is_shown]
            detail = _of_a_trial(detail, shown, masked, list(retested))
            offered = tuple(one for one in offered if one.experience.id in shown)
            served = replace(
                render_offered(offered, max_tokens=room, count=episode.counter.count), left_out=served.left_out
            )
        episode.recorder.note("experiences", detail)
        for kind in POLARITIES:
            episode.lessons[kind] = tuple(one.experience for one in offered if one.experience.kind == kind)
        if served.left_out:
            episode.recorder.note("experiences_left_out", {"turn": episode.turn, "kind": "graph", **served.facts()})
        if served.text:
            episode.pin(served.text)

    async def _by_beam(self, episode: Episode, asking: _Asking) -> tuple[tuple[Offered, ...], dict[str, Any]]:
        found = await asyncio.to_thread(recall_by_graph, asking.case, asking.question)
        return found.offered, found.facts()

    async def _by_model(self, episode: Episode, asking: _Asking) -> tuple[tuple[Offered, ...], dict[str, Any]]:
        recall, seeds = await asyncio.to_thread(asking.case.seeds, asking.question)
        retriever = unsealed(self._memory).retriever
        walk = ModelWalk(episode, asking.case, description=asking.description, retriever=retriever)
        walking, offered = await walk.run(seeds)
        facts = {
            "served": [one.facts() for one in offered],
            "seeds": [{"id": name, "score": score} for name, score in seeds.items()],
            "withheld": dict(recall.withheld),
            "barred": dict(asking.case.barred),
            "bank_revision": recall.revision,
            "steps": walking.steps,
            "unreadable": walk.unreadable,
        } | ({} if retriever is None else {"retriever": retriever.name})
        return offered, facts

    def _asking(self, episode: Episode) -> _Asking:
        """Read the case. Blocks."""
        asked = asked_case(episode, unsealed(self._bank), unsealed(self._memory).encoder)
        task = episode.task if self._settings.same_task else ""
        masks = unsealed(self._memory).masks
        return _Asking(
            case=GraphCase(
                unsealed(self._bank),
                asked.subject,
                asked.findings,
                self._settings,
                task or None,
                asked_task=episode.task,
                retest=None if masks is None else (lambda name: not masks(episode.id, name, True)),
            ),
            question=asked.question,
            description=asked.description,
        )


def _of_a_trial(
    detail: Mapping[str, Any], shown: Sequence[str], masked: Sequence[str], retested: Sequence[str]
) -> dict[str, Any]:
    """What is noted where coins mask some of what came. What there is no room for has no coin: it would not be shown
    either way. What is barred has its coin before it is recalled: the next best takes its place."""
    served = [one for one in detail["served"] if one["id"] in shown]
    return {**detail, "served": served, "masked": list(masked), "retested": list(retested)}
