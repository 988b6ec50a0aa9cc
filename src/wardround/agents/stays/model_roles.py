"""TRACE's roles by the model: what each is asked, and how its reply is read."""

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
from wardround.models.schema import complete_structured, object_schema

# The roles by the model: one structured call each, through the episode, so that its tokens are counted.


_TYPES = ["MEDICATIONS", "LABS", "PROCEDURES"]
_DOSES = ["none", "low-dose", "medium-dose", "high-dose"]
_LONGEST_NAME = 200
_WORDS = {"type": "array", "items": {"type": "string"}}
PREDICTION: Mapping[str, Any] = object_schema(
    {
        "thought_process": {"type": "string"},
        "next_bundle_type": {"type": "string", "enum": _TYPES},
        "predicted_actions": {
            "type": "array",
            "items": object_schema(
                {
                    "type": {"type": "string", "enum": _TYPES},
                    "name": {"type": "string"},
                    "dose": {"type": "string", "enum": _DOSES},
                },
                optional=("dose",),
            ),
        },
        "citations": _WORDS,
    }
)
"""The Reasoner's reply (appendix A.3); the type of an action and the dose as its own field are our additions."""
SELECTION: Mapping[str, Any] = object_schema(
    {"reasoning": {"type": "string"}, "selected_protocol_ids": _WORDS}, optional=("reasoning",)
)
VERDICT: Mapping[str, Any] = object_schema(
    {
        "status": {"type": "string", "enum": ["PASS", "FAIL"]},
        "risk_level": {"type": "string", "enum": ["LOW", "HIGH"]},
        "critique": {"type": "string"},
        "failed_actions": _WORDS,
        "corrected_action": {"type": "string"},
    },
    optional=("failed_actions",),
)
KEPT: Mapping[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(("active_problems", "current_meds", "trajectory", "allergies", "procedures"), _WORDS),
    "required": ["active_problems", "current_meds", "trajectory", "allergies", "procedures"],
}
"""Fields of the state (section 3.1), the allergies that the Auditor checks, and the actions done (figure 2)."""
SUMMARY: Mapping[str, Any] = object_schema({"summary": {"type": "string"}})
_LONGEST_TEXT = 600
_TEXT = {"type": "string", "minLength": 1, "maxLength": _LONGEST_TEXT}
REFLECTION: Mapping[str, Any] = object_schema(
    {
        "error_analysis": _TEXT,
        "category": {"type": "string", "minLength": 1, "maxLength": 40},
        "trigger": {"type": "string", "minLength": 1, "maxLength": 300},
        "action": {"type": "string", "minLength": 1, "maxLength": 200},
        "text": _TEXT,
    }
)
"""The Reflector's reply (appendix A.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role's template and the schema of its reply. ``name``: of its count in the report."""

    name: str
    template: str
    schema: Mapping[str, Any]

    @property
    def choices(self) -> Mapping[str, str]:
        """By reply field with fixed values: these values, as the prompt lists them."""
        return {name: " or ".join((", ".join(words[:-1]), words[-1])) for name, words in _fixed_words(self.schema)}


ROUTER = Role(name="router", template="trace.route", schema=SELECTION)
REASONER = Role(name="reasoner", template="trace.reasoner", schema=PREDICTION)
AUDITOR = Role(name="auditor", template="trace.audit", schema=VERDICT)
STEWARD = Role(name="steward", template="trace.keep", schema=KEPT)
SUMMARISER = Role(name="summary", template="trace.summary", schema=SUMMARY)
REFLECTOR = Role(name="reflector", template="trace.reflect_rule", schema=REFLECTION)
"""Used by ``wardround protocol induce`` only, never in an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A role's reply, the log-probabilities of the last reply's tokens, and a ``problem`` if no reply could be used."""

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
    """Ask the Reasoner for the next decisions. Empty parts are left out of the prompt; ``examples``: ids to cite."""
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
    """Call one role's model. ``most_tokens``: budget of the prompt. ValueError: the rendered prompt is longer."""
    system = load_prompt("wardround.agents", "trace.system").render()
    question = load_prompt("wardround.agents", role.template).render(**shown, choices=role.choices)
    messages = (Message(role="system", content=system), Message(role="user", content=question))
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
    return Answered(value=said.value, token_logprobs=said.exchanges[-1][1].token_logprobs)


def prompt_tokens(episode: Episode, messages: Sequence[Message]) -> int:
    """Return the counted tokens of a prompt."""
    return sum(episode.counter.count(message.content or "") for message in messages)


def predicted(value: Mapping[str, Any], *, most: int) -> tuple[PredictedAction, ...]:
    """Return a Reasoner's predictions, at most so many of a type; each has all cited ids as its source."""
    citations = tuple(dict.fromkeys(cited.strip("[] ") for cited in value.get("citations", ())))
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
    """Yield the fields of a schema with fixed values, those of objects in its lists included."""
    for name, part in schema.get("properties", {}).items():
        if "enum" in part:
            yield name, part["enum"]
        yield from _fixed_words(part.get("items", part))
