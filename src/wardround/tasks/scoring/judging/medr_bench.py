"""MedR-Bench's judge, after its authors' public code: a call for each step of the reasoning and of the reference.

- Answer: right where it holds the experts' diagnosis; of a treatment also where it is another that evidence supports.
- Efficiency: the share of the steps that reason. A step is reasoning, citation (of the case), repetition or redundancy;
  the judge sees the case, the earlier steps and the right answer.
- Factuality: of the steps that reason, the share that agrees with the case and with medical knowledge.
- Completeness: the judge cuts the experts' reasoning into steps, then says of each whether the reasoning holds it.

Other than there: nothing is looked up on the web, as with their switch for that, and the prompts are our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from wardround.core import PromptFile, load_prompt
from wardround.models import Model
from wardround.tasks.scoring.judging.judge import (
    ANSWER_SCHEMA,
    MEDR_BENCH_JUDGE,
    JudgeCalls,
    JudgedCase,
    Record,
    Verdict,
    reasoning_part,
)

MAX_STEPS = 10
"""Limit on the points of one reasoning, as in the authors' code."""
MAX_REFERENCE_STEPS = 40
_PROMPTS = (
    "judge_system",
    "medr_answer",
    "medr_step_kind",
    "medr_step_fact",
    "medr_reference_steps",
    "medr_step_covered",
)
_STEP = re.compile(r"<step\s+\d+>\s*(.*?)(?=<step\s+\d+>|\Z)", re.IGNORECASE | re.DOTALL)
_KINDS = ("reasoning", "citation", "repetition", "redundancy")


def _one(name: str, kind: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: kind}, "required": [name]}


_KIND = _one("kind", {"type": "string", "enum": list(_KINDS)})
_FACT = _one("correct", {"type": "boolean"})
_COVERED = _one("covered", {"type": "boolean"})
_STEPS = _one("steps", {"type": "array", "items": {"type": "string"}, "maxItems": MAX_REFERENCE_STEPS})


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
    return tuple(load_prompt("wardround.tasks.scoring", name) for name in _PROMPTS)
