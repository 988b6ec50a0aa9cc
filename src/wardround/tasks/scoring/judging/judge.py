"""Judges: prompts, points of a text, verdicts, and the figures made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Literal, Protocol

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import Message, PromptFile, load_prompt
from wardround.models import Model, ModelSettings, Reply, Request, complete_structured
from wardround.models.schema import object_schema

# What a judge says of one answer, and the figures that code makes of it.
#
# Efficiency: the share of the points of the reasoning that bring it on. Factuality: the share of those that are true.
# Completeness: the share of the reference's points that the reasoning holds. R is their mean (GSEM, table 4). How the
# points are marked is the judge's protocol: ``points`` is ours, ``medr-bench`` that of MedR-Bench's public code.


REASONING_FIGURES = ("efficiency", "factuality", "completeness", "R")
JudgeProtocol = Literal["points", "medr-bench"]
POINTS: JudgeProtocol = "points"
MEDR_BENCH_JUDGE: JudgeProtocol = "medr-bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer says the same as the right one, and ``why``.

    ``judge`` and ``protocol`` say who decided (no protocol: words alone). ``reasoning`` holds the figures of the
    reasoning, none where that was not judged.
    """

    right: bool
    judge: str
    why: str = ""
    protocol: str = ""
    reasoning: Mapping[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """The figures of the reasoning, each named with its protocol: two protocols' are no measure of each other."""
        return {f"{name} ({self.protocol})": value for name, value in self.reasoning.items()}

    def labels(self, answer: Collection[str], target: str) -> LabelSet:
        """Return how an answer is spelt: what the judge calls right is another spelling of the target."""
        spellings = dict.fromkeys(answer, target) if self.right else {}
        return LabelSet(name=self.judge, labels=(target,), aliases=spellings)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self) | {"reasoning": dict(self.reasoning)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Verdict:
        """Read what :meth:`to_json` wrote."""
        return cls(**body)


def reasoning_figures(
    points: int, useful: Collection[int], true: Collection[int], reference: int, covered: Collection[int]
) -> dict[str, float]:
    """Return efficiency, factuality, completeness and R of a reasoning of so many points, numbered from 1, against a
    reference of so many. None of them where there is no reference; without a single point, all are 0."""
    if not reference:
        return {}
    bring_on = set(useful) & set(range(1, points + 1))
    figures = {
        "efficiency": len(bring_on) / points if points else 0.0,
        "factuality": len(bring_on & set(true)) / len(bring_on) if bring_on else 0.0,
        "completeness": len(set(covered) & set(range(1, reference + 1))) / reference,
    }
    return figures | {"R": fmean(figures.values())}


# A text of reasoning as numbered points, so that a judge marks points and code does the counting.


MOST_POINTS = 60
_LONGEST_POINT = 400
_MARKER = re.compile(r"^\s*(?:[-*•>#]+|\(?\d{1,2}[.)]|step\s+\d{1,2}[.:)]?)\s*", re.IGNORECASE)
_HEADING = re.compile(r"^[\s*_#]*(?:final\s+)?(?:reasoning|answer|summary|conclusion)[\s*_]*:[\s*_]*$", re.IGNORECASE)
_TITLE = re.compile(r"^\s*(?:#{1,6}\s+[^:.;]+:?|(?:[-•]\s+|\d{1,2}[.)]\s+)?\*\*[^*:.;]+:?\*\*:?|[^:.;]+:[\s*_]*)$")
_MOST_TITLE_WORDS = 8
_LABEL = re.compile(r"^[\s*_]*reasoning[\s*_]*:[\s*_]*", re.IGNORECASE)
_ANSWER = re.compile(r"^[\s*_#>]*(?:final\s+)?answer[\s*_]*:", re.IGNORECASE | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.;!?])\s+(?=[A-Z(])")
_POINT_WORD = re.compile(r"\w")


def points_of(text: str) -> tuple[str, ...]:
    """Return the points of a text: a line each, a long line sentence by sentence, at most the first 60.

    What stands behind the last ``Answer:`` is the answer and no reasoning.
    """
    lines = (_MARKER.sub("", line).strip() for line in reasoning_part(text).splitlines())
    found = [point for line in lines for point in _parts(line) if _POINT_WORD.search(point)]
    return tuple(found[:MOST_POINTS])


def reasoning_part(text: str) -> str:
    """Return a reply without its answer and without headings, alone in their line or before the first words.

    A heading is a Markdown title, a line all in bold or a line that ends in a colon, of at most 8 words.
    """
    marks = list(_ANSWER.finditer(text))
    reasoning = text[: marks[-1].start()] if marks else text
    return "\n".join(_LABEL.sub("", line) for line in reasoning.splitlines() if not _is_heading(line)).strip()


def _is_heading(line: str) -> bool:
    title = _TITLE.match(line) is not None and len(line.split()) <= _MOST_TITLE_WORDS
    return title or _HEADING.match(line) is not None


def _parts(line: str) -> list[str]:
    return [line] if len(line) <= _LONGEST_POINT else _SENTENCE.split(line)


# Judges: a model under templates of its own, or words. None of them plays, retrieves or teaches.


WORDS = "words"
_PROMPTS = ("judge_system", "judge_answer", "judge_reasoning")
_REPLY_TOKENS = 1024
_SETTINGS = ModelSettings(temperature=0.0, max_output_tokens=_REPLY_TOKENS, seed=0)
_CALLS = 2
"""Of one question: itself and its repair."""
_WORD = re.compile(r"\w+")
_SMALL = frozenset(("a", "an", "and", "the", "of", "in", "with", "to", "for", "due", "by", "on", "or"))
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
ANSWER_SCHEMA = object_schema({"why": {"type": "string"}, "same": {"type": "boolean"}}, optional=("why",))


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
        system = load_prompt("wardround.tasks.scoring", "judge_system").render()
        user = load_prompt("wardround.tasks.scoring", prompt).render(**shown)
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
    return tuple(load_prompt("wardround.tasks.scoring", name) for name in _PROMPTS)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalise_label(text))) - _SMALL
