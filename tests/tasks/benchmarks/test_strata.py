"""Splits, eq. 11 and the weighted draw."""

from __future__ import annotations

from collections import Counter

import pytest

from wardround.core import UserError
from wardround.tasks.benchmarks.drawing import (
    check_fractions,
    draw_key,
    label_counts,
    sample_weights,
    split_of,
    strata_of,
    unit_draw,
)


def test_eq_11_by_hand() -> None:
    targets = [("a", "b"), ("a",), ("a", "c")]
    assert label_counts(targets) == {"a": 3, "b": 1, "c": 1}
    weights = sample_weights(targets)
    assert weights == pytest.approx([(1 / 3 + 1) / 2, 1 / 3, (1 / 3 + 1) / 2])
    assert strata_of(weights) == ["rare", "common", "rare"]


def test_the_mean_weight_itself_is_common() -> None:
    assert strata_of([0.5, 0.5]) == ["common", "common"]
    assert strata_of([]) == []


def test_the_draw_takes_the_first_in_proportion_to_the_weights() -> None:
    weights = {"a": 1.0, "b": 2.0, "c": 5.0}
    firsts = Counter(max(weights, key=lambda name: draw_key(weights[name], seed, name)) for seed in range(8000))
    for name, weight in weights.items():
        assert firsts[name] / 8000 == pytest.approx(weight / 8, abs=0.02)


def test_the_draw_takes_pairs_as_successive_weighted_draws_would() -> None:
    weights = {"a": 1.0, "b": 2.0, "c": 5.0}
    pairs: Counter[frozenset[str]] = Counter()
    for seed in range(8000):
        keys = {name: draw_key(weight, seed, name) for name, weight in weights.items()}
        pairs[frozenset(sorted(keys, key=lambda name: -keys[name])[:2])] += 1
    expected = 1 / 8 * 2 / 7 + 2 / 8 * 1 / 6  # a then b, or b then a
    assert pairs[frozenset("ab")] / 8000 == pytest.approx(expected, abs=0.01)


def test_splits_follow_the_shares_and_the_seed() -> None:
    fractions = (0.7, 0.1, 0.2)
    splits = [split_of(subject, 1, fractions) for subject in range(10_000)]
    assert splits.count("train") / 10_000 == pytest.approx(0.7, abs=0.02)
    assert splits.count("dev") / 10_000 == pytest.approx(0.1, abs=0.02)
    assert [split_of(subject, 1, fractions) for subject in range(50)] == splits[:50]
    assert [split_of(subject, 2, fractions) for subject in range(50)] != splits[:50]
    assert {split_of(subject, 1, (0.0, 0.0, 1.0)) for subject in range(50)} == {"test"}


def test_draws_lie_strictly_between_zero_and_one() -> None:
    assert all(0 < unit_draw(n) < 1 for n in range(1000))


@pytest.mark.parametrize("fractions", [(0.5, 0.5, 0.5), (1.2, -0.1, -0.1), (0.5, 0.5)])
def test_shares_must_add_up(fractions: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="add up to 1"):
        check_fractions(fractions)  # type: ignore[arg-type]
