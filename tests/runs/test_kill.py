"""Killing a run with SIGKILL at random moments and resuming gives the results of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from wardround.runs import RunFolder, RunSettings, WorkQueue, execute, score_run, start

KILLS = 20


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
