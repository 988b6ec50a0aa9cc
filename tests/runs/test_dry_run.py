"""What a run would take, said before it is paid for: against a served model that must not be asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, tools
from wardround.agents.loop.context import EstimatedTokens, count_message, count_schemas
from wardround.cli.main import main
from wardround.log import LogReader
from wardround.runs import RunFolder
from wardround.tools import default_toolset

FINISH = tools(("finish", json.dumps({"response": ["Medicine"]})))
BUDGETS = ("--turns", "3", "--context-tokens", "20000", "--set", "budget.reply_tokens=1000")
PRICE = ("--set", "model.price=100,1000")


@pytest.fixture
def asked(synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path) -> list[str]:
    store = shutil.copytree(synthetic_store_path, tmp_path / "a-store", ignore=shutil.ignore_patterns("vectors*"))
    words = ["--benchmark", synthetic_benchmark_path, "--store", store, "--task", "transfers"]
    return [*map(str, words), "--model", "openai/test-model", "--limit", "6", *BUDGETS]


def forecast(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["run", *words, "--dry-run", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def files(folder: str) -> list[tuple[Path, int]]:
    return sorted((path, path.stat().st_mtime_ns) for path in Path(folder).rglob("*"))


def play(server: FakeServer, asked: Sequence[str], out: Path) -> RunFolder:
    assert main(["run", *asked, "--base-url", server.url, "--out", str(out), "--workers", "1", "--json"]) == 0
    return RunFolder.open(out)


def test_nothing_is_asked_or_written_and_the_bounds_are_those_of_the_budgets(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(asked[3])
    with FakeServer([FINISH]) as server:
        words = [*asked, "--agent", "react", "--base-url", server.url, "--out", str(tmp_path / "run"), *PRICE]
        (one,) = forecast(capsys, *words)["forecasts"]
        assert server.requests == []
    assert not (tmp_path / "run").exists()
    assert files(asked[3]) == before
    first = one["first_prompt"]
    assert one["episodes"] == first["samples"] == 6
    mean = first["message_tokens"] + first["schema_tokens"]
    assert one["calls"] == {"least": 6, "most": 24}, "three turns and a forced call"
    assert one["input_tokens"] == {"least": pytest.approx(6 * mean), "most": 24 * 19_000}
    assert one["output_tokens"] == {"least": 0, "most": 24_000}
    assert one["cost"]["least"] == pytest.approx(6 * mean * 100 / 1e6, rel=1e-3)
    assert one["cost"]["most"] == pytest.approx((24 * 19_000 * 100 + 24_000 * 1000) / 1e6)
    assert one["hours"] is None


def test_the_first_prompts_are_those_that_a_run_sends_and_an_earlier_run_gives_its_means(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer([FINISH]) as server:
        folder = play(server, [*asked, "--agent", "react"], tmp_path / "run")
    with LogReader(folder.logs) as reader:
        firsts = [trajectory.turns[0].prompt for trajectory in reader.trajectories()]
        seconds = sum((entry.outcome or {})["seconds"] for entry in reader.episodes())
    counter = EstimatedTokens()
    counted = [sum(count_message(counter, message) for message in prompt) for prompt in firsts]
    like = ["--like", str(folder.path), *PRICE]
    react, resum = forecast(capsys, *asked, "--epochs", "2", "--agent", "react", "resum", *like)["forecasts"]
    assert react["first_prompt"]["message_tokens"] == pytest.approx(sum(counted) / 6)
    assert react["first_prompt"]["schema_tokens"] == count_schemas(counter, default_toolset().schemas)
    assert react["basis"] == "earlier run"
    assert react["input_tokens"] == {"least": 120, "most": 120}, "the server counts 10 in and 5 out, in 12 episodes"
    assert react["output_tokens"] == {"least": 60, "most": 60}
    assert react["cost"]["most"] == pytest.approx((120 * 100 + 60 * 1000) / 1e6)
    assert react["hours"]["most"] == pytest.approx(2 * seconds / 3600)
    assert resum["basis"] == "budgets", "an agent that was not played has no means"
    assert resum["hours"]["most"] == pytest.approx(48 * seconds / 6 / 3600), "but a call takes as long"


def test_what_is_not_known_is_said(asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(asked[3])
    assert main(["run", *asked, "--agent", "react+ether", "direct", "--limit", "1", "--dry-run"]) == 0
    assert files(asked[3]) == before, "no vectors are kept either"
    told = capsys.readouterr().out
    assert "all 2 episodes: unknown US dollars, unknown hours" in told
    assert "--set model.price" in told
    assert "--like RUN" in told
    assert main(["run", "--resume", str(tmp_path), "--dry-run"]) != 0
    assert "--dry-run is of a new run" in capsys.readouterr().err
    assert main(["run", *asked, "--like", str(tmp_path)]) != 0
    assert "give both" in capsys.readouterr().err
