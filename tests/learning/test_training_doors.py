"""One world through its doors: the same calls of one scripted policy earn the same reward through each."""

from __future__ import annotations

import inspect
import json
import os
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from effort import often
from wardround.cli import main
from wardround.core import UserError
from wardround.learning.adapters.harbor import write_harbor_tasks
from wardround.learning.adapters.openenv import openenv_app
from wardround.learning.adapters.scripted import ScriptedEpisode, played_directly, scripted_episodes
from wardround.learning.adapters.trl import trl_environment, trl_rows
from wardround.learning.world import World, WorldSettings

MOST = 100
"""Samples that the scripted policy plays through each door."""


@pytest.fixture(scope="module")
def world(synthetic_store_path: Path, synthetic_benchmark_path: Path) -> World:
    return World.open(synthetic_store_path, synthetic_benchmark_path, WorldSettings(calls=3))


@pytest.fixture(scope="module")
def script(world: World) -> list[ScriptedEpisode]:
    return scripted_episodes(world, MOST)


@pytest.fixture(scope="module")
def rewards(world: World, script: list[ScriptedEpisode]) -> dict[str, float]:
    return played_directly(world, script)


def test_the_world_gives_rewards_of_every_size(rewards: dict[str, float]) -> None:
    assert {0.0, 1.0} < set(rewards.values())
    assert any(0 < reward < 1 for reward in rewards.values())


def test_an_answer_is_given_once(world: World) -> None:
    episode = world.begin(world.ids[0])
    target = list(episode.sample.target)
    assert (episode.reward, episode.done) == (0.0, False)
    episode.call("finish", {"response": target})
    assert (episode.reward, episode.done) == (1.0, True)
    assert "is over" in episode.call("finish", {"response": []})
    assert episode.reward == 1.0
    episode.close()


def test_no_call_is_answered_above_the_limit(world: World) -> None:
    episode = world.begin(world.ids[0])
    answers = [episode.call("get_table_names", {}) for _ in range(4)]
    assert ["is over" in answer for answer in answers] == [False, False, False, True]
    episode.close()


def test_only_the_training_split_is_played(world: World) -> None:
    assert {world.samples[sample].split for sample in world.ids} == {"train"}
    with pytest.raises(UserError, match="no sample 'nobody'"):
        world.begin("nobody")


def test_trl_earns_the_same(world: World, script: list[ScriptedEpisode], rewards: dict[str, float]) -> None:
    environment = trl_environment(world)()
    for row, episode in zip(trl_rows(world), script, strict=False):
        prompt = environment.reset(**row)
        assert world.samples[row["sample"]].prediction_time.isoformat(" ") in prompt
        for name, arguments in episode.calls:
            if hasattr(environment, name):
                assert isinstance(getattr(environment, name)(**arguments), str)
        assert environment.get_reward() == rewards[row["sample"]], row["sample"]


def test_trl_tools_are_described_by_signature_and_docstring(world: World) -> None:
    made = trl_environment(world)
    episode = world.begin(world.ids[0])
    for tool in episode.tools:
        method = getattr(made, tool.name)
        signature = inspect.signature(method)
        given = set(tool.parameters.get("properties", {}))
        assert set(signature.parameters) == {"self", *given}
        required = {name for name, one in signature.parameters.items() if one.default is inspect.Parameter.empty}
        assert required - {"self"} == set(tool.parameters.get("required", ()))
        assert all(f"    {name}: " in (inspect.getdoc(method) or "") for name in given)
    episode.close()


def test_transformers_reads_the_tools_of_trl(world: World) -> None:
    utils = pytest.importorskip("transformers.utils", reason="needs the extra [train]")
    environment = trl_environment(world)()
    schema = utils.get_json_schema(environment.get_records_by_time)
    assert schema["function"]["parameters"]["required"] == ["table_name"]


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[TestClient]:
    with TestClient(openenv_app(world)) as made:
        yield made


def asked(socket: Any, kind: str, **data: Any) -> dict[str, Any]:
    socket.send_json({"type": kind, "data": data})
    answer: dict[str, Any] = socket.receive_json()
    return answer


def test_openenv_earns_the_same_summed_over_steps(
    script: list[ScriptedEpisode], rewards: dict[str, float], client: TestClient
) -> None:
    with client.websocket_connect("/ws") as socket:
        for one in script:
            begun = asked(socket, "reset", sample=one.sample)["data"]
            assert (begun["reward"], begun["done"]) == (0.0, False)
            total = 0.0
            for name, arguments in one.calls:
                step = asked(socket, "step", type="call_tool", tool_name=name, arguments=arguments)["data"]
                total += step["reward"]
            assert total == rewards[one.sample], one.sample
            assert asked(socket, "state")["data"] == {"episode_id": one.sample, "step_count": len(one.calls)}
        socket.send_json({"type": "close"})


