"""Killing a run with SIGKILL at random moments and resuming gives the results of an undisturbed run.

A few kills: ``benchmarks/kills.py`` (``make long``) makes hundreds, of every command. Every kill meets work: the model
stops answering a few calls after the one at which the kill is aimed, so that the run cannot end before.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from effort import often
from fake_server import Answer, FakeServer, text, tools
from forking import commands, kill, wait_for
from wardround.runs import RunFolder, RunSettings, WorkQueue, execute, score_run, start

KILLS = 4
CONCURRENCY = 3
NEVER = 1e6
WORKING = None
"""The moment at which episodes are played; a number is that of seconds since the first worker was started."""


class Speaker:
    """Plays one turn, then finishes; what it says follows from the request. After ``last`` calls it says nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = 0
        self.last = sys.maxsize

    def __call__(self, body: Any) -> Answer:
        with self._lock:
            self.calls += 1
            is_held = self.calls > self.last
        return replace(self._answer(body), seconds=NEVER) if is_held else self._answer(body)

    @staticmethod
    def _answer(body: Any) -> Answer:
        if "tools" not in body:
            return text("nothing")
        acted = any(message["role"] == "tool" for message in body["messages"])
        return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))


def without_times(folder: RunFolder) -> list[object]:
    scores = score_run(folder)
    return [replace(score, use=replace(score.use, model_seconds=0.0, tool_seconds=0.0)) for score in scores]


def resume(path: Path, workers: int) -> list[str]:
    return ["run", "--resume", str(path), "--workers", str(workers), "--concurrency", str(CONCURRENCY)]


def left(folder: RunFolder) -> int:
    queue = WorkQueue(folder.queue)
    counts = queue.counts()
    queue.close()
    return counts.total - counts.done


def test_kills_at_random_moments_change_nothing(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    speaker, moments = Speaker(), random.Random(20)
    forks = commands()
    with FakeServer(speaker) as server:
        settings = RunSettings.of(
            benchmark=str(synthetic_benchmark_path),
            store=str(synthetic_store_path),
            models=("openai/test-model",),
            base_url=server.url,
            limit=2,
            epochs=4,
        )
        undisturbed, disturbed = (start(tmp_path / name, settings) for name in ("undisturbed", "disturbed"))
        counts = execute(undisturbed, concurrency=CONCURRENCY)
        for number in range(KILLS):
            aim = speaker.calls + moments.randint(8, 16)
            speaker.last = aim + 6
            group = forks.start(resume(disturbed.path, workers=2 if number == 1 else 1))
            wait_for(lambda aim=aim: speaker.calls >= aim, group)  # type: ignore[misc]
            time.sleep(moments.uniform(0, 0.02))
            assert left(disturbed) > 0, "a kill must hit a run at work"
            kill(group)
        speaker.last = sys.maxsize
        assert 0 < left(disturbed) < counts.total, "kills came before the end, and something was finished before them"
        final = execute(RunFolder.open(disturbed.path), concurrency=CONCURRENCY)
    assert final == counts
    assert without_times(disturbed) == without_times(undisturbed)


def wait_until_working(folder: RunFolder, process: int) -> None:
    """Return once this process's workers lease episodes."""
    queue = WorkQueue(folder.queue)
    wait_for(lambda: queue.counts().leased > 0, process)
    queue.close()


def gone_within(seconds: float, group: int) -> bool:
    """Whether every process of a group ends in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="tells by /proc when workers start")
@pytest.mark.parametrize(
    ("number", "whom", "workers", "moments"),
    [
        (signal.SIGINT, "group", 2, (0.0, WORKING, *often((), (0.1, 1.5)))),
        (signal.SIGTERM, "group", 2, (0.02, *often((), (WORKING,)))),
        (signal.SIGTERM, "coordinator", 2, (WORKING,)),
        (signal.SIGTERM, "coordinator", 1, (WORKING,)),
    ],
)
def test_an_interrupt_at_any_moment_is_one_line_and_leaves_no_worker(
    synthetic_benchmark_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
    number: int,
    whom: str,
    workers: int,
    moments: tuple[float | None, ...],
) -> None:
    """Ctrl-C reaches the whole group; SIGTERM too (systemd), or the coordinator alone (a container)."""
    settings = RunSettings.of(benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), epochs=20)
    folder = start(tmp_path / "run", settings)
    for seconds in moments:
        process = commands().start(resume(folder.path, workers), err=str(tmp_path / "said"))
        if seconds is not WORKING:
            children = Path(f"/proc/{process}/task/{process}/children")
            wait_for(lambda children=children: bool(children.read_text()), process)  # type: ignore[misc]
            time.sleep(seconds)
        else:
            wait_until_working(folder, process)
        (os.killpg if whom == "group" else os.kill)(process, number)
        assert commands().status(process) == (143 if number == signal.SIGTERM else 130)
        said = (tmp_path / "said").read_text()
        assert "Traceback" not in said
        assert said.strip().endswith("wardround: interrupted; what was finished is kept")
        assert gone_within(300.0, process)
        queue = WorkQueue(folder.queue)
        leased = queue.counts().leased
        queue.close()
        if workers == 1:
            assert leased == 0, "what was not finished is given back"
            assert not list(folder.logs.glob("*-wal")), "the log is closed"
