"""Intervals over patients: exact cases by hand, agreement with theory, coverage, and what clustering changes."""

from __future__ import annotations

from itertools import product
from statistics import NormalDist, fmean

import numpy as np
import pytest

from wardround.core import UserError
from wardround.tasks.scoring import Interval, cluster_bootstrap, patient_bootstrap
from wardround.tasks.scoring.bootstrap import _bca_levels, mean_of_rows, sum_by_subject


def edges(interval: Interval) -> tuple[float, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


def test_one_patient_gives_an_estimate_and_no_interval() -> None:
    interval = patient_bootstrap([0.25, 0.75], ["a", "a"], seed=1)
    assert (interval.estimate, interval.low, interval.high) == (0.5, None, None)
    assert (interval.n, interval.subjects) == (2, 1)


def test_scores_that_do_not_vary_give_a_point() -> None:
    interval = patient_bootstrap([0.5] * 6, list("aabbcc"), seed=1)
    assert (interval.low, interval.estimate, interval.high) == (0.5, 0.5, 0.5)


def test_percentile_quantiles_are_those_of_all_resamples_of_three_patients() -> None:
    values = {"a": [0.0, 0.3], "b": [0.6], "c": [0.9, 0.9, 0.6]}
    every = [fmean([x for s in draw for x in values[s]]) for draw in product("abc", repeat=3)]
    rows = [(x, s) for s, xs in values.items() for x in xs]
    interval = patient_bootstrap(
        [x for x, _ in rows], [s for _, s in rows], seed=3, resamples=200_000, confidence=0.8, method="percentile"
    )
    low, high = np.quantile(every, [0.1, 0.9])
    assert interval.low == pytest.approx(low, abs=0.02)
    assert interval.high == pytest.approx(high, abs=0.02)


def test_same_seed_same_interval_other_seed_another() -> None:
    values = np.random.default_rng(0).random(40).tolist()
    subjects = list(range(40))
    first = patient_bootstrap(values, subjects, seed=5)
    assert patient_bootstrap(values, subjects, seed=5) == first
    assert patient_bootstrap(values, subjects, seed=6).low != first.low


def test_questions_about_the_same_patient_do_not_count_as_new_patients() -> None:
    values = np.random.default_rng(1).random(20).tolist()
    once = patient_bootstrap(values, list(range(20)), seed=2, method="percentile")
    copied = patient_bootstrap(values * 25, list(range(20)) * 25, seed=2, method="percentile")
    naive = patient_bootstrap(values * 25, list(range(500)), seed=2, method="percentile")
    assert (copied.low, copied.high) == (pytest.approx(once.low), pytest.approx(once.high))
    assert naive.high - naive.low < (once.high - once.low) / 3  # type: ignore[operator]


def test_bca_leans_towards_the_long_tail() -> None:
    values = np.random.default_rng(4).exponential(size=30).tolist()
    plain = patient_bootstrap(values, list(range(30)), seed=1, method="percentile")
    bca = patient_bootstrap(values, list(range(30)), seed=1)
    assert edges(bca)[0] > edges(plain)[0]
    assert edges(bca)[1] > edges(plain)[1]


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(method: str) -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for trial in range(200):
        scores = generator.beta(0.6, 0.9, size=60)
        interval = patient_bootstrap(scores.tolist(), list(range(60)), seed=trial, resamples=800, method=method)  # type: ignore[arg-type]
        low, high = edges(interval)
        covered += low <= 0.4 <= high
    assert 0.89 <= covered / 200 <= 0.99


def test_resamples_without_a_value_are_left_out() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 2.0]])
    interval = cluster_bootstrap(rows, ["a", "b"], mean_of_rows, seed=1, resamples=200, method="percentile")
    assert (interval.low, interval.high) == (0.5, 0.5)


def test_sums_by_subject_keep_first_appearance_order() -> None:
    rows = np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    assert sum_by_subject(rows, ["b", "a", "b"]).tolist() == [[5.0, 2.0], [2.0, 1.0]]


def test_wrong_use_is_named() -> None:
    with pytest.raises(UserError, match="at least one"):
        patient_bootstrap([], [], seed=1)
    with pytest.raises(UserError, match="2 values for 1 subjects"):
        patient_bootstrap([1.0, 2.0], ["a"], seed=1)
    with pytest.raises(UserError, match="confidence"):
        patient_bootstrap([1.0], ["a"], seed=1, confidence=95)


def test_bca_levels_are_those_of_efron() -> None:
    """An own calculation of z0 and a (Efron 1987, eq. 2.8 and 6.6) on skewed values, a patient each."""
    values = np.array([0.0, 0.1, 0.1, 0.3, 0.9, 2.5, 6.0])
    sums = np.column_stack([values, np.ones(7)])
    drawn = np.random.default_rng(5).choice(values, size=(4000, 7)).mean(axis=1)
    normal, estimate = NormalDist(), values.mean()
    bias = normal.inv_cdf(((drawn < estimate).sum() + (drawn == estimate).sum() / 2) / 4000)
    without = np.array([np.delete(values, n).mean() for n in range(7)])
    pull = without.mean() - without
    acceleration = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
    assert acceleration == pytest.approx(0.0940, abs=1e-4)  # d = x - mean: sum d^3 88.8, sum d^2 29.2
    expected = []
    for level in (0.025, 0.975):
        shifted = bias + normal.inv_cdf(level)
        expected.append(normal.cdf(bias + shifted / (1 - acceleration * shifted)))
    found = _bca_levels(sums, mean_of_rows, drawn, float(estimate), (0.025, 0.975))
    assert found == pytest.approx(expected, abs=1e-12)


def test_an_interval_of_four_patients_is_not_telling_one_of_five_is() -> None:
    for count, telling in ((4, False), (5, True)):
        values = [n / 7 for n in range(count)]
        assert patient_bootstrap(values, list(range(count)), seed=1, resamples=100).is_telling is telling
    assert not patient_bootstrap([0.5] * 9, ["one"] * 9, seed=1).is_telling
