"""The protocol of executors, and what they carry to and fro: a job there, what it came to back."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wardround.core import load_plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work: a function of a module and its arguments, which are pickled. Started again where it is lost,
    so the second try must be able to follow an unfinished first."""

    number: int
    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job came to: its result, what it raised, or why the process or machine that had it is gone (``lost``)."""

    job: Job
    result: Any = None
    error: BaseException | None = None
    lost: str | None = None


class Executor(Protocol):
    """Runs jobs elsewhere, each in a process that has loaded the plug-ins of this one."""

    def start(self, job: Job) -> None:
        """Start a job; it may wait there for room."""

    def wait(self, seconds: float) -> Sequence[JobResult]:
        """Return the jobs that have ended since the last call, after at most so many seconds."""

    def stop(self) -> None:
        """Tell every job to end, give it time to put away what it has, then end it; no job runs afterwards."""


class ExecutorKind(Protocol):
    """A kind of executor, chosen by name. ``spans_machines``: its jobs may run on several machines."""

    spans_machines: bool

    def __call__(self, workers: int) -> Executor:
        """Open one for so many jobs at once. UserError: it is not there."""


def perform(job: Job, plugins: Sequence[str]) -> tuple[Any, BaseException | None]:
    """Do a job where it was sent; return its result, or what it raised with the traceback as a note."""
    try:
        load_plugins(plugins)
        return job.work(*job.arguments), None
    except Exception as error:
        return None, _carried(error)


def left_alone() -> Callable[[], bool]:
    """Return what tells whether the process that started this one, or sent it here, is gone."""
    starter = multiprocessing.parent_process()
    if starter is not None:
        return lambda: not starter.is_alive()  # our parent may be another: who forks for it
    parent = os.getppid()
    return lambda: os.getppid() != parent


def _carried(error: Exception) -> Exception:
    """An exception that survives the way back: itself, or its words where it does not pickle."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}", *error.__notes__)
