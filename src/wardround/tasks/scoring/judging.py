"""Judging: what an answer in words of one's own is worth, by a model that is none of the players, or by words."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Literal, Protocol

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import Message, PromptFile, check_settings, load_prompt, setting
from wardround.models import Model, ModelSettings, Reply, Request, complete_structured
from wardround.models.schema import object_schema

# A judge's verdict on one answer, and the figures computed from it.
#
# Efficiency: the share of useful points of the reasoning. Factuality: the share of true points among them.
# Completeness: the share of the reference's points that the reasoning covers. R is their mean (GSEM, table 4). The
# judge's protocol decides how points are marked: ``points`` is ours, ``medr-bench`` is MedR-Bench's public code.


REASONING_FIGURES = ("efficiency", "factuality", "completeness", "R")
JudgeProtocol = Literal["points", "medr-bench"]
POINTS: JudgeProtocol = "points"
MEDR_BENCH_JUDGE: JudgeProtocol = "medr-bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer means the same as the right one, and ``why``.

    ``judge`` and ``protocol`` name who decided (no protocol: words alone). ``reasoning`` holds the figures of the
    reasoning, empty where it was not judged.
    """

    right: bool
    judge: str
    why: str = ""
    protocol: str = ""
    reasoning: Mapping[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """The figures of the reasoning, named with their protocol: protocols are not comparable."""
        return {f"{name} ({self.protocol})": value for name, value in self.reasoning.items()}

    def labels(self, answer: Collection[str], target: str) -> LabelSet:
        """Return how an answer is spelt: a right answer is another spelling of the target."""
        spellings = dict.fromkeys(answer, target) if self.right else {}
        return LabelSet(name=self.judge, labels=(target,), aliases=spellings)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self) | {"reasoning": dict(self.reasoning)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Verdict:
        """Read the output of :meth:`to_json`."""
        return cls(**body)


def reasoning_figures(
    points: int, useful: Collection[int], true: Collection[int], reference: int, covered: Collection[int]
) -> dict[str, float]:
    """Return efficiency, factuality, completeness and R of a reasoning.

    ``points`` and ``reference`` are numbers of points, numbered from 1. Empty without a reference; all 0 without
    points.
    """
    if not reference:
        return {}
    bring_on = set(useful) & set(range(1, points + 1))
    figures = {
        "efficiency": len(bring_on) / points if points else 0.0,
        "factuality": len(bring_on & set(true)) / len(bring_on) if bring_on else 0.0,
        "completeness": len(set(covered) & set(range(1, reference + 1))) / reference,
    }
    return figures | {"R": fmean(figures.values())}


# A reasoning text as numbered points: the judge marks points, code counts them.


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
    """Return the points of a text, at most 60: one per line; a long line is split into sentences.

    Text after the last ``Answer:`` is the answer and no reasoning.
    """
    lines = (_MARKER.sub("", line).strip() for line in reasoning_part(text).splitlines())
    points = [
        point
        for line in lines
        for point in ([line] if len(line) <= _LONGEST_POINT else _SENTENCE.split(line))
        if _POINT_WORD.search(point)
    ]
    return tuple(points[:MOST_POINTS])


def reasoning_part(text: str) -> str:
    """Return a reply without its answer and without headings, alone in their line or before the first words.

    A heading is a Markdown title, a line all in bold or a line that ends in a colon, of at most 8 words.
    """
    answer_marks = list(_ANSWER.finditer(text))
    reasoning = text[: answer_marks[-1].start()] if answer_marks else text
    return "\n".join(_LABEL.sub("", line) for line in reasoning.splitlines() if not _is_heading(line)).strip()


def _is_heading(line: str) -> bool:
    title = _TITLE.match(line) is not None and len(line.split()) <= _MOST_TITLE_WORDS
    return title or _HEADING.match(line) is not None


# Judges: a model with its own templates, or a comparison of words. Judges never act, retrieve or teach.


WORDS = "words"
_PROMPTS = ("judge_system", "judge_answer", "judge_reasoning")
_REPLY_TOKENS = 1024
_SETTINGS = ModelSettings(temperature=0.0, max_output_tokens=_REPLY_TOKENS, seed=0)
_CALLS = 2
"""Calls per question: the question and one repair."""
_WORD = re.compile(r"\w+")
_SMALL = frozenset(("a", "an", "and", "the", "of", "in", "with", "to", "for", "due", "by", "on", "or"))
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
ANSWER_SCHEMA = object_schema({"why": {"type": "string"}, "same": {"type": "boolean"}}, optional=("why",))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCase:
    """One answer to judge.

    ``question`` as the agent saw it, the ``answer`` and the ``right`` one, the ``reasoning`` before it and the
    ``reference``, which may be empty.
    """

    question: str
    wanted: str
    answer: str
    right: str
    reasoning: str = ""
    reference: str = ""


Record = Callable[[Request, Reply, str], None]
"""Called with every request, reply and purpose."""


@dataclass(slots=True, kw_only=True)
class JudgeCalls:
    """The numbered, recorded calls of a judge about one episode, answered in JSON."""

    model: Model
    episode: str
    record: Record
    calls: int = 0

    async def ask(self, prompt: str, shown: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the judge's reply to a template. ProviderError, FormatError: no readable reply."""
        system = load_prompt("wardround.tasks.scoring", "judge_system").render()
        user = load_prompt("wardround.tasks.scoring", prompt).render(**shown)
        messages = (Message(role="system", content=system), Message(role="user", content=user))
        ordinal = self.calls * _CALLS
        request = Request(messages=messages, tools=(), settings=_SETTINGS, episode=self.episode, ordinal=ordinal)
        self.calls += 1
        structured = await complete_structured(
            self.model, request, schema, record=lambda sent, reply: self.record(sent, reply, prompt)
        )
        value: Mapping[str, Any] = structured.value
        return value


class Judge(Protocol):
    """Scores answers."""

    @property
    def name(self) -> str:
        """The judge's name in verdicts."""
        ...

    async def judge(self, case: JudgedCase, *, episode: str, record: Record) -> Verdict:
        """Judge one answer. ProviderError, FormatError: the judge failed."""
        ...


class WordsJudge:
    """A baseline judge: an answer is right if it has every word of the right one, in any order.

    For tests and machines without a model; it does not judge reasoning.
    """

    name = WORDS

    async def judge(self, case: JudgedCase, *, episode: str, record: Record) -> Verdict:
        """Compare the words."""
        missing = sorted(_words(case.right) - _words(case.answer))
        return Verdict(right=not missing, judge=self.name, why=f"not named: {', '.join(missing)}" if missing else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJudge:
    """A model as judge.

    It judges the answer without seeing the reasoning, and the reasoning without knowing whether the answer was right.
    ``reasons``: whether it judges reasoning at all.
    """

    name: str
    model: Model
    reasons: bool = True

    async def judge(self, case: JudgedCase, *, episode: str, record: Record) -> Verdict:
        """Judge the answer, then the reasoning where there is a reference."""
        calls = JudgeCalls(model=self.model, episode=episode, record=record)
        reply = await calls.ask("judge_answer", {"case": case}, ANSWER_SCHEMA)
        reference = points_of(case.reference) if self.reasons else ()
        figures = await _reasoning(calls, case, reference) if reference else {}
        why = str(reply.get("why", ""))
        return Verdict(right=bool(reply["same"]), judge=self.name, why=why, protocol=POINTS, reasoning=figures)


async def _reasoning(calls: JudgeCalls, case: JudgedCase, reference: tuple[str, ...]) -> dict[str, float]:
    points = points_of(case.reasoning)
    shown = {"case": case, "points": points, "reference": reference}
    marked = {"useful": len(points), "true": len(points), "covered": len(reference)}
    # each list has a limit, or a small model would count without end
    properties = {name: {**_NUMBERS, "maxItems": most} for name, most in marked.items()}
    schema = {"type": "object", "properties": properties, "required": list(marked)}
    marks = await calls.ask("judge_reasoning", shown, schema)
    return reasoning_figures(len(points), marks["useful"], marks["true"], len(reference), marks["covered"])


def judge_prompts() -> tuple[PromptFile, ...]:
    """Return the judge's templates."""
    return tuple(load_prompt("wardround.tasks.scoring", name) for name in _PROMPTS)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalise_label(text))) - _SMALL


# MedR-Bench's judge, after its authors' public code: a call for each step of the reasoning and of the reference.
#
# - Answer: right where it holds the experts' diagnosis; of a treatment also where it is another that evidence supports.
# - Efficiency: the share of the steps that reason. A step is reasoning, citation (of the case), repetition or
#   redundancy; the judge sees the case, the earlier steps and the right answer.
# - Factuality: of the steps that reason, the share that agrees with the case and with medical knowledge.
# - Completeness: the judge cuts the experts' reasoning into steps, then says of each whether the reasoning holds it.
#
# Other than there: nothing is looked up on the web, as with their switch for that, and the prompts are our own.


MAX_STEPS = 10
"""Limit on the points of one reasoning, as in the authors' code."""
MAX_REFERENCE_STEPS = 40
_MEDR_BENCH_PROMPTS = (
    "judge_system",
    "medr_answer",
    "medr_step_kind",
    "medr_step_fact",
    "medr_reference_steps",
    "medr_step_covered",
)
_STEP = re.compile(r"<step\s+\d+>\s*(.*?)(?=<step\s+\d+>|\Z)", re.IGNORECASE | re.DOTALL)
_KIND = object_schema({"kind": {"type": "string", "enum": ["reasoning", "citation", "repetition", "redundancy"]}})
_FACT = object_schema({"correct": {"type": "boolean"}})
_COVERED = object_schema({"covered": {"type": "boolean"}})
_STEPS = object_schema({"steps": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_REFERENCE_STEPS}})


