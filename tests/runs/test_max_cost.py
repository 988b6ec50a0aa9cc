"""The most a run may cost, with the real command against a served model that has a price."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from fake_server import FakeServer, error, tools
from forking import run_command
from wardround.core import UserError
from wardround.log import LogReader
from wardround.runs import RunFolder, RunSettings, Spending, WorkQueue, execute, score_run, start

FINISH = tools(("finish", json.dumps({"response": ["Medicine"]})))
ONE_CALL = 10 * 100 / 1e6 + 5 * 1000 / 1e6
"""The server counts 10 tokens in and 5 out, at 100 and 1,000 dollars per million."""


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return run_command("run", *words, "--concurrency", 1, "--json")


def new_run(server: FakeServer, benchmark: Path, store: Path, out: Path) -> Sequence[object]:
    words = ["--benchmark", benchmark, "--store", store, "--out", out, "--task", "transfers", "--limit", "6"]
    return [*words, "--model", "openai/test-model", "--base-url", server.url]


def asked_for(server: FakeServer) -> int:
    return sum("completions" in request.path for request in server.requests)


def counts(path: Path) -> tuple[int, int]:
    queue = WorkQueue(RunFolder.open(path).queue)
    found = queue.counts()
    queue.close()
    assert found.leased == 0
    return found.done, found.open


def test_a_run_stops_at_its_cost_and_goes_on_with_a_higher_one(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with FakeServer([FINISH]) as server:
        asked = new_run(server, synthetic_benchmark_path, synthetic_store_path, out)
        limited = [*asked, "--set", "model.price=100,1000", "--max-cost", 2.5 * ONE_CALL]
        first = command(*limited, "--workers", 1)
        assert counts(out) == (3, 3), first.stderr
        assert first.returncode == 1
        told = json.loads(first.stdout)
        assert told["cost"] == pytest.approx(3 * ONE_CALL)
        assert told["max_cost"] == 2.5 * ONE_CALL
        assert "3 episodes wait" in first.stderr
        assert "a higher --max-cost" in first.stderr
        same = command("--resume", out, "--workers", 1)
        assert counts(out) == (3, 3), same.stderr
        assert asked_for(server) == 3
        more = command("--resume", out, "--workers", 2, "--max-cost", 3.5 * ONE_CALL)
        assert counts(out)[0] in (4, 5), "a worker ends the episode it is in; the logs of all are summed"
        last = command("--resume", out, "--workers", 1, "--max-cost", 100)
        assert counts(out) == (6, 0), more.stderr + last.stderr
        assert last.returncode == 0
        assert "--max-cost" not in last.stderr
        assert asked_for(server) == 6, "nothing is asked for twice"
    assert Spending.of(RunFolder.open(out)) == Spending(cost=pytest.approx(6 * ONE_CALL), unpriced=0)
    assert len(score_run(RunFolder.open(out))) == 6


def test_a_cost_is_limited_where_there_is_a_price(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    settings = RunSettings.of(
        benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), tasks=("transfers",), limit=1
    )
    with pytest.raises(UserError, match="--max-cost needs the price of offline"):
        start(tmp_path / "none", settings.changed(max_cost=1.0))
    assert not (tmp_path / "none").exists()
    folder = start(tmp_path / "run", settings)
    with pytest.raises(UserError, match="needs the price"):
        execute(folder, max_cost=1.0)
    assert counts(folder.path) == (0, 1)


def test_calls_without_counted_tokens_are_told_of(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    uncounted = tools(("finish", json.dumps({"response": ["Medicine"]})), usage=None)
    with FakeServer([uncounted]) as server:
        asked = new_run(server, synthetic_benchmark_path, synthetic_store_path, tmp_path / "run")
        done = command(*asked, "--set", "model.price=1,1", "--max-cost", 1, "--workers", 1)
    assert "6 calls came back without counted tokens" in done.stderr
    with LogReader(tmp_path / "run" / "logs") as reader:
        assert list(reader.costs().values()) == [None] * 6


def test_a_reply_served_from_an_earlier_log_is_paid_once(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with FakeServer([tools(("get_table_names", "{}")), error(400), FINISH]) as server:
        asked = [*new_run(server, synthetic_benchmark_path, synthetic_store_path, out), "--limit", 1]
        command(*asked, "--set", "model.price=100,1000", "--workers", 1)
        command("--resume", out, "--retry-errors", "--workers", 1)
    assert len(list((out / "logs").glob("*.sqlite"))) == 2
    assert Spending.of(RunFolder.open(out)).cost == pytest.approx(2 * ONE_CALL), "two logs hold the first call"
    with LogReader(out / "logs") as reader:
        assert [entry.turns for entry in reader.episodes()] == [2]
