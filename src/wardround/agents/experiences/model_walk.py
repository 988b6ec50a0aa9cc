"""The walk of the GSEM paper: a model decides at every step, shown one experience and its candidates' conditions.

Every step is one short prompt of its own, so that what a step costs does not grow with the walk. A reply that names no
possible action, twice, ends its path and is noted.
"""

from __future__ import annotations

from typing import Any

from wardround.agents.loop.episode import Episode
from wardround.agents.loop.side_reader import SideReader, prompt_text
from wardround.core import load_prompt
from wardround.memory import ACTIONS, Experience, GraphCase, Neighbour, Offered, PathEnd, Traversal
from wardround.models import Model, read_value

WALK_PROMPTS = ("walker_system", "walk", "ask_again")
_REPLY_TOKENS = 512
_SCHEMA = {
    "type": "object",
    "properties": {"action": {"type": "string", "enum": list(ACTIONS)}, "target": {"type": "string"}},
    "required": ["action"],
}


class ModelWalk:
    """One retrieval by a model, ``retriever`` or the one that plays. ``description`` is what the case looks like, where
    the question does not tell."""

    def __init__(self, episode: Episode, case: GraphCase, *, description: str, retriever: Model | None = None) -> None:
        self._episode = episode
        self._case = case
        self._description = description
        self._beside = SideReader(episode, role="walker", system=prompt_text("walker_system"), model=retriever)
        self.unreadable = 0

    async def run(self, seeds: dict[str, float]) -> tuple[Traversal, tuple[Offered, ...]]:
        """Walk until every path has stopped or a limit is reached; return what was collected."""
        walking = Traversal(self._case.graph, self._case.judge, self._case.settings.walk)
        walking.start(seeds)
        while (place := walking.next_place()) is not None:
            step = await self._step(place)
            self._episode.recorder.note("walk", {"at": place.experience, "seed": place.seed, **step})
            walking.act(place, step["action"], step.get("target", ""))
        return walking, self._offered(walking)

    async def _step(self, place: PathEnd) -> dict[str, Any]:
        """What the model does at a place; STOP where it cannot be read, and unasked where nothing else is possible."""
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
        prompt = load_prompt("wardround.agents", "walk")
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
        return [self._case.experience(one.experience) for one in candidates]

    def _offered(self, walking: Traversal) -> tuple[Offered, ...]:
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
    """Why a reply is ``broken``, or its action cannot be done at a place; empty where it can."""
    if broken is not None:
        return broken
    action, target = value["action"], value.get("target", "")
    if action not in place.actions:
        return f"{action} is not possible here; possible are {', '.join(place.actions)}"
    ways = {"EXPLORE": place.forward, "BACKTRACK": place.backward}
    if action in ways and target not in {one.experience for one in ways[action]}:
        return f"{action} needs a target out of {', '.join(one.experience for one in ways[action])}"
    return ""
