"""Set scores and Best@K against values worked out by hand and by brute force."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.clinical.codes import LabelSet
from wardround.core import UserError
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import best_at_k, pass_hat_k, scorer_of, set_scores

ALIASES = LabelSet(name="two", labels=("Heart failure", "Asthma"), aliases={"CHF": "Heart failure"})


def test_two_of_three_answers_are_among_four_labels() -> None:
    score = set_scores(["a", "b", "x"], ["a", "b", "c", "d"])
    assert score.precision == pytest.approx(2 / 3)
    assert score.recall == 0.5
    assert score.f1 == pytest.approx(4 / 7)
    assert (score.hits, score.answered, score.wanted) == (2, 3, 4)


@pytest.mark.parametrize(
    ("answer", "target", "expected"),
    [
        (None, ["a"], (0.0, 0.0, 0.0)),
        ([], ["a"], (0.0, 0.0, 0.0)),
        (["  "], ["a"], (0.0, 0.0, 0.0)),
        (["a"], [], (0.0, 0.0, 0.0)),
        ([], [], (1.0, 1.0, 1.0)),
        (["b"], ["a"], (0.0, 0.0, 0.0)),
        (["a", "A ", "a"], ["a"], (1.0, 1.0, 1.0)),
    ],
)
def test_edge_cases(answer: list[str] | None, target: list[str], expected: tuple[float, float, float]) -> None:
    score = set_scores(answer, target)
    assert (score.precision, score.recall, score.f1) == expected


def test_spellings_of_one_label_count_once() -> None:
    score = set_scores(["CHF", "heart  failure", "Ａｓｔｈｍａ"], ["Heart failure", "asthma"])
    assert (score.hits, score.answered) == (2, 3)  # without a label set CHF is just another word
    resolved = set_scores(["CHF", "heart  failure"], ["Heart failure", "Asthma"], ALIASES)
    assert (resolved.hits, resolved.answered, resolved.wanted) == (1, 1, 2)
    assert resolved.outside == ()


def test_an_answer_outside_the_candidates_is_wrong_and_named() -> None:
    score = set_scores(["asthma", "Ennui"], ["Asthma"], ALIASES)
    assert score.precision == 0.5
    assert score.outside == ("Ennui",)


def test_model_text_is_never_run() -> None:
    assert set_scores(["__import__('os').abort()"], ["a"]).f1 == 0.0


def test_best_at_k_by_hand() -> None:
    scores = [0.2, 0.8, 0.5]
    assert best_at_k(scores, 1) == pytest.approx(0.5)
    assert best_at_k(scores, 2) == pytest.approx((0.8 + 0.5 + 0.8) / 3)
    assert best_at_k(scores, 3) == pytest.approx(0.8)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
def test_best_at_k_is_the_mean_of_the_best_over_all_subsets(scores: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(scores)))
    brute = fmean(max(subset) for subset in combinations(scores, k))
    assert best_at_k(scores, k) == pytest.approx(brute)


def test_best_at_k_of_many_trajectories_does_not_overflow() -> None:
    assert best_at_k([0.0] * 2047 + [1.0], 1024) == pytest.approx(0.5)


@pytest.mark.parametrize("k", [0, 4, -1])
def test_best_at_k_wants_a_k_that_exists(k: int) -> None:
    with pytest.raises(UserError, match="between 1 and 3"):
        best_at_k([0.1, 0.2, 0.3], k)


def test_pass_hat_k_by_hand() -> None:
    """Three right of four: 3/4 of the answers, 3 of the 6 pairs, 1 of the 4 triples, no four."""
    right = [True, False, True, True]
    assert [pass_hat_k(right, k) for k in (1, 2, 3, 4)] == [0.75, 0.5, 0.25, 0.0]


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_hat_k_is_the_share_of_the_subsets_that_are_all_right(right: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(right)))
    subsets = list(combinations(right, k))
    assert pass_hat_k(right, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


@pytest.mark.parametrize("k", [0, 3])
def test_pass_hat_k_wants_a_k_that_exists(k: int) -> None:
    with pytest.raises(UserError, match="needs between 1 and 2 trajectories"):
        pass_hat_k([True, False], k)


UNITS = LabelSet(
    name="transfers_candidates",
    labels=(
        "Neurology",
        "Neuro Stepdown",
        "Medical Intensive Care Unit (MICU)",
        "Intensive Care Unit (ICU)",
        "Unknown",
    ),
    aliases={"MICU": "Medical Intensive Care Unit (MICU)"},
)


@pytest.mark.parametrize(
    ("answer", "target", "expected"),
    [
        (["Neuro Stepdown"], "Neurology", {"F1": 0.0, "F1 of classes": 0.0, "F1 of services": 1.0}),
        (["Neurology"], "Neurology", {"F1": 1.0, "F1 of classes": 1.0, "F1 of services": 1.0}),
        (["MICU"], "Intensive Care Unit (ICU)", {"F1": 0.0, "F1 of classes": 1.0}),
        (
            ["MICU", "Coronary Care Unit (CCU)"],
            "Medical Intensive Care Unit (MICU)",
            {"F1": 2 / 3, "F1 of classes": 1.0, "F1 of services": 2 / 3},
        ),
        (["5 West"], "Neurology", {"F1": 0.0, "F1 of classes": 0.0, "F1 of services": 0.0}),
        (["Neurology"], "Unknown", {"F1": 0.0}),
        (None, "Neurology", {"F1": 0.0, "F1 of classes": 0.0, "F1 of services": 0.0}),
    ],
)
def test_a_care_unit_is_scored_by_name_class_and_service(
    answer: list[str] | None, target: str, expected: dict[str, float]
) -> None:
    scorer = scorer_of(get_task("transfers").answer)
    assert scorer.figures(answer, [target], UNITS) == pytest.approx(expected)
    assert next(iter(expected)) == scorer.metric


@pytest.mark.parametrize(
    ("answer", "target", "exact", "of_classes"),
    [
        (["CMED"], ["MED"], 0.0, 1.0),  # another team of physicians
        (["SURG"], ["MED"], 0.0, 0.0),
        (["MED"], ["MED"], 1.0, 1.0),
        (["TRAUM"], ["SURG"], 0.0, 0.0),  # of which no class is known
        (["SURG"], ["TRAUM"], 0.0, None),
        (["TRAUM"], ["TRAUM"], 1.0, None),
        (["NBB"], ["OBS"], 0.0, 0.0),  # the child is not its mother
        (["NBB"], ["NB"], 0.0, 1.0),
        (["CMED", "SURG"], ["MED"], 0.0, 2 / 3),
        (["MED", "CMED"], ["MED"], 2 / 3, 1.0),
        (["NSURG"], ["MED", "SURG"], 0.0, 2 / 3),
        (["MED"], ["MED", "ENT"], 2 / 3, None),
        (None, ["MED"], 0.0, 0.0),
    ],
)
def test_a_service_is_scored_by_its_code_and_beside_it_by_its_class(
    answer: list[str] | None, target: list[str], exact: float, of_classes: float | None
) -> None:
    services = LabelSet(name="services", labels=("MED", "CMED", "SURG", "NSURG", "TRAUM", "OBS", "NB", "NBB", "ENT"))
    scorer = scorer_of(get_task("clinseek.services").answer)
    expected = {"F1": exact} | ({} if of_classes is None else {"F1 of classes": of_classes})
    assert scorer.figures(answer, target, services) == pytest.approx(expected)
    assert scorer.score(answer, target, services).f1 == pytest.approx(exact)
    assert scorer.metric == "F1"
