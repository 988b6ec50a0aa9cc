"""A run in figures: the table's rows, Best@K where there are epochs, and paired tests against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from wardround.core import UserError
from wardround.scoring import (
    EpisodeScore,
    PairedTest,
    SummaryRow,
    best_at_k,
    holm,
    paired_test_by_key,
    per_sample,
    summarise,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Contender minus baseline on a task, with the p-value adjusted over the tasks (Holm)."""

    contender: str
    baseline: str
    task: str
    test: PairedTest
    adjusted_p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRow:
    """Best@K F1 of a contender on a task for K = 1, 2, ... up to the epochs that every sample has."""

    contender: str
    task: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything the report's tables show."""

    rows: tuple[SummaryRow, ...]
    best: tuple[BestRow, ...]
    comparisons: tuple[Comparison, ...]


def contender(score: EpisodeScore | SummaryRow) -> str:
    """Who answered: agent and model."""
    return f"{score.agent} · {score.model}"


def summarise_run(scores: Sequence[EpisodeScore], *, seed: int, baseline: str | None = None) -> RunSummary:
    """Aggregate; the baseline of the paired tests is the first contender unless one is named."""
    groups = by_contender(scores)
    if baseline is not None and baseline not in groups:
        raise UserError(f"no contender {baseline!r}; there are {', '.join(groups)}")
    first = baseline or next(iter(groups), "")
    comparisons = [
        row
        for name, group in groups.items()
        if name != first
        for row in compare(groups[first], group, names=(first, name), seed=seed)
    ]
    best = [row for name, group in groups.items() for row in _best_rows(name, group)]
    return RunSummary(rows=summarise(scores, seed=seed), best=tuple(best), comparisons=tuple(comparisons))


def by_contender(scores: Sequence[EpisodeScore]) -> dict[str, list[EpisodeScore]]:
    """Group scores by who answered, in order of first appearance."""
    groups: dict[str, list[EpisodeScore]] = {}
    for score in scores:
        groups.setdefault(contender(score), []).append(score)
    return groups


def compare(
    first: Sequence[EpisodeScore], second: Sequence[EpisodeScore], *, names: tuple[str, str], seed: int
) -> list[Comparison]:
    """Compare two contenders task by task on the samples both have; epochs of a sample are averaged."""
    tests: dict[str, PairedTest] = {}
    subjects = {score.sample: score.subject_id for score in (*first, *second)}
    for task in sorted({score.task for score in first} & {score.task for score in second}):
        a, b = (per_sample([score for score in group if score.task == task]) for group in (first, second))
        if a.keys() & b.keys():
            tests[task] = paired_test_by_key(a, b, subjects, seed=seed)
    adjusted = holm({task: test.p_value for task, test in tests.items() if test.p_value is not None})
    return [
        Comparison(contender=names[1], baseline=names[0], task=task, test=test, adjusted_p=adjusted.get(task))
        for task, test in tests.items()
    ]


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
