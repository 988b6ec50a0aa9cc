"""Contenders against their baseline: a paired test per task and stratum, corrected for how many there are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wardround.benchmarks import get_task
from wardround.scoring import (
    EpisodeScore,
    Hypothesis,
    PairedTest,
    class_answer,
    linear_hypothesis,
    macro_hypothesis,
    paired_macro_f1,
    paired_test_by_key,
    patients_parts,
    per_sample,
    step_down,
)
from wardround.scoring.tables import ALL

MACRO_F1 = "macro-F1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Contender minus baseline on a task and stratum.

    ``metric`` is the mean set F1; of tasks with classes the accuracy, and in a row of its own the macro-F1; over all
    tasks the mean of task means. ``adjusted_p`` is corrected by step-down max-T for the family: all contenders on all
    tasks in one metric and stratum; over all tasks, where each contender has one test, for the contenders.
    """

    contender: str
    baseline: str
    task: str
    test: PairedTest
    adjusted_p: float | None
    metric: str = "F1"
    stratum: str = ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Who is compared: names and scores of the baseline and of the contender."""

    names: tuple[str, str]
    first: Sequence[EpisodeScore]
    second: Sequence[EpisodeScore]


_Row = tuple[Comparison, Hypothesis]


def compare(
    first: Sequence[EpisodeScore], second: Sequence[EpisodeScore], *, names: tuple[str, str], seed: int
) -> list[Comparison]:
    """Compare two contenders task by task, and over all tasks, on the samples both have; epochs are averaged."""
    return compare_all([Pair(names=names, first=first, second=second)], seed=seed)


def compare_all(pairs: Iterable[Pair], *, seed: int) -> list[Comparison]:
    """Compare every pair, stratum by stratum and together, and correct for all of them at once."""
    rows = [row for pair in pairs for row in _rows(pair, seed)]
    families: dict[tuple[str, str, bool], list[int]] = {}
    for place, (row, _) in enumerate(rows):
        families.setdefault((row.metric, row.stratum, row.task == ALL), []).append(place)
    found = [row for row, _ in rows]
    for places in families.values():
        adjusted = step_down([rows[place][1] for place in places], seed=seed)
        for place, value in zip(places, adjusted, strict=True):
            own = found[place].test.p_value
            known = None if value is None or own is None else max(value, own)  # both are estimates of the same flips
            found[place] = replace(found[place], adjusted_p=known)
    return found


def _rows(pair: Pair, seed: int) -> list[_Row]:
    shared = {score.sample for score in pair.first} & {score.sample for score in pair.second}
    strata = sorted({score.stratum for score in pair.first if score.sample in shared})
    rows: list[_Row] = []
    for stratum in (*(strata if len(strata) > 1 else ()), ALL):
        groups = [
            [score for score in group if score.sample in shared and stratum in (ALL, score.stratum)]
            for group in (pair.first, pair.second)
        ]
        rows += _of_stratum(replace(pair, first=groups[0], second=groups[1]), stratum, seed)
    return rows


def _of_stratum(pair: Pair, stratum: str, seed: int) -> list[_Row]:
    subjects = {score.sample: score.subject_id for score in (*pair.first, *pair.second)}
    tasks = sorted({score.task for score in pair.first})
    means: list[_Row] = []
    macros: list[_Row] = []
    for task in tasks:
        one = _of_task(pair, task)
        single = get_task(task).classes and not get_task(task).several
        means.append(_mean_row(one, task, stratum, "accuracy" if single else "F1", subjects, seed))
        if get_task(task).classes:
            macros.append(_macro_row(one, task, stratum, seed))
    over_all: list[_Row] = []
    if len(tasks) > 1:
        task_of = {score.sample: score.task for score in pair.first}
        over_all = [_mean_row(pair, ALL, stratum, "F1", subjects, seed, task_of)]
    return [*means, *macros, *over_all]


def _of_task(pair: Pair, task: str) -> Pair:
    first, second = ([score for score in group if score.task == task] for group in (pair.first, pair.second))
    return replace(pair, first=first, second=second)


def _mean_row(
    pair: Pair,
    task: str,
    stratum: str,
    metric: str,
    subjects: Mapping[str, Hashable],
    seed: int,
    tasks: Mapping[str, str] | None = None,
) -> _Row:
    first, second = per_sample(pair.first), per_sample(pair.second)
    test = paired_test_by_key(first, second, subjects, seed=seed, tasks=tasks)
    hypothesis = linear_hypothesis(patients_parts(first, second, subjects, tasks=tasks))
    return _comparison(pair, task, stratum, metric, test), hypothesis


def _macro_row(pair: Pair, task: str, stratum: str, seed: int) -> _Row:
    """Of repeated epochs the macro-F1 takes each as a sample of its own, paired by number."""
    first, second = _answers(pair.first), _answers(pair.second)
    both = {f"{score.sample} {score.epoch}": score for score in (*pair.first, *pair.second)}
    truth = {key: score.target for key, score in both.items()}
    subjects = {key: score.subject_id for key, score in both.items()}
    classes, several = get_task(task).label_values, get_task(task).several
    test = paired_macro_f1(first, second, truth, subjects, classes=classes, several=several, seed=seed)
    hypothesis = macro_hypothesis(first, second, truth, subjects, classes=classes, several=several)
    return _comparison(pair, task, stratum, MACRO_F1, test), hypothesis


def _answers(scores: Sequence[EpisodeScore]) -> dict[str, tuple[str, ...] | None]:
    return {f"{score.sample} {score.epoch}": class_answer(score) for score in scores}


def _comparison(pair: Pair, task: str, stratum: str, metric: str, test: PairedTest) -> Comparison:
    baseline, contender = pair.names
    return Comparison(
        contender=contender, baseline=baseline, task=task, test=test, adjusted_p=None, metric=metric, stratum=stratum
    )
