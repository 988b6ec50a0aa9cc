"""The roles by the model: one structured call each, through the episode, so that its tokens are counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wardround.agents.loop.episode import Episode
from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.settings import TraceSettings
from wardround.core import FormatError, Message, load_prompt
from wardround.models import Request
from wardround.models.structured import Structured, complete_structured

_TYPES = ["MEDICATIONS", "LABS", "PROCEDURES"]
_DOSES = ["none", "low-dose", "medium-dose", "high-dose"]
_LONGEST_NAME = 200
_WORDS = {"type": "array", "items": {"type": "string"}}
PREDICTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "thought_process": {"type": "string"},
        "next_bundle_type": {"type": "string", "enum": _TYPES},
        "predicted_actions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": _TYPES},
                    "name": {"type": "string"},
                    "dose": {"type": "string", "enum": _DOSES},
                },
                "required": ["type", "name"],
            },
        },
        "citations": _WORDS,
    },
    "required": ["thought_process", "next_bundle_type", "predicted_actions", "citations"],
}
"""The Reasoner's reply (appendix A.3); that an action says its type and the dose is a field of its own is ours."""
SELECTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "selected_protocol_ids": _WORDS},
    "required": ["selected_protocol_ids"],
}
VERDICT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["PASS", "FAIL"]},
        "risk_level": {"type": "string", "enum": ["LOW", "HIGH"]},
        "critique": {"type": "string"},
        "failed_actions": _WORDS,
        "corrected_action": {"type": "string"},
    },
    "required": ["status", "risk_level", "critique", "corrected_action"],
}
KEPT: Mapping[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(("active_problems", "current_meds", "trajectory", "allergies", "procedures"), _WORDS),
    "required": ["active_problems", "current_meds", "trajectory", "allergies", "procedures"],
}
"""The state's own fields (section 3.1), the allergies that the Auditor looks for, and what was done (figure 2)."""
SUMMARY: Mapping[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
}
_LONGEST_TEXT = 600
_TEXT = {"type": "string", "minLength": 1, "maxLength": _LONGEST_TEXT}
REFLECTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "error_analysis": _TEXT,
        "category": {"type": "string", "minLength": 1, "maxLength": 40},
        "trigger": {"type": "string", "minLength": 1, "maxLength": 300},
        "action": {"type": "string", "minLength": 1, "maxLength": 200},
        "text": _TEXT,
    },
    "required": ["error_analysis", "category", "trigger", "action", "text"],
}
"""The Reflector's reply (appendix A.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a role is asked with: its template, and the shape of its reply. ``name``: under which it is counted."""

    name: str
    template: str
    schema: Mapping[str, Any]

    @property
    def choices(self) -> Mapping[str, str]:
        """By field of the reply that has fixed words: these, as its prompt lists them."""
        return {name: " or ".join((", ".join(words[:-1]), words[-1])) for name, words in _fixed_words(self.schema)}


ROUTER = Role(name="router", template="route", schema=SELECTION)
REASONER = Role(name="reasoner", template="reasoner", schema=PREDICTION)
AUDITOR = Role(name="auditor", template="audit", schema=VERDICT)
STEWARD = Role(name="steward", template="keep", schema=KEPT)
SUMMARISER = Role(name="summary", template="stay_summary", schema=SUMMARY)
REFLECTOR = Role(name="reflector", template="reflect_rule", schema=REFLECTION)
"""Offline only: asked by ``wardround protocol induce``, never in an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a role said, the log-probabilities of its last reply's tokens, a ``problem`` where nothing usable came."""

    value: Mapping[str, Any]
    token_logprobs: tuple[float, ...] | None = None
    problem: str | None = None


async def ask_reasoner(
    episode: Episode,
    settings: TraceSettings,
    *,
    rules: str,
    history: str,
    examples: str,
    state: str = "",
    summary: str = "",
    segments: str = "",
) -> Answered:
    """Ask what is decided next. What is empty is left out of the prompt; ``examples``: ids that may be cited."""
    return await ask_role(
        episode,
        REASONER,
        settings.prompt_tokens,
        rules=rules,
        state=state,
        summary=summary,
        segments=segments,
        history=history,
        most=settings.predictions,
        examples=examples,
    )


async def ask_role(episode: Episode, role: Role, most_tokens: int, **shown: Any) -> Answered:
    """Ask one role. ``most_tokens``: its prompt's budget; ValueError where the caller rendered more than that."""
    system = load_prompt("wardround.agents", "reasoner_system").render()
    asked = load_prompt("wardround.agents", role.template).render(**shown, choices=role.choices)
    messages = (Message(role="system", content=system), Message(role="user", content=asked))
    counted = prompt_tokens(episode, messages)
    if counted > most_tokens:
        raise ValueError(f"the {role.name}'s prompt has {counted} tokens, its budget is {most_tokens}")
    episode.prompt_tokens += counted
    episode.recorder.note("prompt", {"step": episode.turn, "role": role.name, "tokens": counted})
    request = Request(
        messages=messages,
        settings=replace(episode.settings, token_logprobs=True),
        episode=episode.id,
        ordinal=episode.model_calls,
    )
    try:
        said = await complete_structured(
            episode.model, request, role.schema, record=partial(episode.charge, purpose=role.name)
        )
    except FormatError as error:
        episode.recorder.note("unreadable", {"step": episode.turn, "role": role.name, "problem": str(error)})
        return Answered(value={}, problem=str(error))
    return Answered(value=said.value, token_logprobs=_logprobs(said))


def prompt_tokens(episode: Episode, messages: Sequence[Message]) -> int:
    """Return the counted tokens of a prompt."""
    return sum(episode.counter.count(message.content or "") for message in messages)


def predicted(value: Mapping[str, Any], *, most: int) -> tuple[PredictedAction, ...]:
    """Return what a Reasoner predicted, at most so many of a type; each stands on all that it cited."""
    citations = tuple(dict.fromkeys(one.strip("[] ") for one in value.get("citations", ())))
    counts: dict[str, int] = {}
    found = []
    for one in value.get("predicted_actions", ()):
        kind, name = one["type"], str(one["name"]).strip()[:_LONGEST_NAME]
        counts[kind] = counts.get(kind, 0) + 1
        if name and counts[kind] <= most:
            dose = one.get("dose")
            dose = dose if dose in _DOSES[1:] else None
            found.append(PredictedAction(kind=kind, name=name, dose=dose, because=citations))
    return tuple(found)


def _fixed_words(schema: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the fields of a schema that take one of some words, those of its lists' objects among them."""
    for name, field in schema.get("properties", {}).items():
        if "enum" in field:
            yield name, field["enum"]
        yield from _fixed_words(field.get("items", field))


def _logprobs(said: Structured) -> tuple[float, ...] | None:
    return said.exchanges[-1][1].token_logprobs
