"""How a process of this machine starts: forked, on Linux, from one that has loaded what it will need, else spawned.

To load what a worker needs takes most of a CPU-second, and a fork of *this* process would carry its threads and open
files. So another process is started at first use, loads, and forks whoever is asked for: multiprocessing's fork server.
What comes of it stands where a spawned process would: it has our variables, mask of new files, folder and output.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext
from multiprocessing.reduction import DupFd
from typing import Any

from wardround.core import umask

_HELD = {signal.SIGINT, signal.SIGTERM}
_OUTPUTS = (1, 2)
_TRIES, _PAUSE_SECONDS = 100, 0.1
_LAST = "wardround.executors.fork_server"

LOADED: list[str] = []
"""The modules that the next fork server loads: those of what it is started for. Who will start processes of several
kinds adds theirs before the first."""


class _Forked(ForkServerProcess):
    """A process that was forked elsewhere, which is as old as its first use, and has our surroundings of now."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._variables = dict(os.environ)
        self._umask = umask()

    def __getstate__(self) -> dict[str, Any]:
        """What is sent, with our standard output and error."""
        return self.__dict__ | {"_outputs": {number: DupFd(number) for number in _OUTPUTS if _is_open(number)}}

    def start(self) -> None:
        """Start, also where who forks was killed so short a while ago that nobody can tell yet."""
        for left in reversed(range(_TRIES)):
            try:
                super().start()
                return
            except (ConnectionError, EOFError):
                if not left:
                    raise
                time.sleep(_PAUSE_SECONDS)
                _start_forking()

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._variables)
        os.umask(self._umask)
        for number, output in self.__dict__.pop("_outputs").items():
            descriptor = output.detach()
            os.dup2(descriptor, number)
            os.close(descriptor)
        super().run()


class _Forking(ForkServerContext):
    Process = _Forked


def starting(*works: Callable[..., Any]) -> ForkServerContext | SpawnContext:
    """Return the context in which processes of this machine start that will call ``works``.

    They never hear Ctrl-C where they are forked. Ask again for every process or pool: whoever forks may have died.
    """
    if sys.platform != "linux":  # elsewhere libraries of the system do not outlive a fork
        return multiprocessing.get_context("spawn")
    context = _Forking()
    _will_load(works)
    context.set_forkserver_preload([*LOADED, _LAST])
    try:
        _start_forking()
    except OSError:  # no folder for its socket: TMPDIR is not there, or its path is longer than a socket's may be
        return multiprocessing.get_context("spawn")
    return context


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _will_load(works: Iterable[Callable[..., Any]]) -> None:
    for work in works:
        while isinstance(work, partial):
            work = work.func
        if work.__module__ not in (*LOADED, "__main__", None):  # a script is read by each, as where it is spawned
            LOADED.append(work.__module__)


def _start_forking() -> None:
    """Start what forks, unless it runs, with the signals blocked that end or interrupt a whole group of processes: it
    ends when the last of us and of its own has."""
    resource_tracker.ensure_running()  # starting it later would unblock the signals
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
