"""Rows of tasks with classes, from hand-made episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.scoring.test_tables import scored
from wardround.tasks.scoring import EpisodeScore, SetScore, classify, render_classes, same_samples


def answered(subject: int, truth: str, answer: str | None, *, agent: str = "rag", epoch: int = 0) -> EpisodeScore:
    right = float(answer == truth)
    return replace(
        scored(subject, right, task="guo_los", epoch=epoch),
        agent=agent,
        stratum="any",
        answer=None if answer is None else (answer,),
        target=(truth,),
        score=SetScore(precision=right, recall=right, f1=right, hits=int(right), answered=1, wanted=1),
    )


def test_a_row_by_hand() -> None:
    scores = [answered(1, "0", "0"), answered(2, "0", "1"), answered(3, "1", "7 days or more"), answered(4, "1", None)]
    (row,) = classify(scores, resamples=20)
    assert (row.agent, row.model, row.task, row.episodes) == ("rag", "offline", "guo_los", 4)
    assert row.metrics.accuracy.estimate == 0.5
    assert row.metrics.class_f1["0"].estimate == pytest.approx(2 / 3)
    assert row.metrics.class_f1["1"].estimate == pytest.approx(2 * 1 / (2 + 2))  # a class may be named by its meaning
    assert row.metrics.missing == 1
    assert row.scores is None  # nobody asked for probabilities
    text = render_classes([row])
    assert "F1 7 days or more" in text
    assert "few patients" in text
    assert "AUROC" not in text


def test_tasks_without_classes_make_no_rows() -> None:
    assert classify([scored(1, 0.5)]) == ()


def test_repeated_epochs_are_answers_and_the_same_patients() -> None:
    once = [answered(n, str(n % 2), "0") for n in range(8)]
    twice = [answered(n, str(n % 2), "0", epoch=epoch) for n in range(8) for epoch in (0, 1)]
    (one,), (two,) = classify(once, resamples=200), classify(twice, resamples=200)
    assert two.episodes == 16
    assert two.metrics.subjects == 8
    assert two.metrics.macro_f1.estimate == one.metrics.macro_f1.estimate
    assert (two.metrics.macro_f1.low, two.metrics.macro_f1.high) == (
        one.metrics.macro_f1.low,
        one.metrics.macro_f1.high,
    )


def test_rows_over_other_samples_are_told_apart_and_the_table_says_so() -> None:
    whole = [answered(n, str(n % 2), "0") for n in range(8)]
    part = [answered(n, str(n % 2), "0", agent="direct") for n in range(6)]
    twice = [answered(n, str(n % 2), "0", agent="direct", epoch=epoch) for n in range(8) for epoch in (0, 1)]
    assert same_samples(classify([*whole, *twice], resamples=5))
    apart = classify([*whole, *part], resamples=5)
    assert not same_samples(apart)
    assert "not all over the same samples" in render_classes(apart)
    assert "not all over the same samples" not in render_classes(classify([*whole, *twice], resamples=5))


def test_episodes_with_probabilities_have_the_figures_of_predictors() -> None:
    chances = {1: ("0", 0.2), 2: ("0", 0.6), 3: ("1", 0.7), 4: ("1", 0.4)}
    scores = [
        replace(answered(n, truth, truth), probabilities={"0": 1 - p, "1": p}) for n, (truth, p) in chances.items()
    ]
    (row,) = classify(scores, resamples=20)
    assert row.scores is not None
    assert row.scores.auroc is not None
    assert row.scores.brier is not None
    assert row.scores.auroc.estimate == 0.75  # of four pairs only (0.4, 0.6) is the wrong way round
    assert row.scores.brier.estimate == pytest.approx((0.2**2 + 0.6**2 + 0.3**2 + 0.6**2) / 4)
    assert "AUROC" in render_classes([row])
    (partly,) = classify([*scores[:3], replace(scores[3], probabilities={})], resamples=20)
    assert partly.scores is None


def test_probabilities_are_kept_in_a_file_and_nothing_is_where_there_are_none() -> None:
    plain = answered(1, "0", "0")
    sure = replace(plain, probabilities={"0": 0.9, "1": 0.1})
    assert "probabilities" not in plain.to_json()
    assert EpisodeScore.from_json(sure.to_json()) == sure
    assert EpisodeScore.from_json(plain.to_json()) == plain
