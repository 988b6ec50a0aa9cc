"""Whom a run's contenders are compared with, and Best@K, from hand-made scores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.scoring.test_tables import scored
from wardround.core import UserError
from wardround.reports import summarise_run
from wardround.reports.summary import by_contender, contender
from wardround.tasks.scoring import EpisodeScore


def played(subject: int, f1: float, agent: str = "react", *, model: str = "offline", epoch: int = 0) -> EpisodeScore:
    return replace(scored(subject, f1), agent=agent, model=model, epoch=epoch)


def compared(scores: list[EpisodeScore], baseline: str | None = None) -> set[tuple[str, str]]:
    return {(one.baseline, one.contender) for one in summarise_run(scores, seed=1, baseline=baseline).comparisons}


def both(*names: tuple[str, str]) -> list[EpisodeScore]:
    return [played(n, n / 4, agent, model=model) for agent, model in names for n in (1, 2, 3)]


def test_contenders_are_grouped_in_the_order_of_their_first_answer() -> None:
    scores = [played(1, 0.1, "b"), played(1, 0.2, "a"), played(2, 0.3, "b")]
    assert {name: [one.value for one in group] for name, group in by_contender(scores).items()} == {
        "b · offline": [0.1, 0.3],
        "a · offline": [0.2],
    }
    assert contender(scores[1]) == "a · offline"


def test_the_contender_that_is_named_first_is_the_baseline() -> None:
    """Not the first of the alphabet, which is the order of scored rows."""
    scores = both(("react", "m"), ("resum", "m"))
    assert compared(scores) == {("react · m", "resum · m")}
    named = summarise_run(scores, seed=1, order=["nobody · m", "resum · m", "react · m"])
    assert [(one.baseline, one.contender) for one in named.comparisons] == [("resum · m", "react · m")]
    assert [row.agent for row in named.rows] == ["resum", "react"]


def test_an_agent_is_the_baseline_of_everybodys_own_model() -> None:
    scores = both(("react", "m"), ("react", "n"), ("resum", "n"), ("air", "o"))
    assert compared(scores, "react") == {("react · n", "resum · n")}


def test_a_contender_is_the_baseline_of_all() -> None:
    scores = both(("react", "m"), ("react", "n"), ("resum", "n"))
    assert compared(scores, "react · m") == {("react · m", "react · n"), ("react · m", "resum · n")}


def test_an_unknown_baseline_is_refused_with_the_contenders() -> None:
    with pytest.raises(UserError, match="no contender 'nobody'; there are react · m, resum · m"):
        compared(both(("react", "m"), ("resum", "m")), "nobody")


def test_contenders_without_a_common_sample_are_not_compared() -> None:
    assert compared([played(1, 0.5, "resum"), played(2, 0.5, "react")]) == set()


def test_best_of_k_runs_to_the_epochs_that_every_sample_has() -> None:
    """Two samples with epochs (0, 1, 0.5) and (0.2, 0.4): Best@2 of the first is the mean of its pairs' best,
    (1 + 0.5 + 1) / 3."""
    scores = [played(1, f1, epoch=n) for n, f1 in enumerate((0.0, 1.0, 0.5))]
    scores += [played(2, f1, epoch=n) for n, f1 in enumerate((0.2, 0.4))]
    (row,) = summarise_run(scores, seed=1).best
    assert (row.contender, row.task) == ("react · offline", "labevents")
    assert row.values == pytest.approx(((0.5 + 0.3) / 2, (2.5 / 3 + 0.4) / 2))


def test_pass_hat_k_wants_all_epochs_right() -> None:
    """One sample right in 2 of 3 epochs, so in 1 of 3 pairs; one in 1 of 2, so in no pair. Nearly right is not right,
    and no answer is not right whatever it scores."""
    scores = [played(1, f1, epoch=n) for n, f1 in enumerate((1.0, 1.0, 0.99))]
    scores += [played(2, 1.0), replace(played(2, 1.0, epoch=1), answer=None)]
    (row,) = summarise_run(scores, seed=1).best
    assert row.passes == pytest.approx(((2 / 3 + 1 / 2) / 2, (1 / 3 + 0) / 2))


def test_one_epoch_has_no_best_of_k() -> None:
    assert summarise_run([played(1, 0.5), played(2, 0.5)], seed=1).best == ()
