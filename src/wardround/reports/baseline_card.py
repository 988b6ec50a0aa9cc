"""The baseline card of a run: scores of trivial baselines on its samples, and contenders compared with the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any

from markupsafe import Markup

from wardround.core.table import Table, TableColumn, columns_of, table_of
from wardround.predictors import FitRow
from wardround.reports.comparing import Comparison
from wardround.reports.predictions import CLASSES_VIEW
from wardround.tasks.benchmarks import get_task
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
from wardround.tasks.scoring.trivial import ORACLE, TRIVIAL

BEST = "best trivial"
TELLING = 0.6
"""If the lower bound of an AUC is above it, the figure is printed beside every score of the task; so is an F1 whose
difference to the prior has a lower bound above 0."""
PREDICTOR = "predictor"
CONTENDERS = (*TRIVIAL, ORACLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """One task of the card. ``means``: the mean figure of every trivial contender and the oracle, None if not
    available; ``intervals``: of the available ones, if computed; ``by_moment``, ``by_existence``: see
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
        """The warning beside every score of a task that the question's time, or the existence of rows, can answer."""
        figures = [("the moment alone", self.by_moment)] if self.by_moment else []
        existing = sorted(self.by_existence, key=lambda figure: -float(figure["low"]))
        figures += [(f"'{figure['what']}' alone", figure) for figure in existing[:1]]
        found = [
            f"{name} answers with {figure_text(figure)}"
            for name, figure in figures
            if figure["low"] > (TELLING if "auc" in figure else 0.0)
        ]
        return f"{self.task}: {', '.join(found)}" if found else None


def baseline_card(trivial: Sequence[TrivialScores], *, seed: int = 0, intervals: bool = True) -> tuple[CardRow, ...]:
    """Return the card of some samples: a row per task, with intervals over patients unless ``intervals`` is False."""
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


def _contender_column(name: str, place: str) -> TableColumn[CardRow]:
    """Return the column of a contender's means: the best of a task is bold, with ``*`` in a terminal."""

    def cell(row: CardRow) -> str:
        mean, interval, is_best = row.means[name], row.intervals.get(name), name == row.best
        if mean is None:
            return "–"
        if place == "terminal":
            return f"{mean:.3f}*" if is_best else f"{mean:.3f}"
        below = Markup('<br><span class="soft">{}</span>')
        shown = Markup("<b>{:.3f}</b>" if is_best else "{:.3f}").format(mean)
        return shown + below.format(interval.as_text(".2f")) if interval and interval.is_telling else shown

    return TableColumn(name=name, value=cell, tables=place)


CARD_COLUMNS: tuple[TableColumn[CardRow], ...] = (
    TableColumn(name="task", value=attrgetter("task"), kind="text"),
    TableColumn(name="n", value=attrgetter("n")),
    TableColumn(name="in", value=attrgetter("metric"), kind="text"),
    *(_contender_column(name, place) for place in ("terminal", "page") for name in CONTENDERS),
)


def card_table(rows: Sequence[CardRow], place: str = "page") -> Table:
    """Return the card as a table, on a page or in a ``terminal``."""
    return table_of(rows, columns_of(CARD_COLUMNS, place))


def figure_text(found: Mapping[str, Any]) -> str:
    """Format an AUC with its interval, or an F1 with its difference to the prior and that difference's interval."""
    if "auc" in found:
        return f"AUC {found['auc']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"
    bounds = f"{found['low']:+.2f}, {found['high']:+.2f}"
    return f"F1 {found['f1']:.2f}, prior {found['prior']:.2f} ({found['gain']:+.2f} [{bounds}])"


def against_trivial(
    groups: Mapping[str, Sequence[EpisodeScore]], trivial: Sequence[TrivialScores], *, seed: int
) -> tuple[Comparison, ...]:
    """Compare every contender with the task's best trivial baseline, sample by sample.

    The best is chosen on the same samples, which favours it: a contender better than it is better than all. Corrected
    by step-down max-T over all contenders and tasks of a metric.
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
    """Return the scores of classical predictors, by name, on the samples of the trivial baselines.

    A predictor's answer is the most probable class of the fit on the whole training split.
    """
    found: dict[str, list[EpisodeScore]] = {}
    for row in predictions:
        answers = {
            sample: row.classes[max(enumerate(shares), key=itemgetter(1))[0]] for sample, shares in _probabilities(row)
        }
        for one in (score for part in trivial if part.task == row.task for score in part.scores[part.best]):
            if one.sample in answers:
                found.setdefault(f"{row.predictor} · {PREDICTOR}", []).append(_answered(one, row, answers[one.sample]))
    return found


def _probabilities(row: FitRow) -> Iterable[tuple[str, tuple[float, ...]]]:
    """Return the test samples with their probabilities, if the fit has the task's own classes."""
    return zip(row.samples, row.probabilities, strict=True) if row.view == CLASSES_VIEW else ()


def _answered(sample: EpisodeScore, row: FitRow, answer: str) -> EpisodeScore:
    """Return the score of a sample with another answer."""
    task = get_task(sample.task)
    scorer, labels = scorer_of(task.answer), task.answer.labels(task.name, None)
    return replace(
        sample,
        episode=f"{row.predictor} {sample.sample}",
        agent=row.predictor,
        model=PREDICTOR,
        answer=(answer,),
        score=scorer.score((answer,), sample.target, labels),
        figures=scorer.figures((answer,), sample.target, labels),
    )


def _pair(
    name: str, scores: Sequence[EpisodeScore], trivial: TrivialScores, seed: int
) -> tuple[Comparison, Hypothesis] | None:
    """Compare a contender with the best trivial baseline; None if it has no sample of the task."""
    second = per_sample([score for score in scores if score.task == trivial.task])
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
    return patient_bootstrap([score.value for score in scores], [score.subject_id for score in scores], seed=seed)
