"""Trivial contenders, scored: the same scorer, the same samples, none of the reading."""

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
        return {name: fmean(one.value for one in scores) for name, scores in self.scores.items()}

    @property
    def best(self) -> str:
        """The trivial contender with the highest mean; of equal ones the first. The oracle is none."""
        means = self.means
        return max((name for name in TRIVIAL if name in means), key=lambda name: means[name])


def trivial_scores(benchmark: Benchmark, samples: Collection[str]) -> tuple[TrivialScores, ...]:
    """Score the trivial contenders on the named samples of a benchmark, task by task; none where only a judge could."""
    wanted = set(samples)
    asked = {
        task: [one for one in benchmark.samples(task.name) if one.id in wanted]
        for task in benchmark.tasks
        if not task.answer.judged
    }
    return tuple(_of_task(benchmark, task, some) for task, some in asked.items() if some)


def _of_task(benchmark: Benchmark, task: Task, samples: list[Sample]) -> TrivialScores:
    given = trivial_answers(benchmark, task, samples)
    labels = benchmark.labels(task)
    said = benchmark.manifest.get("tasks", {}).get(task.name, {})
    return TrivialScores(
        task=task.name,
        metric=scorer_of(task.answer).metric,
        scores={
            name: tuple(_score(name, task, one, answers[one.id], labels) for one in samples)
            for name, answers in given.items()
            if not isinstance(answers, str)
        },
        unavailable={name: answers for name, answers in given.items() if isinstance(answers, str)},
        by_moment=said.get("when", {}),
        by_existence=said.get("existence", ()),
    )


def _score(
    name: str, task: Task, sample: Sample, answer: tuple[str, ...] | None, labels: LabelSet | None
) -> EpisodeScore:
    scorer = scorer_of(task.answer)
    settled = None if answer is None or name == ORACLE else task.answer.settle(answer)
    read = answer if name == ORACLE else settled
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
        answer=read,
        score=scorer.score(read, sample.target, labels),
        figures=scorer.figures(read, sample.target, labels),
        winnable_recall=1 - len(sample.unwinnable) / len(sample.target),
        grounding=GroundingCounts(),
        errors=frozenset(),
        no_prediction=None,
        use=_NO_USE,
        target=sample.target if scorer.keeps_target else (),
    )
