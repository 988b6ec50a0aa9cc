"""The honesty card of a run: what answers without any reading score on its samples, and whether anybody beats them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.predictors import FitRow
from wardround.reports.comparing import Comparison
from wardround.reports.predictions import CLASSES_VIEW
from wardround.tasks.benchmarks import get_task
from wardround.tasks.benchmarks.trivial import ORACLE, TRIVIAL
from wardround.tasks.scoring import (
    EpisodeScore,
    Hypothesis,
    Interval,
    TrivialScores,
    linear_hypothesis,
    paired_test_by_key,
    patient_bootstrap,
    patients_parts,
    per_sample,
    scorer_of,
    step_down,
)

BEST = "best trivial"
TELLING = 0.6
"""Where the lower bound of an AUC lies above it, the figure stands beside every score of the task. So does an F1 whose
difference to the prior has a lower bound above 0."""
PREDICTOR = "predictor"
CONTENDERS = (*TRIVIAL, ORACLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """One task of the card: the mean figure of every trivial contender and of the oracle, None where not available;
    the intervals of those that are there, where they were asked for. ``by_moment``, ``by_existence``: see
    :class:`TrivialScores`."""

    task: str
    metric: str
    n: int
    means: Mapping[str, float | None]
    intervals: Mapping[str, Interval]
    best: str
    unavailable: Mapping[str, str]
    by_moment: Mapping[str, Any] = field(default_factory=dict)
    by_existence: Sequence[Mapping[str, Any]] = ()

    @property
    def warning(self) -> str | None:
        """What stands beside every score of a task that when it is asked, or which rows exist, answers."""
        told = [("the moment alone", self.by_moment)] if self.by_moment else []
        existing = sorted(self.by_existence, key=lambda one: -float(one["low"]))
        told += [(f"'{one['what']}' alone", one) for one in existing[:1]]
        found = [f"{what} answers with {figure_text(one)}" for what, one in told if one["low"] > _bar(one)]
        return f"{self.task}: {', '.join(found)}" if found else None


def honesty_card(trivial: Sequence[TrivialScores], *, seed: int = 0, intervals: bool = True) -> tuple[CardRow, ...]:
    """Return the card of some samples: a row per task, with intervals over patients unless that is too much work."""
    return tuple(
        CardRow(
            task=one.task,
            metric=one.metric,
            n=len(one.scores[one.best]),
            means={name: one.means.get(name) for name in CONTENDERS},
            intervals={name: _interval(scores, seed) for name, scores in one.scores.items()} if intervals else {},
            best=one.best,
            unavailable=one.unavailable,
            by_moment=one.by_moment,
            by_existence=one.by_existence,
        )
        for one in trivial
    )


def figure_text(found: Mapping[str, Any]) -> str:
    """Write an AUC with its interval, or an F1 with its difference to the prior and the interval of that."""
    if "auc" in found:
        return f"AUC {found['auc']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"
    bounds = f"{found['low']:+.2f}, {found['high']:+.2f}"
    return f"F1 {found['f1']:.2f}, prior {found['prior']:.2f} ({found['gain']:+.2f} [{bounds}])"


def _bar(found: Mapping[str, Any]) -> float:
    return TELLING if "auc" in found else 0.0


def against_trivial(
    groups: Mapping[str, Sequence[EpisodeScore]], trivial: Sequence[TrivialScores], *, seed: int
) -> tuple[Comparison, ...]:
    """Pair every contender with the trivial one that is best on the task, sample by sample.

    The best is chosen on these very samples, which favours it: a contender that is ahead is ahead of all of them.
    Corrected by step-down max-T over all contenders and tasks of a metric.
    """
    rows = [row for name, scores in groups.items() for one in trivial if (row := _pair(name, scores, one, seed))]
    found = [row for row, _ in rows]
    for metric in dict.fromkeys(row.metric for row in found):
        places = [place for place, row in enumerate(found) if row.metric == metric]
        adjusted = step_down([rows[place][1] for place in places], seed=seed)
        for place, value in zip(places, adjusted, strict=True):
            own = found[place].test.p_value
            found[place] = replace(found[place], adjusted_p=None if value is None or own is None else max(value, own))
    return tuple(found)


def predictor_scores(predictions: Sequence[FitRow], trivial: Sequence[TrivialScores]) -> dict[str, list[EpisodeScore]]:
    """Return what classical predictors would score as contenders, by name, on the samples of the trivial ones: the
    class that a fit on the whole training split holds most likely."""
    found: dict[str, list[EpisodeScore]] = {}
    for row in predictions:
        said = {sample: row.classes[max(enumerate(shares), key=_share)[0]] for sample, shares in _told(row)}
        for one in (score for part in trivial if part.task == row.task for score in part.scores[part.best]):
            if one.sample in said:
                found.setdefault(f"{row.predictor} · {PREDICTOR}", []).append(_answered(one, row, said[one.sample]))
    return found


def _told(row: FitRow) -> Iterable[tuple[str, tuple[float, ...]]]:
    """The test samples and their probabilities, of a fit that answers the task as it is asked."""
    return zip(row.samples, row.probabilities, strict=True) if row.view == CLASSES_VIEW else ()


def _share(placed: tuple[int, float]) -> float:
    return placed[1]


def _answered(one: EpisodeScore, row: FitRow, said: str) -> EpisodeScore:
    """The score of a sample with another answer to it."""
    task = get_task(one.task)
    scorer, labels = scorer_of(task.answer), task.answer.labels(task.name, None)
    return replace(
        one,
        episode=f"{row.predictor} {one.sample}",
        agent=row.predictor,
        model=PREDICTOR,
        answer=(said,),
        score=scorer.score((said,), one.target, labels),
        figures=scorer.figures((said,), one.target, labels),
    )


def _pair(
    name: str, scores: Sequence[EpisodeScore], trivial: TrivialScores, seed: int
) -> tuple[Comparison, Hypothesis] | None:
    """Compare a contender with the best trivial one; None where it has not played the task."""
    second = per_sample([one for one in scores if one.task == trivial.task])
    if not second:
        return None
    best = [one for one in trivial.scores[trivial.best] if one.sample in second]
    first = per_sample(best)
    subjects = {one.sample: one.subject_id for one in best}
    test = paired_test_by_key(first, second, subjects, seed=seed)
    row = Comparison(
        contender=name, baseline=BEST, task=trivial.task, test=test, adjusted_p=None, metric=trivial.metric
    )
    return row, linear_hypothesis(patients_parts(first, second, subjects))


def _interval(scores: Sequence[EpisodeScore], seed: int) -> Interval:
    return patient_bootstrap([one.value for one in scores], [one.subject_id for one in scores], seed=seed)
