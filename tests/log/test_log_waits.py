"""Nothing that was answered waits in memory for the next turn: a timer writes it, with or without its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from log_doubles import START, ask, calling, play
from wardround.log import EpisodeLog, LogReader
from wardround.models import ScriptedModel, recorded_replies, resumed, say

_LONGEST_WAIT_SECONDS = 60.0
"""Waited in full only by a test that fails."""


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
        while not true():
            await asyncio.sleep(0.01)


def read_back(path: Path) -> tuple[int, list[int]]:
    """Turns of the episode in the file, and the ordinals of its replies without one."""
    with LogReader(path) as reader:
        entry = reader.entry("e")
        return (0, []) if entry is None else (entry.turns, [one.ordinal for one in reader.kept("e")])


def test_the_last_turn_of_a_group_is_written_although_no_other_comes(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"

    async def main() -> None:
        log = EpisodeLog(path, group_turns=1000, group_seconds=0.05)
        play(log.begin("e", {}), 3)
        await until(lambda: read_back(path) == (3, []))
        log._connection.close()

    asyncio.run(main())


def test_a_reply_is_written_before_its_tools_have_run_and_its_turn_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"

    async def main() -> None:
        with EpisodeLog(path, group_turns=1000, group_seconds=0.05) as log:
            recorder = log.begin("e", {})
            recorder.keep(ask(START, 0), calling(0))
            await until(lambda: read_back(path) == (0, [0]))
            with LogReader(path) as reader:
                (kept,) = recorded_replies(reader, "e")
            assert (kept.ordinal, kept.reply) == (0, calling(0))
            assert kept.digest == ask(START, 0).digest("m@here")
            recorder.turn(ask(START, 0), calling(0))
            await until(lambda: read_back(path) == (1, []))
            recorder.keep(ask(START, 1), calling(1))
            await until(lambda: read_back(path) == (1, [1]))
            recorder.finish({"answer": None})  # the episode ended without that turn
        assert read_back(path) == (1, [])

    asyncio.run(main())


def test_a_reply_that_has_its_turn_in_time_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {})
        recorder.keep(ask(START, 0), calling(0))
        recorder.turn(ask(START, 0), calling(0))
        assert not log._waiting["kept"]
        assert not log._waiting["settled"]
        log.flush()
        assert read_back(path) == (1, [])


def test_a_full_group_leaves_a_reply_without_a_turn_to_the_timer(tmp_path: Path) -> None:
    """Most replies have their turn before the timer: a row for each of them would be written and taken out again."""
    path = tmp_path / "w.sqlite"

    async def main() -> None:
        with EpisodeLog(path, group_turns=1, group_seconds=0.3) as log:
            recorder = log.begin("e", {})
            recorder.keep(ask(START, 1), calling(1))
            recorder.turn(ask(START, 0), calling(0))
            assert read_back(path) == (1, []), "the group of one turn is in the file"
            await until(lambda: read_back(path) == (1, [1]))
            recorder.finish({"answer": None})

    asyncio.run(main())


def test_of_calls_made_at_once_those_that_were_answered_are_served_and_the_others_asked(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path / "w.sqlite") as log:
        recorder = log.begin("e", {})
        recorder.turn(ask(START, 0), calling(0))
        for ordinal in (1, 3):  # of three candidates asked for at once the second had not answered at the kill
            recorder.keep(ask(START, ordinal), calling(ordinal))
    with LogReader(tmp_path / "w.sqlite") as reader:
        replies = recorded_replies(reader, "e")
    live = ScriptedModel([say("live")], name="m@here")
    model = resumed(live, replies)
    got = [asyncio.run(model.complete(ask(START, ordinal))) for ordinal in range(4)]
    assert [one for n, one in enumerate(got) if n != 2] == [calling(n) for n in (0, 1, 3)]
    assert [request.ordinal for request in live.requests] == [2]


def test_live_replies_are_handed_over_as_they_come() -> None:
    handed: list[int] = []
    model = resumed(ScriptedModel([say("a"), say("b")]), (), keep=lambda request, reply: handed.append(request.ordinal))
    for ordinal in (0, 1):
        asyncio.run(model.complete(ask(START, ordinal)))
    assert handed == [0, 1]


def test_the_file_that_has_more_answers_is_read(tmp_path: Path) -> None:
    """Two workers were killed in one episode: the second one before its first turn was through, but answered."""
    for name, turns in (("1.episodes.sqlite", 0), ("2.episodes.sqlite", 1)):
        with EpisodeLog(tmp_path / name) as log:
            recorder = log.begin("e", {})
            for ordinal in range(turns):
                recorder.keep(ask(START, ordinal), replace(calling(ordinal), seconds=2.0))
    with LogReader(tmp_path) as reader:
        assert [one.reply.seconds for one in recorded_replies(reader, "e")] == [2.0]


def test_a_reply_that_has_its_turn_by_now_does_not_count_twice(tmp_path: Path) -> None:
    """Of the first worker, who got less far, both replies were in the file before their turns."""
    for name, turns in (("1.episodes.sqlite", 2), ("2.episodes.sqlite", 3)):
        with EpisodeLog(tmp_path / name) as log:
            recorder = log.begin("e", {"file": name})
            for ordinal in range(turns):
                recorder.keep(ask(START, ordinal), calling(ordinal))
                if turns == 2:
                    log.flush()
                recorder.turn(ask(START, ordinal), calling(ordinal))
    with LogReader(tmp_path) as reader:
        assert reader.trajectory("e").facts == {"file": "2.episodes.sqlite"}
        assert reader.kept("e") == ()


def test_replies_without_a_turn_are_gathered_from_every_file(tmp_path: Path) -> None:
    """Two workers were killed as several calls were out: each had been answered one that the other had not."""
    for name, turns, kept in (("1.episodes.sqlite", 1, (1, 3)), ("2.episodes.sqlite", 2, (2,))):
        with EpisodeLog(tmp_path / name) as log:
            recorder = log.begin("e", {})
            for ordinal in range(turns):
                recorder.turn(ask(START, ordinal), calling(ordinal))
            for ordinal in kept:
                recorder.keep(ask(START, ordinal), calling(ordinal))
    with LogReader(tmp_path) as reader:
        assert [one.ordinal for one in recorded_replies(reader, "e")] == [0, 1, 2, 3]
