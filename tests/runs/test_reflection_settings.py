"""``memory.max_items``, its siblings and ``memory.reflection_temperature`` reach the requests of a reflection."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, text, tools
from wardround.learning import evolve
from wardround.memory import Bank
from wardround.runs import RunSettings, execute, start

TWO_ITEMS = "\n\n".join(
    f"### Item {number}\nTitle: Lesson {number}\nDescription: Always\nContent: Look {number} times, then answer."
    for number in (1, 2)
)
MOST = re.compile(r"Write at most (\d+) items")


class Pupil:
    """Calls one tool and finishes; reflects with two lessons, and keeps what it was asked with."""

    def __init__(self) -> None:
        self.reflections: list[Any] = []

    def __call__(self, body: Any) -> Answer:
        if "tools" in body:
            return tools(("finish", '{"response": ["Gout"]}'))
        self.reflections.append(body)
        return text("Verdict: failure" if "Verdict:" in body["messages"][-1]["content"] else TWO_ITEMS)


@pytest.mark.parametrize(
    ("said", "temperature", "most", "added"),
    [
        ({}, 0.0, ["10", "10", "3", "2"], {"actor": 2, "summariser": 2, "reasoning": 2, "tool": 2}),
        (
            {"reflection_temperature": 0.4, "max_items": 1, "max_reasoning_items": 2, "max_tool_items": 1},
            0.4,
            ["1", "1", "2", "1"],
            {"actor": 1, "summariser": 1, "reasoning": 2, "tool": 1},
        ),
    ],
    ids=["defaults", "set"],
)
def test_what_is_set_of_reflections_is_what_is_asked_and_kept(
    said: dict[str, Any],
    temperature: float,
    most: list[str],
    added: dict[str, int],
    synthetic_benchmark_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
) -> None:
    pupil = Pupil()
    with FakeServer(pupil) as server, Bank.open(tmp_path / "bank.sqlite") as bank:
        what = {
            "tasks": ("diagnoses",),
            "split": "train",
            "limit": 1,
            "models": ("openai/test-model",),
            "base_url": server.url,
        }
        where = {"benchmark": str(synthetic_benchmark_path), "store": str(synthetic_store_path)}
        folder = start(tmp_path / "run", RunSettings.of(**what, **where, **said))
        execute(folder)
        assert evolve(folder, bank).added == added
    assert {body["temperature"] for body in pupil.reflections} == {temperature}
    texts = [body["messages"][-1]["content"] for body in pupil.reflections]
    assert sorted(found[0] for one in texts if (found := MOST.findall(one))) == sorted(most)
