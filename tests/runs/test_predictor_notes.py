"""What the notes below the predictors' table count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from wardround.reports.predictions import predictor_notes


def fit(dev_auroc: float | None, *, converged: bool = True, repeated: int = 0) -> Any:
    return SimpleNamespace(
        predictor="count-lr",
        train={"repeated": {"0": 0, "1": repeated}},
        dev={"repeated": {"0": 0, "1": 0}},
        dev_auroc=dev_auroc,
        converged=converged,
    )


def test_notes_count_fits_short_of_samples_without_a_choice_and_at_their_limit() -> None:
    rows = [fit(None, repeated=2), fit(0.5), fit(0.0), fit(0.7, converged=False), fit(None), fit(0.6, repeated=1)]
    rows.append(fit(0.9, repeated=3))
    manifest = {"settings": {"final_iterations": 1000}, "left_out": {"count-gbm": "no library"}}
    assert predictor_notes(rows, manifest) == (
        "In 3 of 7 fits a class had too few samples, and samples were repeated.",
        "In 2 fits dev samples could not choose a setting: defaults.",
        "1 fits ended at the solver's limit of 1,000.",
        "Left out: count-gbm, no library.",
    )
    assert predictor_notes(rows, None) == predictor_notes([], manifest) == ()
