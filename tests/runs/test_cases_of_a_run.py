"""Which attempts of a run become a case: whole groups, usable ones, in the order of their epochs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.core import LeakError
from wardround.learning.cases import CaseReader, is_success, is_usable
from wardround.log import EpisodeEntry
from wardround.memory import Bank


def entry(key: str, *, state: str = "finished", finish: str = "finish", turns: int = 1) -> EpisodeEntry:
    outcome = {"finish": finish} if state == "finished" else None
    return EpisodeEntry(key=key, facts={}, state=cast(Any, state), outcome=outcome, started="", ended=None, turns=turns)


def reader(*entries: EpisodeEntry, epochs: int = 2, split: str = "train") -> CaseReader:
    sample = SimpleNamespace(id="s", split=split, person=1, subject_id=1, task="diagnoses")
    return CaseReader(
        folder=cast(
            Any, SimpleNamespace(path=Path("run"), settings=SimpleNamespace(run=SimpleNamespace(epochs=epochs)))
        ),
        store=cast(Any, None),
        benchmark=cast(Any, SimpleNamespace(all_samples=[sample], tasks=())),
        bank=cast(Bank, None),
        episodes=cast(Any, SimpleNamespace(episodes=lambda: list(entries))),
        success=None,
    )


def test_attempts_are_grouped_by_agent_model_task_and_sample() -> None:
    keys = ["a|m|t|s|1", "a|m|t|s|0", "b|m|t|s|0", "b|m|t|s|1", "a|n|t|s|0", "a|m|u|s|0", "a|m|t|r|0"]
    groups, unfinished = reader(*map(entry, keys)).groups()
    assert [[one.key for one in group] for group in groups] == [["a|m|t|s|0", "a|m|t|s|1"], ["b|m|t|s|0", "b|m|t|s|1"]]
    assert unfinished == 3


def test_a_group_is_whole_by_what_is_over_and_has_what_is_usable() -> None:
    broken = entry("a|m|t|s|0", finish="error")
    groups, unfinished = reader(broken, entry("a|m|t|s|10"), entry("a|m|t|s|2", turns=0)).groups()
    assert ([[one.key for one in group] for group in groups], unfinished) == ([["a|m|t|s|10"]], 0)
    assert reader(broken, broken).groups() == ([], 0), "over, and of no use"
    assert reader(entry("a|m|t|s|0"), entry("a|m|t|s|1", state="open")).groups() == ([], 1)
    groups, _ = reader(*(entry(f"a|m|t|s|{epoch}") for epoch in (10, 9, 2)), epochs=3).groups()
    assert [one.key for one in groups[0]] == ["a|m|t|s|2", "a|m|t|s|9", "a|m|t|s|10"], "by number"


@pytest.mark.parametrize(
    ("one", "teaches"),
    [
        (entry("k"), True),
        (entry("k", state="open"), False),
        (entry("k", finish="error"), False),
        (entry("k", turns=0), False),
    ],
)
def test_an_attempt_teaches_that_came_to_an_end_of_its_own(one: EpisodeEntry, teaches: bool) -> None:
    assert is_usable(one) is teaches


@pytest.mark.parametrize("split", ["test", "dev"])
def test_nothing_is_learnt_of_a_sample_outside_training(split: str) -> None:
    with pytest.raises(LeakError, match=f"sample 's' is in split '{split}'"):
        reader(split=split).case([entry("a|m|t|s|0")])


def test_a_success_is_what_its_kind_of_answer_says_or_the_least_that_is_named() -> None:
    labels, sets = (cast(Any, SimpleNamespace(task=name)) for name in ("guo_los", "diagnoses"))
    assert [is_success(score, labels) for score in (0.99, 1.0)] == [False, True]
    least = 0.5
    assert [is_success(score, sets, least) for score in (0.49, 0.5)] == [False, True]
    assert not is_success(0.0, sets)
