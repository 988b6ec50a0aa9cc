"""What a worker decides, on doubles of what it holds open: when to play, what was played, what ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.runs import worker as worker_module
from wardround.runs.worker import Worker, drain


class Queue:
    """Hands out names and notes what became of them."""

    def __init__(self, *names: str, begun: str = "") -> None:
        self.left = list(names)
        self.begun = begun
        self.told: list[tuple[str, str]] = []

    def lease(self, count: int) -> list[str]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def was_begun(self, name: str) -> bool:
        return name in self.begun

    def done(self, name: str) -> None:
        self.told.append(("done", name))

    def give_back(self, name: str) -> None:
        self.told.append(("back", name))


def working(queue: Queue, *, fails: str = "", costs: int = 99) -> Any:
    played: list[str] = []

    async def play(text: str) -> None:
        played.append(text)
        if text == fails:
            raise ValueError(text)

    looked: list[Path] = []
    return SimpleNamespace(
        queue=queue,
        stopping=asyncio.Event(),
        play=play,
        played=played,
        _has_cost_its_most=lambda: len(played) >= costs,
        log=SimpleNamespace(path=Path("own")),
        earlier=SimpleNamespace(look_again=lambda but: looked.append(but)),
        looked=looked,
    )


def test_all_that_is_queued_is_played_one_by_one() -> None:
    double = working(queue := Queue("a", "b"))
    asyncio.run(Worker.work(double))
    assert double.played == ["a", "b"]
    assert queue.told == [("done", "a"), ("done", "b")]
    assert not double.stopping.is_set()


def test_the_log_of_who_had_an_episode_before_is_looked_for() -> None:
    double = working(Queue("a", "b", "c", begun="b"))
    asyncio.run(Worker.work(double))
    assert double.played == ["a", "b", "c"]
    assert double.looked == [Path("own")]


def test_none_is_begun_when_the_run_cost_its_most_or_is_told_to_stop() -> None:
    double = working(queue := Queue("a", "b", "c"), costs=2)
    asyncio.run(Worker.work(double))
    assert (double.played, queue.left) == (["a", "b"], ["c"])
    double = working(queue := Queue("a"))
    double.stopping.set()
    asyncio.run(Worker.work(double))
    assert (double.played, queue.left) == ([], ["a"])


def test_an_episode_that_fails_goes_back_and_stops_the_others() -> None:
    double = working(queue := Queue("a", "b"), fails="a")
    with pytest.raises(ValueError, match="a"):
        asyncio.run(Worker.work(double))
    assert queue.told == [("back", "a")]
    assert double.stopping.is_set()


@pytest.mark.parametrize(("most", "spent", "stops"), [(None, True, False), (1.0, True, True), (1.0, False, False)])
def test_a_run_has_cost_its_most_only_where_there_is_a_most(
    monkeypatch: pytest.MonkeyPatch, most: float | None, spent: bool, stops: bool
) -> None:
    asked: list[object] = []

    def reaches(limit: float) -> bool:
        asked.append(limit)
        return spent

    spending = SimpleNamespace(reaches=reaches)
    monkeypatch.setattr(worker_module, "Spending", SimpleNamespace(of=lambda folder: spending))
    double = cast(Any, SimpleNamespace(max_cost=most, folder="run"))
    assert Worker._has_cost_its_most(double) is stops
    assert asked == ([] if most is None else [most])


@pytest.mark.parametrize(
    ("entry", "replies"),
    [
        (None, []),
        (SimpleNamespace(state="finished", outcome={"finish": "answer"}), None),
        (SimpleNamespace(state="finished", outcome=None), None),
        (SimpleNamespace(state="finished", outcome={"finish": "error"}), ["recorded of e"]),
        (SimpleNamespace(state="begun", outcome=None), ["recorded of e"]),
        (SimpleNamespace(state="begun", outcome={"finish": "error"}), ["recorded of e"]),
    ],
)
def test_what_an_earlier_worker_recorded_is_served_unless_it_finished(
    monkeypatch: pytest.MonkeyPatch, entry: Any, replies: Any
) -> None:
    monkeypatch.setattr(worker_module, "recorded_replies", lambda log, text: [f"recorded of {text}"])
    double = cast(Any, SimpleNamespace(earlier=SimpleNamespace(entry=lambda text: entry)))
    assert Worker._earlier_replies(double, "e") == replies


@pytest.mark.parametrize("replies", [None, [], ["one"]])
@pytest.mark.parametrize("judged", [True, False])
def test_an_episode_is_played_unless_it_is_finished_and_judged_in_any_case(
    monkeypatch: pytest.MonkeyPatch, replies: Any, judged: bool
) -> None:
    told: list[Any] = []

    async def play_on(*words: object) -> None:
        told.append(words)

    async def settle(*words: object) -> None:
        told.append(words)

    monkeypatch.setattr(worker_module, "prompt_of", lambda *words: SimpleNamespace(user=f"asked of {words[2]}"))
    double = SimpleNamespace(
        samples={"s": "sample"},
        settings=None,
        benchmark=None,
        log=SimpleNamespace(flush=lambda: told.append("flushed")),
        judging=SimpleNamespace(settle=settle) if judged else None,
        grading=None,
        _earlier_replies=lambda text: replies,
        _play_on=play_on,
    )
    key = SimpleNamespace(sample="s")
    asyncio.run(Worker.play_as(cast(Any, double), "e", cast(Any, key), cast(Any, "agent")))
    played = [] if replies is None else [("e", key, "agent", replies)]
    assert told == played + (["flushed", ("e", "sample", "asked of sample")] if judged else [])


@pytest.mark.parametrize("fails", [True, False])
def test_draining_opens_one_worker_for_all_and_closes_it_whatever_happens(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    told: list[Any] = []

    async def work() -> None:
        told.append("worked")
        if fails:
            raise ValueError("broken")

    async def close() -> None:
        told.append("closed")

    memory = SimpleNamespace(close=lambda: told.append("memory closed"))
    double = SimpleNamespace(work=work, close=close, max_cost=None)

    def open_worker(*words: object, **named: object) -> Any:
        told.append((words, named))
        return double

    monkeypatch.setattr(worker_module, "open_worker", open_worker)
    monkeypatch.setattr(worker_module, "run_memories", lambda folder: memory)
    if fails:
        with pytest.raises(ValueError, match="broken"):
            asyncio.run(drain(cast(Any, "run"), concurrency=3, max_cost=2.5))
    else:
        asyncio.run(drain(cast(Any, "run"), concurrency=3, max_cost=2.5))
    assert told == [(("run", 3), {"memories": memory}), *["worked"] * 3, "closed", "memory closed"]
    assert double.max_cost == 2.5


@pytest.mark.parametrize("has_more", [True, False])
def test_a_worker_closes_all_that_it_holds_but_the_memory(has_more: bool) -> None:
    told: list[str] = []

    def held(name: str) -> SimpleNamespace:
        return SimpleNamespace(close=lambda: told.append(name))

    def awaited(name: str) -> SimpleNamespace:
        async def close() -> None:
            told.append(name)

        return SimpleNamespace(close=close)

    always = ("log", "earlier", "queue", "images", "knowledge")
    double = SimpleNamespace(
        **{name: held(name) for name in always},
        **{name: held(name) if has_more else None for name in ("encoder", "candidate_encoder", "vectors")},
        **{name: awaited(name) if has_more else None for name in ("judging", "grading")},
        models={"one": awaited("one"), "two": awaited("two")},
        memories=held("memories"),
    )
    asyncio.run(Worker.close(cast(Any, double)))
    more = {"encoder", "candidate_encoder", "vectors", "judging", "grading"} if has_more else set()
    assert sorted(told) == sorted({*always, "one", "two"} | more)


def test_a_process_whose_starter_is_gone_ends_with_status_3(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Ended(BaseException):
        pass

    gone = iter([False, False, True])
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def end(status: int) -> None:
        raise _Ended(status)

    monkeypatch.setattr(worker_module, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(worker_module, "os", SimpleNamespace(_exit=end))
    with pytest.raises(_Ended, match="3"):
        asyncio.run(worker_module._watch(lambda: next(gone)))
    assert len(slept) == 3
    asyncio.run(worker_module._watch(None))
    assert len(slept) == 3
