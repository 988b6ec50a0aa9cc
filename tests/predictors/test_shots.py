"""Few-shot samples: balanced, nested, repeated only where a class is short, and by seed alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wardround.predictors import ALL_SHOTS, PAPER_SHOTS
from wardround.predictors.fit import draw_shots

TRUTHS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(TRUTHS, st.integers(1, 40), st.integers(0, 5))
def test_k_of_every_class_there_is(truth: list[int], k: int, seed: int) -> None:
    labels = np.array(truth)
    shots = draw_shots(labels, 4, k, seed=seed, name="task")
    assert Counter(labels[shots.places].tolist()) == dict.fromkeys(set(truth), k)
    for one in set(truth):
        members = shots.places[labels[shots.places] == one]
        own = truth.count(one)
        assert len(set(members.tolist())) == min(k, own)  # nothing twice while there are others
        assert shots.repeated[one] == max(0, k - own)


@given(TRUTHS, st.integers(1, 40), st.integers(1, 40), st.integers(0, 5))
def test_the_smaller_sample_is_part_of_the_larger(truth: list[int], one: int, other: int, seed: int) -> None:
    labels = np.array(truth)
    small, large = (
        Counter(draw_shots(labels, 4, k, seed=seed, name="task").places.tolist()) for k in sorted((one, other))
    )
    assert small <= large


def test_replicates_differ_and_a_seed_repeats() -> None:
    labels = np.array([0, 1] * 50)
    drawn = [tuple(draw_shots(labels, 2, 8, seed=1, name=f"task/{r}").places) for r in (0, 1, 0)]
    assert drawn[0] == drawn[2]
    assert drawn[0] != drawn[1]


def test_every_member_may_come_up() -> None:
    labels = np.zeros(6, int)
    seen = {int(draw_shots(labels, 1, 1, seed=seed, name="x").places[0]) for seed in range(100)}
    assert seen == set(range(6))


def test_a_class_nobody_has_is_not_drawn_and_repeats_nothing() -> None:
    shots = draw_shots(np.array([0, 2, 2]), 4, 2, seed=1, name="task")
    assert shots.repeated == (1, 0, 0, 0)
    assert sorted(shots.places.tolist()) == [0, 0, 1, 2]


def test_the_shots_are_those_of_both_papers() -> None:
    ehrshot, ehr_rag = "1 2 4 8 12 16 24 32 48 64 128", "1 2 4 8 16 32 64 128 256"
    assert set(PAPER_SHOTS) == {*ehrshot.split(), *ehr_rag.split(), ALL_SHOTS}
