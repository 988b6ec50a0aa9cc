"""What the notes below the predictors' table count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from wardround.reports.predictions import auroc_of, curves, predictor_notes, reliability_bins


def fit(
    dev_auroc: float | None,
    *,
    converged: bool = True,
    repeated: int = 0,
    predictor: str = "count-lr",
    points: int = 8,
) -> Any:
    return SimpleNamespace(
        predictor=predictor,
        points=points,
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


def test_notes_say_how_large_the_grid_of_boosting_was() -> None:
    manifest = {"settings": {"final_iterations": 1000, "gbm_grid": "small"}, "left_out": {}}
    boosted = [fit(0.5, predictor="count-gbm", points=points) for points in (0, 4)]
    assert predictor_notes([fit(0.5), *boosted], manifest) == ("Boosting tried the grid 'small' (4 points).",)
    assert predictor_notes([fit(0.5)], manifest) == ()


def test_a_curve_is_of_the_fits_that_have_the_figure_its_points_the_mean_and_the_ends_of_the_replicates() -> None:
    """Of test samples of one class there is no AUROC."""

    def row(k: str, auroc: float | None, predictor: str = "count-lr") -> Any:
        found = None if auroc is None else SimpleNamespace(estimate=auroc)
        return SimpleNamespace(
            task="guo_los", view="classes", predictor=predictor, k=k, scores=SimpleNamespace(auroc=found)
        )

    rows = [row("all", 0.9), row("8", 0.5), row("8", 0.75), row("2", None), row("1", 0.5), row("1", None, "count-gbm")]
    (curve,) = curves(rows, auroc_of)
    assert (curve.task, curve.view, curve.predictor) == ("guo_los", "classes", "count-lr")
    assert [(point.k, point.mean, point.low, point.high, point.replicates) for point in curve.points] == [
        (1, 0.5, 0.5, 0.5, 1),
        (8, 0.625, 0.5, 0.75, 2),
        (None, 0.9, 0.9, 0.9, 1),
    ]


def test_bins_have_wilsons_interval_within_0_and_1() -> None:
    """z² is 3.8415: of 0 of 4 the interval ends at z²/(4 + z²), of 4 of 4 it begins at 4/(4 + z²)."""
    probabilities = [(1 - share, share) for share in (0.1, 0.1, 0.1, 0.1, 0.4, 0.4, 0.6, 0.6, 0.9, 0.9, 0.9, 0.9)]
    samples = tuple(f"s{number}" for number in range(12))
    row: Any = SimpleNamespace(samples=(*samples, "unknown"), probabilities=[*probabilities, (0.5, 0.5)])
    truth = {name: number in (4, 6, 8, 9, 10, 11) for number, name in enumerate(samples)}
    found = reliability_bins(row, truth, most=3)
    assert [(one.n, round(one.predicted, 6), one.observed) for one in found] == [
        (4, 0.1, 0),
        (4, 0.5, 0.5),
        (4, 0.9, 1),
    ]
    assert [(round(one.low, 4), round(one.high, 4)) for one in found] == [(0, 0.4899), (0.15, 0.85), (0.5101, 1)]
