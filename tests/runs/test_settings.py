"""The settings of a run at their edges: the last value that is taken and the first that is not."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core import UserError
from wardround.core.settings import flat
from wardround.runs.settings import EpisodeKey, RunSettings

PLAIN = RunSettings.of(benchmark="b", store="s")


def held(settings: RunSettings, name: str) -> Any:
    """The value of a setting by the last part of its name; lists as they were given."""
    values: dict[str, Any] = {}
    for full, value in flat(settings.to_json()).items():
        values.setdefault(full.rpartition(".")[2], value)
    return tuple(values[name]) if isinstance(values[name], list) else values[name]


@pytest.mark.parametrize("name", ["epochs", "turns", "context_tokens", "result_tokens", "reply_tokens", "limit"])
def test_counts_begin_at_one(name: str) -> None:
    assert held(PLAIN.changed(**{name: 1}), name) == 1
    with pytest.raises(UserError, match=f"{name} must be at least 1, not 0"):
        PLAIN.changed(**{name: 0})


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("max_cost", (None, 0.01, 1e6), (0, -1, inf)),
        ("episode_seconds", (None, 0.5, 1e9), (0, -1, inf)),
        ("temperature", (None, 0, 0.5, 2.5), (-0.1, inf, nan)),
        ("top_p", (None, 0.01, 0.5, 1), (0, -0.5, 1.01)),
        ("presence_penalty", (None, -2, 0, 1.5, 2), (-2.1, 2.1, nan)),
        ("price", ((), (0, 0), (1, 2), (1, 2, 3)), ((1,), (1, 2, 3, 4), (-1, 2), (1, inf))),
        ("tool_calls", ("native", "schema", "auto"), ("tools",)),
        ("agents", (("react", "resum"),), (("react", "react"), ("re|act",))),
        ("models", (("a", "b"),), (("a", "a"), ("a|b",))),
        ("tasks", (("a", "b"),), (("a", "a"),)),
        ("strata", (("a", "b"),), (("a", "a"),)),
        ("samples", (("a", "b"),), (("a", "a"),)),
    ],
)
def test_what_is_taken_and_what_is_refused(name: str, taken: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    for value in taken:
        assert held(PLAIN.changed(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(UserError, match=name.removesuffix("s").partition("_")[0]):
            PLAIN.changed(**{name: value})


def test_an_unknown_short_name_is_told_with_the_nearest_one() -> None:
    assert RunSettings.of(benchmark="b", store="s", samples=("a",)).run.samples == ("a",)
    with pytest.raises(UserError, match=r"settings: there is no 'sampels'\. Did you mean samples\?"):
        RunSettings.of(benchmark="b", store="s", sampels=("a",))


def test_a_price_of_two_says_nothing_of_cached_tokens() -> None:
    assert PLAIN.model.known_price is None
    two, three = (PLAIN.changed(price=price).model.known_price for price in ((1.0, 2.0), (1.0, 2.0, 0.5)))
    assert two is not None
    assert three is not None
    assert (two.input, two.output, two.cached) == (1.0, 2.0, None)
    assert (three.input, three.output, three.cached) == (1.0, 2.0, 0.5)


def test_a_budget_that_was_never_settled_is_a_fault_of_ours() -> None:
    assert PLAIN.changed(context_tokens=9).budget_tokens == 9
    with pytest.raises(ValueError, match="settled when a run is made"):
        _ = PLAIN.budget_tokens


def test_they_are_written_and_read_as_they_were() -> None:
    one = PLAIN.changed(tasks=("a",), price=(1.0, 2.0), bank="x", window=7, k=2)
    assert RunSettings.read(json.loads(json.dumps(one.to_json()))) == one
    with pytest.raises(UserError, match=r"no 'budgt'\. Did you mean budget"):
        RunSettings.read(one.to_json() | {"budgt": {}})
    with pytest.raises(UserError, match=r"settings \[budget\]: there is no 'turn'\. Did you mean turns"):
        RunSettings.read({"budget": {"turn": 3}})


def test_paths_are_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    found = PLAIN.changed(bank="k").resolved()
    assert (found.run.benchmark, found.run.store, found.memory.bank) == (
        f"{tmp_path}/b",
        f"{tmp_path}/s",
        f"{tmp_path}/k",
    )
    assert PLAIN.resolved().memory.bank is None


def test_a_key_reads_as_it_is_written() -> None:
    key = EpisodeKey(agent="react", model="m", task="t", sample="s", epoch=3)
    assert str(key) == "react|m|t|s|3"
    assert EpisodeKey.parse(str(key)) == key
    assert sorted([key, replace(key, epoch=1), replace(key, agent="a")])[0].agent == "a"
    assert key.seed(1) == replace(key, agent="x", model="y").seed(1) != replace(key, epoch=2).seed(1)


@given(sample=st.text(), epoch=st.integers(min_value=0))
def test_a_key_is_read_back_whatever_a_sample_is_called(sample: str, epoch: int) -> None:
    key = EpisodeKey(agent="react", model="openai/m", task="diagnoses", sample=sample, epoch=epoch)
    assert EpisodeKey.parse(str(key)) == key
    assert EpisodeKey.parse("react|offline|diagnoses|a|b|c|2").sample == "a|b|c"
