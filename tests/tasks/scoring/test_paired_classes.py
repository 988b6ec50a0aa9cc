"""Macro-F1 of two contenders on the same samples: every swap of patients by hand, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from wardround.core import UserError
from wardround.tasks.scoring import paired_macro_f1
from wardround.tasks.scoring.paired import macro_hypothesis

CLASSES = ("a", "b", "c")
TRUTH = {"1": "a", "2": "b", "3": "c", "4": "a", "5": "b", "6": "c"}
FIRST = {"1": "a", "2": "a", "3": "c", "4": "b", "5": "b", "6": "a"}
SECOND = {"1": "a", "2": "b", "3": "c", "4": "a", "5": "c", "6": "a"}
SUBJECTS = {"1": "p", "2": "p", "3": "q", "4": "r", "5": "s", "6": "s"}
OWNERS = ("p", "q", "r", "s")


def sets(answers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {key: (one,) for key, one in answers.items()}


def macro_f1(answers: Mapping[str, str]) -> float:
    """Written as loops."""
    each = []
    for name in CLASSES:
        hits = sum(answers[key] == name == truth for key, truth in TRUTH.items())
        given, wanted = list(answers.values()).count(name), list(TRUTH.values()).count(name)
        each.append(2 * hits / (given + wanted) if given + wanted else 0.0)
    return sum(each) / len(each)


def swapped(who: tuple[bool, ...]) -> float:
    """The second minus the first where these patients' answers are swapped."""
    turned = dict(zip(OWNERS, who, strict=True))
    one = {key: SECOND[key] if turned[SUBJECTS[key]] else FIRST[key] for key in TRUTH}
    other = {key: FIRST[key] if turned[SUBJECTS[key]] else SECOND[key] for key in TRUTH}
    return macro_f1(other) - macro_f1(one)


def test_the_difference_and_p_of_every_swap_by_hand() -> None:
    test = paired_macro_f1(
        sets(FIRST), {**sets(SECOND), "7": ("a",)}, sets(TRUTH), SUBJECTS, classes=CLASSES, seed=1, resamples=20
    )
    observed = macro_f1(SECOND) - macro_f1(FIRST)
    every = [abs(swapped(who)) for who in product((False, True), repeat=4)]
    assert test.difference.estimate == pytest.approx(observed)
    assert test.p_value == pytest.approx(sum(value >= observed - 1e-9 for value in every) / 16)
    assert (test.exact, test.permutations, test.unpaired) == (True, 16, 1)


def test_as_one_of_a_family_a_flip_swaps_all_answers_of_a_patient() -> None:
    found = macro_hypothesis(sets(FIRST), {**sets(SECOND), "7": ()}, sets(TRUTH), SUBJECTS, classes=CLASSES)
    assert found.subjects == OWNERS
    patterns = list(product((False, True), repeat=4))
    signs = np.array([[-1.0 if turned else 1.0 for turned in who] for who in patterns])
    assert found.flipped(signs) == pytest.approx([swapped(who) for who in patterns])


def test_many_patients_are_sampled_and_p_is_never_zero() -> None:
    keys = [str(place) for place in range(40)]
    truth = {key: (CLASSES[int(key) % 3],) for key in keys}
    wrong = {key: (CLASSES[(int(key) + 1) % 3],) for key in keys}
    subjects = {key: key for key in keys}
    found = [
        paired_macro_f1(wrong, truth, truth, subjects, classes=CLASSES, seed=1, permutations=99, resamples=10)
        for _ in range(2)
    ]
    assert found[0].p_value == found[1].p_value == 1 / 100
    assert (found[0].exact, found[0].permutations) == (False, 99)
    same = paired_macro_f1(truth, truth, truth, subjects, classes=CLASSES, seed=1, permutations=99, resamples=10)
    assert (same.p_value, same.difference.estimate) == (1.0, 0.0)


def test_one_patient_cannot_be_tested_and_none_in_common_is_refused() -> None:
    alone = dict.fromkeys(TRUTH, "p")
    test = paired_macro_f1(sets(FIRST), sets(SECOND), sets(TRUTH), alone, classes=CLASSES, seed=1, resamples=10)
    assert (test.p_value, test.exact, test.permutations) == (None, True, 1)
    with pytest.raises(UserError, match="no answered sample in common"):
        paired_macro_f1({"1": ("a",)}, {"2": ("a",)}, sets(TRUTH), SUBJECTS, classes=CLASSES, seed=1)


def test_several_classes_may_be_right_at_once_where_that_is_said() -> None:
    truth = {"1": ("a", "b"), "2": ("b",)}
    subjects = {"1": 1, "2": 2}
    test = paired_macro_f1(
        {"1": ("a",), "2": ("b",)}, truth, truth, subjects, classes=("a", "b"), seed=1, several=True, resamples=10
    )
    assert test.difference.estimate == pytest.approx(1 - (1 + 2 / 3) / 2)
