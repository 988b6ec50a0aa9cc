"""Judging: what an answer in words of one's own is worth, by a model that is none of the players, or by words."""

from wardround.tasks.scoring.judging.equivalence import PlanCase, PlanGrade, equivalence_prompts, grade_plan
from wardround.tasks.scoring.judging.judge import (
    MEDR_BENCH_JUDGE,
    POINTS,
    REASONING_FIGURES,
    WORDS,
    Judge,
    JudgedCase,
    JudgeProtocol,
    ModelJudge,
    Verdict,
    WordsJudge,
    judge_prompts,
    points_of,
    reasoning_figures,
)
from wardround.tasks.scoring.judging.medr_bench import MedRBenchJudge, medr_bench_prompts, steps_of

__all__ = [
    "MEDR_BENCH_JUDGE",
    "POINTS",
    "REASONING_FIGURES",
    "WORDS",
    "Judge",
    "JudgeProtocol",
    "JudgedCase",
    "MedRBenchJudge",
    "ModelJudge",
    "PlanCase",
    "PlanGrade",
    "Verdict",
    "WordsJudge",
    "equivalence_prompts",
    "grade_plan",
    "judge_prompts",
    "medr_bench_prompts",
    "points_of",
    "reasoning_figures",
    "steps_of",
]
