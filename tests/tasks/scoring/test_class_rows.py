"""What one answer counts for, class by class, and what is no answer: by hand, without another library."""

from __future__ import annotations

import numpy as np
import pytest

from wardround.core import UserError
from wardround.tasks.scoring import PatientDraws, class_metrics, score_metrics
from wardround.tasks.scoring.classification import accuracy_of, count_rows, macro_f1_of


@pytest.mark.parametrize(
    ("wanted", "answer", "several", "row"),
    [
        ("a", ("a",), False, [1, 1, 1, 1, 1, 0, 0, 0]),
        ("a", ("b",), False, [0, 1, 0, 0, 1, 0, 1, 0]),
        ("a", ("a", "a"), False, [1, 1, 1, 1, 1, 0, 0, 0]),
        ("a", ("a", "b"), False, [0, 1, 0, 0, 1, 0, 0, 0]),
        ("a", ("x",), False, [0, 1, 0, 0, 1, 0, 0, 0]),
        ("a", ("a", "x"), False, [0, 1, 0, 0, 1, 0, 0, 0]),
        ("a", (), False, [0, 1, 0, 0, 1, 0, 0, 0]),
        ("a", None, False, [0, 1, 0, 0, 1, 0, 0, 0]),
        ("a", ("a", "b"), True, [0, 1, 1, 1, 1, 0, 1, 0]),
        ("ab", ("b", "a"), True, [1, 1, 1, 1, 1, 1, 1, 1]),
        ("ab", ("a",), True, [0, 1, 1, 1, 1, 0, 0, 1]),
        ("ab", ("a", "x"), True, [0, 1, 0, 0, 1, 0, 0, 1]),
        ("", (), True, [1, 1, 0, 0, 0, 0, 0, 0]),
        ("", None, True, [0, 1, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_what_an_answer_counts_for(wanted: str, answer: tuple[str, ...] | None, several: bool, row: list[int]) -> None:
    assert count_rows([tuple(wanted)], [answer], classes="ab", several=several).tolist() == [row]
    draws = PatientDraws.of([1], seed=0, resamples=5)
    found = class_metrics([tuple(wanted)], [answer], draws, classes="ab", several=several)
    is_outside = answer is not None and ("x" in answer or (not several and len(set(answer)) != 1))
    assert (found.n, found.subjects, found.missing, found.outside) == (1, 1, int(answer is None), int(is_outside))
    assert found.support == {"a": int("a" in wanted), "b": int("b" in wanted)}


def test_figures_are_of_sums() -> None:
    rows = count_rows(["a", "a", "b"], ["a", "b", "b"], classes="abc")
    sums = rows.sum(axis=0)
    assert sums.tolist() == [2, 3, 1, 1, 2, 1, 2, 1, 0, 0, 0]
    assert float(accuracy_of(sums)) == pytest.approx(2 / 3)
    assert float(macro_f1_of(sums)) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


def test_truths_and_answers_must_fit_each_other_and_the_classes() -> None:
    with pytest.raises(UserError, match="2 truths and 1 answers: there must be as many of both"):
        count_rows(["a", "b"], ["a"], classes="ab")
    with pytest.raises(UserError, match="the truth holds x, y, which the task does not declare as a class"):
        count_rows(["y", "ax"], ["a", "b"], classes="ab")


def test_probabilities_must_be_whole() -> None:
    draws = PatientDraws.of([1, 2], seed=0, resamples=5)
    for broken in (np.array([[0.5, 0.5]]), np.array([[0.5, 0.5], [np.nan, 1.0]])):
        with pytest.raises(UserError, match="2 truths need as many rows of probabilities, none of them empty"):
            score_metrics(np.array([0, 1]), broken, draws)


def test_of_two_classes_the_second_is_positive_and_of_more_all_but_the_first() -> None:
    draws = PatientDraws.of([1, 2, 3, 4], seed=0, resamples=5)
    two = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    found = score_metrics(np.array([0, 1, 1, 0]), two, draws)
    assert (found.positives, found.macro_auroc) == (2, None)
    assert found.auroc is not None
    assert found.brier is not None
    assert found.auroc.estimate == 1.0
    assert found.brier.estimate == pytest.approx((0.01 + 0.04 + 0.36 + 0.09) / 4)
    three = np.array([[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], [0.2, 0.1, 0.7], [0.4, 0.5, 0.1]])
    more = score_metrics(np.array([0, 1, 2, 0]), three, draws)
    assert more.positives == 2
    assert more.macro_auroc is not None
    assert more.auroc is not None
    assert more.auroc.estimate == 1.0
    assert more.brier is not None
    assert more.brier.estimate == pytest.approx((0.01 + 0.09 + 0.04 + 0.36) / 4)
