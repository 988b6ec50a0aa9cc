"""How sure a model is: after the answer, the probability of every label given all that was read.

The labels are put to the model as the answer to the last prompt it acted on, without its own reasoning or answer, which
would make it sure of what it said. Any agent may be given this; the answer itself is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wardround.agents.loop.agent import AgentSpec, Hooks
from wardround.agents.loop.episode import Ending, Episode
from wardround.agents.method import Addition
from wardround.core import Message, ProviderError, load_prompt
from wardround.models import LabelScores, Request, score_labels

PROBABILITIES_NOTE = "probabilities"


class LabelProbabilities(Hooks):
    """Scores the labels of a question of which one holds, once, when the episode has its answer."""

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        labels = episode.answers.label_values
        if not labels or episode.answers.several:
            return False
        scores = await self._scores(episode, labels)
        found = dict(scores.probabilities) if scores.probabilities is not None else None
        detail = {"turn": episode.turn, "labels": found, "unavailable": scores.unavailable}
        episode.recorder.note(PROBABILITIES_NOTE, {name: value for name, value in detail.items() if value})
        return False

    async def _scores(self, episode: Episode, labels: tuple[str, ...]) -> LabelScores:
        asked = load_prompt("wardround.agents", "label_only").render(names=episode.answers.class_names)
        request = Request(
            messages=(*episode.last_prompt, Message(role="user", content=asked)),
            settings=replace(episode.settings, max_output_tokens=_ROOM),
            episode=episode.id,
            ordinal=episode.model_calls,
        )
        try:
            scores = await score_labels(episode.model, request, labels)
        except ProviderError as error:
            episode.model_calls += len(labels)
            return LabelScores(probabilities=None, unavailable=str(error))
        for exchange in scores.exchanges:
            episode.charge(*exchange, purpose="label")
        return scores


_ROOM = 64
"""Tokens for a label in quotes."""


def with_probabilities(agent: AgentSpec) -> AgentSpec:
    """Return the agent with the probabilities of labels noted at its answer."""
    return replace(agent, hooks=(*agent.hooks, LabelProbabilities), prompts=(*agent.prompts, "label_only"))


PROBABILITY_ADDITIONS: Mapping[str, Addition] = {
    "probabilities": Addition(
        title="with the probability of every label", give=with_probabilities, for_every_method=True
    )
}
