"""Classification metrics: accuracy, F1, AUROC, average precision, Brier; agreement of reviewers beyond chance."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wardround.core import UserError
from wardround.tasks.scoring.bootstrap import (
    Floats,
    Interval,
    PatientDraws,
    Statistic,
    cluster_bootstrap,
    mean_of_rows,
    ratio,
)

# How well scores rank and how well they are calibrated: AUROC, average precision, Brier, each over weighted samples.
#
# Weights are rows: (resamples, samples). Ties are one threshold, as in scikit-learn. Undefined is NaN: AUROC without
# both classes, and average precision: scikit-learn says 1 where all are positive, whatever the scores.


Truth = npt.NDArray[np.bool_]


def weighted_auroc(truth: Truth, scores: Floats, weights: Floats) -> Floats:
    """Probability that a positive scores above a negative, ties counting half."""
    positive, negative = _by_threshold(truth, scores, weights)
    below = np.cumsum(negative, axis=1) - negative
    won = np.sum(positive * (below + negative / 2), axis=1)
    return ratio(won, positive.sum(axis=1) * negative.sum(axis=1))


def weighted_average_precision(truth: Truth, scores: Floats, weights: Floats) -> Floats:
    """Mean precision over the positives, each at its own threshold: AUPRC without interpolation."""
    positive, negative = (part[:, ::-1] for part in _by_threshold(truth, scores, weights))
    found = np.cumsum(positive, axis=1)
    called = found + np.cumsum(negative, axis=1)
    precision = np.divide(found, called, out=np.zeros_like(found), where=called > 0)
    judged = np.where(called[:, -1] > found[:, -1], found[:, -1], 0)
    return ratio(np.sum(positive * precision, axis=1), judged)


def weighted_brier(truth: Truth, scores: Floats, weights: Floats) -> Floats:
    """Mean squared distance of the probabilities from the truth."""
    return ratio(weights @ (scores - truth) ** 2, weights.sum(axis=1))


def weighted_macro_auroc(truth: npt.NDArray[np.int64], probabilities: Floats, weights: Floats) -> Floats:
    """Mean one-against-rest AUROC over the classes (columns); NaN where one of them has no sample."""
    columns = range(probabilities.shape[1])
    each = [weighted_auroc(truth == c, probabilities[:, c], weights) for c in columns]
    return np.asarray(np.mean(each, axis=0))


def auroc(truth: Sequence[bool] | Truth, scores: Sequence[float] | Floats) -> float:
    """AUROC of unweighted samples; NaN without both classes."""
    values = np.asarray(scores, float)
    return float(weighted_auroc(np.asarray(truth, bool), values, np.ones((1, len(values))))[0])


def brier(truth: Sequence[bool] | Truth, scores: Sequence[float] | Floats) -> float:
    """Brier score of unweighted samples."""
    values = np.asarray(scores, float)
    return float(weighted_brier(np.asarray(truth, bool), values, np.ones((1, len(values))))[0])


def macro_auroc(truth: npt.NDArray[np.int64], probabilities: Floats) -> float:
    """Macro one-against-rest AUROC of unweighted samples; NaN where a class has no sample."""
    return float(weighted_macro_auroc(truth, probabilities, np.ones((1, len(truth))))[0])


def _by_threshold(truth: Truth, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weight of positives and of negatives at each distinct score, scores ascending."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    ordered_weights, is_positive = weights[:, order], truth[order]
    positive = np.add.reduceat(ordered_weights * is_positive, starts, axis=1)
    negative = np.add.reduceat(ordered_weights * ~is_positive, starts, axis=1)
    return positive, negative


# Figures of answers that are classes: accuracy, macro-F1, F1 per class; and of scores: AUROC, AUPRC, Brier.
#
# One place for agents and predictors. Classes are the task's, declared, as with ``labels=`` in scikit-learn: a class
# that neither truth nor answers hold has F1 0 and counts in the macro mean. No answer, or one that is no class, is
# wrong: it misses the class that was true and claims none.


Labels = Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMetrics:
    """Figures of answers. ``missing`` gave none, ``outside`` gave none of the classes or too many; both are wrong.

    ``support`` counts the samples of each class. Where several classes may hold at once, accuracy asks for all of
    them and F1 takes each class by itself.
    """

    n: int
    subjects: int
    missing: int
    outside: int
    accuracy: Interval
    macro_f1: Interval
    class_f1: Mapping[str, Interval]
    support: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreMetrics:
    """Figures of probabilities of the positive class; None where not defined. ``macro_auroc``: one against rest, of
    more than two classes."""

    positives: int
    auroc: Interval | None
    auprc: Interval | None
    brier: Interval | None
    macro_auroc: Interval | None = None


def class_metrics(
    truth: Sequence[Labels],
    answers: Sequence[Labels | None],
    draws: PatientDraws,
    *,
    classes: Sequence[str],
    several: bool = False,
) -> ClassMetrics:
    """Score answers against truths, in the same order as the draws' samples. ``several``: a set of classes is true."""
    rows = count_rows(truth, answers, classes=classes, several=several)
    accuracy, macro, *each = (draws.of_sums(rows, one) for one in _statistics(len(classes)))
    assert accuracy is not None  # a share of one sample or more, and F1 with 0 for nothing, are always defined
    assert macro is not None
    per_class = {name: interval for name, interval in zip(classes, each, strict=True) if interval is not None}
    return ClassMetrics(
        n=len(truth),
        subjects=len(set(draws.subjects)),
        missing=sum(answer is None for answer in answers),
        outside=sum(answer is not None and _valid(answer, classes, several=several) is None for answer in answers),
        accuracy=accuracy,
        macro_f1=macro,
        class_f1=per_class,
        support={name: sum(name in one for one in truth) for name in classes},
    )


