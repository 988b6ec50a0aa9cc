"""Commands as processes of their own without the price of starting one: a loaded process forks a child for each.

    done = run_command("bench", "show", folder)  # its status and what it said, as of subprocess.run
    group = commands().start(["run", "--resume", "a-run"])

Run as a program it is that process: it has loaded what most commands use, reads a command's words, and forks.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from effort import LONG

LOADED = ("wardround.cli.main", "wardround.cli.run", "wardround.benchmarks", "wardround.predictors", "wardround.runs")
"""What is loaded before a child is forked. A child has no other module of ours, no plug-in and no open file."""


class Forks:
    """Starts commands, each as the leader of a process group."""

    def __enter__(self) -> Self:
        words = [sys.executable, __file__]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, words: list[str], out: str = os.devnull, err: str = os.devnull) -> int:
        """Start a command where this process stands, with its variables; return its id, which is its group's too."""
        streams = {"out": out, "err": err}
        return self._asked({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)} | streams)

    def status(self, process: int) -> int:
        """Return the exit status of a command that was started, when it has ended."""
        return self._asked({"status_of": process})

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            status = self.status(self.start(words, str(out), str(err)))
            return subprocess.CompletedProcess(words, status, out.read_text("utf-8"), err.read_text("utf-8"))

    def _asked(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


_open: list[Forks] = []


def commands() -> Forks:
    """The one that all tests of this process share, started when the first asks."""
    if not _open:
        _open.append(Forks().__enter__())
    return _open[0]


def end_commands() -> None:
    """End it: from now on what its children cost is counted as ours."""
    while _open:
        _open.pop().__exit__()


def run_command(*words: object) -> subprocess.CompletedProcess[str]:
    """Run ``wardround`` with these words in a process of its own."""
    return commands().run([*map(str, words)])


def is_running(process: int) -> bool:
    """Whether a command that was started still runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(happened: Callable[[], bool], process: int) -> None:
    """Return when something has happened; fail where the process ends without it. The suite's watchdog bounds it."""
    while not happened():
        assert is_running(process), "it ended before it could be killed"
        time.sleep(0.002)


def kill(group: int) -> None:
    """Kill a group with SIGKILL and return when its leader is gone."""
    os.killpg(group, signal.SIGKILL)
    while is_running(group):
        time.sleep(0.002)


class _Children:
    """The commands that were started: each is buried when it dies, so that it is gone and what it cost is counted."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.statuses: dict[int, int] = {}
        signal.signal(signal.SIGCHLD, self._bury)

    def _bury(self, *_: object) -> None:
        for child in [*self.alive]:
            which, status = os.waitpid(child, os.WNOHANG)
            if which:
                self.alive.discard(child)
                self.statuses[child] = os.waitstatus_to_exitcode(status)

    def start(self, request: dict[str, Any]) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        child = os.fork()
        if child == 0:
            _become(request)
        self.alive.add(child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        return child

    def status(self, child: int) -> int:
        while child not in self.statuses:
            time.sleep(0.005)
        return self.statuses.pop(child)


def _serve() -> None:
    for name in LOADED:
        import_module(name)
    os.cpu_count = lambda: 1  # as in the tests' own process: more workers than one are asked for
    if not LONG:
        os.fsync = lambda descriptor: None  # as there
    gc.freeze()  # no child looks for garbage in what all of them share
    children = _Children()
    for line in sys.stdin:
        request = json.loads(line)
        answer = children.status(request["status_of"]) if "status_of" in request else children.start(request)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _become(request: dict[str, Any]) -> None:
    """Be the command that was asked for, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    streams = ((0, os.devnull, os.O_RDONLY), (1, request["out"], os.O_WRONLY), (2, request["err"], os.O_WRONLY))
    for number, path, mode in streams:
        os.dup2(os.open(path, mode | os.O_CREAT), number)
    os._exit(_played(request["words"]))


def _played(words: list[str]) -> int:
    from wardround.cli import main

    try:
        return main(words)
    except SystemExit as ending:  # how argparse ends
        return int(ending.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    _serve()