def test_openenv_answers_mistakes_with_its_codes(world: World, client: TestClient) -> None:
    with client.websocket_connect("/ws") as socket:
        assert asked(socket, "step", tool_name="think", arguments={})["data"]["code"] == "SESSION_ERROR"
        assert asked(socket, "dance")["data"]["code"] == "UNKNOWN_TYPE"
        assert asked(socket, "reset", sample="nobody")["data"]["code"] == "VALIDATION_ERROR"
        assert asked(socket, "step", arguments=[])["data"]["code"] == "VALIDATION_ERROR"
        socket.send_text("[" * 100_000)
        assert socket.receive_json()["data"]["code"] == "INVALID_JSON"
        tools = asked(socket, "step", type="list_tools")["data"]["observation"]["tools"]
        assert "finish" in {tool["name"] for tool in tools}
        assert asked(socket, "reset")["data"]["observation"]["sample"] in world.ids
    assert client.get("/schema").json()["action"]["title"] == "CallToolAction"
    assert client.get("/health").json() == {"status": "healthy"}


def test_harbor_verifies_the_same(
    world: World,
    script: list[ScriptedEpisode],
    rewards: dict[str, float],
    synthetic_store_path: Path,
    synthetic_benchmark_path: Path,
    tmp_path: Path,
) -> None:
    assert write_harbor_tasks(world, tmp_path / "tasks") == len(world.ids)
    scripts = Path(sys.executable).parent
    of_each_form = {(one.answer is None, rewards[one.sample] > 0): one for one in script}
    for one in often([*of_each_form.values()], script[:8]):
        folder = tmp_path / "tasks" / one.sample
        assert tomllib.loads((folder / "task.toml").read_text())["verifier"]["timeout_sec"] == 120
        assert not any(name in (folder / "instruction.md").read_text() for name in world.samples[one.sample].target)
        answer = tmp_path / f"{one.sample}.json"
        if one.answer is not None:
            answer.write_text(json.dumps(one.answer))
        done = subprocess.run(
            [str(folder / "tests" / "test.sh")],
            env={
                **os.environ,
                "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
                "WARDROUND_STORE": str(synthetic_store_path),
                "WARDROUND_BENCHMARK": str(synthetic_benchmark_path),
                "WARDROUND_ANSWER": str(answer),
                "VERIFIER_LOGS": str(tmp_path / "logs"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert float((tmp_path / "logs" / "reward.txt").read_text()) == rewards[one.sample]


def test_an_answer_in_a_file_is_read_as_the_world_reads_one(
    world: World,
    synthetic_store_path: Path,
    synthetic_benchmark_path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sample = next(one for one in world.samples.values() if len(one.target) == 1)
    (name,) = sample.target
    file = tmp_path / "answer.json"
    words = ["train", "reward", "--store", str(synthetic_store_path), "--benchmark", str(synthetic_benchmark_path)]
    paid = []
    for value in (name, [f" {name} ", name], json.dumps([name]), [1], 1, True, {"answer": name}, [[name]], None, []):
        file.write_text(json.dumps(value))
        assert main([*words, "--sample", sample.id, "--answer", str(file)]) == 0
        episode = world.begin(sample.id)
        episode.call("finish", {"response": value})
        paid.append(episode.reward)
        assert float(capsys.readouterr().out) == paid[-1], value
        episode.close()
    assert paid[:3] == [1.0] * 3
    for text in ("", "[", "\udce9"):
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert main([*words, "--sample", sample.id, "--answer", str(file)]) == 0
        assert float(capsys.readouterr().out) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["openenv", "--out", "x"], "leave --out away"),
        (["trl", "--out", "x", "--port", "1"], "leave --port away"),
        (["harbor"], "needs --out"),
    ],
)
def test_an_option_that_a_door_has_no_use_for_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "env", "--store", "none", "--benchmark", "none", "--kind", *words]) == 2
    assert said in capsys.readouterr().err


def env_command(kind: str, store: Path, benchmark: Path, out: Path) -> None:
    words = ["train", "env", "--kind", kind, "--store", str(store), "--benchmark", str(benchmark), "--out", str(out)]
    assert main([*words, "--calls", "3"]) == 0


def test_the_file_for_trl_opens_the_same_world(
    world: World, synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    env_command("trl", synthetic_store_path, synthetic_benchmark_path, tmp_path / "world.py")
    written = runpy.run_path(str(tmp_path / "world.py"))
    assert written["WORLD"].settings == world.settings
    assert written["ROWS"] == trl_rows(world)
    assert written["Environment"]().reset(sample=world.ids[0])


def test_the_configuration_for_verifiers_names_the_server_and_every_sample(
    world: World, synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    env_command("verifiers", synthetic_store_path, synthetic_benchmark_path, tmp_path / "verifiers.toml")
    taskset = tomllib.loads((tmp_path / "verifiers.toml").read_text())["env"]["taskset"]
    assert (taskset["id"], taskset["base_url"]) == ("openenv", "http://127.0.0.1:8765")
    assert [reset["sample"] for reset in taskset["resets"]] == list(world.ids)


def test_a_door_that_writes_wants_to_know_where(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--store", str(synthetic_store_path), "--benchmark", str(synthetic_benchmark_path)]
    assert main(["train", "env", "--kind", "verifiers", *words]) == 2
    assert "--kind verifiers needs --out" in capsys.readouterr().err
