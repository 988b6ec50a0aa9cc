"""A run in figures: the table's rows, Best@K where there are epochs, and paired tests against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from wardround.benchmarks import get_task
from wardround.core import UserError
from wardround.predictors import FitRow
from wardround.runs.predictions import predictor_rows
from wardround.scoring import (
    ClassificationRow,
    EpisodeScore,
    PairedTest,
    SummaryRow,
    best_at_k,
    class_answer,
    classify,
    holm,
    paired_macro_f1,
    paired_test_by_key,
    per_sample,
    summarise,
)
from wardround.scoring.tables import ALL

MACRO_F1 = "macro-F1"
_PAPERS_BASELINE = "resum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Contender minus baseline on a task, with the p-value adjusted over the tasks (Holm).

    ``metric`` is the mean set F1; of tasks with classes the accuracy, and in a row of its own the macro-F1.
    """

    contender: str
    baseline: str
    task: str
    test: PairedTest
    adjusted_p: float | None
    metric: str = "F1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRow:
    """Best@K F1 of a contender on a task for K = 1, 2, ... up to the epochs that every sample has."""

    contender: str
    task: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything the report's tables show. ``classes`` are the agents' rows on tasks with classes, ``predictors`` those
    of the classical baselines."""

    rows: tuple[SummaryRow, ...]
    best: tuple[BestRow, ...]
    comparisons: tuple[Comparison, ...]
    classes: tuple[ClassificationRow, ...] = ()
    predictors: tuple[ClassificationRow, ...] = ()


def contender(score: EpisodeScore | SummaryRow) -> str:
    """Who answered: agent and model."""
    return f"{score.agent} · {score.model}"


def summarise_run(
    scores: Sequence[EpisodeScore], *, seed: int, baseline: str | None = None, predictions: Sequence[FitRow] = ()
) -> RunSummary:
    """Aggregate. ``baseline`` of the paired tests: a contender, or an agent, then of everybody's own model; by default
    ReSum, which the RetroSum paper tests against, where it plays, else the first contender.

    ``predictions`` are the fits of predictors that lie in the run's folder.
    """
    groups = by_contender(scores)
    comparisons = [
        row
        for name, group in groups.items()
        if (first := _baseline_of(group[0], groups, baseline)) not in (name, None)
        for row in compare(groups[first], group, names=(first, name), seed=seed)
    ]
    best = [row for name, group in groups.items() for row in _best_rows(name, group)]
    return RunSummary(
        rows=summarise(scores, seed=seed),
        best=tuple(best),
        comparisons=tuple(comparisons),
        classes=classify(scores, seed=seed),
        predictors=predictor_rows(predictions),
    )


def _baseline_of(one: EpisodeScore, groups: Mapping[str, Sequence[EpisodeScore]], baseline: str | None) -> str | None:
    """Return whom a contender is compared with; None where the named agent has not played with its model."""
    agents = {group[0].agent for group in groups.values()}
    named = baseline or (_PAPERS_BASELINE if _PAPERS_BASELINE in agents else next(iter(groups)))
    if named in agents:
        same_model = f"{named} · {one.model}"
        return same_model if same_model in groups else None
    if named not in groups:
        raise UserError(f"no contender {named!r}; there are {', '.join(groups)}")
    return named


def by_contender(scores: Sequence[EpisodeScore]) -> dict[str, list[EpisodeScore]]:
    """Group scores by who answered, in order of first appearance."""
    groups: dict[str, list[EpisodeScore]] = {}
    for score in scores:
        groups.setdefault(contender(score), []).append(score)
    return groups


def compare(
    first: Sequence[EpisodeScore], second: Sequence[EpisodeScore], *, names: tuple[str, str], seed: int
) -> list[Comparison]:
    """Compare two contenders task by task, and over all tasks, on the samples both have; epochs are averaged."""
    tests: dict[str, dict[str, PairedTest]] = {}
    subjects = {score.sample: score.subject_id for score in (*first, *second)}
    for task in sorted({score.task for score in first} & {score.task for score in second}):
        groups = [[score for score in group if score.task == task] for group in (first, second)]
        a, b = (per_sample(group) for group in groups)
        if a.keys() & b.keys():
            single = get_task(task).classes and not get_task(task).several
            tests.setdefault("accuracy" if single else "F1", {})[task] = paired_test_by_key(a, b, subjects, seed=seed)
            if get_task(task).classes:
                tests.setdefault(MACRO_F1, {})[task] = _macro_test(task, *groups, seed=seed)
    found = [
        Comparison(contender=names[1], baseline=names[0], task=task, test=test, adjusted_p=adjusted, metric=metric)
        for metric, by_task in tests.items()
        for task, test, adjusted in _adjusted(by_task)
    ]
    tasks = {row.task for row in found}
    if len(tasks) > 1:  # one test, of what the table's row over all tasks shows: nothing to adjust for
        a, b = (per_sample([score for score in group if score.task in tasks]) for group in (first, second))
        whole = paired_test_by_key(a, b, subjects, seed=seed)
        found.append(Comparison(contender=names[1], baseline=names[0], task=ALL, test=whole, adjusted_p=None))
    return found


def _adjusted(tests: Mapping[str, PairedTest]) -> list[tuple[str, PairedTest, float | None]]:
    values = holm({task: test.p_value for task, test in tests.items() if test.p_value is not None})
    return [(task, test, values.get(task)) for task, test in tests.items()]


def _macro_test(task: str, first: Sequence[EpisodeScore], second: Sequence[EpisodeScore], *, seed: int) -> PairedTest:
    """Of repeated epochs the macro-F1 takes each as a sample of its own, paired by number."""
    answers = [{f"{score.sample} {score.epoch}": class_answer(score) for score in group} for group in (first, second)]
    both = {f"{score.sample} {score.epoch}": score for score in (*first, *second)}
    return paired_macro_f1(
        answers[0],
        answers[1],
        {key: score.target for key, score in both.items()},
        {key: score.subject_id for key, score in both.items()},
        classes=get_task(task).label_values,
        several=get_task(task).several,
        seed=seed,
    )


def _best_rows(name: str, scores: Sequence[EpisodeScore]) -> list[BestRow]:
    rows = []
    for task in sorted({score.task for score in scores}):
        epochs = _epochs([score for score in scores if score.task == task])
        depth = min(map(len, epochs.values()))
        if depth > 1:
            values = [fmean(best_at_k(f1, k) for f1 in epochs.values()) for k in range(1, depth + 1)]
            rows.append(BestRow(contender=name, task=task, values=tuple(values)))
    return rows


def _epochs(scores: Sequence[EpisodeScore]) -> Mapping[str, list[float]]:
    found: dict[str, list[float]] = {}
    for score in scores:
        found.setdefault(score.sample, []).append(score.score.f1)
    return found
