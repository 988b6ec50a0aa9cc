"""The hook that puts evidence before an agent's first turn: what is retrieved, in how many rounds, from which sides.

Every retrieval method is this hook under other settings, and any agent can have it in front of its own hooks.
"""

from __future__ import annotations

from dataclasses import dataclass

from wardround.agents.evidence.chart_search import ChartSearch, Way
from wardround.agents.evidence.evidence import Evidence
from wardround.agents.loop.agent import Hooks
from wardround.agents.loop.episode import Episode
from wardround.agents.methods.air import iterate
from wardround.agents.methods.der import argue, decision_text, sides
from wardround.agents.methods.ether import numeric_evidence

_ONE_PATH = "for the question"
BESIDE_TOOLS = 0.35
"""The share of the free room that evidence takes from an agent that goes on to read with tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to gather. ``way``: one retrieval of passages. ``numeric``: trajectories of chosen indicators too.
    ``rounds``: None for as many as the settings say. ``two_sides``: for and against, each argued, then weighed."""

    way: Way
    numeric: bool = False
    rounds: int | None = 1
    two_sides: bool = False


class Gathering(Hooks):
    """Gathers evidence once, before the first turn, and pins it."""

    def __init__(self, recipe: Recipe, *, share: float | None = None) -> None:
        self._recipe = recipe
        self._share = share

    async def before_episode(self, episode: Episode) -> None:
        """Retrieve, argue if there are two sides, pin. Of a case told in words there is nothing to retrieve."""
        if episode.environment.told is not None:
            return
        search = await ChartSearch.open(episode, share=self._share)
        numbers = await numeric_evidence(search) if self._recipe.numeric else Evidence()
        if self._recipe.two_sides:
            await self._both_sides(search, numbers)
        else:
            found = await self._path(search, search.question.factual_query, _ONE_PATH, numbers)
            search.pin(found.joined(numbers))

    async def _both_sides(self, search: ChartSearch, numbers: Evidence) -> None:
        arguments, fused = [], Evidence()
        for side in sides(search.question):
            found = await self._path(search, side.query, side.path, numbers)
            arguments.append(await argue(search, side, found.joined(numbers)))
            fused = fused.joined(found)
        search.pin(fused.joined(numbers), then=decision_text(search.question, *arguments))

    async def _path(self, search: ChartSearch, query: str, path: str, numbers: Evidence) -> Evidence:
        rounds = search.settings.rounds if self._recipe.rounds is None else self._recipe.rounds
        return await iterate(search, query, way=self._recipe.way, rounds=rounds, path=path, beside=numbers)
