"""Commands as processes of their own without the price of starting one: a loaded process forks a child for each.

    with Forks() as forks:
        group = forks.start(["run", "--resume", "a-run"])

Run as a program it is that process: it reads a command's words, forks, and prints the child's id.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Self

from wardround.cli import main as wardround


class Forks:
    """Starts commands; each leads a process group, says nothing and is nobody's to wait for."""

    def __enter__(self) -> Self:
        words = [sys.executable, __file__]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, words: list[str]) -> int:
        """Start a command; return its process id, which is its group's too."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


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


def _serve() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are nobody's to wait for
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            quiet = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(quiet, number)
            os._exit(wardround(json.loads(line)))
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
