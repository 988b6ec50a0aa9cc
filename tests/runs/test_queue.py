"""The lease queue: nothing is handed out twice, nothing finished comes back, the dead give back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forking import commands, kill, wait_for
from wardround.core import UserError
from wardround.runs.queue import Owner, WorkQueue
from wardround.runs.settings import EpisodeKey


@pytest.fixture
def queue(tmp_path: Path) -> WorkQueue:
    queue = WorkQueue(tmp_path / "queue.sqlite")
    queue.add(f"episode-{n:02d}" for n in range(10))
    return queue


def test_leases_follow_the_order_and_never_repeat(queue: WorkQueue) -> None:
    first, second = queue.lease(4), queue.lease(100)
    assert first == [f"episode-{n:02d}" for n in range(4)]
    assert second == [f"episode-{n:02d}" for n in range(4, 10)]
    assert queue.lease(1) == []


def test_finished_work_is_never_handed_out_again(queue: WorkQueue) -> None:
    (key,) = queue.lease(1)
    queue.done(key)
    queue.add([key])
    queue.reclaim()
    assert key not in queue.lease(100)
    assert queue.counts().done == 1


def test_a_living_owner_keeps_its_lease_and_can_give_it_back(queue: WorkQueue) -> None:
    (key,) = queue.lease(1)
    assert queue.reclaim() == 0
    queue.give_back(key)
    assert queue.lease(1) == [key]


def test_leases_of_a_killed_process_come_back(tmp_path: Path, queue: WorkQueue) -> None:
    program = (
        "import sys, time, pathlib; from wardround.runs.queue import WorkQueue;"
        "q = WorkQueue(pathlib.Path(sys.argv[1])); print(q.lease(3), flush=True); time.sleep(60)"
    )
    printed = tmp_path / "printed"
    child = commands().start_program(program, [str(tmp_path / "queue.sqlite")], str(printed))
    wait_for(lambda: printed.exists() and "episode-00" in printed.read_text(), child)
    assert queue.reclaim() == 0
    kill(child)
    assert queue.reclaim() == 3
    assert queue.lease(1) == ["episode-00"]


def test_an_owner_lives_as_long_as_its_lock_whatever_the_clock_and_the_host_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock jumps a day, the host is renamed: a living worker keeps its lease, an ended one has none."""
    working, other = (WorkQueue(tmp_path / "queue.sqlite") for _ in range(2))
    working.add(["a", "b"])
    assert working.lease(1) == ["a"]
    monkeypatch.setattr("time.time", lambda: 4e9)
    monkeypatch.setattr("socket.gethostname", lambda: "another-name")
    assert other.reclaim() == 0
    assert other.lease(2) == ["b"]
    working.close()
    assert other.reclaim() == 1
    assert other.lease(2) == ["a"]
    other.close()
    assert list((tmp_path / "queue.sqlite-owners").iterdir()) == []


def test_leases_of_strangers_and_of_nobody_are_open(tmp_path: Path) -> None:
    queue = WorkQueue(tmp_path / "queue.sqlite")
    queue.add(["a", "b", "c"])
    for key, owner in (("a", "host:1:12345"), ("b", "../../etc/passwd"), ("c", "")):
        queue._connection.execute("UPDATE work SET state = 'leased', owner = ? WHERE key = ?", (owner, key))
    assert queue.reclaim() == 3
    assert queue.lease(9) == ["a", "b", "c"]
    queue.close()


def test_an_owner_is_named_when_it_is_first_needed(tmp_path: Path) -> None:
    owner, another = Owner(tmp_path / "owners"), Owner(tmp_path / "owners")
    assert not (tmp_path / "owners").exists()
    name = owner.name
    assert owner.name == name
    assert owner.is_alive(name)
    assert another.is_alive(name)
    assert not another.is_alive("0" * 32)
    owner.close()
    assert not another.is_alive(name)


def test_a_file_that_is_no_queue_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "queue.sqlite").write_bytes(b"no database at all, but long enough to look like a file header" * 40)
    with pytest.raises(UserError, match="is not a run's queue, or is damaged"):
        WorkQueue(tmp_path / "queue.sqlite")


def test_the_order_is_that_of_adding_not_of_the_names(tmp_path: Path) -> None:
    queue, keys = WorkQueue(tmp_path / "other.sqlite"), ["m", "z", "a", "k", "b"]
    queue.add(keys)
    assert [queue.lease(1), queue.lease(3), queue.lease(9)] == [["m"], ["z", "a", "k"], ["b"]]
    assert queue.listed() == keys


def test_an_episode_has_one_seed_whoever_plays_it() -> None:
    key = EpisodeKey(agent="react", model="offline", task="diagnoses", sample="1-2", epoch=0)
    same = [replace(key, agent="retrosum"), replace(key, model="openai/other")]
    assert {one.seed(7) for one in same} == {key.seed(7)}
    others = [replace(key, task="labevents"), replace(key, sample="1-3"), replace(key, epoch=1)]
    assert len({key.seed(7), key.seed(8), *(one.seed(7) for one in others)}) == 5
