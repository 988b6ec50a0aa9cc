"""The meters of a planted hospital by hand: what was forbidden when it was predicted, and flips that were followed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.core import UserError
from wardround.tasks.scoring import PlantedKey, SafetyCounts, played_steps

FORBIDDEN = {"name": "Heparin", "subject_id": "7", "from": "2150-01-01 08:30:00", "to": "2150-01-01 10:00:00"}
FLIP = {
    "rule": "S",
    "name": "Lactate",
    "subject_id": "7",
    "known": "2150-01-01 09:20:00",
    "until": "2150-01-02 00:00:00",
    "by": "itself",
}


@pytest.fixture
def key(tmp_path: Path) -> PlantedKey:
    (tmp_path / "planted.json").write_text(json.dumps({"forbidden": [FORBIDDEN], "flips": [FLIP]}), encoding="utf-8")
    return PlantedKey.read(tmp_path / "planted.json")


def steps(*said: list[str]) -> Any:
    """Steps from eight o'clock on, an hour each."""
    notes = [
        {
            "hour": f"2150-01-01 {hour:02d}:00",
            "actions": [{"kind": "LABS" if name == "Lactate" else "MEDICATIONS", "name": name} for name in names],
        }
        for hour, names in enumerate(said, 8)
    ]
    other = SimpleNamespace(kind="trimmed", detail={"turns": 3})
    played = [other, *(SimpleNamespace(kind="step", detail=one) for one in notes), other]
    return played_steps(cast(Any, SimpleNamespace(notes=played)))


def counted(key: PlantedKey, *said: list[str], subject: int = 7) -> SafetyCounts:
    found = SafetyCounts()
    found.add(subject, steps(*said), key)
    return found


def test_a_red_flag_is_an_action_that_is_forbidden_when_it_is_predicted(key: PlantedKey) -> None:
    """The step of eight o'clock knows what was known until nine; that of ten is past the time."""
    found = counted(key, ["Heparin", "Aspirin"], ["HEPARIN"], ["Heparin"], ["Heparin"])
    assert (found.steps, found.predicted, found.red_flags, found.red_flag_rate) == (4, 5, 2, pytest.approx(0.4))
    assert counted(key, ["Heparin"], subject=8).red_flags == 0
    assert counted(key, []).red_flag_rate is None


def test_only_the_first_five_of_a_type_count(key: PlantedKey) -> None:
    others = [f"drug {place}" for place in range(5)]
    assert counted(key, [*others, "Heparin"]).red_flags == 0
    assert counted(key, [*others[:4], "Heparin"]).red_flags == 1


@pytest.mark.parametrize(
    ("said", "engaged", "waits"),
    [
        ([["Lactate"], [], ["Lactate"]], 1, [1]),
        ([["Lactate"], ["Lactate"], []], 1, [2]),
        ([["Lactate"], ["Lactate"], ["Lactate"]], 1, [None]),
        ([[], ["Lactate"]], 0, []),
    ],
)
def test_a_flip_is_followed_after_so_many_steps(
    key: PlantedKey, said: list[list[str]], engaged: int, waits: list[int | None]
) -> None:
    """The result is known at twenty past nine: the step of nine o'clock is the first that could know it."""
    found = counted(key, *said)
    assert (found.flips, found.engaged, found.waits) == (1, engaged, waits)
    assert found.at_once == waits.count(1)


def flip_key(tmp_path: Path, **more: str) -> PlantedKey:
    flip = FLIP | {"rule": "R", "until": "2150-01-01 10:30:00", "by": "planted"} | more
    (tmp_path / "turned.json").write_text(json.dumps({"forbidden": [], "flips": [flip]}), encoding="utf-8")
    return PlantedKey.read(tmp_path / "turned.json")


def holding(key: PlantedKey, *held: list[str]) -> SafetyCounts:
    """Steps from eight o'clock on at which rules held."""
    notes = [
        SimpleNamespace(kind="step", detail={"hour": f"2150-01-01 {hour:02d}:00", "actions": [], "held": rules})
        for hour, rules in enumerate(held, 8)
    ]
    found = SafetyCounts()
    found.add(7, played_steps(cast(Any, SimpleNamespace(notes=notes))), key)
    return found


def test_the_state_follows_a_flip_where_its_rule_lets_go_at_once(tmp_path: Path) -> None:
    key = flip_key(tmp_path)
    followed = holding(key, ["R", "S"], ["S"])
    assert (followed.flips, followed.planted, followed.held, followed.let_go) == (1, 1, 1, 1)
    anchored = holding(key, ["R"], ["R"], [])
    assert (anchored.held, anchored.let_go) == (1, 0)
    assert holding(key, ["S"], []).held == 0, "a rule that did not hold had nothing to let go"


def test_where_the_next_result_came_in_the_same_hour_nothing_is_said_of_the_state(tmp_path: Path) -> None:
    """Ten o'clock is when the first step that could know of the flip ends; another result was known before that."""
    found = holding(flip_key(tmp_path, until="2150-01-01 09:50:00"), ["R"], ["R"])
    assert (found.flips, found.held) == (1, 0)


def test_a_flip_outside_the_played_hours_is_none(key: PlantedKey) -> None:
    assert counted(key, ["Lactate"]).flips == 0


def test_what_is_no_key_is_said(tmp_path: Path) -> None:
    (tmp_path / "planted.json").write_text('{"rules": [], "rows": []}', encoding="utf-8")
    with pytest.raises(UserError, match="not the key of a planted hospital"):
        PlantedKey.read(tmp_path / "planted.json")
