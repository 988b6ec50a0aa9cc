"""Judging: what an answer in words of one's own is worth, by a model that is none of the players, or by words."""

from wardround.scoring.judging.judge import WORDS, Judge, JudgedCase, ModelJudge, WordsJudge, judge_prompts
from wardround.scoring.judging.points import points_of
from wardround.scoring.judging.verdict import REASONING_FIGURES, Verdict, reasoning_figures

__all__ = [
    "REASONING_FIGURES",
    "WORDS",
    "Judge",
    "JudgedCase",
    "ModelJudge",
    "Verdict",
    "WordsJudge",
    "judge_prompts",
    "points_of",
    "reasoning_figures",
]
