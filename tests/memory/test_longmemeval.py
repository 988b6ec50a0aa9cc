"""Our bank behind the interface of LongMemEval-V2's memories, on an invented data set in its layout. The benchmark is
no package: a stand-in keeps the contract of its ``memory_modules/memory.py``."""

from __future__ import annotations

import json
import runpy
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "longmemeval_memory.py"
MEMORIES: dict[str, type] = {}


class Memory(ABC):
    memory_type = ""

    def __init__(self, memory_params: dict[str, object]) -> None:
        self.memory_params = dict(memory_params)

    @abstractmethod
    def insert(self, trajectory: dict[str, object]) -> None: ...

    @abstractmethod
    def query(self, query: str, query_image: str | None = None) -> list[dict[str, str]]: ...


def register_memory(one: type) -> type:
    MEMORIES[one.memory_type] = one
    return one


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class that the example registers with the benchmark."""
    package, module = ModuleType("memory_modules"), ModuleType("memory_modules.memory")
    module.Memory, module.register_memory = Memory, register_memory  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "memory_modules", package)
    monkeypatch.setitem(sys.modules, "memory_modules.memory", module)
    runpy.run_path(str(EXAMPLE))
    return MEMORIES["wardround"]


def states(*shown: str) -> list[dict[str, Any]]:
    return [
        {"url": f"http://ward/{number}", "thought": "", "action": f"click('{number}')", "accessibility_tree": text}
        for number, text in enumerate(shown)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An invented ward: three trajectories, two questions; the second must not see the third trajectory."""
    trajectories = [
        ("t1", "order a blood culture", states("Orders page", "Microbiology: tubes are kept in drawer seven")),
        ("t2", "print a discharge letter", states("Letters page", "The printer is called Heron and needs a badge")),
        ("t3", "order a chest film", states("Radiology page", "Portable films are ordered before nine o'clock")),
    ]
    rows = [
        {
            "id": name,
            "domain": "enterprise",
            "goal": goal,
            "outcome": "success",
            "start_url": "http://ward/",
            "states": x,
        }
        for name, goal, x in trajectories
    ]
    questions = {"q1": "In which drawer are tubes for a blood culture?", "q2": "When are portable chest films ordered?"}
    asked = [{"id": name, "domain": "enterprise", "question": text} for name, text in questions.items()]
    (tmp_path / "trajectories.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    (tmp_path / "haystacks").mkdir()
    haystacks = {"q1": ["t1", "t2", "t3"], "q2": ["t1", "t2"]}
    (tmp_path / "haystacks" / "lme_v2_small.json").write_text(json.dumps(haystacks))
    return tmp_path


def test_a_question_gets_the_state_that_answers_it_and_only_of_its_own_haystack(registered: Any, data: Path) -> None:
    lines = {name: (data / f"{name}.jsonl").read_text().splitlines() for name in ("trajectories", "questions")}
    trajectories = {one["id"]: one for one in map(json.loads, lines["trajectories"])}
    haystacks = json.loads((data / "haystacks" / "lme_v2_small.json").read_text())
    found = {}
    for question in map(json.loads, lines["questions"]):
        memory = registered({"texts": 2})
        assert memory.query(question["question"]) == [], "nothing is known before anything is put in"
        for name in haystacks[question["id"]]:
            memory.insert(trajectories[name])
        context = memory.query(question["question"])
        assert all(item["type"] == "text" and item["value"].strip() for item in context)
        assert 0 < len(context) <= 2
        found[question["id"]] = [item["value"] for item in context]
    assert "drawer seven" in found["q1"][0]
    assert "order a blood culture" in found["q1"][0]
    assert not any("nine o'clock" in text for text in found["q2"]), "not in its haystack"


def test_a_saved_memory_is_the_same_memory(registered: Any, data: Path, tmp_path: Path) -> None:
    memory, again = registered({}), registered({})
    memory.insert(json.loads((data / "trajectories.jsonl").read_text().splitlines()[0]))
    memory._save_backend(tmp_path)
    again._load_backend(tmp_path)
    asked = "Where are tubes?"
    assert memory.query(asked)
    assert again.query(asked) == memory.query(asked)
