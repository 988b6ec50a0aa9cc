"""Executors: what is lost starts again, what is raised arrives, what comes back is in order, whoever does the work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.util import Finalize
from pathlib import Path
from types import FrameType

import pytest

from wardround.core import UserError
from wardround.core.executors import EXECUTORS, MOST_LOSSES, Job, JobResult, each, opened, perform, watched


class Doubles:
    """Does jobs in this process, one at each wait, the last one started first; some are lost a few times."""

    def __init__(self, losses: dict[int, int]) -> None:
        self.losses = losses
        self.running: list[Job] = []
        self.most = 0

    def start(self, job: Job) -> None:
        self.running.append(job)
        self.most = max(self.most, len(self.running))

    def wait(self, seconds: float) -> Sequence[JobResult]:
        job = self.running.pop()
        if self.losses.get(job.number, 0):
            self.losses[job.number] -= 1
            return [JobResult(job=job, lost="its power was cut")]
        result, error = perform(job, [])
        return [JobResult(job=job, result=result, error=error)]

    def stop(self) -> None:
        self.running.clear()


def squares(*numbers: int) -> list[Job]:
    return [Job(number=number, work=pow, arguments=(number, 2)) for number in numbers]


def test_so_many_at_once_and_the_lost_again_after_the_others() -> None:
    there, told = Doubles({2: 2}), []
    ended = watched(there, squares(1, 2, 3, 4), workers=2, on_loss=lambda: told.append("lost"))
    assert [one.result for one in ended] == [9, 16, 4, 1]
    assert told == ["lost", "lost"]
    assert there.most == 2


def test_what_is_lost_every_time_ends_the_work_with_the_reason() -> None:
    there = Doubles({1: MOST_LOSSES})
    with pytest.raises(UserError, match=rf"lost {MOST_LOSSES} times, the last time because its power was cut"):
        list(watched(there, squares(1), workers=1))
    assert list(watched(Doubles({1: MOST_LOSSES - 1}), squares(1), workers=1))


def refuse(what: str) -> None:
    raise UserError(f"no {what}")


def test_what_is_raised_there_is_raised_here_with_its_traceback() -> None:
    job = Job(number=0, work=refuse, arguments=("bread",))
    with pytest.raises(UserError, match="no bread") as caught:
        list(watched(Doubles({}), [job], workers=1))
    assert "in refuse" in caught.value.__notes__[0]


class Unpicklable(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} of {other}")


def break_down() -> None:
    raise Unpicklable(1, 2)


def test_an_exception_that_cannot_travel_sends_its_words() -> None:
    _, error = perform(Job(number=0, work=break_down), [])
    assert isinstance(error, RuntimeError)
    assert "Unpicklable: 1 of 2" in str(error.args[0])


def die_once(marks: str, number: int) -> tuple[int, int]:
    """End this process as a lack of memory would, the first time that 1 is asked for."""
    mark = Path(marks) / str(number)
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number, os.getpid()


def test_processes_do_one_job_after_the_other_and_one_that_is_killed_is_replaced(tmp_path: Path) -> None:
    jobs = [Job(number=number, work=die_once, arguments=(str(tmp_path), number)) for number in range(5)]
    losses: list[str] = []
    with opened("processes", 2) as there:
        ended = list(watched(there, jobs, workers=2, on_loss=lambda: losses.append("lost")))
    assert sorted(one.result[0] for one in ended) == [0, 1, 2, 3, 4]
    assert losses == ["lost"]
    processes = {one.result[1] for one in ended}
    assert os.getpid() not in processes
    assert len(processes) <= 3, "two, and the one that took the place of the killed"


def leave_in_order(marks: str) -> None:
    """What is to be put away at the end of this process is put away by itself."""
    Finalize(None, (Path(marks) / "idle").touch, exitpriority=1)


def work_until_told(marks: str) -> None:
    """Work for ever, and leave when told."""

    def told(number: int, frame: FrameType | None) -> None:
        (Path(marks) / "told").touch()
        os._exit(0)

    signal.signal(signal.SIGTERM, told)
    (Path(marks) / "busy").touch()
    time.sleep(600)


def test_at_the_end_the_idle_go_by_themselves_and_who_works_is_told_to(tmp_path: Path) -> None:
    with opened("processes", 2) as there:
        there.start(Job(number=0, work=work_until_told, arguments=(str(tmp_path),)))
        there.start(Job(number=1, work=leave_in_order, arguments=(str(tmp_path),)))
        assert [ended.job.number for ended in there.wait(60)] == [1]
        while not (tmp_path / "busy").exists():
            time.sleep(0.01)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["busy", "idle", "told"]


def test_here_and_in_a_process_the_results_are_in_order_and_errors_are_the_same(tmp_path: Path) -> None:
    told: list[int] = []
    assert each(abs, [-2, 1, -3], executor="processes", workers=1, on_done=told.append) == [2, 1, 3]
    assert told == [1, 2, 3]
    with pytest.raises(ValueError, match="invalid literal"):
        each(int, ["1", "x"], executor="processes", workers=1)


def test_an_executor_that_there_is_not_is_told_with_those_there_are() -> None:
    with pytest.raises(UserError, match=r"no executor 'rai'\. Did you mean ray"):
        EXECUTORS.get("rai")
    assert [EXECUTORS.get(name).spans_machines for name in ("processes", "ray")] == [False, True]
