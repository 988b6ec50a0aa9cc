"""A Ray cluster: jobs on any of its machines, one processor each (``pip install '.[ray]'``).

Every machine has the same wardround installed and sees the same folders under the same paths. Ray carries a job's
arguments and its result; everything else that jobs share is files. A job whose process or machine is gone comes back
as lost: whether it starts again is not Ray's to say (``max_retries=0``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from wardround.core import UserError, import_extra, loaded_plugins
from wardround.core.executors.executor import Job, JobResult, perform

_STOP_SECONDS = 10.0
"""Seconds that a job may take to save its work when it must end."""


class RayCluster:
    """The cluster that this process is connected to, else that of ``RAY_ADDRESS`` or of this machine; see
    :class:`Executor`."""

    spans_machines = True

    def __init__(self, workers: int) -> None:
        self._ray = import_extra("ray", "ray", what="the executor ray")
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            _connect(self._ray)
        self._perform = self._ray.remote(perform).options(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")
        self._running: dict[Any, Job] = {}
        self._plugins = [str(plugin.path) for plugin in loaded_plugins()]

    def start(self, job: Job) -> None:
        """Hand a job to the cluster, which finds a processor for it."""
        self._running[self._perform.remote(job, self._plugins)] = job

    def wait(self, seconds: float) -> Sequence[JobResult]:
        """Return what has ended; what the cluster cannot say the end of is lost."""
        running = list(self._running)
        self._ray.wait(running, num_returns=1, timeout=seconds)
        ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
        return [self._ended(reference) for reference in ready]

    def stop(self) -> None:
        """Interrupt every job, wait for it to put away what it has, then end its process."""
        self._cancel(force=False)
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=_STOP_SECONDS)
        self._cancel(force=True)
        self._running.clear()
        if self._is_ours:
            self._ray.shutdown()

    def _ended(self, reference: Any) -> JobResult:
        job = self._running.pop(reference)
        try:
            result, error = self._ray.get(reference)
        except self._ray.exceptions.RayError as gone:
            return JobResult(job=job, lost=f"its Ray worker is gone ({type(gone).__name__})")
        return JobResult(job=job, result=result, error=error)

    def _cancel(self, *, force: bool) -> None:
        for reference in self._running:
            with suppress(self._ray.exceptions.RayError):
                self._ray.cancel(reference, force=force)


def _connect(ray: Any) -> None:
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="error")
    except ConnectionError:
        raise UserError(
            "no Ray cluster is running: start one with `ray start --head` (on other machines `ray start "
            "--address=HOST:6379`), or name one in RAY_ADDRESS; see docs/clusters.md"
        ) from None
