"""Our tasks inside Inspect: the same rewards, figures by task, and records that go where they may.

Inspect's packages do not fit beside ours: ``make test-exports`` makes a Python that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fake_server import MODEL, Answer, FakeServer, text, tools
from wardround.learning.adapters.scripted import ScriptedEpisode, played_directly, scripted_episodes
from wardround.learning.world import World, WorldSettings
from wardround.records import Store
from wardround.tools import Environment

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


def _speaking(world: World, script: Sequence[ScriptedEpisode]) -> Callable[[Any], Answer]:
    """Answers each request with the next call of its sample; the first sample's first reply calls nothing."""
    episodes = {world.question(world.samples[one.sample]): one for one in script}

    def answer(body: Any) -> Answer:
        question = next(message["content"] for message in body["messages"] if message["role"] == "user")
        episode, turn = episodes[question], sum(message["role"] == "assistant" for message in body["messages"])
        turn -= episode is script[0]
        if turn < 0:
            return text("I shall look at the tables.")
        name, arguments = episode.calls[turn]
        return tools((name, json.dumps(arguments)))

    return answer


def test_a_model_behind_http_plays_inside_inspect(
    python: str, synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    world = World.open(synthetic_store_path, synthetic_benchmark_path, WorldSettings(calls=3))
    script = scripted_episodes(world, 2)
    words = [python, "-m", "inspect_ai", "eval", "wardround/tasks", "--display", "none", "--log-dir", str(tmp_path)]
    for name, value in {"store": synthetic_store_path, "benchmark": synthetic_benchmark_path}.items():
        words += ["-T", f"{name}={value}"]
    words += ["-T", "split=train", "-T", "calls=3", "--sample-id", ",".join(one.sample for one in script)]
    words += ["--max-samples", "1", "--model", f"openai-api/scripted/{MODEL}"]
    with FakeServer(_speaking(world, script)) as server:
        words += ["--model-base-url", server.url]
        subprocess.run(words, check=True, env={**os.environ, "SCRIPTED_API_KEY": "a-key"})
        asked = [seen for seen in server.requests if seen.path == "/v1/chat/completions"]
    (log,) = tmp_path.glob("*.eval")
    told = subprocess.run([python, "-m", "inspect_ai", "log", "dump", str(log)], check=True, capture_output=True)
    paid = {one["id"]: one["scores"]["score"]["value"] for one in json.loads(told.stdout)["samples"]}
    assert paid == played_directly(world, script)
    assert [seen.headers["authorization"] for seen in asked] == ["Bearer a-key"] * 5
    chosen = [seen.json.get("tool_choice", "auto") for seen in asked]
    assert chosen == ["auto", "required", "auto", "auto", "auto"], "a reply without a call is asked for one, once"
    named = {one["function"]["name"] for one in asked[0].json["tools"]}
    assert {"get_table_names", "run_sql_query", "finish"} <= named


def test_an_agent_of_inspect_reads_each_chart_as_of_its_moment(
    python: str, synthetic_store: Store, synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    sample = World.open(synthetic_store_path, synthetic_benchmark_path).samples.popitem()[1]
    assert sample.prediction_time is not None
    moments = {"early": datetime(1900, 1, 1), "late": sample.prediction_time}
    seen = {
        name: Environment(synthetic_store.chart(sample.subject_id, moment)).call("get_table_names", {}).text
        for name, moment in moments.items()
    }
    assert seen["early"] != seen["late"]
    with (tmp_path / "questions.jsonl").open("w") as file:
        for name, moment in moments.items():
            where = {"subject_id": sample.subject_id, "as_of": str(moment)}
            file.write(json.dumps({"id": name, "input": name, "target": "yes", "metadata": where}) + "\n")

    def answer(body: Any) -> Answer:
        if not any(message["role"] == "tool" for message in body["messages"]):
            return tools(("get_table_names", "{}"))
        return tools(("submit", json.dumps({"answer": "yes"})))

    words = [python, "-m", "inspect_ai", "eval", "examples/inspect_react.py", "--display", "none"]
    words += ["--log-dir", str(tmp_path), "-T", f"store={synthetic_store_path}", "--max-samples", "1"]
    words += ["-T", f"questions={tmp_path / 'questions.jsonl'}", "--model", f"openai-api/scripted/{MODEL}"]
    with FakeServer(answer) as server:
        words += ["--model-base-url", server.url]
        subprocess.run(words, check=True, cwd=REPOSITORY, env={**os.environ, "SCRIPTED_API_KEY": "a-key"})
        asked = [one.json for one in server.requests if one.path == "/v1/chat/completions"]
    read = {
        next(message["content"] for message in body["messages"] if message["role"] == "user"): message["content"]
        for body in asked
        for message in body["messages"]
        if message["role"] == "tool"
    }
    assert read == seen
    named = {one["function"]["name"] for one in asked[0]["tools"]}
    assert {"run_sql_query", "submit"} <= named
    assert "finish" not in named
    (log,) = tmp_path.glob("*.eval")
    dumped = subprocess.run([python, "-m", "inspect_ai", "log", "dump", str(log)], check=True, capture_output=True)
    values = {one["id"]: one["scores"]["includes"]["value"] for one in json.loads(dumped.stdout)["samples"]}
    assert values == {"early": "C", "late": "C"}


@pytest.mark.parametrize(
    ("sensitivity", "model", "url", "permitted", "said"),
    [
        ("synthetic", "openai/any", "-", (), "yes"),
        ("open", "hf/any", "-", (), "yes"),
        ("credentialed", "openai/any", "-", (), "give the URL of openai/any"),
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
