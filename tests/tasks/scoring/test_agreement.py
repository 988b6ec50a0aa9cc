"""Kappas by hand and after the papers' own examples."""

from __future__ import annotations

from math import isnan

import pytest

from wardround.core import UserError
from wardround.tasks.scoring.classification import cohen_kappa, fleiss_kappa

FLEISS = (
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
)  # fmt: skip
"""The worked table of many textbooks: ten items, fourteen raters, five categories, kappa 0.210."""


def test_cohens_kappa_by_hand() -> None:
    """20 both yes, 15 both no, 5 and 10 apart: p_o = 0.7, p_e = 0.5 x 0.6 + 0.5 x 0.4 = 0.5, kappa = 0.4."""
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    kappa = cohen_kappa(pairs, range(50), seed=1)
    assert kappa.estimate == pytest.approx(0.4)
    assert kappa.low is not None
    assert kappa.high is not None
    assert kappa.low < 0.4 < kappa.high
    assert (kappa.n, kappa.subjects) == (50, 50)
    standard_error = (0.7 * 0.3 / (50 * 0.5**2)) ** 0.5  # Cohen's own, for large samples
    assert kappa.standard_error == pytest.approx(standard_error, rel=0.1)


def test_cohens_kappa_is_1_in_full_agreement_and_below_0_against_chance() -> None:
    assert cohen_kappa([("a", "a"), ("b", "b")], [1, 2], seed=1).estimate == 1.0
    assert cohen_kappa([("a", "b"), ("b", "a")], [1, 2], seed=1).estimate == -1.0


def test_one_mark_only_says_nothing_of_agreement() -> None:
    assert isnan(cohen_kappa([("a", "a")] * 3, [1, 2, 3], seed=1).estimate)
    assert isnan(fleiss_kappa([("a", "a", "a")] * 3, [1, 2, 3], seed=1).estimate)


def test_fleiss_kappa_of_the_worked_table() -> None:
    marks = [[str(k) for k, number in enumerate(row) for _ in range(number)] for row in FLEISS]
    assert fleiss_kappa(marks, range(10), seed=1).estimate == pytest.approx(0.210, abs=5e-4)


def test_fleiss_kappa_of_two_by_hand() -> None:
    """Two of three items agree; shares of a are 1/2: kappa = (2/3 - 1/2) / (1 - 1/2) = 1/3."""
    assert fleiss_kappa([("a", "a"), ("b", "b"), ("a", "b")], [1, 2, 3], seed=1).estimate == pytest.approx(1 / 3)


def test_intervals_are_over_patients() -> None:
    """Every item twice, by the same patients: the same interval as once."""
    pairs = [("yes", "yes"), ("no", "no"), ("yes", "no"), ("no", "no"), ("yes", "yes"), ("no", "yes")]
    once, twice = cohen_kappa(pairs, range(6), seed=1), cohen_kappa(pairs * 2, [*range(6), *range(6)], seed=1)
    assert twice.subjects == 6
    assert twice.estimate == pytest.approx(once.estimate)
    assert twice.low == pytest.approx(once.low)
    assert twice.high == pytest.approx(once.high)


@pytest.mark.parametrize("marks", [[("a", "b"), ("a",)], [("a",)], []])
def test_fleiss_kappa_needs_as_many_marks_of_each_item(marks: list[tuple[str, ...]]) -> None:
    with pytest.raises(UserError, match="the same number of people"):
        fleiss_kappa(marks, range(len(marks)), seed=1)
