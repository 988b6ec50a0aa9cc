"""ReMe's last step: a model ranks what was recalled and rewrites it for the case. One call; where its reply cannot be
used, the notes stay as they were recalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wardround.agents.loop.episode import Episode
from wardround.agents.loop.side_reader import SideReader, prompt_text
from wardround.memory import Experience
from wardround.models import read_value

ADAPT_PROMPTS = ("adapter_system", "adapt", "ask_again")
_REPLY_TOKENS = 2_048
_ADVICE = {
    "type": "object",
    "properties": {"lesson": {"type": "integer"}, "advice": {"type": "string", "minLength": 1, "maxLength": 800}},
    "required": ["lesson", "advice"],
}
_SCHEMA = {"type": "array", "items": _ADVICE}


async def adapted(episode: Episode, notes: Sequence[Experience], description: str) -> list[Experience]:
    """The notes as a model wants them shown: some, in its order, in its words. What it did is noted."""
    beside = SideReader(episode, role="adapter", system=prompt_text("adapter_system"))
    instruction = prompt_text("adapt", description=description, lessons=list(notes))
    written = await beside.ask(instruction, purpose="adapt", limit_tokens=_REPLY_TOKENS, flaw=_broken)
    if written.problem is not None:
        episode.recorder.note("not_adapted", {"problem": written.problem})
        return list(notes)
    chosen = _chosen(read_value(written.text, _SCHEMA)[0], notes)
    episode.recorder.note("adapted", {"ids": [note.id for note in chosen]})
    return chosen


def _broken(text: str) -> str:
    return read_value(text, _SCHEMA)[1] or ""


def _chosen(said: Sequence[dict[str, Any]], notes: Sequence[Experience]) -> list[Experience]:
    """The notes by their numbers, each once, in new words."""
    numbered = dict(enumerate(notes, start=1))
    advice = {one["lesson"]: one["advice"] for one in reversed(said) if one["lesson"] in numbered}
    order = dict.fromkeys(one["lesson"] for one in said if one["lesson"] in numbered)
    return [replace(numbered[number], content=advice[number]) for number in order]
