"""Clinical equivalence of a plan (TRACE, section 5): a judge grades, from 1 to 5, how good the actions predicted at a
step would be beside those that were decided. The paper prints no prompt for it; this one is ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wardround.core import PromptFile, load_prompt
from wardround.models import Model
from wardround.models.schema import object_schema
from wardround.tasks.scoring.judging.judge import JudgeCalls, Record

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
