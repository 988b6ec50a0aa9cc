"""Processes of this machine: started one by one as jobs come, each playing one job after the other.

They never see Ctrl-C, which is for the process that started them to answer; SIGTERM tells a job to end. A process ends
by itself when nobody is left to tell the result to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from wardround.core import loaded_plugins, printing
from wardround.executors.executor import Ended, Job, perform
from wardround.executors.starting import starting

_STOP_SECONDS = 10.0
"""How long a job may take to put away what it has when it is told to end."""


_UNKNOWN = 255
"""The status of a process when the one that forked it has been killed."""


@dataclass(slots=True, kw_only=True)
class _Place:
    """A process, our end of the pipe to it, and the job that it has."""

    process: BaseProcess
    pipe: Connection
    job: Job | None = None


class Processes:
    """Processes of this machine, as many as there are jobs at once; see :class:`Executor`."""

    spans_machines = False

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._places: list[_Place] = []

    def start(self, job: Job) -> None:
        """Give a job to an idle process, or to a new one."""
        idle = [place for place in self._places if place.job is None]
        place = idle[0] if idle else self._new_place(job)
        place.job = job
        with suppress(OSError):  # its process is gone: waiting says so
            place.pipe.send(job)

    def wait(self, seconds: float) -> Sequence[Ended]:
        """Return what has ended; a process that ended without a word has lost its job."""
        busy = [place for place in self._places if place.job is not None]
        ready = wait([one for place in busy for one in (place.pipe, place.process.sentinel)], seconds)
        return [self._ended(place) for place in busy if place.pipe in ready or place.process.sentinel in ready]

    def stop(self) -> None:
        """End the idle, tell the others to end, and kill who takes too long."""
        for place in self._places:
            _tell_to_end(place)
        for place in self._places:
            place.process.join(_STOP_SECONDS)
            _bury(place.process)
            place.pipe.close()
        self._places.clear()

    def _new_place(self, job: Job) -> _Place:
        context = starting(job.work)
        pipe, theirs = context.Pipe()
        plugins = [str(plugin.path) for plugin in loaded_plugins()]
        process = context.Process(target=_serve, args=(theirs, plugins), daemon=True)
        with _interrupt_held():
            process.start()
            self._places.append(place := _Place(process=process, pipe=pipe))
        theirs.close()
        return place

    def _ended(self, place: _Place) -> Ended:
        job, place.job = place.job, None
        assert job is not None
        try:
            if not place.pipe.poll():
                raise EOFError  # only who would have said its status is gone
            result, error = place.pipe.recv()
        except (EOFError, OSError):
            _bury(place.process)
            place.pipe.close()
            self._places.remove(place)
            return Ended(job=job, lost=f"a worker process ended with status {place.process.exitcode}")
        return Ended(job=job, result=result, error=error)


def _tell_to_end(place: _Place) -> None:
    if place.job is None:
        place.pipe.close()
    else:
        place.process.terminate()


def _bury(process: BaseProcess) -> None:
    """Kill a process if it lives and wait for its end. Whose forking process is gone may live, of unknown status."""
    process.kill()
    process.join()
    if process.exitcode == _UNKNOWN and process.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _serve(pipe: Connection, plugins: Sequence[str]) -> None:
    """Play jobs until the other end is closed, or a job was told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr = printing(sys.stderr)  # what a library writes there can hold what an endpoint wrote
    with suppress(EOFError, OSError, asyncio.CancelledError):
        while True:
            pipe.send(perform(pipe.recv(), plugins))


@contextmanager
def _interrupt_held() -> Iterator[None]:
    """Start processes in here and they never see Ctrl-C: it is answered when they have started."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    resource_tracker.ensure_running()  # starting it later would unblock the signal
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt
