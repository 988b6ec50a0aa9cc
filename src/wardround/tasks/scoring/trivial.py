"""Trivial contenders: what a contender has to beat, and what nobody can, without reading a chart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from wardround.clinical.codes import LabelSet
from wardround.core import Usage
from wardround.tasks.benchmarks import Benchmark, Sample, Task
from wardround.tasks.benchmarks.benchmark import LastAnswers
from wardround.tasks.scoring.episodes import EpisodeScore, EpisodeUse, GroundingCounts
from wardround.tasks.scoring.scorer import scorer_of

TRIVIAL = ("nothing", "constant", "prior", "last", "when")
ORACLE = "oracle"
Answers = dict[str, tuple[str, ...] | None]
"""By sample; None is no answer."""
_Count = Callable[[Sequence[Sequence[str]]], tuple[str, ...]]
MODEL = "trivial"
_NO_USE = EpisodeUse(turns=0, model_calls=0, usage=Usage(), cost=0.0, model_seconds=0.0, tool_seconds=0.0)


def trivial_answers(benchmark: Benchmark, task: Task, samples: Sequence[Sample]) -> dict[str, Answers | str]:
    """Return the answers of every trivial contender and the oracle to some samples of a task; of one that cannot answer
    the reason. ``prior`` and the ``constant`` of names are counted over training samples, a sample's own left out; of
    names that a question lists as its own, ``prior`` counts only those."""
    training = benchmark.samples(task.name, "train")
    prior = _counted(task.answer.prior, training, samples)
    if not isinstance(prior, str):
        prior = prior | {
            sample.id: _listed_prior(task, sample, training) for sample in samples if "listed" in sample.facts
        }
    return {
        "nothing": {sample.id: None for sample in samples},
        "constant": _counted(task.answer.constant, training, samples),
        "prior": prior,
        "last": _made(benchmark.last, task, samples, {} if isinstance(prior, str) else prior),
        "when": _made(benchmark.when, task, samples, {}),
        ORACLE: {
            sample.id: tuple(name for name in sample.target if name not in sample.unwinnable) or None
            for sample in samples
        },
    }


def _counted(count: _Count, training: Sequence[Sample], samples: Sequence[Sample]) -> Answers | str:
    """One answer for all but training samples: those are answered by what other people's targets say."""
    if not training:
        return "the benchmark has no training sample of this task"
    whole = count([one.target for one in training])
    return {
        sample.id: whole
        if sample.split != "train"
        else count([n.target for n in training if n.person != sample.person])
        for sample in samples
    }


def _listed_prior(task: Task, sample: Sample, training: Sequence[Sample]) -> tuple[str, ...] | None:
    """Return the listed name that is most common in training targets."""
    listed = set(sample.facts["listed"])
    others = [one.target for one in training if one.person != sample.person]
    kept = [tuple(name for name in target if name in listed) for target in others]
    return task.answer.prior(kept) or None if any(kept) else None


def _made(
    by_task: Mapping[str, LastAnswers | str], task: Task, samples: Sequence[Sample], otherwise: Answers
) -> Answers | str:
    """Return what was made when the benchmark was built, or why it was not."""
    found = by_task.get(task.name, "not made when the benchmark was built; build it again")
    return (
        found
        if isinstance(found, str)
        else {sample.id: found.get(sample.id) or otherwise.get(sample.id) for sample in samples}
    )


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
    scores = []
    for task in benchmark.tasks:
        some = [] if task.answer.judged else [one for one in benchmark.samples(task.name) if one.id in wanted]
        if not some:
            continue
        answers_by_baseline = trivial_answers(benchmark, task, some)
        labels = benchmark.labels(task)
        task_facts = benchmark.manifest.get("tasks", {}).get(task.name, {})
        scores.append(
            TrivialScores(
                task=task.name,
                metric=scorer_of(task.answer).metric,
                scores={
                    name: tuple(_score(name, task, sample, answers[sample.id], labels) for sample in some)
                    for name, answers in answers_by_baseline.items()
                    if not isinstance(answers, str)
                },
                unavailable={
                    name: answers for name, answers in answers_by_baseline.items() if isinstance(answers, str)
                },
                by_moment=task_facts.get("when", {}),
                by_existence=task_facts.get("existence", ()),
            )
        )
    return tuple(scores)


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
