"""Scores of answers: set precision, recall and F1 (AgentEHR eq. 12-14), Best@K (eq. 15-17), pass^k, and a scorer for
every kind of answer, registered under the kind's name. Text is matched, never evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.clinical.vocabulary import read_care_unit, service_class
from wardround.core import Registry, UserError
from wardround.tasks.answers import (
    AnswerKind,
    Candidates,
    CareUnits,
    FreeLabels,
    JudgedText,
    ListedCandidates,
    ListedServices,
    OneClass,
    OneOption,
    SeveralClasses,
)
from wardround.tasks.scoring.paired import Hypothesis, PairedTest, macro_hypothesis, paired_macro_f1


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScore:
    """One answer against one target: ``hits`` of ``answered`` are among the ``wanted``. ``outside`` lists the answers
    that are no spelling of any candidate (they count as wrong)."""

    precision: float
    recall: float
    f1: float
    hits: int
    answered: int
    wanted: int
    outside: tuple[str, ...] = ()


def set_scores(answer: Iterable[str] | None, target: Iterable[str], label_set: LabelSet | None = None) -> SetScore:
    """Score an answer as a set (eq. 12-14).

    Answers and targets are normalised (Unicode NFKC, case, inner space), resolved to official labels through
    ``label_set`` and compared as sets: duplicates and alias spellings count once. No answer is the empty set. Both
    empty scores 1; one empty scores 0.
    """
    answers = {_key(text, label_set): text for text in answer or () if text.strip()}
    targets = {_key(text, label_set) for text in target}
    hits = len(answers.keys() & targets)
    if_empty = float(not answers and not targets)
    precision = hits / len(answers) if answers else if_empty
    recall = hits / len(targets) if targets else if_empty
    total = precision + recall
    outside = tuple(sorted(text for text in answers.values() if label_set is not None and not label_set.resolve(text)))
    return SetScore(
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / total if total else 0.0,
        hits=hits,
        answered=len(answers),
        wanted=len(targets),
        outside=outside,
    )


def class_score(answer: Iterable[str] | None, target: str, label_set: LabelSet) -> SetScore:
    """Score an answer that must be one class: 1 if it names the target and nothing else, else 0."""
    given = {_key(text, label_set): text for text in answer or () if text.strip()}
    right = given.keys() == {_key(target, label_set)}
    return SetScore(
        precision=float(right),
        recall=float(right),
        f1=float(right),
        hits=int(right),
        answered=len(given),
        wanted=1,
        outside=tuple(sorted(text for text in given.values() if not label_set.resolve(text))),
    )


def best_at_k(scores: Sequence[float], k: int) -> float:
    """Return the expected best of ``k`` scores drawn from all without replacement (eq. 15), exactly.

    The j-th smallest of N is the best of C(j-1, k-1) of the C(N, k) subsets.
    """
    n = len(scores)
    if not 1 <= k <= n:
        raise UserError(f"Best@{k} needs between 1 and {n} trajectories")
    subsets = math.comb(n, k)
    ordered = sorted(scores)
    return math.fsum(ordered[j] * (math.comb(j, k - 1) / subsets) for j in range(k - 1, n))


def pass_hat_k(right: Sequence[bool], k: int) -> float:
    """Return the chance that ``k`` answers drawn from all without replacement are all right (tau-bench's pass^k).

    Of N answers with c right ones it is C(c, k) / C(N, k), exactly.
    """
    n = len(right)
    if not 1 <= k <= n:
        raise UserError(f"pass^{k} needs between 1 and {n} trajectories")
    return math.comb(sum(right), k) / math.comb(n, k)


def _key(text: str, label_set: LabelSet | None) -> str:
    official = label_set.resolve(text) if label_set is not None else None
    return normalise_label(official if official is not None else text)


MACRO_F1 = "macro-F1"
SET_F1 = "F1"
CLASS_F1, SERVICE_F1 = "F1 of classes", "F1 of services"
ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherTest:
    """A paired test of a further figure (not the main one), and its hypothesis for tests of a family."""

    metric: str
    test: PairedTest
    hypothesis: Hypothesis


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedAnswers:
    """Two contenders' answers to one task by sample and epoch, with the targets and the patients of the samples."""

    first: Mapping[str, Collection[str] | None]
    second: Mapping[str, Collection[str] | None]
    truth: Mapping[str, Collection[str]]
    subjects: Mapping[str, Hashable]


class Scorer:
    """Scores answers as sets of names. A subclass scores another kind of answers.

    ``metric`` names the figure that tables show and tests compare; ``pooled`` is what its mean over tasks is called
    (empty: as the figure itself), so that only figures of one name are averaged under that name. ``keeps_target``: a
    result holds the target too, for figures that are no mean over samples. ``by_class``: the tables by class show all
    that its own figure shows.
    An answer is right from ``full_score`` of the main figure on. ``rows_name_answers``: a cited row can be seen to
    support an answer, because it names it; no row says "yes". ``over_samples``: rows over several tasks say the mean
    over all samples too.
    """

    metric: ClassVar[str] = SET_F1
    pooled: ClassVar[str] = ""
    keeps_target: ClassVar[bool] = False
    by_class: ClassVar[bool] = False
    full_score: ClassVar[float] = 1.0
    rows_name_answers: ClassVar[bool] = True
    over_samples: ClassVar[bool] = False

    def is_right(self, value: float) -> bool:
        """Whether a value of the main figure is that of an answer without any fault, but for rounding."""
        return value >= self.full_score or math.isclose(value, self.full_score)

    def score(self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None) -> SetScore:
        """Return how the names of an answer meet those of the target, whatever their order."""
        return set_scores(answer, target, labels)

    def figures(
        self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None
    ) -> Mapping[str, float]:
        """Return figures of an answer by their names, the one that ``metric`` names first; none: it is the set's F1."""
        return {}

    def further_tests(self, kind: AnswerKind, pair: PairedAnswers, *, seed: int) -> Iterator[FurtherTest]:
        """Yield tests of figures that are no mean over samples. Called only where targets are kept."""
        yield from ()


class LevelScorer(Scorer):
    """The F1 of the set, and beside it of coarser levels: of care units their classes (intensive care, ward ...) and
    their services, of services their classes (medical, surgical ...).

    A level is scored where every name of the target says it: "ICU" names no service. An answer without the level is
    compared by its own name, and is wrong.
    """

    def __init__(self, levels: Mapping[str, Callable[[str], Iterable[str]]]) -> None:
        self._levels = levels

    def figures(
        self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None
    ) -> Mapping[str, float]:
        """Return the F1 of the names and of each level."""
        target_names = tuple(target)
        answer_names = tuple(answer or ())
        scores = {self.metric: self.score(answer_names, target_names, labels).f1}
        for figure, level_of in self._levels.items():
            target_levels = [frozenset(level_of(_official(name, labels))) for name in target_names]
            if all(target_levels):
                answer_levels = [
                    frozenset(level_of(unit)) or {unit} for unit in (_official(name, labels) for name in answer_names)
                ]
                scores[figure] = set_scores(frozenset().union(*answer_levels), frozenset().union(*target_levels)).f1
        return scores


def _official(name: str, labels: LabelSet | None) -> str:
    return (labels.resolve(name) if labels is not None else None) or name


def _level(name: str) -> Iterable[str]:
    level = read_care_unit(name).level
    return () if level is None else (level,)


def _services(name: str) -> Iterable[str]:
    return read_care_unit(name).services


def _service_class(code: str) -> Iterable[str]:
    found = service_class(code)
    return () if found is None else (found,)


class SeveralClassesScorer(Scorer):
    """The set's F1 per answer; over all answers also the macro-F1 of the classes."""

    keeps_target = True
    rows_name_answers = False

    def further_tests(self, kind: AnswerKind, pair: PairedAnswers, *, seed: int) -> Iterator[FurtherTest]:
        """Of repeated epochs the macro-F1 takes each as a sample of its own, paired by number."""
        answers = (pair.first, pair.second, pair.truth, pair.subjects)
        classes, several = kind.label_values, kind.several
        yield FurtherTest(
            metric=MACRO_F1,
            test=paired_macro_f1(*answers, classes=classes, several=several, seed=seed),
            hypothesis=macro_hypothesis(*answers, classes=classes, several=several),
        )


class OneClassScorer(SeveralClassesScorer):
    """Right if the one class is named and no other; over all answers also the macro-F1 of the classes."""

    metric = ACCURACY
    pooled = SET_F1
    by_class = True

    def score(self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None) -> SetScore:
        (wanted,) = target
        assert labels is not None  # classes are declared
        return class_score(answer, wanted, labels)


class RightScorer(Scorer):
    """Right or not: the one option that holds, or a text that a judge says is the right one. Its mean over tasks is
    shown beside the mean over all samples, which papers call the average."""

    metric = ACCURACY
    over_samples = True
    rows_name_answers = False

    def score(self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None) -> SetScore:
        """``labels`` are the letters of options; of a judged text, the answer as another spelling of the right one,
        where the judge says that it is."""
        (wanted,) = target
        return class_score(answer, wanted, labels or LabelSet(name=wanted, labels=(wanted,)))


SCORERS: Registry[Scorer] = Registry("scorers", one="scorer", of=Scorer)
"""By the name of the answer kind."""

SCORERS.add(Candidates.name, Scorer())
SCORERS.add(CareUnits.name, LevelScorer({CLASS_F1: _level, SERVICE_F1: _services}))
SCORERS.add(ListedCandidates.name, Scorer())
SCORERS.add(ListedServices.name, LevelScorer({CLASS_F1: _service_class}))
SCORERS.add(FreeLabels.name, Scorer())
SCORERS.add(OneClass.name, OneClassScorer())
SCORERS.add(SeveralClasses.name, SeveralClassesScorer())
SCORERS.add(OneOption.name, RightScorer())
SCORERS.add(JudgedText.name, RightScorer())


def scorer_of(kind: AnswerKind) -> Scorer:
    """Return the scorer of a kind; UserError where a plug-in registered the kind and no scorer."""
    return SCORERS.get(kind.name)
