"""Judging: what an answer in words of one's own is worth, by a model that is none of the players, or by words."""

from wardround.scoring.judging.judge import WORDS, Judge, JudgedCase, ModelJudge, WordsJudge, judge_prompts
from wardround.scoring.judging.medr_bench import MedRBenchJudge, medr_bench_prompts, steps_of
from wardround.scoring.judging.points import points_of
from wardround.scoring.judging.verdict import (
    MEDR_BENCH_JUDGE,
    POINTS,
    REASONING_FIGURES,
    JudgeProtocol,
    Verdict,
    reasoning_figures,
)

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
    "Verdict",
    "WordsJudge",
    "judge_prompts",
    "medr_bench_prompts",
    "points_of",
    "reasoning_figures",
    "steps_of",
]
