"""Processes of this machine: how they start, how jobs are watched, what happens when one is lost."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from typing import Any

from wardround.core import Registry, UserError, loaded_plugins, printing, umask
from wardround.core.executors.executor import Executor, ExecutorKind, Job, JobResult, perform
from wardround.core.executors.ray_cluster import RayCluster

# How a process of this machine starts: forked, on Linux, from one that has loaded what it will need, else spawned.
#
# To load what a worker needs takes most of a CPU-second, and a fork of *this* process would carry its threads and open
# files. So another process is started at first use, loads, and forks whoever is asked for: multiprocessing's fork
# server. What comes of it stands where a spawned process would: it has our variables, mask of new files, folder and
# output.


_HELD = {signal.SIGINT, signal.SIGTERM}
_OUTPUTS = (1, 2)
_TRIES, _PAUSE_SECONDS = 100, 0.1
_LAST = "wardround.core.executors.fork_server"

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
        """Return the request to send, with our standard output and error."""
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


# Processes of this machine: started one by one as jobs come, each playing one job after the other.
#
# They never see Ctrl-C, which is for the process that started them to answer; SIGTERM tells a job to end. A process
# ends by itself when nobody is left to tell the result to.


_STOP_SECONDS = 10.0
"""Seconds that a job may take to save its work when it must end."""


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

    def wait(self, seconds: float) -> Sequence[JobResult]:
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

    def _ended(self, place: _Place) -> JobResult:
        job, place.job = place.job, None
        assert job is not None
        try:
            if not place.pipe.poll():
                raise EOFError  # only the process that reports the status is gone
            result, error = place.pipe.recv()
        except (EOFError, OSError):
            _bury(place.process)
            place.pipe.close()
            self._places.remove(place)
            return JobResult(job=job, lost=f"a worker process ended with status {place.process.exitcode}")
        return JobResult(job=job, result=result, error=error)


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
    """Run jobs until the other end is closed, or a job must end."""
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


# Watching jobs to their end: so many at once, what is lost is started again, what is raised ends them all.


EXECUTORS: Registry[ExecutorKind] = Registry("executors", one="executor")
"""The kinds of executors by name."""
EXECUTORS.add("processes", Processes)
EXECUTORS.add("ray", RayCluster)

MOST_LOSSES = 5
"""So often may one job be lost: what ends its process every time is no accident."""
_POLL_SECONDS = 0.2


@contextmanager
def opened(name: str, workers: int) -> Iterator[Executor]:
    """Open an executor by its name for so many jobs at once; it is stopped at the end. Raises UserError."""
    executor = EXECUTORS.get(name)(workers)
    try:
        yield executor
    finally:
        executor.stop()


def watched(
    executor: Executor,
    jobs: Iterable[Job],
    *,
    workers: int,
    on_poll: Callable[[], object] = tuple,
    on_loss: Callable[[], object] = tuple,
) -> Iterator[JobResult]:
    """Run jobs, ``workers`` at once, and yield what each came to as it ends; a lost one starts again.

    Jobs are taken as there is room, one ahead: to make one may take work and memory. ``on_poll`` is called several
    times a second, ``on_loss`` before a lost job may start again. Raises what a job raised, and UserError where one was
    lost too often.
    """
    coming, waiting, losses = iter(jobs), deque[Job](), Counter[int]()
    running = 0
    while True:
        if not waiting:
            waiting.extend(islice(coming, 1))
        if waiting and running < workers:
            executor.start(waiting.popleft())
            running += 1
            continue
        if not running:
            return
        for ended in executor.wait(_POLL_SECONDS):
            running -= 1
            if ended.lost is not None:
                losses[ended.job.number] += 1
                _must_go_on(ended, losses)
                on_loss()
                waiting.append(ended.job)
            elif ended.error is not None:
                raise ended.error
            else:
                yield ended
        on_poll()


def each(
    work: Callable[..., Any],
    items: Iterable[Any],
    *,
    executor: str,
    workers: int,
    on_done: Callable[[int], object] = str,
) -> list[Any]:
    """Do ``work(item)`` for every item, ``workers`` at once; return the results in the order of the items.

    ``on_done`` is called with the number of finished ones. Raises what the work raised.
    """
    jobs = (Job(number=number, work=work, arguments=(item,)) for number, item in enumerate(items))
    results: dict[int, Any] = {}
    with opened(executor, workers) as there:
        for ended in watched(there, jobs, workers=workers):
            results[ended.job.number] = ended.result
            on_done(len(results))
    return [results[number] for number in range(len(results))]


def _must_go_on(ended: JobResult, losses: Counter[int]) -> None:
    if losses[ended.job.number] >= MOST_LOSSES:
        raise UserError(
            f"the same work was lost {MOST_LOSSES} times, the last time because {ended.lost}; "
            "look for memory that runs out, then give the same command again: it goes on where it was"
        )
