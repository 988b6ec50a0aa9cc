"""One policy without a model, played through every door to compare what they pay.

It looks once and answers: by turns rightly, with one name too many, wrongly, never, and rightly in part after a call of
a tool that there is not. It reads the target, so it can only be played by who holds the benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.learning.world import World

_NOBODY = "Nothing of it"
_LOOK: tuple[str, Mapping[str, Any]] = ("get_table_names", {})
_MISTAKE: tuple[str, Mapping[str, Any]] = ("get_tabel_names", {"x": 1})
_LAST = 4
"""The index of the turn that begins with a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEpisode:
    """The calls of one episode. ``answer`` is what it will have answered within the world's calls; None: nothing."""

    sample: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    answer: tuple[str, ...] | None

    def to_json(self) -> dict[str, Any]:
        """Return the script for readers in other environments."""
        return {
            "sample": self.sample,
            "calls": [[name, dict(arguments)] for name, arguments in self.calls],
            "answer": None if self.answer is None else list(self.answer),
        }


def scripted_episodes(world: World, most: int) -> list[ScriptedEpisode]:
    """Return the calls of the first ``most`` samples of a world."""
    return [_episode(world, sample, number) for number, sample in enumerate(world.ids[:most])]


def played_directly(world: World, script: Sequence[ScriptedEpisode]) -> dict[str, float]:
    """Play it without a door; return the reward by sample."""
    rewards = {}
    for one in script:
        episode = world.begin(one.sample)
        for name, arguments in one.calls:
            episode.call(name, arguments)
        rewards[one.sample] = episode.reward
        episode.close()
    return rewards


def _episode(world: World, sample: str, number: int) -> ScriptedEpisode:
    target = tuple(world.samples[sample].target)
    answers = (target, (*target, _NOBODY), (_NOBODY,), None, target[:1])
    turn = number % len(answers)
    answer = answers[turn]
    look = _MISTAKE if turn == _LAST else _LOOK
    if answer is None:
        return ScriptedEpisode(sample=sample, calls=(look,) * (world.settings.calls + 1), answer=None)
    calls = (look, ("finish", {"response": list(answer)}), ("finish", {"response": list(target)}))
    return ScriptedEpisode(sample=sample, calls=calls, answer=answer)
