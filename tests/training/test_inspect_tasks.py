"""Our tasks inside Inspect: the same rewards, figures by task, and records that go where they may.

Inspect's packages do not fit beside ours: ``make test-exports`` makes a Python that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from wardround.training.doors.scripted import played_directly, scripted_episodes
from wardround.training.world import World, WorldSettings

REPOSITORY = Path(__file__).parents[2]
PLAYER = REPOSITORY / "scripts" / "door_readers" / "read_inspect.py"
GUARD = REPOSITORY / "tests" / "readers" / "ask_inspect_guard.py"
ELSEWHERE = "https://models.example.org/v1"


@pytest.fixture(scope="module")
def python() -> str:
    found = os.environ.get("WARDROUND_READERS")
    if found is None:
        pytest.skip("needs WARDROUND_READERS, a Python with inspect-ai and wardround (make test-exports)")
    return found


def test_inspect_pays_what_the_world_pays(
    python: str, synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    world = World.open(synthetic_store_path, synthetic_benchmark_path, WorldSettings(calls=3))
    script = scripted_episodes(world, 10)
    plan = {"store": str(synthetic_store_path), "benchmark": str(synthetic_benchmark_path), "calls": 3}
    (tmp_path / "script.json").write_text(json.dumps([one.to_json() for one in script]))
    (tmp_path / "plan.json").write_text(json.dumps(plan | {"script": str(tmp_path / "script.json")}))
    words = [python, str(PLAYER), str(tmp_path / "plan.json"), str(tmp_path / "rewards.json")]
    subprocess.run(words, check=True)
    assert json.loads((tmp_path / "rewards.json").read_text()) == played_directly(world, script)


@pytest.mark.parametrize(
    ("sensitivity", "model", "url", "permitted", "said"),
    [
        ("synthetic", "openai/any", "-", (), "yes"),
        ("open", "hf/any", "-", (), "yes"),
        ("credentialed", "openai/any", "-", (), "say where openai/any is asked"),
        ("credentialed", "openai/any", ELSEWHERE, (), f"-T permit={ELSEWHERE}"),
        ("credentialed", "mockllm/any", ELSEWHERE, (), "may not go"),
        ("credentialed", "openai/any", ELSEWHERE, (ELSEWHERE,), "yes"),
        ("credentialed", "vllm/any", "http://127.0.0.1:8000/v1", (), "yes"),
    ],
)
def test_records_go_where_they_may(
    python: str, sensitivity: str, model: str, url: str, permitted: tuple[str, ...], said: str
) -> None:
    words = [python, str(GUARD), sensitivity, model, url, *permitted]
    assert said in subprocess.run(words, capture_output=True, check=True, text=True).stdout
