"""Figures of classes and scores: scikit-learn as the oracle (ties, missing answers, absent classes), and by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import often
from extras import Later, needs
from wardround.core import UserError
from wardround.tasks.scoring import PatientDraws, class_metrics, paired_macro_f1, score_metrics
from wardround.tasks.scoring.classification import auroc, brier, macro_auroc, weighted_average_precision

pytestmark = needs("sklearn")
sklearn_metrics = Later("sklearn.metrics")
NONE = "no answer"


def draws(n: int, per_subject: int = 1) -> PatientDraws:
    return PatientDraws.of([place // per_subject for place in range(n)], seed=1, resamples=50)


def metrics_of(truth, answers, classes, **options):  # type: ignore[no-untyped-def]
    wanted = [(one,) for one in truth]
    given = [None if one is None else (one,) for one in answers]
    return class_metrics(wanted, given, draws(len(truth)), classes=classes, **options)


@settings(max_examples=often(40, 120), deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.sampled_from("0123"), st.sampled_from(["0", "1", "2", "3", None, "maybe"])),
        min_size=1,
        max_size=40,
    )
)
def test_figures_of_answers_are_those_of_scikit_learn(pairs: list[tuple[str, str | None]]) -> None:
    classes = ["0", "1", "2", "3", "4"]
    truth = [one for one, _ in pairs]
    answers = [one for _, one in pairs]
    shown = [NONE if one is None else one for one in answers]
    found = metrics_of(truth, answers, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = sklearn_metrics.f1_score(truth, shown, labels=classes, average=None)
        macro = sklearn_metrics.f1_score(truth, shown, labels=classes, average="macro")
    assert found.accuracy.estimate == pytest.approx(sklearn_metrics.accuracy_score(truth, shown), abs=1e-12)
    assert found.macro_f1.estimate == pytest.approx(macro, abs=1e-12)
    assert [found.class_f1[name].estimate for name in classes] == pytest.approx(list(each), abs=1e-12)
    assert found.missing == answers.count(None)
    assert found.outside == answers.count("maybe")
    assert found.support == {name: truth.count(name) for name in classes}


@settings(max_examples=often(20, 60), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 60), st.sampled_from([2, 5, 1000]))
def test_figures_of_scores_are_those_of_scikit_learn_with_ties(seed: int, n: int, levels: int) -> None:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 2, n).astype(bool)
    truth[:2] = True, False
    scores = generator.integers(0, levels, n) / levels
    assert auroc(truth, scores) == pytest.approx(sklearn_metrics.roc_auc_score(truth, scores), abs=1e-12)
    assert weighted_average_precision(truth, scores, np.ones((1, n)))[0] == pytest.approx(
        sklearn_metrics.average_precision_score(truth, scores), abs=1e-12
    )
    assert brier(truth, scores) == pytest.approx(sklearn_metrics.brier_score_loss(truth, scores), abs=1e-12)


@settings(max_examples=often(15, 40), deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 60))
def test_one_against_rest_is_that_of_scikit_learn(seed: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 4, n)
    truth[:4] = range(4)
    probabilities = generator.integers(1, 6, (n, 4)).astype(float)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    wanted = sklearn_metrics.roc_auc_score(truth, probabilities, multi_class="ovr", labels=[0, 1, 2, 3])
    assert macro_auroc(truth, probabilities) == pytest.approx(wanted, abs=1e-12)
    found = score_metrics(truth, probabilities, draws(n))
    assert found.macro_auroc is not None
    assert found.macro_auroc.estimate == pytest.approx(wanted, abs=1e-12)
    binary = 1 - probabilities[:, 0]
    assert found.auroc is not None
    assert found.auroc.estimate == pytest.approx(sklearn_metrics.roc_auc_score(truth >= 1, binary), abs=1e-12)


def test_weights_are_repetitions() -> None:
    """A resample in which a patient came up twice is the data with that patient twice."""
    from wardround.tasks.scoring.classification import weighted_auroc

    generator = np.random.default_rng(5)
    truth, scores = generator.integers(0, 2, 30).astype(bool), generator.integers(0, 6, 30) / 6
    times = generator.integers(0, 3, (1, 30)).astype(float)
    repeated = np.repeat(np.arange(30), times[0].astype(int))
    assert weighted_auroc(truth, scores, times)[0] == pytest.approx(
        sklearn_metrics.roc_auc_score(truth[repeated], scores[repeated]), abs=1e-12
    )
    assert weighted_average_precision(truth, scores, times)[0] == pytest.approx(
        sklearn_metrics.average_precision_score(truth[repeated], scores[repeated]), abs=1e-12
    )


def test_a_table_of_the_paper_by_hand() -> None:
    """Two of three short stays and one of two long ones right, one stay without an answer."""
    found = metrics_of(["0", "0", "0", "1", "1"], ["0", "0", "1", "1", None], ["0", "1"])
    assert found.accuracy.estimate == pytest.approx(3 / 5)
    assert found.class_f1["0"].estimate == pytest.approx(2 * 2 / (3 + 2))
    assert found.class_f1["1"].estimate == pytest.approx(2 * 1 / (2 + 2))
    assert found.macro_f1.estimate == pytest.approx((4 / 5 + 1 / 2) / 2)
    assert (found.missing, found.outside) == (1, 0)


def test_two_answers_where_one_is_asked_for_are_none_of_the_classes() -> None:
    found = class_metrics([("0",), ("1",)], [("0", "1"), ("1",)], draws(2), classes=["0", "1"])
    assert found.outside == 1
    assert found.accuracy.estimate == 0.5


def test_sets_of_classes_are_scored_class_by_class() -> None:
    truth = [("a", "b"), ("b",), ("c",)]
    answers = [("a", "b"), ("a", "b"), None]
    found = class_metrics(truth, answers, draws(3), classes=["a", "b", "c"], several=True)
    wanted = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    given_ = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = sklearn_metrics.f1_score(wanted, given_, average=None)
    assert [one.estimate for one in found.class_f1.values()] == pytest.approx(list(each))
    assert found.accuracy.estimate == pytest.approx(1 / 3)


def test_one_name_outside_the_classes_spoils_a_set() -> None:
    found = class_metrics([("a", "b"), ("b",)], [("a", "x"), ("b",)], draws(2), classes=["a", "b"], several=True)
    assert found.outside == 1
    assert found.accuracy.estimate == 0.5
    assert found.class_f1["a"].estimate == 0.0


def test_a_class_that_was_not_declared_is_an_error() -> None:
    with pytest.raises(UserError, match="does not declare"):
        metrics_of(["0", "7"], ["0", "0"], ["0", "1"])


def test_undefined_is_none_and_undefined_resamples_are_counted() -> None:
    probabilities = np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])
    assert score_metrics(np.array([0, 0, 0]), probabilities, draws(3)).auroc is None
    for truth in (np.zeros(3, int), np.ones(3, int)):  # scikit-learn: an average precision of 1 where all are positive
        assert score_metrics(truth, probabilities, draws(3)).auprc is None
    one_positive = score_metrics(np.array([0, 1, 0]), probabilities, PatientDraws.of("abc", seed=2, resamples=1000))
    assert one_positive.auroc is not None
    # without patient b (chance 8/27) there is no positive; with b alone (1/27) no negative
    assert one_positive.auroc.undefined / 1000 == pytest.approx(9 / 27, abs=0.05)
    assert one_positive.brier is not None
    assert one_positive.brier.undefined == 0


def test_intervals_draw_patients_and_depend_on_the_seed_alone() -> None:
    truth, answers = ["0", "1"] * 30, ["0", "1", "1", "1", "0", "0"] * 10
    found = [
        class_metrics(
            [(one,) for one in truth],
            [(one,) for one in answers],
            PatientDraws.of(subjects, seed=seed, resamples=400),
            classes=["0", "1"],
        ).macro_f1
        for subjects, seed in ((range(60), 1), (range(60), 1), (range(60), 2), ([n // 6 for n in range(60)], 1))
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert found[3].subjects == 10
    # every patient holds the same six answers, so that drawing patients changes nothing
    assert found[3].low == pytest.approx(found[3].high) == pytest.approx(found[3].estimate)
    assert found[0].low is not None
    assert found[0].low < found[0].estimate - 0.05


def test_swapping_answers_of_patients_judges_macro_f1() -> None:
    keys = [f"s{n}" for n in range(10)]
    truth = {key: (str(n % 2),) for n, key in enumerate(keys)}
    good: dict[str, tuple[str, ...] | None] = dict(truth)
    bad: dict[str, tuple[str, ...] | None] = dict.fromkeys(keys, ("0",))
    subjects = {key: key for key in keys}
    test = paired_macro_f1(bad, good, truth, subjects, classes=["0", "1"], seed=1)
    assert test.exact
    assert test.difference.estimate == pytest.approx(1 - (2 * 5 / 15 + 0) / 2)
    # the five patients who differ must all keep their answers, or all swap: 2 of 32 patterns
    assert test.p_value == pytest.approx(2 / 32)
    same = paired_macro_f1(good, good, truth, subjects, classes=["0", "1"], seed=1)
    assert same.p_value == 1.0
    assert same.difference.estimate == 0.0