@dataclass(frozen=True, slots=True, kw_only=True)
class MedRBenchJudge:
    """A model as judge under MedR-Bench's protocol. ``reasons``: whether it marks the reasoning at all."""

    name: str
    model: Model
    reasons: bool = True

    async def judge(self, case: JudgedCase, *, episode: str, record: Record) -> Verdict:
        """Judge the answer, then each step. ProviderError, FormatError: it could not."""
        calls = JudgeCalls(model=self.model, episode=episode, record=record)
        verdict = await calls.ask("medr_answer", {"case": case}, ANSWER_SCHEMA)
        figures = await _figures(calls, case) if self.reasons and case.reference else {}
        return Verdict(
            right=bool(verdict["same"]),
            judge=self.name,
            why=str(verdict.get("why", "")),
            protocol=MEDR_BENCH_JUDGE,
            reasoning=figures,
        )


async def _figures(calls: JudgeCalls, case: JudgedCase) -> dict[str, float]:
    steps = steps_of(case.reasoning)
    kinds: list[str] = []
    correct: list[bool] = []
    for place, step in enumerate(steps):
        shown = {"case": case, "step": step, "earlier": steps[:place]}
        kinds.append(str((await calls.ask("medr_step_kind", shown, _KIND))["kind"]))
        if kinds[-1] == "reasoning":
            correct.append(bool((await calls.ask("medr_step_fact", shown, _FACT))["correct"]))
    covered = []
    for step in (await calls.ask("medr_reference_steps", {"case": case}, _STEPS))["steps"]:
        shown = {"case": case, "step": step, "steps": steps}
        covered.append(bool((await calls.ask("medr_step_covered", shown, _COVERED))["covered"]))
    figures = {
        "efficiency": len(correct) / len(kinds) if kinds else 0.0,
        "factuality": fmean(correct) if correct else 0.0,
        "completeness": fmean(covered) if covered else 0.0,
    }
    return figures | {"R": fmean(figures.values())}


