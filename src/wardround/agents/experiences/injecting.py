"""The hook that puts one named experience before an agent's first turn: how reliable it is, is found out so."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from wardround.agents.experiences.asked_case import case_before
from wardround.agents.loop.agent import AgentSpec, Hooks
from wardround.agents.loop.episode import Episode
from wardround.memory import GRAPH_PROMPT, Experience, Offered, render_offered, scope_of


def with_experience(agent: AgentSpec, experience: Experience) -> AgentSpec:
    """An agent that is shown one experience, whoever its patient is."""
    hook = partial(Injecting, experience)
    return replace(agent, hooks=(hook, *agent.hooks), prompts=(*agent.prompts, f"memory/{GRAPH_PROMPT}"))


class Injecting(Hooks):
    """Before the first turn: pin the experience as a graph's are pinned, and note it."""

    def __init__(self, experience: Experience) -> None:
        self._experience = experience

    async def before_episode(self, episode: Episode) -> None:
        """Check its scope against the chart, or against the words that tell the case; pin it."""
        scope = scope_of(self._experience, case_before(episode).findings())
        offered = Offered(experience=self._experience, scope=scope, score=1.0, quality=None, why="injected")
        episode.recorder.note("experiences", {"kind": "injected", "served": [offered.facts()]})
        episode.lessons[self._experience.kind] = (self._experience,)
        episode.pin(render_offered((offered,), count=episode.counter.count).text)
