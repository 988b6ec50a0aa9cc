"""Commands as processes of their own without the price of starting one: a loaded process forks a child for each.

    done = run_command("bench", "show", folder)  # its status and what it said, as of subprocess.run
    group = commands().start(["run", "--resume", "a-run"])
    writer = commands().start_program(WRITER, [bank])  # as ``python -c WRITER BANK``

Run as a program it is that process: it has loaded what most commands use, reads a command's words, and forks.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from multiprocessing import forkserver, util
from pathlib import Path
from typing import Any, Self

from effort import LONG

LOADED = (
    "wardround.cli.terminal",
    "wardround.cli.run",
    "wardround.cli.scores",
    "wardround.tasks.benchmarks",
    "wardround.predictors",
    "wardround.runs",
)
"""What is loaded before a child is forked. A child has no other module of ours, no plug-in and no open file."""


class Forks:
    """Starts commands, each as the leader of a process group."""

    def __enter__(self) -> Self:
        words = [sys.executable, __file__]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, words: list[str], out: str = os.devnull, err: str = os.devnull, *, loads: bool = LONG) -> int:
        """Start a command where this process stands, with its variables; return its id, which is its group's too.

        ``loads``: what its workers need is loaded anew, as when a user gives it; else they too are forked.
        """
        streams = {"out": out, "err": err, "seeded": "--workers" in words and not loads}
        return self._asked({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)} | streams)

    def start_program(self, text: str, words: list[str], out: str = os.devnull) -> int:
        """Start a program's text, which finds these words after its name, as a command is started."""
        streams = {"out": out, "err": os.devnull, "seeded": False}
        return self._asked(
            {"program": text, "words": words, "folder": os.getcwd(), "environment": dict(os.environ)} | streams
        )

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
    """Kill a group with SIGKILL, if it has not ended, and return when its leader is gone."""
    with suppress(ProcessLookupError):
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
            with suppress(ChildProcessError):  # another one died meanwhile, and this handler was interrupted by itself
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
    """Be the command that was asked for, and end. The workers it starts are forked from what was loaded here, too."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    streams = ((0, os.devnull, os.O_RDONLY), (1, request["out"], os.O_WRONLY), (2, request["err"], os.O_WRONLY))
    for number, path, mode in streams:
        os.dup2(os.open(path, mode | os.O_CREAT), number)
    with _seed() if request["seeded"] else nullcontext():
        status = _played(request["words"], request.get("program"))
    os._exit(status)


@contextmanager
def _seed() -> Iterator[None]:
    """Fork what becomes this process's fork server if it starts one, instead of a Python that loads all of it again."""
    ours, theirs = socket.socketpair()
    with _signals_blocked():  # as the product starts it
        seed = os.fork()
        if seed == 0:
            ours.close()
            _grow(theirs)
    theirs.close()
    start = util.spawnv_passfds

    def sown(path: Any, arguments: Any, passed: Any) -> int:
        if "forkserver" not in arguments[-1]:
            return int(start(path, arguments, passed))
        socket.send_fds(ours, [json.dumps([arguments[-1], *passed]).encode()], passed)
        return seed

    util.spawnv_passfds = sown
    yield
    ours.close()
    with suppress(ChildProcessError):
        forkserver._forkserver._stop()
        os.waitpid(seed, 0)


def _grow(pipe: socket.socket) -> None:
    """Be a fork server as it was told to be, or nothing."""
    told, received, _, _ = socket.recv_fds(pipe, 1 << 16, 8)
    if told:
        program, *numbers = json.loads(told)
        aside = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 1000) for descriptor in received]
        for descriptor, number in zip(aside, numbers, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        exec(program, {})
    os._exit(0)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _played(words: list[str], program: str | None) -> int:
    from wardround.cli import main

    try:
        if program is None:
            return main(words)
        sys.argv = ["-c", *words]
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        return 0
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
