"""A run against a served model: the real command, a scripted server on loopback, every fault of a bad day.

Each episode meets its own list of faults, told apart by the subject in its prompt; whatever happens, it ends as a row.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, error, text, tools
from forking import commands, kill, run_command, wait_for
from wardround.log import LogReader
from wardround.runs import RunFolder, WorkQueue, score_run

FINISH = tools(("finish", json.dumps({"response": ["Medicine"]})))


class Script:
    """Answers by the number of calls an episode has made, so that episodes do not disturb one another."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = answers
        self.calls: dict[str, int] = {}

    def __call__(self, body: Any) -> Answer:
        episode = body["messages"][1]["content"]
        turn = self.calls[episode] = self.calls.get(episode, 0) + 1
        return self.answers[min(turn, len(self.answers)) - 1]


def run(server: FakeServer, benchmark: Path, store: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = ["run", "--benchmark", benchmark, "--store", store, "--out", out, "--task", "transfers", "--limit", "3"]
    words += ["--model", "openai/test-model", "--base-url", server.url, "--workers", "1", *more]
    return run_command(*words)


Play = Callable[..., tuple[RunFolder, FakeServer]]


@pytest.fixture
def play(synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path) -> Play:
    def play(*answers: Answer) -> tuple[RunFolder, FakeServer]:
        with FakeServer(Script(answers)) as server:
            done = run(server, synthetic_benchmark_path, synthetic_store_path, tmp_path / "run")
            assert done.returncode == 0, done.stderr
        return RunFolder.open(tmp_path / "run"), server

    return play


def trajectories(folder: RunFolder) -> list[Any]:
    with LogReader(folder.logs) as reader:
        return list(reader.trajectories())


def test_a_bad_day_ends_in_an_answer(play: Play) -> None:
    folder, _ = play(
        error(429, retry_after=0),
        Answer(drop="before"),
        tools(("get_table_names", "{}")),
        tools(("get_latest_records", '{"table_name": "labev'), ("get_column_names", '{"table_name": "labevents"}')),
        error(500),
        tools(("look_into_the_future", "{}")),
        text(""),
        FINISH,
    )
    scores = score_run(folder)
    assert [score.finish for score in scores] == ["finish"] * 3
    assert all("tool_usage" in score.errors for score in scores)
    for trajectory in trajectories(folder):
        assert sum(turn.attempts for turn in trajectory.turns) == 8
        results = [[record.is_error for record in turn.results] for turn in trajectory.turns]
        assert results == [[False], [True, False], [True], [], [False]]
        assert "reminder" in [note.kind for note in trajectory.notes]
        last = trajectory.turns[-1].prompt
        asked = [call.id for message in last for call in message.tool_calls]
        answered = [message.tool_call_id for message in last if message.role == "tool"]
        assert asked == answered, "every call has its result, in order"


def test_a_server_that_always_fails_is_a_row_and_not_a_crash(play: Play) -> None:
    folder, server = play(error(500))
    scores = score_run(folder)
    assert [score.finish for score in scores] == ["error"] * 3
    assert [score.score.f1 for score in scores] == [0.0] * 3
    assert len(server.requests) <= 9, "the same 5xx three times is the episode's error"
    assert all("500" in (trajectory.outcome or {})["error"] for trajectory in trajectories(folder))


def test_failed_episodes_are_played_again_on_request(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    answers = [tools(("get_table_names", "{}")), error(400), FINISH]
    script = Script(answers)
    with FakeServer(script) as server:
        played = run(server, synthetic_benchmark_path, synthetic_store_path, out)
        assert re.search(r"3 of 3 episodes done, 3 of them failed \(most often, 3: [^)]*status 400", played.stdout)
        assert [score.finish for score in score_run(RunFolder.open(out))] == ["error"] * 3
        assert run_command("run", "--resume", out, "--retry-errors", "--workers", 1).returncode == 0
    folder = RunFolder.open(out)
    assert [score.finish for score in score_run(folder)] == ["finish"] * 3
    assert set(script.calls.values()) == {3}, "the turn recorded before the failure is not asked for again"


def test_a_killed_run_asks_for_nothing_twice(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    slow = [tools(("get_column_names", json.dumps({"table_name": name}))) for name in ("labevents", "patients") * 3]
    script = Script([*(Answer(body=answer.body, seconds=0.25) for answer in slow), FINISH])
    words = ["run", "--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", out]
    words += ["--task", "transfers", "--limit", "2", "--model", "openai/test-model", "--workers", "1"]
    with FakeServer(script) as server:
        group = commands().start([*map(str, words), "--base-url", server.url])
        wait_for(lambda: min(script.calls.values(), default=0) >= 5, group)
        kill(group)
        before = sum(script.calls.values())
        with LogReader(out / "logs") as reader:
            recorded = sum(entry.turns for entry in reader.episodes())
        assert recorded >= 4
        assert run_command("run", "--resume", out, "--workers", 1).returncode == 0
    scores = score_run(RunFolder.open(out))
    assert [score.finish for score in scores] == ["finish"] * 2
    asked_again = sum(script.calls.values()) - before
    assert asked_again == sum(score.use.turns for score in scores) - recorded


def test_ctrl_c_writes_down_what_was_paid_for_and_gives_the_leases_back(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    quick = tools(("get_column_names", '{"table_name": "labevents"}'))
    script = Script([quick] * 4 + [Answer(body=quick.body, seconds=30.0)])
    words = ["run", "--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", out]
    words += ["--task", "transfers", "diagnoses", "--limit", "2", "--model", "openai/test-model", "--workers", "2"]
    with FakeServer(script) as server:
        process = commands().start([*map(str, words), "--base-url", server.url])
        wait_for(lambda: list(script.calls.values()) == [5] * 4, process)
        os.kill(process, signal.SIGINT)
        assert commands().status(process) == 130
    queue = WorkQueue(out / "queue.sqlite")
    assert queue.counts().leased == 0
    queue.close()
    with LogReader(out / "logs") as reader:
        assert [entry.turns for entry in reader.episodes()] == [4] * 4
