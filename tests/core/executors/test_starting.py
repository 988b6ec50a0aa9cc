"""How processes start: what was loaded is forked, and what stands around a new process is ours of now, not of then."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from forking import commands
from wardround.core import umask
from wardround.core.executors import Job, left_alone, opened, starting, watched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are spawned")


def done_there(*jobs: Job) -> list[Any]:
    with opened("processes", 1) as there:
        return [ended.result for ended in watched(there, jobs, workers=1)]


def surroundings(name: str) -> dict[str, Any]:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return {
        "variable": os.environ.get(name),
        "folder": os.getcwd(),
        "umask": umask(),
        "hears the end": signal.SIGTERM not in blocked,
        "hears Ctrl-C": signal.SIGINT not in blocked and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN,
        "forked by": os.getppid(),
    }


def test_a_process_stands_where_we_stand_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(number=0, work=surroundings, arguments=("WARDROUND_TEST_OF_STARTING",))
    [before] = done_there(job)
    monkeypatch.setenv("WARDROUND_TEST_OF_STARTING", "now")
    monkeypatch.chdir(tmp_path)
    mask = os.umask(0o027)
    try:
        [after] = done_there(job)
    finally:
        os.umask(mask)
    assert (before["variable"], before["umask"]) == (None, mask)
    assert after == before | {"variable": "now", "folder": str(tmp_path), "umask": 0o027}
    assert after["hears the end"]
    assert not after["hears Ctrl-C"]
    assert after["forked by"] != os.getpid()


def say(words: str) -> None:
    os.write(1, words.encode())
    sys.stderr.write(f"{words.upper()}\n")


def test_what_a_process_says_goes_where_ours_goes_now(capfd: pytest.CaptureFixture[str]) -> None:
    for words in ("one ", "two "):  # pytest puts another file there each time
        done_there(Job(number=0, work=say, arguments=(words,)))
        assert capfd.readouterr() == (words, words.upper() + "\n")


def test_pools_share_what_forks_for_executors() -> None:
    with ProcessPoolExecutor(1, starting(partial(partial(surroundings), "x"))) as pool:
        there = pool.submit(surroundings, "x").result()
    [here] = done_there(Job(number=0, work=surroundings, arguments=("x",)))
    assert there["forked by"] == here["forked by"]
    assert there["hears the end"]


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
from last_fork import end_who_forked
from wardround.core.executors import Job, opened, watched
with opened("processes", 1) as there:
    job = Job(number=0, work=end_who_forked, arguments=(sys.argv[2],))
    print(*[ended.result for ended in watched(there, [job], workers=1)], flush=True)
"""


def is_alive(process: int) -> bool:
    """Whether a process runs: one that nobody has asked for its status is as good as gone."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


def test_where_it_is_killed_itself_nobody_waits_for_its_children_and_none_lives_on(tmp_path: Path) -> None:
    (marks := tmp_path / "marks").mkdir()
    words = [str(Path(__file__).parent), str(marks)]
    process = commands().start_program(KILLED, words, out=str(tmp_path / "said"))
    assert commands().status(process) == 0
    assert (tmp_path / "said").read_text() == "done\n"
    [mark] = marks.iterdir()
    while is_alive(int(mark.name)):  # until it has died of what was sent
        time.sleep(0.002)


def test_a_signal_to_the_whole_group_leaves_what_forks() -> None:
    [before] = done_there(Job(number=0, work=surroundings, arguments=("x",)))
    os.kill(before["forked by"], signal.SIGTERM)
    os.kill(before["forked by"], signal.SIGINT)
    [after] = done_there(Job(number=0, work=surroundings, arguments=("x",)))
    assert after["forked by"] == before["forked by"]


def alone() -> bool:
    return left_alone()()


def test_a_process_is_not_alone_while_who_started_it_lives() -> None:
    assert done_there(Job(number=0, work=alone)) == [False]
    assert left_alone()() is False


ANYWHERE = """
import sys, tempfile
from wardround.core.executors import Job, opened, starting, watched
tempfile.tempdir = sys.argv[1]
with opened("processes", 1) as there:
    print(*[ended.result for ended in watched(there, [Job(number=0, work=pow, arguments=(3, 2))], workers=1)])
print(starting(pow).get_start_method(), flush=True)
"""


def test_where_no_socket_can_be_made_processes_are_spawned(tmp_path: Path) -> None:
    (deep := tmp_path / ("d" * 100)).mkdir()
    for folder, method in ((tempfile.gettempdir(), "forkserver"), (deep, "spawn")):
        process = commands().start_program(ANYWHERE, [str(folder)], out=str(tmp_path / "said"))
        assert commands().status(process) == 0
        assert (tmp_path / "said").read_text().split()[:2] == ["9", method]


def test_others_that_fork_there_hear_the_end_and_end() -> None:
    """Another library's processes come from the same place: they can be terminated."""
    starting(surroundings)
    process = get_context("forkserver").Process(target=signal.pause)
    process.start()
    process.terminate()
    process.join()
    assert process.exitcode == -signal.SIGTERM
