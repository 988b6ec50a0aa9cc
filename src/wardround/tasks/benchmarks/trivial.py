"""Answers that take no reading of the chart: what a contender has to beat, and what nobody can.

``nothing`` answers nothing, ``constant`` the same to every question, ``prior`` what training targets hold most often,
``last`` what the same question's answer was when the chart last showed one (where it shows none: what ``prior`` says),
``when`` what a fit of the moment alone says, ``oracle`` all that can be answered. ``last`` and ``when`` are made when a
benchmark is built; the others follow from the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wardround.tasks.benchmarks.benchmark import Benchmark, LastAnswers
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import Task

TRIVIAL = ("nothing", "constant", "prior", "last", "when")
ORACLE = "oracle"
Answers = dict[str, tuple[str, ...] | None]
"""By sample; None is no answer."""
_Count = Callable[[Sequence[Sequence[str]]], tuple[str, ...]]


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
        ORACLE: {sample.id: _reachable(sample) for sample in samples},
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


def _reachable(sample: Sample) -> tuple[str, ...] | None:
    return tuple(name for name in sample.target if name not in sample.unwinnable) or None
