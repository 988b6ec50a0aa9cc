"""A tool, an agent with settings, a task, its answers and their scorer from one plug-in file, played by two workers."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, tools
from forking import run_command
from wardround.log import LogReader

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_parts.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the example, so that a test may change it."""
    folder = tmp_path_factory.mktemp("plugged")
    shutil.copyfile(EXAMPLE, folder / "own_parts.py")
    return folder


@pytest.fixture(scope="module")
def run(place: Path, synthetic_store_path: Path) -> tuple[Path, list[Any]]:
    """A run of the plug-in's agent on its task, and what the model was sent."""
    asked: list[Any] = []

    def model(body: Any) -> Answer:
        asked.append(body)
        if any(message["role"] == "tool" for message in body["messages"]):
            return tools(("finish", json.dumps({"response": ["yes"]})))
        return tools(("count_recent_rows", json.dumps({"hours": 36})))

    plugin = ("--plugin", place / "own_parts.py")
    built = run_command(
        "bench",
        "build",
        "tasks",
        *plugin,
        "--store",
        synthetic_store_path,
        "--out",
        place / "bench",
        "--task",
        "kidney_soon",
    )
    assert built.returncode == 0, built.stderr
    experiment = place / "experiment.toml"
    experiment.write_text(
        '[run]\nbenchmark = "bench"\nplugins = ["own_parts.py"]\nagents = ["lookback"]\n'
        'models = ["openai/test-model"]\nlimit = 4\n'
        "[agent.lookback]\nhours = 12\n"
    )
    with FakeServer(model) as server:
        words = ["run", experiment, "--store", synthetic_store_path, "--base-url", server.url, "--workers", 2, "--json"]
        done = run_command(*words, "--set", "agent.lookback.hours=36", "--out", place / "run")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"run": str(place / "run"), "done": 4, "total": 4}
    return place / "run", asked


def test_the_tool_ran_in_the_workers_and_the_agent_heeded_its_setting(run: tuple[Path, list[Any]]) -> None:
    path, asked = run
    assert all("for the last 36 hours" in body["messages"][0]["content"] for body in asked)
    assert all("count_recent_rows" in {one["function"]["name"] for one in body["tools"]} for body in asked)
    with LogReader(path / "logs") as reader:
        results = [record for one in reader.trajectories() for turn in one.turns for record in turn.results]
        counted = [record for record in results if record.call.name == "count_recent_rows"]
        processes = {Path(log).name.rpartition("-")[2] for log in (path / "logs").glob("*.episodes.sqlite")}
    assert len(counted) == 4
    assert all(record.result_text.startswith("rows since ") and not record.is_error for record in counted)
    assert len(processes) == 2


def test_the_manifest_keeps_the_hash_of_the_file_and_what_was_set(run: tuple[Path, list[Any]], place: Path) -> None:
    manifest = json.loads((run[0] / "manifest.json").read_text())
    source = (place / "own_parts.py").read_bytes()
    assert manifest["plugins"] == [
        {
            "path": str(place / "own_parts.py"),
            "module": "wardround_plugin_own_parts",
            "sha256": hashlib.sha256(source).hexdigest(),
        }
    ]
    assert manifest["settings"]["agent"] == {"lookback": {"hours": 36}}
    assert "wardround_plugin_own_parts/lookback_system" in manifest["prompts"]


def test_its_scorer_fills_the_report(run: tuple[Path, list[Any]], place: Path) -> None:
    reported = run_command("report", "--plugin", place / "own_parts.py", run[0], "--no-episodes")
    assert reported.returncode == 0, reported.stderr
    rows = [json.loads(line) for line in (run[0] / "results.jsonl").read_text().splitlines()]
    samples = map(json.loads, (place / "bench" / "samples.jsonl").read_text(encoding="utf-8").splitlines())
    target = {sample["id"]: sample["target"] for sample in samples}
    for row in rows:
        assert row["figures"] == {"value of warning": 1.0 if target[row["sample"]] == ["1"] else 0.5}
    assert "value of warning" in reported.stdout


def test_a_run_goes_on_only_with_the_file_it_began_with(run: tuple[Path, list[Any]], place: Path) -> None:
    unnamed = run_command("run", "--resume", run[0])
    assert unnamed.returncode == 2
    assert f"was made with a plug-in; name it: --plugin {place / 'own_parts.py'}" in unnamed.stderr
    other = place / "other"
    other.mkdir()
    (other / "own_parts.py").write_text(EXAMPLE.read_text() + "\n# changed\n")
    changed = run_command("run", "--plugin", other / "own_parts.py", "--resume", run[0])
    assert changed.returncode == 2
    assert "began with another version" in changed.stderr
    (other / "own_parts.py").write_text(EXAMPLE.read_text())
    assert run_command("run", "--plugin", other / "own_parts.py", "--resume", run[0]).returncode == 0
