"""Scores of trivial contenders: the same scorer on the same samples, without reading a chart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from wardround.clinical.codes import LabelSet
from wardround.core import Usage
from wardround.tasks.benchmarks import Benchmark, Sample, Task
from wardround.tasks.benchmarks.trivial import ORACLE, TRIVIAL, trivial_answers
from wardround.tasks.scoring.episodes import EpisodeScore, EpisodeUse
from wardround.tasks.scoring.grounding import GroundingCounts
from wardround.tasks.scoring.scorer import scorer_of

MODEL = "trivial"
_NO_USE = EpisodeUse(turns=0, model_calls=0, usage=Usage(), cost=0.0, model_seconds=0.0, tool_seconds=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrivialScores:
    """One task: the scores of every trivial contender and the oracle on some samples, the reasons of those without.
    ``by_moment`` and ``by_existence``: how well the moment of a question, and the existence of rows, tell the answers
    of the whole benchmark (AUC, ``low``, ``high``), where a task has two classes."""

    task: str
    metric: str
    scores: Mapping[str, tuple[EpisodeScore, ...]]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    by_moment: Mapping[str, Any] = field(default_factory=dict)
    by_existence: Sequence[Mapping[str, Any]] = ()

    @property
    def means(self) -> dict[str, float]:
        """The mean figure of each over its samples."""
        return {name: fmean(score.value for score in scores) for name, scores in self.scores.items()}

    @property
    def best(self) -> str:
        """The trivial contender with the highest mean; of equal ones the first. The oracle is none."""
        means = self.means
        return max((name for name in TRIVIAL if name in means), key=lambda name: means[name])


def trivial_scores(benchmark: Benchmark, samples: Collection[str]) -> tuple[TrivialScores, ...]:
    """Score the trivial baselines on the named samples, task by task.

    Tasks that need a judge are left out.
    """
    wanted = set(samples)
    samples_by_task = {
        task: [sample for sample in benchmark.samples(task.name) if sample.id in wanted]
        for task in benchmark.tasks
        if not task.answer.judged
    }
    return tuple(
        _task_scores(benchmark, task, task_samples) for task, task_samples in samples_by_task.items() if task_samples
    )


def _task_scores(benchmark: Benchmark, task: Task, samples: list[Sample]) -> TrivialScores:
    answers_by_baseline = trivial_answers(benchmark, task, samples)
    labels = benchmark.labels(task)
    task_facts = benchmark.manifest.get("tasks", {}).get(task.name, {})
    return TrivialScores(
        task=task.name,
        metric=scorer_of(task.answer).metric,
        scores={
            name: tuple(_score(name, task, sample, answers[sample.id], labels) for sample in samples)
            for name, answers in answers_by_baseline.items()
            if not isinstance(answers, str)
        },
        unavailable={name: answers for name, answers in answers_by_baseline.items() if isinstance(answers, str)},
        by_moment=task_facts.get("when", {}),
        by_existence=task_facts.get("existence", ()),
    )


def _score(
    name: str, task: Task, sample: Sample, answer: tuple[str, ...] | None, labels: LabelSet | None
) -> EpisodeScore:
    scorer = scorer_of(task.answer)
    settled_answer = None if answer is None or name == ORACLE else task.answer.settle(answer)
    scored_answer = answer if name == ORACLE else settled_answer
    return EpisodeScore(
        episode=f"{name} {sample.id}",
        agent=name,
        model=MODEL,
        task=task.name,
        sample=sample.id,
        epoch=0,
        subject_id=sample.person,
        split=sample.split,
        stratum=sample.stratum,
        finish="finish",
        answer=scored_answer,
        score=scorer.score(scored_answer, sample.target, labels),
        figures=scorer.figures(scored_answer, sample.target, labels),
        winnable_recall=1 - len(sample.unwinnable) / len(sample.target),
        grounding=GroundingCounts(),
        errors=frozenset(),
        no_prediction=None,
        use=_NO_USE,
        target=sample.target if scorer.keeps_target else (),
    )
