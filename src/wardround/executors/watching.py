"""Watching jobs to their end: so many at once, what is lost is started again, what is raised ends them all."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wardround.core import Registry, UserError
from wardround.executors.executor import Ended, Executor, ExecutorKind, Job
from wardround.executors.processes import Processes
from wardround.executors.ray_cluster import RayCluster

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
) -> Iterator[Ended]:
    """Run jobs, ``workers`` at once, and yield what each came to as it ends; a lost one starts again after the others.

    ``on_poll`` is called several times a second, ``on_loss`` before a lost job may start again. Raises what a job
    raised, and UserError where one was lost too often.
    """
    waiting, losses = deque(jobs), Counter[int]()
    running = 0
    while waiting or running:
        while waiting and running < workers:
            executor.start(waiting.popleft())
            running += 1
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
    items: Sequence[Any],
    *,
    executor: str,
    workers: int,
    on_done: Callable[[int], object] = str,
) -> list[Any]:
    """Do ``work(item)`` for every item, ``workers`` at once; return the results in the order of the items.

    ``on_done`` is told how many are done. Raises what the work raised.
    """
    jobs = [Job(number=number, work=work, arguments=(item,)) for number, item in enumerate(items)]
    results: dict[int, Any] = {}
    with opened(executor, workers) as there:
        for ended in watched(there, jobs, workers=workers):
            results[ended.job.number] = ended.result
            on_done(len(results))
    return [results[number] for number in range(len(jobs))]


def _must_go_on(ended: Ended, losses: Counter[int]) -> None:
    if losses[ended.job.number] >= MOST_LOSSES:
        raise UserError(
            f"the same work was lost {MOST_LOSSES} times, the last time because {ended.lost}; "
            "look for memory that runs out, then give the same command again: it goes on where it was"
        )
