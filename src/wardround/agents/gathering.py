"""The hook that puts evidence before an agent's first turn: what is retrieved, in how many rounds, from which sides.

Every retrieval method is this hook under other settings, and any agent can have it in front of its own hooks.
"""

from __future__ import annotations

from dataclasses import dataclass

from wardround.agents.agent import Hooks
from wardround.agents.desk import Desk, Way
from wardround.agents.episode import Episode
from wardround.agents.evidence import Evidence
from wardround.agents.indicators import numeric_evidence
from wardround.agents.iterative import iterate
from wardround.agents.opposing import argue, decision_text, sides

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
        """Retrieve, argue if there are two sides, pin."""
        desk = await Desk.open(episode, share=self._share)
        numbers = await numeric_evidence(desk) if self._recipe.numeric else Evidence()
        if self._recipe.two_sides:
            await self._both_sides(desk, numbers)
        else:
            found = await self._path(desk, desk.question.factual_query, _ONE_PATH, numbers)
            desk.pin(found.joined(numbers))

    async def _both_sides(self, desk: Desk, numbers: Evidence) -> None:
        arguments, fused = [], Evidence()
        for side in sides(desk.question):
            found = await self._path(desk, side.query, side.path, numbers)
            arguments.append(await argue(desk, side, found.joined(numbers)))
            fused = fused.joined(found)
        desk.pin(fused.joined(numbers), then=decision_text(desk.question, *arguments))

    async def _path(self, desk: Desk, query: str, path: str, numbers: Evidence) -> Evidence:
        rounds = desk.settings.rounds if self._recipe.rounds is None else self._recipe.rounds
        return await iterate(desk, query, way=self._recipe.way, rounds=rounds, path=path, beside=numbers)
