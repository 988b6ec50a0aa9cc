"""The heads on matrices small enough to see through: choosing, ties, limits, classes that were not there."""

from __future__ import annotations

from typing import Any

import numpy as np

from extras import Later, needs
from wardround.predictors.heads import Boosting, Fit, Logistic, _best

pytestmark = needs("sklearn", "lightgbm")
sparse = Later("scipy.sparse")

TRUTH = np.array([0, 0, 0, 1, 1, 1])


def rows_of() -> Any:
    return sparse.csr_matrix(np.array([[0, 4], [1, 0], [2, 4], [7, 0], [8, 4], [9, 0]], float))


def fit(head: Logistic | Boosting, dev_truth: np.ndarray | None = None, classes: int = 2) -> Fit:
    return head(rows_of(), TRUTH, rows_of(), TRUTH if dev_truth is None else dev_truth, rows_of(), classes)


def test_points_that_rank_alike_are_told_apart_by_their_loss_or_the_first_is_taken() -> None:
    kept, first = fit(Logistic()), fit(Logistic(ties="first"))
    assert kept.dev_auroc == first.dev_auroc == 1.0
    assert (kept.points, first.points) == (8, 8)
    assert first.chosen == {"C": 1e-8}
    assert np.ptp(first.probabilities) < 1e-6  # it ranks, and says nothing
    assert kept.chosen == {"C": 1e4}  # the rows can be told apart entirely
    assert kept.probabilities[TRUTH == 1, 1].min() > 0.99


def test_the_best_ranking_decides_before_the_loss() -> None:
    tried = {"a": (0.9, 5.0), "b": (0.9, 1.0), "c": (0.8, 0.1)}
    assert _best(tried, "none", "loss") == ("b", 0.9)
    assert _best(tried, "none", "first") == ("a", 0.9)
    assert _best({}, "none", "loss") == ("none", None)


def test_the_last_fit_stops_where_ehrshots_does() -> None:
    whole, short = fit(Logistic()), fit(Logistic(final_iterations=2))
    assert whole.converged
    assert not short.converged
    assert short.iterations == 2
    assert short.chosen == whole.chosen


def test_dev_rows_of_one_class_choose_nothing() -> None:
    for head in (Logistic(), Boosting()):
        found = fit(head, np.zeros(6, int))
        assert (found.dev_auroc, found.points) == (None, 0)
    assert fit(Logistic(), np.zeros(6, int)).chosen == {"C": 1.0}
    chosen = fit(Boosting(), np.zeros(6, int)).chosen
    assert (chosen["max_depth"], chosen["learning_rate"]) == (-1, 0.1), "LightGBM's own: no limit of depth"


def test_one_class_to_learn_from_is_the_answer() -> None:
    found = Logistic()(rows_of(), np.full(6, 2), rows_of(), TRUTH, rows_of(), 4)
    assert found.probabilities.tolist() == [[0, 0, 1, 0]] * 6


def test_a_class_without_training_rows_has_no_probability() -> None:
    for head in (Logistic(), Boosting()):
        found = fit(head, TRUTH, classes=4)
        assert found.probabilities.shape == (6, 4)
        assert (found.probabilities[:, 2:] == 0).all()
        assert np.allclose(found.probabilities.sum(axis=1), 1)


def test_columns_without_training_counts_change_nothing() -> None:
    wider = sparse.hstack([rows_of(), sparse.csr_matrix((6, 3))], format="csr")
    full = wider.toarray()
    full[:, 4] = 5  # only in test rows
    for head in (Logistic(), Boosting()):
        narrow = fit(head)
        wide = head(wider, TRUTH, wider, TRUTH, sparse.csr_matrix(full), 2)
        np.testing.assert_array_equal(narrow.probabilities, wide.probabilities)


def test_boosting_tries_its_grid_and_keeps_the_best() -> None:
    assert fit(Boosting()).points == 4
    rows, truth = sparse.vstack([rows_of()] * 4, format="csr"), np.tile(TRUTH, 4)  # its bins hold three rows or more
    found = Boosting(grid="ehrshot")(rows, truth, rows, truth, rows_of(), 2)
    assert found.points == 27
    assert found.dev_auroc == 1.0
    assert (found.probabilities.argmax(axis=1) == TRUTH).all()


def test_probabilities_stand_under_their_own_class_when_one_between_was_not_fitted() -> None:
    truth = np.where(TRUTH == 1, 3, 1)  # of five classes, 1 and 3
    for head in (Logistic(), Boosting()):
        found = head(rows_of(), truth, rows_of(), truth, rows_of(), 5).probabilities
        assert (found[:, [0, 2, 4]] == 0).all()
        assert found[truth == 3, 3].mean() > found[truth == 1, 3].mean()
        np.testing.assert_allclose(found[:, [1, 3]].sum(axis=1), 1)
