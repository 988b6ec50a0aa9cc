"""Experiences as the block of text in a prompt, plain or through the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import PromptFile, UserError, estimate_tokens, load_prompt
from wardround.memory.experience import KINDS, Experience
from wardround.memory.graph_recall import OfferedExperience
from wardround.memory.material import Count
from wardround.memory.scope import CheckedPhrase

SERVED_PROMPTS = tuple(f"served_{kind}" for kind in KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedText:
    """A block of served experiences. ``text`` may be empty. ``left_out`` are the ids that did not fit."""

    text: str
    tokens: int
    shown: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    prompt: PromptFile | None = None

    def facts(self) -> dict[str, Any]:
        """Return what the log of an episode notes about this text."""
        return {"shown": list(self.shown), "left_out": list(self.left_out), "tokens": self.tokens}


def render_experiences(
    experiences: Sequence[Experience], *, max_tokens: int | None = None, count: Count = estimate_tokens
) -> ServedText:
    """Write experiences of one kind as a prompt block; the last ones are left out whole where ``max_tokens`` is short.

    Raises UserError when kinds are mixed: each has its own place in a prompt.
    """
    kinds = {experience.kind for experience in experiences}
    if len(kinds) > 1:
        raise UserError(f"experiences of one kind go into one block, not {', '.join(sorted(kinds))}")
    if not experiences:
        return ServedText(text="", tokens=0, shown=())
    prompt = load_prompt("wardround.memory", f"served_{kinds.pop()}")
    for number in range(len(experiences), 0, -1):
        text = prompt.render(items=experiences[:number])
        tokens = count(text)
        if max_tokens is None or tokens <= max_tokens:
            return ServedText(
                text=text,
                tokens=tokens,
                shown=_ids(experiences[:number]),
                left_out=_ids(experiences[number:]),
                prompt=prompt,
            )
    return ServedText(text="", tokens=0, shown=(), left_out=_ids(experiences), prompt=prompt)


def _ids(experiences: Sequence[Experience]) -> tuple[str, ...]:
    return tuple(experience.id for experience in experiences)


# Experiences that came through the graph, as the block of text that goes into a prompt: polarity, condition and
# exclusions as far as they were checked, the whole text, boundaries, and conflicts where both sides are shown.


GRAPH_PROMPT = "served_graph"
_MARKS = {"holds": " [so in this record]", "fails": " [not so in this record]", "unchecked": " [not checked]"}


def render_offered(
    offered: Sequence[OfferedExperience], *, max_tokens: int | None = None, count: Count = estimate_tokens
) -> ServedText:
    """Return the prompt block of served experiences, in order. The last ones are left out whole if they do not fit."""
    prompt = load_prompt("wardround.memory", GRAPH_PROMPT)
    for number in range(len(offered), 0, -1):
        shown = offered[:number]
        text = prompt.render(items=[_item(experience, shown) for experience in shown])
        tokens = count(text)
        if max_tokens is None or tokens <= max_tokens:
            return ServedText(
                text=text, tokens=tokens, shown=_graph_ids(shown), left_out=_graph_ids(offered[number:]), prompt=prompt
            )
    return ServedText(text="", tokens=0, shown=(), left_out=_graph_ids(offered), prompt=prompt)


def _item(experience: OfferedExperience, shown: Sequence[OfferedExperience]) -> dict[str, Any]:
    numbers = {other.experience.id: number for number, other in enumerate(shown, start=1)}
    return {
        "polarity": experience.experience.kind.upper(),
        "title": experience.experience.title,
        "cases": experience.experience.facts.get("cases", 1),
        "description": experience.experience.description,
        "content": experience.experience.content,
        "condition": [_marked(phrase) for phrase in experience.scope.condition],
        "exclusions": [_marked(phrase) for phrase in experience.scope.exclusions],
        "boundaries": list(experience.boundaries),
        "conflicts": [numbers[other] for other in experience.conflicts if other in numbers],
    }


def _marked(phrase: CheckedPhrase) -> str:
    return phrase.text + _MARKS[phrase.checked]


def _graph_ids(offered: Sequence[OfferedExperience]) -> tuple[str, ...]:
    return tuple(experience.experience.id for experience in offered)