def steps_of(text: str) -> tuple[str, ...]:
    """Return the steps of a reply: those it marks ``<step 1>``, else its paragraphs, else its lines; at most 10.

    Headings and empty steps do not count; what stands behind the last ``Answer:`` is no reasoning.
    """
    reasoning = reasoning_part(text)
    marked = _STEP.findall(reasoning)
    parts = marked or reasoning.split("\n\n" if "\n\n" in reasoning.strip() else "\n")
    return tuple(part.strip() for part in parts if part.strip())[:MAX_STEPS]


def medr_bench_prompts() -> tuple[PromptFile, ...]:
    """The templates of this judge."""
    return tuple(load_prompt("wardround.tasks.scoring", name) for name in _MEDR_BENCH_PROMPTS)


# Clinical equivalence of a plan (TRACE, section 5): a judge grades, from 1 to 5, how good the actions predicted at a
# step would be beside those that were decided. The paper prints no prompt for it; this one is ours.


_PROMPT = "judge_equivalence"
_SCHEMA: Mapping[str, Any] = object_schema(
    {"why": {"type": "string"}, "grade": {"type": "integer", "minimum": 1, "maximum": 5}}, optional=("why",)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCase:
    """The plan of one step in words: the ``bundle`` that it followed, what was ``predicted``, what was ``decided``."""

    step: int
    bundle: str
    predicted: str
    decided: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGrade:
    """A judge's grade of a step's plan."""

    step: int
    grade: int
    why: str = ""


async def grade_plan(model: Model, case: PlanCase, *, episode: str, place: int, record: Record) -> PlanGrade:
    """Ask for the grade of one plan, the ``place``-th of its episode. ProviderError, FormatError: it cannot be had."""
    calls = JudgeCalls(model=model, episode=episode, record=record, calls=place)
    reply = await calls.ask(_PROMPT, {"case": case}, _SCHEMA)
    return PlanGrade(step=case.step, grade=int(reply["grade"]), why=str(reply.get("why", "")))


def equivalence_prompts() -> tuple[PromptFile, ...]:
    """The templates that plans are graded with."""
    return tuple(load_prompt("wardround.tasks.scoring", name) for name in ("judge_system", _PROMPT))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """Settings for judging free-text answers and for comparing figures."""

    baseline: str | None = setting(
        None, "contender (an agent, or 'agent · model') that the others are compared with", flag="--baseline"
    )

    judge: str | None = setting(
        None,
        "model that judges answers in words of one's own (a name of [models.NAME] too), or 'words': no model, a floor",
    )
    judge_may_play: bool = setting(False, "the judge may be a model that plays too, as in the GSEM paper")
    judge_protocol: JudgeProtocol = setting(
        POINTS,
        "how the judge marks: points (ours, one call for a reasoning) or medr-bench (after its authors' public code: "
        "a call for each step, and an answer that includes the right one counts)",
        source="MedR-Bench",
    )
    judge_reasoning: bool = setting(True, "the judge marks the reasoning too: efficiency, factuality, completeness")

    equivalence: int = setting(
        0,
        "steps of a stay, drawn, whose predictions the judge grades from 1 to 5 beside what was decided; 0: none",
        unit="steps",
        least=0,
        source="TRACE, section 5 (clinical equivalence)",
    )

    def __post_init__(self) -> None:
        check_settings(self)
