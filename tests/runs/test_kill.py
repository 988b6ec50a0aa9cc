"""Killing a run with SIGKILL at random moments and resuming gives the results of an undisturbed run.

A few kills: ``benchmarks/kills.py`` (``make long``) makes hundreds, of every command.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from wardround.runs import RunFolder, RunSettings, WorkQueue, execute, score_run, start

KILLS = 4


def without_times(folder: RunFolder) -> list[object]:
    scores = score_run(folder)
    return [replace(score, use=replace(score.use, model_seconds=0.0, tool_seconds=0.0)) for score in scores]


def resume(path: Path, workers: int) -> subprocess.Popen[bytes]:
    words = ["run", "--resume", str(path), "--workers", str(workers), "--concurrency", "3"]
    return subprocess.Popen(
        [sys.executable, "-m", "wardround", *words],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_until_working(folder: RunFolder, process: subprocess.Popen[bytes]) -> None:
    """Return once this process's workers lease episodes (or it is through)."""
    queue = WorkQueue(folder.queue)
    done = queue.counts().done
    while process.poll() is None:
        counts = queue.counts()
        if counts.leased or counts.done > done:
            break
        time.sleep(0.005)
    queue.close()


def test_kills_at_random_moments_change_nothing(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    settings = RunSettings(benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), epochs=3)
    undisturbed = start(tmp_path / "undisturbed", settings)
    started = time.monotonic()
    counts = execute(undisturbed, concurrency=3)
    seconds = time.monotonic() - started

    moments = random.Random(20)
    disturbed = start(tmp_path / "disturbed", settings)
    unfinished = []
    for kill in range(KILLS):
        process = resume(disturbed.path, workers=1 + kill % 2)
        wait_until_working(disturbed, process)
        time.sleep(moments.uniform(0, seconds / KILLS))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        queue = WorkQueue(disturbed.queue)
        unfinished.append(queue.counts().total - queue.counts().done)
        queue.close()
    assert unfinished[KILLS // 2] > 0, "half of the kills must hit a run at work"

    final = execute(RunFolder.open(disturbed.path), concurrency=3)
    assert final == counts
    assert without_times(disturbed) == without_times(undisturbed)


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
        (signal.SIGINT, "group", 2, (0.0, 0.1, 1.5)),
        (signal.SIGTERM, "group", 2, (0.02, 1.5)),
        (signal.SIGTERM, "coordinator", 2, (0.4,)),
        (signal.SIGTERM, "coordinator", 1, (0.4,)),
    ],
)
def test_an_interrupt_at_any_moment_is_one_line_and_leaves_no_worker(
    synthetic_benchmark_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
    number: int,
    whom: str,
    workers: int,
    moments: tuple[float, ...],
) -> None:
    """Ctrl-C reaches the whole group; SIGTERM too (systemd), or the coordinator alone (a container)."""
    settings = RunSettings(benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), epochs=20)
    folder = start(tmp_path / "run", settings)
    for seconds in moments:
        words = ["run", "--resume", str(folder.path), "--workers", str(workers), "--concurrency", "3"]
        process = subprocess.Popen(
            [sys.executable, "-m", "wardround", *words], start_new_session=True, stderr=subprocess.PIPE, text=True
        )
        if workers > 1:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while process.poll() is None and not children.read_text():
                time.sleep(0.001)
        else:
            wait_until_working(folder, process)
        time.sleep(seconds)
        (os.killpg if whom == "group" else os.kill)(process.pid, number)
        _, said = process.communicate()
        assert process.returncode == (143 if number == signal.SIGTERM else 130)
        assert "Traceback" not in said
        assert said.strip().endswith("wardround: interrupted; what was finished is kept")
        assert gone_within(300.0, process.pid)
        queue = WorkQueue(folder.queue)
        leased = queue.counts().leased
        queue.close()
        if workers == 1:
            assert leased == 0, "what was not finished is given back"
            assert not list(folder.logs.glob("*-wal")), "the log is closed"
