"""A run in figures: per contender, task and stratum, with intervals, and paired tests against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from wardround.core import UserError
from wardround.runs.results import EpisodeResult
from wardround.scoring import Interval, PairedTest, best_at_k, holm, paired_test_by_key, patient_bootstrap


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. ``best_at`` maps K to Best@K F1, only where there are several epochs."""

    contender: str
    task: str
    stratum: str
    f1: Interval
    precision: float
    recall: float
    turns: float
    input_tokens: float | None
    cost: float | None
    grounding: float | None
    unwinnable: float
    failed: int
    best_at: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Contender minus baseline on a task, with the p-value adjusted over the tasks (Holm)."""

    contender: str
    baseline: str
    task: str
    test: PairedTest
    adjusted_p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything the report's tables show."""

    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...]


def summarise(results: Sequence[EpisodeResult], *, seed: int, baseline: str | None = None) -> RunSummary:
    """Aggregate; the baseline of the paired tests is the first contender unless one is named."""
    contenders = list(dict.fromkeys(result.contender for result in results))
    if baseline is not None and baseline not in contenders:
        raise UserError(f"no contender {baseline!r}; there are {', '.join(contenders)}")
    rows = [row for contender in contenders for row in _rows_of(contender, results, seed)]
    first = baseline or (contenders[0] if contenders else "")
    comparisons = [
        row
        for contender in contenders
        if contender != first
        for row in compare_contenders(_of(results, first), _of(results, contender), names=(first, contender), seed=seed)
    ]
    return RunSummary(rows=tuple(rows), comparisons=tuple(comparisons))


def compare_contenders(
    first: Sequence[EpisodeResult], second: Sequence[EpisodeResult], *, names: tuple[str, str], seed: int
) -> list[Comparison]:
    """Compare two contenders task by task on the samples both have; epochs of a sample are averaged."""
    tests: dict[str, PairedTest] = {}
    for task in sorted({result.task for result in first} & {result.task for result in second}):
        a, b = (_mean_by_sample(group, task) for group in (first, second))
        if a.keys() & b.keys():
            subjects = {result.sample: result.subject_id for result in (*first, *second)}
            tests[task] = paired_test_by_key(a, b, subjects, seed=seed)
    adjusted = holm({task: test.p_value for task, test in tests.items() if test.p_value is not None})
    return [
        Comparison(contender=names[1], baseline=names[0], task=task, test=test, adjusted_p=adjusted.get(task))
        for task, test in tests.items()
    ]


def _of(results: Sequence[EpisodeResult], contender: str) -> list[EpisodeResult]:
    return [result for result in results if result.contender == contender]


def _mean_by_sample(results: Sequence[EpisodeResult], task: str) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for result in results:
        if result.task == task:
            scores.setdefault(result.sample, []).append(result.f1)
    return {sample: fmean(values) for sample, values in scores.items()}


def _rows_of(contender: str, results: Sequence[EpisodeResult], seed: int) -> list[Row]:
    own = _of(results, contender)
    tasks = sorted({result.task for result in own})
    rows = []
    for task in tasks:
        of_task = [result for result in own if result.task == task]
        rows.append(_row(contender, task, "all", of_task, seed))
        for stratum in sorted({result.stratum for result in of_task}):
            rows.append(_row(contender, task, stratum, [r for r in of_task if r.stratum == stratum], seed))
    if len(tasks) > 1:
        rows.append(_row(contender, "all tasks", "all", own, seed))
    return rows


def _row(contender: str, task: str, stratum: str, results: Sequence[EpisodeResult], seed: int) -> Row:
    subjects = [result.subject_id for result in results]
    grounded = [result.grounding for result in results if result.grounding is not None]
    return Row(
        contender=contender,
        task=task,
        stratum=stratum,
        f1=patient_bootstrap([result.f1 for result in results], subjects, seed=seed),
        precision=fmean(result.precision for result in results),
        recall=fmean(result.recall for result in results),
        turns=median(result.turns for result in results),
        input_tokens=_median([result.input_tokens for result in results]),
        cost=_mean([result.cost for result in results]),
        grounding=fmean(grounded) if grounded else None,
        unwinnable=sum(len(r.unwinnable) for r in results) / sum(len(r.target) for r in results),
        failed=sum(result.finish == "error" for result in results),
        best_at=_best_at(results),
    )


def _best_at(results: Sequence[EpisodeResult]) -> dict[int, float]:
    """Best@K over the samples, for every K up to the epochs that each of them has."""
    scores: dict[str, list[float]] = {}
    for result in results:
        scores.setdefault(result.sample, []).append(result.f1)
    depth = min(map(len, scores.values()), default=0)
    return {k: fmean(best_at_k(values, k) for values in scores.values()) for k in range(1, depth + 1) if depth > 1}


def _median(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
