"""Step-down max-T, by hand, against simple cases and by simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from wardround.tasks.scoring import linear_hypothesis, paired_test, step_down


def by_hand(parts: list[list[float]]) -> list[float]:
    """Westfall and Young over every pattern, written as loops."""
    patterns = [[sum(s * d for s, d in zip(signs, own, strict=True)) for own in parts]
                for signs in product((1, -1), repeat=len(parts[0]))]  # fmt: skip
    spreads = [(sum(row[h] ** 2 for row in patterns) / len(patterns)) ** 0.5 for h in range(len(parts))]
    null = [[abs(row[h]) / spreads[h] for h in range(len(parts))] for row in patterns]
    observed = [abs(sum(own)) / spread for own, spread in zip(parts, spreads, strict=True)]
    order = sorted(range(len(parts)), key=lambda h: -observed[h])
    adjusted, worst = [0.0] * len(parts), 0.0
    for rank, h in enumerate(order):
        rest = order[rank:]
        worst = max(worst, sum(max(row[k] for k in rest) >= observed[h] - 1e-9 for row in null) / len(null))
        adjusted[h] = worst
    return adjusted


def adjusted(parts: list[list[float]], *, seed: int = 0, permutations: int = 2_000) -> tuple[float | None, ...]:
    hypotheses = [linear_hypothesis(dict(enumerate(own))) for own in parts]
    return step_down(hypotheses, seed=seed, permutations=permutations)


def test_few_patients_by_every_pattern() -> None:
    parts = [[0.5, 0.4, 0.3, 0.6, 0.2, 0.5], [0.1, -0.2, 0.3, 0.1, 0.2, 0.1], [0.0, 0.1, -0.1, 0.0, 0.1, -0.1]]
    assert adjusted(parts) == pytest.approx(by_hand(parts))
    assert adjusted(parts)[0] == pytest.approx(2 / 64), "the clearest is as good as alone: both extremes of 64"


@pytest.mark.parametrize("seed", range(5))
def test_scales_and_tails_of_their_own_by_every_pattern(seed: int) -> None:
    generator = np.random.default_rng(seed)
    parts = [(10.0**place * generator.standard_t(2, size=7) + place).tolist() for place in range(4)]
    assert adjusted(parts) == pytest.approx(by_hand(parts))


def test_one_test_is_not_corrected_and_copies_of_it_cost_nothing() -> None:
    own = [0.5, 0.4, -0.1, 0.6, 0.2, 0.5, 0.3]
    alone = paired_test([0.0] * 7, own, list(range(7)), seed=0).p_value
    assert adjusted([own]) == pytest.approx((alone,))
    assert adjusted([own, own, [10 * value for value in own]]) == pytest.approx((alone,) * 3), "Holm would say 3 p"


def test_no_difference_and_a_single_patient() -> None:
    assert adjusted([[0.0] * 6, [0.3] * 6]) == pytest.approx((1.0, 2 / 64))
    assert step_down([linear_hypothesis({1: 0.5}), linear_hypothesis({1: 0.2, 2: 0.3})], seed=0) == (None, 0.5)
    assert step_down([], seed=0) == ()


def test_tests_of_different_patients_are_one_family() -> None:
    first = linear_hypothesis(dict.fromkeys(range(6), 0.5))
    second = linear_hypothesis(dict.fromkeys(range(6, 12), 0.5))
    one, other = step_down([first, second], seed=0)
    assert one == other == pytest.approx(1 - (1 - 2 / 64) ** 2), "independent tests: one of two by chance"


def test_by_chance_alone_one_table_in_twenty_holds_a_finding() -> None:
    """Eight contenders whose scores depend on each other: all are compared with the same baseline."""
    generator = np.random.default_rng(5)
    hits = alone = 0
    tables = 200
    for table in range(tables):
        baseline = generator.normal(size=(25, 1))
        differences = generator.normal(size=(25, 8)) - baseline
        found = adjusted(differences.T.tolist(), seed=table, permutations=400)
        hits += min(value for value in found if value is not None) < 0.05
        t = differences.mean(axis=0) / (differences.std(axis=0, ddof=1) / 5)
        alone += float(np.abs(t).max()) > 2.064
    assert hits / tables < 0.05 + 3 * (0.05 * 0.95 / tables) ** 0.5
    assert alone / tables > 0.15, "uncorrected, several times as many"


def test_a_difference_that_is_no_number_has_no_p_and_changes_no_other() -> None:
    sound = linear_hypothesis({patient: 0.1 * patient for patient in range(9)})
    broken = linear_hypothesis({1: float("nan"), 2: 0.3})
    assert step_down([broken, sound], seed=0) == (None, *step_down([sound], seed=0))
