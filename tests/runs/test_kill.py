"""Killing a run with SIGKILL at random moments and resuming gives the results of an undisturbed run.

A few kills: ``benchmarks/kills.py`` (``make long``) makes hundreds, of every command. Every kill meets work: the model
stops answering a few calls after the one at which the kill is aimed, so that the run cannot end before.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from effort import often
from fake_server import FakeServer
from forking import commands, kill, wait_for
from one_turn_speaker import Speaker, without_times
from wardround.runs import RunFolder, RunSettings, WorkQueue, execute, start

KILLS = 4
CONCURRENCY = 3
WORKING = None
"""The moment at which episodes are played; a number is that of seconds since the first worker was started."""


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
        words, loads = resume(folder.path, workers), seconds is not WORKING
        process = commands().start(words, err=str(tmp_path / "said"), loads=loads)
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
        ended = "wardround: interrupted; what was finished is kept; go on with: wardround run --resume"
        assert said.strip().endswith(f"{ended} {folder.path}")
        assert gone_within(300.0, process)
        queue = WorkQueue(folder.queue)
        leased = queue.counts().leased
        queue.close()
        if workers == 1:
            assert leased == 0, "what was not finished is given back"
            assert not list(folder.logs.glob("*-wal")), "the log is closed"


def test_workers_end_by_themselves_when_the_coordinator_is_killed(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    settings = RunSettings.of(benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), epochs=20)
    folder = start(tmp_path / "run", settings)
    process = commands().start(resume(folder.path, workers=2))
    wait_until_working(folder, process)
    os.kill(process, signal.SIGKILL)
    assert commands().status(process) == -signal.SIGKILL
    assert gone_within(300.0, process)
    assert left(folder) > 0, "they ended before their work did"
