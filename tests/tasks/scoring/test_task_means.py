"""The mean of task means and its statistics, by hand and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from wardround.tasks.scoring import (
    mean_of_task_means,
    paired_test,
    patient_bootstrap,
    patients_parts,
    task_mean_interval,
)
from wardround.tasks.scoring.bootstrap import task_weights

VALUES, TASKS = [1.0, 0.0, 0.5, 0.5, 0.25], ["a", "a", "a", "a", "b"]


def test_every_task_weighs_alike() -> None:
    assert mean_of_task_means(VALUES, TASKS) == pytest.approx((0.5 + 0.25) / 2)
    assert np.mean(VALUES) == pytest.approx(0.45), "over samples it is another number"
    assert task_weights(TASKS).tolist() == pytest.approx([0.125] * 4 + [0.5])
    assert float(task_weights(TASKS) @ VALUES) == pytest.approx(0.375)


def test_the_interval_draws_patients_over_tasks() -> None:
    """Two tasks of the same patients with the same values: as sure as one task, not as two."""
    generator = np.random.default_rng(1)
    values, people = generator.random(40), [f"p{n}" for n in range(40)]
    one = task_mean_interval(values.tolist(), ["a"] * 40, people, seed=1)
    both = task_mean_interval([*values, *values], ["a"] * 40 + ["b"] * 40, people * 2, seed=1)
    assert (both.estimate, both.low, both.high) == pytest.approx((one.estimate, one.low, one.high))
    assert one.standard_error == pytest.approx(values.std() / 40**0.5, rel=0.03)


def test_a_resample_without_a_task_is_left_out_and_counted() -> None:
    found = task_mean_interval(VALUES, TASKS, [1, 2, 3, 4, 5], seed=1, resamples=2_000)
    assert found.undefined == pytest.approx(2_000 * 0.8**5, rel=0.15), "the one patient of b was not drawn"


def test_the_paired_test_of_task_means_by_hand() -> None:
    first, second = [0.0] * 5, [0.4, 0.2, 0.0, 0.2, 0.3]
    test = paired_test(first, second, [1, 2, 3, 1, 2], seed=1, tasks=TASKS)
    assert test.difference.estimate == pytest.approx((0.2 + 0.3) / 2)
    parts = patients_parts(
        dict(enumerate(first)),  # type: ignore[arg-type]
        dict(enumerate(second)),  # type: ignore[arg-type]
        {0: 1, 1: 2, 2: 3, 3: 1, 4: 2},  # type: ignore[dict-item]
        tasks=dict(enumerate(TASKS)),  # type: ignore[arg-type]
    )
    assert parts == pytest.approx({1: 0.6 / 8, 2: 0.2 / 8 + 0.15, 3: 0.0})
    assert test.exact
    assert test.p_value == 0.5, "of 8 patterns the 4 in which patients 1 and 2 agree are as far from 0"


def test_the_detectable_difference_is_found_in_four_of_five_studies() -> None:
    generator = np.random.default_rng(2)
    spread, people, found, studies = 0.3, 40, 0, 400
    least = paired_test([0.0] * people, generator.normal(0, spread, people).tolist(), range(people), seed=1).difference
    assert least.detectable == pytest.approx(2.8016 * (least.standard_error or 0) * (40 / 39) ** 0.5, rel=1e-3)
    true = 2.8016 * spread / people**0.5
    for _ in range(studies):
        scores = generator.normal(true, spread, people)
        found += abs(scores.mean()) / (scores.std(ddof=1) / people**0.5) > 2.023
    assert found / studies == pytest.approx(0.8, abs=0.06)
    few = paired_test([0.0] * 4, [0.1, 0.2, 0.3, 0.1], range(4), seed=1).difference
    assert few.detectable is None


def test_one_patient_a_task_has_no_interval() -> None:
    """Every resample without one of the tasks is left out, so the sample itself is all that is left: width 0."""
    tasks = [f"task {n}" for n in range(6)]
    found = task_mean_interval([0.1, 0.5, 0.3, 0.9, 0.2, 0.4], tasks, list(range(6)), seed=1, resamples=4_000)
    assert found.estimate == pytest.approx(0.4)
    assert not found.is_telling
    assert found.as_text() == "one patient: no interval"


def test_what_does_not_vary_has_no_interval() -> None:
    subjects = list(range(7))
    assert patient_bootstrap([0.0] * 7, subjects, seed=1, resamples=200).as_text() == "no variation: no interval"
    assert patient_bootstrap([0.0, 1.0] * 2, ["one"] * 4, seed=1).as_text() == "one patient: no interval"
    assert patient_bootstrap([0.0, 1.0], [1, 2], seed=1, resamples=200).as_text() == "few patients"
    telling = patient_bootstrap([0.0, 1.0] * 4, list(range(8)), seed=1, resamples=200)
    assert telling.as_text("+.3f") == f"{telling.low:+.3f} to {telling.high:+.3f}"
