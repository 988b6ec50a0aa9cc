"""The executor on Ray, on a stand-in for Ray's public calls: what the cluster is asked for, and what comes of it.

The stand-in does what Ray's documentation says of `remote`, `options`, `wait`, `get` and `cancel`; the real one is
looked at by test_ray_cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from wardround.core import UserError
from wardround.core.executors import Job, opened, watched
from wardround.core.executors.ray_cluster import RayCluster


class RayError(Exception):
    pass


class WorkerCrashedError(RayError):
    pass


class Dies(BaseException):
    """What ends the process of a worker."""


@dataclass(eq=False)
class Reference:
    node: int
    value: Any = None
    gone: RayError | None = None


@dataclass
class Cluster:
    """Two machines of one processor each. A task is done when it is handed over; one whose process dies is done again
    as often as it may be retried, three times where nothing is said."""

    connected: bool = False
    address: str = ""
    placed: list[int] = field(default_factory=list)
    cancelled: list[bool] = field(default_factory=list)
    waited: float = 0.0

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, *, address: str, **_: Any) -> None:
        if address == "auto" and not self.address:
            raise ConnectionError("no cluster")
        self.connected = True

    def shutdown(self) -> None:
        self.connected = False

    def remote(self, function: Callable[..., Any]) -> Any:
        def options(*, num_cpus: int, max_retries: int = 3, scheduling_strategy: str = "DEFAULT") -> Any:
            def hand_over(*arguments: Any) -> Reference:
                node = len(self.placed) % 2 if scheduling_strategy == "SPREAD" else 0
                self.placed.append(node)
                for _ in range(max_retries + 1):
                    try:
                        return Reference(node, function(*arguments))
                    except Dies:
                        pass
                return Reference(node, gone=WorkerCrashedError("the worker died"))

            assert num_cpus == 1
            return SimpleNamespace(remote=hand_over)

        return SimpleNamespace(options=options)

    def wait(
        self, references: Sequence[Reference], *, num_returns: int, timeout: float
    ) -> tuple[Sequence[Reference], Sequence[Reference]]:
        if references and not 0 < num_returns <= len(references):
            raise ValueError("num_returns")
        self.waited += timeout
        return references[:num_returns], references[num_returns:]

    def get(self, reference: Reference) -> Any:
        if reference.gone is not None:
            raise reference.gone
        return reference.value

    def cancel(self, reference: Reference, *, force: bool) -> None:
        self.cancelled.append(force)
        if force:
            raise RayError("it has ended")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there, module = Cluster(address="head"), ModuleType("ray")
    for name in ("is_initialized", "init", "shutdown", "remote", "wait", "get", "cancel"):
        setattr(module, name, getattr(there, name))
    module.exceptions = SimpleNamespace(RayError=RayError)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", module)
    return there


begun: list[int] = []


def die(number: int) -> None:
    begun.append(number)
    raise Dies


def test_jobs_are_spread_and_their_results_come_back(cluster: Cluster) -> None:
    jobs = [Job(number=number, work=pow, arguments=(number, 2)) for number in range(4)]
    with opened("ray", 2) as there:
        assert cluster.connected
        assert sorted(one.result for one in watched(there, jobs, workers=2)) == [0, 1, 4, 9]
    assert cluster.placed == [0, 1, 0, 1]
    assert not cluster.connected, "who connected hangs up"


def test_a_job_whose_process_is_gone_is_lost_and_ray_itself_begins_it_once(cluster: Cluster) -> None:
    begun.clear()
    there = RayCluster(1)
    there.start(Job(number=7, work=die, arguments=(7,)))
    (ended,) = there.wait(2.5)
    assert cluster.waited == 2.5, "the cluster is asked to wait, not asked again and again"
    assert (ended.job.number, ended.lost) == (7, "its Ray worker is gone (WorkerCrashedError)")
    assert begun == [7]
    assert not there.wait(0.0)


def test_at_the_end_jobs_are_interrupted_then_ended_and_somebody_else_s_connection_stays(cluster: Cluster) -> None:
    cluster.connected = True
    there = RayCluster(1)
    there.start(Job(number=0, work=pow, arguments=(2, 2)))
    there.stop()
    assert cluster.cancelled == [False, True]
    assert cluster.connected
    assert not there.wait(0.0), "no job runs afterwards"


def test_without_a_cluster_it_is_said_how_to_start_one(cluster: Cluster) -> None:
    cluster.address = ""
    with pytest.raises(UserError, match="ray start --head"):
        RayCluster(1)
