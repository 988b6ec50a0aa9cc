"""Judges: a model under templates of its own, or words. None of them plays, retrieves or teaches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from wardround.codes import normalise_label
from wardround.core import Message, PromptFile, load_prompt
from wardround.models import Model, ModelSettings, Reply, Request, complete_structured
from wardround.scoring.judging.points import points_of
from wardround.scoring.judging.verdict import POINTS, Verdict, reasoning_figures

WORDS = "words"
_PROMPTS = ("judge_system", "judge_answer", "judge_reasoning")
_REPLY_TOKENS = 1024
_SETTINGS = ModelSettings(temperature=0.0, max_output_tokens=_REPLY_TOKENS, seed=0)
_CALLS = 2
"""Of one question: itself and its repair."""
_WORD = re.compile(r"\w+")
_SMALL = frozenset(("a", "an", "and", "the", "of", "in", "with", "to", "for", "due", "by", "on", "or"))
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
ANSWER_SCHEMA = {
    "type": "object",
    "properties": {"why": {"type": "string"}, "same": {"type": "boolean"}},
    "required": ["same"],
}


def _reasoning_schema(points: int, reference: int) -> Mapping[str, Any]:
    """No list is longer than what it marks: a small model bound to a list without an end went on counting."""
    marked = {"useful": points, "true": points, "covered": reference}
    properties = {name: {**_NUMBERS, "maxItems": most} for name, most in marked.items()}
    return {"type": "object", "properties": properties, "required": list(marked)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCase:
    """One answer to judge: the ``question`` as it was asked, the ``answer`` and the ``right`` one, the ``reasoning``
    before it and the ``reference``, which may be empty."""

    question: str
    wanted: str
    answer: str
    right: str
    reasoning: str = ""
    reference: str = ""


Record = Callable[[Request, Reply, str], None]
"""Told of every call and its purpose."""


@dataclass(slots=True, kw_only=True)
class JudgeCalls:
    """The calls of a judge about one episode: each is numbered, recorded under its template, and answered in JSON."""

    model: Model
    episode: str
    record: Record
    calls: int = 0

    async def ask(self, prompt: str, shown: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the judge's reply to a template. ProviderError, FormatError: it gave none that can be read."""
        system = load_prompt("wardround.scoring", "judge_system").render()
        user = load_prompt("wardround.scoring", prompt).render(**shown)
        messages = (Message(role="system", content=system), Message(role="user", content=user))
        ordinal = self.calls * _CALLS
        request = Request(messages=messages, tools=(), settings=_SETTINGS, episode=self.episode, ordinal=ordinal)
        self.calls += 1
        found = await complete_structured(
            self.model, request, schema, record=lambda asked, reply: self.record(asked, reply, prompt)
        )
        value: Mapping[str, Any] = found.value
        return value


class Judge(Protocol):
    """Says what answers are worth."""

    @property
    def name(self) -> str:
        """What verdicts call it."""
        ...

    async def judge(self, case: JudgedCase, *, episode: str, record: Record) -> Verdict:
        """Judge one answer. ProviderError, FormatError: it could not."""
        ...


class WordsJudge:
    """No judgement: an answer is right that holds every word of the right one, in any order. A floor, for tests and for
    machines without a model; reasoning is not judged."""

    name = WORDS

    async def judge(self, case: JudgedCase, *, episode: str, record: Record) -> Verdict:
        """Compare words."""
        missing = sorted(_words(case.right) - _words(case.answer))
        return Verdict(right=not missing, judge=self.name, why=f"not named: {', '.join(missing)}" if missing else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJudge:
    """A model as judge. It is asked of the answer without seeing the reasoning, and of the reasoning without being told
    whether the answer was right. ``reasons``: whether it is asked of reasoning at all."""

    name: str
    model: Model
    reasons: bool = True

    async def judge(self, case: JudgedCase, *, episode: str, record: Record) -> Verdict:
        """Ask of the answer, then of the reasoning, where there is a reference for it."""
        calls = JudgeCalls(model=self.model, episode=episode, record=record)
        said = await calls.ask("judge_answer", {"case": case}, ANSWER_SCHEMA)
        reference = points_of(case.reference) if self.reasons else ()
        figures = await _reasoning(calls, case, reference) if reference else {}
        why = str(said.get("why", ""))
        return Verdict(right=bool(said["same"]), judge=self.name, why=why, protocol=POINTS, reasoning=figures)


async def _reasoning(calls: JudgeCalls, case: JudgedCase, reference: tuple[str, ...]) -> dict[str, float]:
    points = points_of(case.reasoning)
    shown = {"case": case, "points": points, "reference": reference}
    marks = await calls.ask("judge_reasoning", shown, _reasoning_schema(len(points), len(reference)))
    return reasoning_figures(len(points), marks["useful"], marks["true"], len(reference), marks["covered"])


def judge_prompts() -> tuple[PromptFile, ...]:
    """The templates a judge is asked with."""
    return tuple(load_prompt("wardround.scoring", name) for name in _PROMPTS)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalise_label(text))) - _SMALL
