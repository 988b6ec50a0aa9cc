"""The paired test against counts made by hand, and Holm's correction against a worked example."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from wardround.core import UserError, derive_seed
from wardround.tasks.scoring import holm, paired, paired_test, paired_test_by_key, patients_parts


def test_three_patients_all_better_by_hand() -> None:
    test = paired_test([0.1, 0.2, 0.3], [0.2, 0.4, 0.6], ["a", "b", "c"], seed=1)
    assert test.difference.estimate == pytest.approx(0.2)
    assert test.exact
    assert test.p_value == pytest.approx(2 / 8)  # only +++ and --- reach the observed sum


def test_p_value_equals_counting_every_sign_pattern_of_the_patients() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.random(12), generator.random(12)
    subjects = [0, 0, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7]
    sums = [sum(d for d, s in zip(second - first, subjects, strict=True) if s == name) for name in range(8)]
    patterns = [abs(sum(a * b for a, b in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=8)]
    expected = sum(total >= abs(sum(sums)) - 1e-12 for total in patterns) / 256
    assert paired_test(first.tolist(), second.tolist(), subjects, seed=1).p_value == pytest.approx(expected)


def test_flipping_whole_patients_is_weaker_than_flipping_questions() -> None:
    first, second = [0.0] * 30, [0.1] * 29 + [0.1]
    by_patient = paired_test(first, second, [i // 10 for i in range(30)], seed=1)
    by_question = paired_test(first, second, list(range(30)), seed=1)
    assert by_patient.p_value == pytest.approx(0.25)
    assert by_question.p_value is not None
    assert by_question.p_value < 0.001


def test_sampled_p_agrees_with_theory_and_is_never_zero() -> None:
    generator = np.random.default_rng(3)
    differences = generator.normal(0.1, 0.5, size=60)
    test = paired_test([0.0] * 60, differences.tolist(), list(range(60)), seed=1)
    z = differences.sum() / np.sqrt((differences**2).sum())
    assert not test.exact
    assert test.p_value == pytest.approx(float(2 * _upper_tail(z)), abs=0.02)
    sure = paired_test([0.0] * 60, [1.0] * 60, list(range(60)), seed=1, permutations=1000)
    assert sure.p_value == pytest.approx(1 / 1001)


def test_no_difference_at_all_has_p_one() -> None:
    test = paired_test([0.5] * 20, [0.5] * 20, list(range(20)), seed=1)
    assert test.p_value == 1.0
    assert test.difference.estimate == 0.0


def test_one_patient_cannot_be_tested() -> None:
    test = paired_test([0.1, 0.1], [0.9, 0.9], ["a", "a"], seed=1)
    assert test.p_value is None
    assert test.difference.low is None


def test_samples_scored_once_are_counted_not_guessed() -> None:
    test = paired_test_by_key({"x": 0.1, "y": 0.2}, {"y": 0.4, "z": 1.0}, {"x": 1, "y": 2, "z": 3}, seed=1)
    assert test.difference.n == 1
    assert test.unpaired == 2
    with pytest.raises(UserError, match="no scored sample in common"):
        paired_test_by_key({"x": 0.1}, {"y": 0.2}, {"x": 1, "y": 2}, seed=1)


def test_holm_by_hand() -> None:
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert holm({"a": 0.6, "b": 0.9}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def _upper_tail(z: float) -> float:
    from statistics import NormalDist

    return 1 - NormalDist().cdf(abs(z))


def test_flips_kept_for_as_many_patients_are_those_drawn_afresh() -> None:
    values = np.random.default_rng(3).normal(0.2, 1.0, size=40)
    flips = np.random.default_rng(derive_seed(7, "sign-flip")).integers(0, 2, size=(20_000, 40), dtype=np.int8)
    hits = np.count_nonzero(np.abs((1.0 - 2.0 * flips) @ values) >= abs(values.sum()) - 1e-9)
    for _ in range(2):
        assert paired_test([0.0] * 40, values.tolist(), range(40), seed=7).p_value == (hits + 1) / 20_001


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e7 / 3])
def test_sums_that_are_equal_but_for_rounding_count_at_any_scale(scale: float) -> None:
    whole = [1, 2, 3, 4, 5, 6, -7]
    patterns = [abs(sum(a * b for a, b in zip(signs, whole, strict=True))) for signs in product((1, -1), repeat=7)]
    expected = sum(total >= abs(sum(whole)) for total in patterns) / 128
    test = paired_test([0.0] * 7, [scale * value / 10 for value in whole], range(7), seed=1)
    assert test.p_value == expected


@pytest.mark.parametrize(("patients", "exact", "flips"), [(2, True, 4), (14, True, 2**14), (15, False, 500)])
def test_up_to_fourteen_patients_every_pattern_is_tried(patients: int, exact: bool, flips: int) -> None:
    test = paired_test([0.0] * patients, [1.0] * patients, range(patients), seed=1, permutations=500)
    assert (test.exact, test.permutations) == (exact, flips)
    assert test.p_value == (2 / flips if exact else pytest.approx(1 / 501, abs=2 / 501))


def test_lengths_that_differ_are_refused() -> None:
    for first, second, subjects in (([1.0], [1.0, 2.0], [1, 2]), ([1.0], [1.0], [1, 2]), ([1.0, 2.0], [1.0], [1])):
        with pytest.raises(UserError, match=f"not {len(first)}, {len(second)} and {len(subjects)}"):
            paired_test(first, second, subjects, seed=1)


def test_with_tasks_the_difference_is_the_mean_of_their_means_and_so_is_the_test() -> None:
    first = dict.fromkeys("abcd", 0.0)
    second = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 1.0}
    subjects = {name: place for place, name in enumerate("abcd")}
    tasks = {"a": "x", "b": "x", "c": "x", "d": "y"}
    test = paired_test_by_key(first, second, subjects, seed=1, tasks=tasks)
    assert test.difference.estimate == pytest.approx((0.2 + 1.0) / 2)
    assert paired_test_by_key(first, second, subjects, seed=1).difference.estimate == pytest.approx(0.4)
    parts = patients_parts(first, second, subjects, tasks=tasks)
    assert parts == pytest.approx({0: 0.1 / 6, 1: 0.2 / 6, 2: 0.3 / 6, 3: 0.5})
    assert patients_parts(first, second, subjects) == pytest.approx({0: 0.025, 1: 0.05, 2: 0.075, 3: 0.25})
    assert patients_parts(first, {**second, "e": 9.0}, {**subjects, "b": 0}) == pytest.approx(
        {0: 0.075, 2: 0.075, 3: 0.25}
    )


def test_the_direction_is_that_of_the_second_and_settings_are_heeded() -> None:
    keys = [str(place) for place in range(20)]
    first, second = dict.fromkeys(keys, 0.75), {key: int(key) / 100 for key in keys}
    test = paired_test_by_key(first, second, dict(zip(keys, range(20), strict=True)), seed=1, permutations=300)
    assert test.difference.estimate < 0
    assert (test.permutations, test.exact, test.unpaired) == (300, False, 0)
    narrow, wide = (
        paired_test([0.0] * 20, [k / 20 for k in range(20)], range(20), seed=1, confidence=level).difference
        for level in (0.5, 0.99)
    )
    assert None not in (narrow.low, narrow.high, wide.low, wide.high)
    assert wide.low < narrow.low < narrow.high < wide.high  # type: ignore[operator]


def test_many_flips_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).normal(0.3, 1.0, size=30)
    monkeypatch.setattr(paired, "_CHUNK_CELLS", 30 * 7)
    drawn = list(paired._sign_flips(3, 30, 1_000))
    assert [len(part) for part in drawn] == [7] * 142 + [6]
    flips = np.concatenate(drawn)
    assert {int(flip) for flip in np.unique(flips)} == {0, 1}
    hits = np.count_nonzero(np.abs((1.0 - 2.0 * flips) @ values) >= abs(values.sum()) - 1e-9)
    test = paired_test([0.0] * 30, values.tolist(), range(30), seed=3, permutations=1_000)
    assert test.p_value == (hits + 1) / 1_001


def test_what_each_patient_adds_to_the_difference_by_hand() -> None:
    first, second = {"a": 0.25, "b": 0.5, "c": 1.0, "x": 0.0}, {"a": 0.75, "b": 0.25, "c": 1.0, "y": 1.0}
    subjects = {"a": 1, "b": 1, "c": 2}
    assert patients_parts(first, second, subjects) == pytest.approx({1: 0.25 / 3, 2: 0.0})
    tasks = {"a": "one", "b": "other", "c": "other"}
    assert patients_parts(first, second, subjects, tasks=tasks) == pytest.approx({1: 0.5 / 2 - 0.25 / 4, 2: 0.0})
