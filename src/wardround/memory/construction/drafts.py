"""Drawing indications and contraindications from the attempts at a sample by asking a model (section 4.1).

Indications come of all successes together; every failure gives one contraindication, by way of where it parted from
the success most like it. Where nothing succeeded, a failure is compared with the right answer alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.core import PromptFile, load_prompt
from wardround.memory.construction.asking import ask_value
from wardround.memory.construction.attempts import Attempt, Case, evidence_of, nearest_success
from wardround.memory.entities import TASK_TYPES
from wardround.memory.experience import Experience, Polarity, Provenance
from wardround.memory.extract import Asker, Room
from wardround.memory.material import reduced_trajectory
from wardround.memory.words import plain_words

DRAFT_PROMPTS = ("indication", "divergence", "contraindication")
MOST_INDICATIONS = 2
DIVERGENCE_FIELDS = ("divergence_step", "success_decision", "failure_decision", "why_fatal", "consequence")
_TEXT = {"type": "string", "minLength": 1, "maxLength": 2_000}
_DRAFT = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "condition": {"type": "string", "minLength": 1, "maxLength": 600},
        "exclusions": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}},
        "content": _TEXT,
        "task_type": {"type": "string", "enum": list(TASK_TYPES)},
        "steps": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["title", "condition", "content", "task_type"],
}
_DIVERGENCE = {
    "type": "object",
    "properties": {"divergence_step": {"type": "integer"}, **dict.fromkeys(DIVERGENCE_FIELDS[1:], _TEXT)},
    "required": list(DIVERGENCE_FIELDS),
}
_LEAST_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """What drawing from a case takes: who asks, and how much room a prompt has."""

    asker: Asker
    room: Room = field(default_factory=Room)

    async def indications(self, case: Case) -> tuple[Experience, ...]:
        """One or two experiences of all successes; none without one. Raises FormatError."""
        if not case.successes:
            return ()
        prompt, first = _prompt("indication"), case.successes[0]
        values = {"question": first.material.question, "setting": list(case.setting), **_task_types()}
        text = self._filled(prompt, {"attempts": list(case.successes)}, values)
        schema = {"type": "array", "items": _DRAFT, "minItems": 1, "maxItems": MOST_INDICATIONS}
        drafts = await ask_value(self.asker, text, schema, purpose="draw_indication")
        origin = _origin(case, first, (prompt,))
        facts = {"attempts": [one.episode for one in case.attempts], "successes": len(case.successes)}
        return tuple(_experience(one, "indication", case.successes, origin, facts) for one in drafts)

    async def contraindication(self, case: Case, failure: Attempt) -> Experience:
        """The one experience of a failure. Raises FormatError."""
        success = nearest_success(failure, case.successes)
        divergence = await self._divergence(failure, success)
        prompt = _prompt("contraindication")
        values = {
            "question": failure.material.question,
            "setting": list(case.setting),
            **_task_types(),
            **{name: divergence[name] for name in DIVERGENCE_FIELDS},
        }
        text = self._filled(prompt, {"failure": [failure], "success": _listed(success)}, values)
        draft = await ask_value(self.asker, text, _DRAFT, purpose="draw_contraindication")
        steps = draft.get("steps") or [divergence["divergence_step"]]
        facts = {
            "divergence": {name: divergence[name] for name in DIVERGENCE_FIELDS},
            "nearest_success": "" if success is None else success.episode,
            "successes": len(case.successes),
        }
        origin = _origin(case, failure, (_prompt("divergence"), prompt))
        return _experience({**draft, "steps": steps}, "contraindication", (failure, *_listed(success)), origin, facts)

    async def _divergence(self, failure: Attempt, success: Attempt | None) -> Mapping[str, Any]:
        material = failure.material
        values = {
            "question": material.question,
            "target": list(material.target or ()),
            "prediction": list(material.prediction or ()),
        }
        text = self._filled(_prompt("divergence"), {"failure": [failure], "success": _listed(success)}, values)
        found: Mapping[str, Any] = await ask_value(self.asker, text, _DIVERGENCE, purpose="find_divergence")
        return found

    def _filled(self, prompt: PromptFile, attempts: Mapping[str, list[Attempt]], values: Mapping[str, Any]) -> str:
        """Fill a template; the trajectories share what room the rest leaves, the newest turns longest."""
        frame = self.room.count(
            prompt.render(**{name: ["" for _ in some] for name, some in attempts.items()}, **values)
        )
        count = sum(map(len, attempts.values())) or 1
        share = max(_LEAST_TOKENS, (self.room.context_tokens - self.room.reply_tokens - frame) // count)
        texts = {
            name: [reduced_trajectory(one.material.messages, share, count=self.room.count).text for one in some]
            for name, some in attempts.items()
        }
        return prompt.render(**texts, **values)


def names_answer(text: str, target: Sequence[str] | None) -> bool:
    """Whether a text holds every word of one of the right answers."""
    words = set(plain_words(text).split())
    wanted = [set(plain_words(label).split()) for label in target or ()]
    return any(label and label <= words for label in wanted)


def _experience(
    draft: Mapping[str, Any], kind: Polarity, seen: Sequence[Attempt], origin: Provenance, facts: Mapping[str, Any]
) -> Experience:
    material = seen[0].material
    said = f"{draft['title']} {draft['condition']} {draft['content']}"
    return Experience(
        kind=kind,
        title=draft["title"],
        description="",
        content=draft["content"],
        condition=draft["condition"],
        exclusions=tuple(one for one in draft.get("exclusions", ()) if one.strip()),
        task=material.task,
        task_type=draft["task_type"],
        score=material.score,
        provenance=origin,
        evidence=evidence_of(seen),
        facts={**facts, "cited_steps": draft.get("steps", []), "names_answer": names_answer(said, material.target)},
    )


def _origin(case: Case, attempt: Attempt, prompts: Sequence[PromptFile]) -> Provenance:
    hashes = {prompt.name: prompt.sha256 for prompt in prompts}
    return replace(case.provenance, episode=attempt.episode, prompts={**case.provenance.prompts, **hashes})


def _listed(attempt: Attempt | None) -> list[Attempt]:
    return [] if attempt is None else [attempt]


def _task_types() -> dict[str, Any]:
    return {"task_types": list(TASK_TYPES)}


def _prompt(name: str) -> PromptFile:
    return load_prompt("wardround.memory", name)
