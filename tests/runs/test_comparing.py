"""Comparisons of hand-made scores: every task by its own samples, and all tasks by the mean of their means."""

from __future__ import annotations

import pytest

from runs.score_doubles import scored
from wardround.reports.comparing import Pair, compare_all


def test_a_tasks_row_is_of_the_samples_of_that_task_that_both_have() -> None:
    baseline = [scored("labevents", 1, 0.0), scored("labevents", 2, 0.5), scored("transfers", 3, 1.0)]
    contender = [scored("labevents", 1, 1.0), scored("labevents", 2, 1.0), scored("transfers", 3, 0.5)]
    alone = scored("transfers", 4, 1.0)
    rows = compare_all([Pair(names=("a", "b"), first=[*baseline, alone], second=contender)], seed=0)
    found = {row.task: (row.test.difference.estimate, row.test.difference.n, row.test.unpaired) for row in rows}
    assert found == {
        "labevents": (pytest.approx(0.75), 2, 0),
        "transfers": (pytest.approx(-0.5), 1, 0),
        "all": (pytest.approx(0.125), 3, 0),
    }
