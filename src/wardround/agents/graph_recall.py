"""Recall through the bank's graph: seeds, a walk by rule or by the model, and the hook that runs both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from wardround.agents.loop.episode import Episode, prompt_text
from wardround.agents.loop.loop import AgentSpec, Hooks
from wardround.agents.loop.side_reader import SideReader
from wardround.agents.recall import Memory, read_case_query
from wardround.core import Sealed, UserError, load_prompt, unsealed
from wardround.memory import (
    ACTIONS,
    GRAPH_PROMPT,
    POLARITIES,
    BankReader,
    Experience,
    GraphCase,
    GraphRecallSettings,
    Neighbour,
    OfferedExperience,
    PathEnd,
    RecallQuestion,
    Traversal,
    recall_by_graph,
    render_offered,
)
from wardround.models import Model, read_value
from wardround.models.schema import object_schema

# The walk of the GSEM paper: a model decides at every step, shown one experience and its candidates' conditions.
#
# Every step is one short prompt of its own, so that what a step costs does not grow with the walk. A reply that names
# no possible action, twice, ends its path and is noted.


_REPLY_TOKENS = 512
_SCHEMA = object_schema(
    {"action": {"type": "string", "enum": list(ACTIONS)}, "target": {"type": "string"}}, optional=("target",)
)


class ModelWalk:
    """One retrieval by a model, ``retriever`` or the agent's own. ``description`` describes the case if the question
    does not."""

    def __init__(self, episode: Episode, case: GraphCase, *, description: str, retriever: Model | None = None) -> None:
        self._episode = episode
        self._case = case
        self._description = description
        self._beside = SideReader(episode, role="walker", system=prompt_text("gsem.system"), model=retriever)
        self.unreadable = 0

    async def run(self, seeds: dict[str, float]) -> tuple[Traversal, tuple[OfferedExperience, ...]]:
        """Walk until every path has stopped or a limit is reached; return what was collected."""
        walking = Traversal(self._case.graph, self._case.judge, self._case.settings.walk)
        walking.start(seeds)
        while (place := walking.next_place()) is not None:
            step = await self._step(place)
            self._episode.recorder.note("walk", {"at": place.experience, "seed": place.seed, **step})
            walking.act(place, step["action"], step.get("target", ""))
        return walking, self._offered(walking)

    async def _step(self, place: PathEnd) -> dict[str, Any]:
        """Return the model's action at a place: STOP if the reply cannot be read. Without a choice, the model is not
        called."""
        if tuple(place.actions) == ("STOP",):
            return {"action": "STOP"}
        written = await self._beside.ask(
            self._instruction(place),
            purpose="walk",
            limit_tokens=_REPLY_TOKENS,
            flaw=lambda text: _impossible(place, *read_value(text, _SCHEMA)),
        )
        if written.problem is not None:
            self.unreadable += 1
            return {"action": "STOP", "problem": written.problem}
        value, _ = read_value(written.text, _SCHEMA)
        return {name: value[name] for name in ("action", "target") if name in value}

    def _instruction(self, place: PathEnd) -> str:
        here = self._case.experience(place.experience)
        prompt = load_prompt("wardround.agents", "gsem.walk")
        return prompt.render(
            case=self._description,
            here=here,
            collected=list(place.collected),
            forward=self._conditions(place.forward),
            backward=self._conditions(place.backward),
            actions=list(place.actions),
            stop_ends=self._case.settings.walk.stop,
        )

    def _conditions(self, candidates: tuple[Neighbour, ...]) -> list[Experience]:
        return [self._case.experience(candidate.experience) for candidate in candidates]

    def _offered(self, walking: Traversal) -> tuple[OfferedExperience, ...]:
        graph = self._case.graph
        found = []
        for name, path in walking.collected.items():
            quality = graph.quality(name)
            why = f"collected by the model at {' > '.join(path)}"
            found.append((name, 0.5 if quality is None else quality, why))
        if self._case.settings.order == "score":
            found.sort(key=lambda one: (-one[1], one[0]))
        return self._case.offered(found)


def _impossible(place: PathEnd, value: dict[str, Any], broken: str | None) -> str:
    """Return why a reply is ``broken``, or why its action is impossible at a place; empty if it is possible."""
    if broken is not None:
        return broken
    action, target = value["action"], value.get("target", "")
    if action not in place.actions:
        return f"{action} is not possible here; possible are {', '.join(place.actions)}"
    ways = {"EXPLORE": place.forward, "BACKTRACK": place.backward}
    if action in ways and target not in {neighbour.experience for neighbour in ways[action]}:
        return f"{action} needs a target out of {', '.join(neighbour.experience for neighbour in ways[action])}"
    return ""


# The hook that puts experiences of a bank's graph before an agent's first turn: recalled, walked to, checked, pinned.
#
# ``beam`` walks by rule and asks no model; ``model`` walks as in the GSEM paper. The case is the episode's question
# and, where there is one, its chart; nothing here sees a target.


Walker = Literal["beam", "model"]


def graph_prompts(walker: Walker) -> tuple[str, ...]:
    """Return the templates that a walker may send to a model."""
    return (f"memory/{GRAPH_PROMPT}", *(("gsem",) if walker == "model" else ()))


def with_graph(agent: AgentSpec, memory: Memory, walker: Walker, settings: GraphRecallSettings) -> AgentSpec:
    """Return an agent that reads experiences of a bank's graph before its first turn."""
    recollection = partial(GraphRecalling, Sealed(memory), walker=walker, settings=settings)
    prompts = (*agent.prompts, *graph_prompts(walker))
    return replace(agent, hooks=(recollection, *agent.hooks), prompts=prompts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """One episode's query of the bank: the subject, the findings, the question."""

    case: GraphCase
    question: RecallQuestion
    description: str


class GraphRecalling(Hooks):
    """Recall through the graph before the first turn, pin the served experiences, and note the reasons."""

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
            offered = tuple(experience for experience in offered if experience.experience.id in shown)
            served = replace(
                render_offered(offered, max_tokens=room, count=episode.counter.count), left_out=served.left_out
            )
        episode.recorder.note("experiences", detail)
        for kind in POLARITIES:
            episode.lessons[kind] = tuple(
                experience.experience for experience in offered if experience.experience.kind == kind
            )
        if served.left_out:
            episode.recorder.note("experiences_left_out", {"turn": episode.turn, "kind": "graph", **served.facts()})
        if served.text:
            episode.pin(served.text)

    async def _by_beam(self, episode: Episode, asking: _Asking) -> tuple[tuple[OfferedExperience, ...], dict[str, Any]]:
        found = await asyncio.to_thread(recall_by_graph, asking.case, asking.question)
        return found.offered, found.facts()

    async def _by_model(
        self, episode: Episode, asking: _Asking
    ) -> tuple[tuple[OfferedExperience, ...], dict[str, Any]]:
        recall, seeds = await asyncio.to_thread(asking.case.seeds, asking.question)
        retriever = unsealed(self._memory).retriever
        walk = ModelWalk(episode, asking.case, description=asking.description, retriever=retriever)
        walking, offered = await walk.run(seeds)
        facts = {
            "served": [experience.facts() for experience in offered],
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
        query = read_case_query(episode, unsealed(self._bank), unsealed(self._memory).encoder)
        task = episode.task if self._settings.same_task else ""
        masks = unsealed(self._memory).masks
        return _Asking(
            case=GraphCase(
                unsealed(self._bank),
                query.subject,
                query.findings,
                self._settings,
                task or None,
                quality_task=episode.task,
                retest=None if masks is None else (lambda name: not masks(episode.id, name, True)),
            ),
            question=query.question,
            description=query.description,
        )


def _of_a_trial(
    detail: Mapping[str, Any], shown: Sequence[str], masked: Sequence[str], retested: Sequence[str]
) -> dict[str, Any]:
    """Return the notes of a recall whose experiences coins may mask.

    An experience that does not fit has no coin, since it would not be shown either way. A barred experience has its
    coin before the recall, and the next best takes its place.
    """
    served = [one for one in detail["served"] if one["id"] in shown]
    return {**detail, "served": served, "masked": list(masked), "retested": list(retested)}
