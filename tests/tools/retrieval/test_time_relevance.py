"""Equations 2 and 3 of the EHR-RAG paper against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.tools.retrieval import combined_score, time_relevance
from wardround.tools.retrieval.chunks import stretched

DAY = 86_400_000_000


def relevance(day: float, *, now: float, first: float) -> float:
    times = np.array([round(day * DAY)])
    scores = time_relevance(times, now=round(now * DAY), first=round(first * DAY), recent_days=180, early_days=3650)
    return float(scores[0])


@pytest.mark.parametrize(
    ("day", "now", "first", "expected"),
    [
        (20_000, 20_000, 0, 1.0),  # at the prediction time
        (0, 20_000, 0, 1.0),  # at the first time
        (19_910, 20_000, 0, 0.6065306597),  # 90 days ago: exp(-1/2)
        (19_820, 20_000, 0, 0.3678794412),  # 180 days ago: exp(-1)
        (3_650, 20_000, 0, 0.3678794412),  # ten years after the first: exp(-1)
        (1_825, 20_000, 0, 0.6065306597),  # five years after the first: exp(-1/2)
        (10_950, 20_000, 0, 0.0497870684),  # thirty years after the first: exp(-3)
        (820, 1_000, 0, 0.7987897300),  # both count: exp(-820/3650) is above exp(-180/180)
        (20_001, 20_000, 0, 1.0),  # after the prediction time: not above 1
        (-500, 20_000, 0, 1.0),  # before the first time, as a birth may be: not above 1
        (5, 5, 5, 1.0),  # a record of one moment
    ],
)
def test_time_relevance_by_hand(day: float, now: float, first: float, expected: float) -> None:
    assert relevance(day, now=now, first=first) == pytest.approx(expected, rel=1e-6)


def test_it_is_a_u() -> None:
    scores = [relevance(day, now=30_000, first=0) for day in range(0, 30_001, 100)]
    lowest = int(np.argmin(scores))
    assert 0 < lowest < len(scores) - 1
    assert all(np.diff(scores[: lowest + 1]) < 0)
    assert all(np.diff(scores[lowest:]) > 0)


@given(st.integers(-(10**5), 10**5), st.integers(-(10**5), 10**5), st.integers(-(10**5), 10**5))
def test_it_lies_between_zero_and_one(day: int, now: int, first: int) -> None:
    assert 0.0 <= relevance(day, now=now, first=first) <= 1.0


@pytest.mark.parametrize(
    ("similarity", "time", "alpha", "expected"),
    [
        (0.4, 0.8, 0.75, 0.5),
        (-0.2, 0.6, 0.75, 0.0),  # likeness below zero counts as it is
        (0.3, 0.9, 1.0, 0.3),
        (0.3, 0.9, 0.0, 0.9),
        (0.1, 0.0497870684, 0.75, 0.0874467671),
    ],
)
def test_combined_score_by_hand(similarity: float, time: float, alpha: float, expected: float) -> None:
    assert combined_score([similarity], [time], alpha=alpha)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("cosines", "expected"),
    [
        ([0.10, 0.15, 0.20], [0.0, 0.5, 1.0]),
        ([-0.3, 0.1, -0.1], [0.0, 1.0, 0.5]),
        ([0.2, 0.2], [0.0, 0.0]),
        ([0.7], [0.0]),
        ([], []),
    ],
)
def test_likeness_stretched_over_a_pool_by_hand(cosines: list[float], expected: list[float]) -> None:
    assert stretched(np.array(cosines)).tolist() == pytest.approx(expected)
