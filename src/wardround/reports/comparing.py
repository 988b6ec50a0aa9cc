"""Compare contenders with their baseline: a paired test per task and stratum, corrected for the number of tests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wardround.core import UserError
from wardround.runs.folder import RunFolder
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import (
    EpisodeScore,
    Hypothesis,
    PairedAnswers,
    PairedTest,
    Scorer,
    class_answer,
    linear_hypothesis,
    paired_test_by_key,
    patients_parts,
    per_sample,
    scorer_of,
    step_down,
)
from wardround.tasks.scoring.tables import ALL, pooled_metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Contender minus baseline on a task and stratum.

    ``metric`` names the figure: the main one of the task's scorer, or in separate rows another one; over all tasks the
    mean of task means. ``adjusted_p`` is corrected by step-down max-T for its family: all contenders on all tasks in
    one metric and stratum; over all tasks, where each contender has one test, all contenders.
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
    """Two contenders to compare: names and scores of the baseline and of the other."""

    names: tuple[str, str]
    first: Sequence[EpisodeScore]
    second: Sequence[EpisodeScore]


_Row = tuple[Comparison, Hypothesis]


def must_match(first: RunFolder, second: RunFolder, *, other_clocks: bool = False) -> None:
    """Raise UserError unless two runs answer the same questions under the same clock policy (with ``other_clocks``:
    under different ones)."""
    if other_clocks and first.manifest["policy"] == second.manifest["policy"]:
        raise UserError(f"both runs are on the clocks {first.manifest['policy']!r}; leave --clocks out")
    for name in ("benchmark_digest", "store_digest", *(() if other_clocks else ("policy",))):
        if first.manifest[name] != second.manifest[name]:
            raise UserError(
                f"the runs differ in {name.replace('_', ' ')} ({first.manifest[name]!r} and "
                f"{second.manifest[name]!r}): their scores answer different questions"
            )


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
    further: list[_Row] = []
    for task in tasks:
        one = _of_task(pair, task)
        means.append(_mean_row(one, task, stratum, _scorer(task).metric, subjects, seed))
        further += _further_rows(one, task, stratum, subjects, seed)
    over_all: list[_Row] = []
    if len(tasks) > 1:
        task_of = {score.sample: score.task for score in pair.first}
        over_all = [_mean_row(pair, ALL, stratum, pooled_metric(tasks), subjects, seed, tasks=task_of)]
    return [*means, *further, *over_all]


def _scorer(task: str) -> Scorer:
    return scorer_of(get_task(task).answer)


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
    *,
    tasks: Mapping[str, str] | None = None,
    value: Callable[[EpisodeScore], float] = lambda score: score.value,
) -> _Row:
    first, second = per_sample(pair.first, value), per_sample(pair.second, value)
    test = paired_test_by_key(first, second, subjects, seed=seed, tasks=tasks)
    hypothesis = linear_hypothesis(patients_parts(first, second, subjects, tasks=tasks))
    return _comparison(pair, task, stratum, metric, test), hypothesis


def _further_rows(pair: Pair, task: str, stratum: str, subjects: Mapping[str, Hashable], seed: int) -> Iterator[_Row]:
    """Yield the other figures of a kind of answers: figures of each answer, averaged, then figures of all answers
    together."""
    both = {f"{score.sample} {score.epoch}": score for score in (*pair.first, *pair.second)}
    scorer = _scorer(task)
    for name in list(dict.fromkeys(name for score in both.values() for name in score.figures))[1:]:
        first, second = ([one for one in group if name in one.figures] for group in (pair.first, pair.second))
        having = replace(pair, first=first, second=second)  # whether an answer has it is the target's doing
        yield _mean_row(having, task, stratum, name, subjects, seed, value=_figure(name))
    if not scorer.keeps_target:
        return
    answers = PairedAnswers(
        first=_answers(pair.first),
        second=_answers(pair.second),
        truth={key: score.target for key, score in both.items()},
        subjects={key: score.subject_id for key, score in both.items()},
    )
    for found in scorer.further_tests(get_task(task).answer, answers, seed=seed):
        yield _comparison(pair, task, stratum, found.metric, found.test), found.hypothesis


def _figure(name: str) -> Callable[[EpisodeScore], float]:
    return lambda score: score.figures[name]


def _answers(scores: Sequence[EpisodeScore]) -> dict[str, tuple[str, ...] | None]:
    return {f"{score.sample} {score.epoch}": class_answer(score) for score in scores}


def _comparison(pair: Pair, task: str, stratum: str, metric: str, test: PairedTest) -> Comparison:
    baseline, contender = pair.names
    return Comparison(
        contender=contender, baseline=baseline, task=task, test=test, adjusted_p=None, metric=metric, stratum=stratum
    )
