"""What may be set of predictors, and which values are refused."""

from __future__ import annotations

from typing import Any

import pytest

from declared import declared, settings_of
from wardround.core import UserError
from wardround.predictors.heads import C_GRID, EHRSHOT_ITERATIONS, GBM_GRIDS, PAPER_SHOTS, PredictorSettings


def test_the_section_has_the_settings_of_the_table() -> None:
    assert settings_of(PredictorSettings) == declared()["predictors"]


def test_the_grids_are_those_of_ehrshot_and_a_small_one_within() -> None:
    assert C_GRID == (1e-8, 1e-6, 1e-4, 1e-2, 0.1, 1, 100, 10_000)
    assert EHRSHOT_ITERATIONS == 100
    assert PAPER_SHOTS == ("1", "2", "4", "8", "12", "16", "24", "32", "48", "64", "128", "256", "all")
    assert dict(GBM_GRIDS) == {
        "ehrshot": {"max_depth": (3, 6, -1), "learning_rate": (0.02, 0.1, 0.5), "num_leaves": (10, 25, 100)},
        "small": {"max_depth": (3, -1), "learning_rate": (0.02, 0.1), "num_leaves": (25,)},
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"names": ()}, "name a predictor"),
        ({"shots": ("0",)}, "shots are numbers above 0 or 'all', not '0'"),
        ({"shots": ("all", "x")}, "not 'x'"),
        ({"shots": ("-1",)}, "not '-1'"),
        ({"shots": ("²",)}, "not '²'"),
        ({"shots": ("٣",)}, "not '٣'"),
        ({"replicates": 0}, "replicates must be at least 1"),
        ({"ties": "last"}, "ties must be one of loss, first, not 'last'"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PredictorSettings(**wrong)


def test_numbers_of_shots_stand_in_order_once() -> None:
    some = PredictorSettings(shots=("8", "1", "all", "08"))
    assert (some.numbers, some.with_all) == ((1, 8), True)
    assert PredictorSettings(shots=("1",)).with_all is False


def test_settings_are_told_as_lists() -> None:
    said = PredictorSettings(names=("count-lr",), shots=("1",), seed=7).to_json()
    assert said == {
        "names": ["count-lr"],
        "tasks": [],
        "shots": ["1"],
        "replicates": 5,
        "seed": 7,
        "split": "test",
        "samples": None,
        "hierarchy": "auto",
        "valued_events": True,
        "gbm_grid": "small",
        "ties": "loss",
        "iterations": 1000,
        "final_iterations": 1000,
        "resamples": 1000,
        "threads": 1,
        "representations": None,
    }
