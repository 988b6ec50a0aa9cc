"""Comparisons of hand-made scores: every task by its own samples, and all tasks by the mean of their means."""

from __future__ import annotations

import pytest

from wardround.core import Usage
from wardround.runs.comparing import compare
from wardround.scoring import EpisodeScore, EpisodeUse, GroundingCounts, SetScore


def scored(task: str, subject: int, f1: float) -> EpisodeScore:
    use = EpisodeUse(
        turns=1, model_calls=1, usage=Usage(), cost=0.0, model_seconds=0.0, tool_seconds=0.0, tool_calls={}
    )
    return EpisodeScore(
        episode=f"{task}-{subject}",
        agent="react",
        model="offline",
        task=task,
        sample=f"{task}-{subject}",
        epoch=0,
        subject_id=subject,
        split="test",
        stratum="common",
        finish="finish",
        answer=("x",),
        score=SetScore(precision=f1, recall=f1, f1=f1, hits=1, answered=1, wanted=1),
        winnable_recall=1.0,
        grounding=GroundingCounts(citations=0, passed=0),
        errors=frozenset(),
        no_prediction=None,
        use=use,
    )


def test_a_tasks_row_is_of_the_samples_of_that_task_that_both_have() -> None:
    baseline = [scored("labevents", 1, 0.0), scored("labevents", 2, 0.5), scored("transfers", 3, 1.0)]
    contender = [scored("labevents", 1, 1.0), scored("labevents", 2, 1.0), scored("transfers", 3, 0.5)]
    alone = scored("transfers", 4, 1.0)
    rows = compare([*baseline, alone], contender, names=("a", "b"), seed=0)
    found = {row.task: (row.test.difference.estimate, row.test.difference.n, row.test.unpaired) for row in rows}
    assert found == {
        "labevents": (pytest.approx(0.75), 2, 0),
        "transfers": (pytest.approx(-0.5), 1, 0),
        "all": (pytest.approx(0.125), 3, 0),
    }
