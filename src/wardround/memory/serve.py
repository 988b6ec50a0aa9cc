"""Experiences as the block of text that goes into a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import PromptFile, UserError, estimate_tokens, load_prompt
from wardround.memory.experience import KINDS, Experience
from wardround.memory.material import Count

SERVED_PROMPTS = tuple(f"served_{kind}" for kind in KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedText:
    """``text`` is empty where there is nothing to show. ``left_out`` are ids for which there was no room."""

    text: str
    tokens: int
    shown: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    prompt: PromptFile | None = None

    def facts(self) -> dict[str, Any]:
        """What an episode's log notes of it."""
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