def score_metrics(truth: npt.NDArray[np.int64], probabilities: Floats, draws: PatientDraws) -> ScoreMetrics:
    """Score probabilities (samples, classes) against the place of the true class.

    More than two classes are merged from the second on, as EHRSHOT does with lab results: anything but normal
    is positive.
    """
    if probabilities.shape[0] != len(truth) or np.isnan(probabilities).any():
        raise UserError(f"{len(truth)} truths need as many rows of probabilities, none of them empty")
    positive = truth >= 1
    scores = probabilities[:, 1] if probabilities.shape[1] == 2 else 1 - probabilities[:, 0]
    several = probabilities.shape[1] > 2
    return ScoreMetrics(
        positives=int(positive.sum()),
        auroc=draws.of_weights(lambda weights: weighted_auroc(positive, scores, weights)),
        auprc=draws.of_weights(lambda weights: weighted_average_precision(positive, scores, weights)),
        brier=draws.of_weights(lambda weights: weighted_brier(positive, scores, weights)),
        macro_auroc=draws.of_weights(lambda w: weighted_macro_auroc(truth, probabilities, w)) if several else None,
    )


def count_rows(
    truth: Sequence[Labels], answers: Sequence[Labels | None], *, classes: Sequence[str], several: bool = False
) -> Floats:
    """Return, per sample: right, one, then hit, claimed and true of every class. All figures are of their sums."""
    if len(truth) != len(answers):
        raise UserError(f"{len(truth)} truths and {len(answers)} answers: there must be as many of both")
    unknown = sorted({name for one in truth for name in one} - set(classes))
    if unknown:
        raise UserError(f"the truth holds {', '.join(unknown)}, which the task does not declare as a class")
    rows = np.zeros((len(truth), 2 + 3 * len(classes)))
    for row, wanted, answer in zip(rows, truth, answers, strict=True):
        given = () if answer is None else _valid(answer, classes, several=several)
        row[0] = answer is not None and given is not None and set(given) == set(wanted)
        row[1] = 1
        for c, name in enumerate(classes):
            claimed, is_true = given is not None and name in given, name in wanted
            row[2 + 3 * c : 5 + 3 * c] = claimed and is_true, claimed, is_true
    return rows


def macro_f1_of(sums: Floats) -> Floats:
    """Mean F1 over the classes, from the sums of :func:`count_rows`."""
    return np.asarray(_f1(sums).mean(axis=-1))


def accuracy_of(sums: Floats) -> Floats:
    """Share of right answers, from the sums of :func:`count_rows`."""
    return mean_of_rows(sums)


def _statistics(classes: int) -> list[Statistic]:
    def f1_of(place: int) -> Statistic:
        return lambda sums: _f1(sums)[..., place]

    return [accuracy_of, macro_f1_of, *(f1_of(place) for place in range(classes))]


def _f1(sums: Floats) -> Floats:
    hits, claimed, wanted = sums[..., 2::3], sums[..., 3::3], sums[..., 4::3]
    whole = claimed + wanted
    return np.divide(2 * hits, whole, out=np.zeros_like(hits), where=whole > 0)


def _valid(answer: Labels, classes: Sequence[str], *, several: bool) -> Labels | None:
    """The answer, or None where it is not one the task allows."""
    if any(name not in classes for name in answer) or (not several and len(set(answer)) != 1):
        return None
    return answer


# Agreement of reviewers beyond chance: Cohen's kappa of two, Fleiss' of many, with intervals over patients.


def cohen_kappa(pairs: Sequence[tuple[str, str]], subjects: Sequence[Hashable], *, seed: int) -> Interval:
    """Return Cohen's kappa (1960) of two marks for each item: (p_o - p_e) / (1 - p_e). NaN where both only ever gave
    one and the same mark. Whole patients are resampled."""
    marks = {mark: place for place, mark in enumerate(sorted({one for pair in pairs for one in pair}))}
    size = len(marks)
    rows = np.zeros((len(pairs), size * size))
    for n, (first, second) in enumerate(pairs):
        rows[n, marks[first] * size + marks[second]] = 1.0

    def kappa(sums: Floats) -> Floats:
        table = sums.reshape(*sums.shape[:-1], size, size)
        total = table.sum(axis=(-2, -1))
        observed = ratio(np.trace(table, axis1=-2, axis2=-1), total)
        by_chance = ratio((table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1), total**2)
        return _beyond_chance(observed, by_chance)

    return cluster_bootstrap(rows, subjects, kappa, seed=seed)


def fleiss_kappa(marks: Sequence[Sequence[str]], subjects: Sequence[Hashable], *, seed: int) -> Interval:
    """Return Fleiss' kappa (1971) of items that the same number of people marked, at least two. NaN where only one
    mark was ever given. Whole patients are resampled. UserError: items have different numbers of marks."""
    raters = {len(one) for one in marks}
    if len(raters) != 1 or min(raters) < 2:
        raise UserError("Fleiss' kappa needs items that the same number of people marked, at least two")
    number = raters.pop()
    given = sorted({mark for one in marks for mark in one})
    counts = np.array([[list(one).count(mark) for mark in given] for one in marks], float)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (number * (number - 1))
    rows = np.column_stack([agreeing, counts, np.ones(len(marks))])

    def kappa(sums: Floats) -> Floats:
        items = sums[..., -1]
        shares = sums[..., 1:-1] / (items[..., None] * number)
        return _beyond_chance(ratio(sums[..., 0], items), (shares**2).sum(axis=-1))

    return cluster_bootstrap(rows, subjects, kappa, seed=seed)


def _beyond_chance(observed: Floats, by_chance: Floats) -> Floats:
    return ratio(observed - by_chance, np.where(by_chance > 1 - 1e-12, 0.0, 1 - by_chance))
