"""A scored episode made by hand, of which a test says what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wardround.core import Usage
from wardround.tasks.scoring import EpisodeScore, EpisodeUse, GroundingCounts, SetScore

USE = EpisodeUse(
    turns=2,
    model_calls=2,
    usage=Usage(input_tokens=100, output_tokens=10),
    cost=0.5,
    model_seconds=2.0,
    tool_seconds=1.0,
    tool_calls={},
)


def scored(task: str, subject: int, f1: float, **changed: Any) -> EpisodeScore:
    """One answer to a task's question on a patient; ``use_...`` changes what it cost."""
    use = {name[4:]: changed.pop(name) for name in list(changed) if name.startswith("use_")}
    made = EpisodeScore(
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
        use=replace(USE, **use),
    )
    return replace(made, **changed)
