"""Outlines: what scoring reads of many episodes is what a whole reading holds, in a number of statements that stays."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from log_doubles import play
from wardround.core import UserError
from wardround.log import LOG_SUFFIX, EpisodeLog, LogReader, Played, PlayedTurn
from wardround.log.reader import _reply, read_outlines


def what_scoring_reads(one: Played) -> dict[str, Any]:
    """All that the protocol of a played episode names."""
    return {name: getattr(one, name) for name in ("episode", "facts", "outcome", "usage")} | {
        "notes": list(one.notes),
        "turns": [_turn(turn) for turn in one.turns],
    }


def _turn(turn: PlayedTurn) -> dict[str, Any]:
    names = ("purpose", "unreported", "cost", "seconds", "prompt_bytes", "prefix_bytes")
    results = [
        (each.call.id, each.call.name, each.call.arguments, each.is_error, each.seconds, each.table)
        for each in turn.results
    ]
    reply = (turn.reply.content, [(call.id, call.name, call.arguments) for call in turn.reply.tool_calls])
    return {name: getattr(turn, name) for name in names} | {
        "tools": list(turn.tools),
        "reply": reply,
        "results": results,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two workers' files; episodes of both lie between each other, some are open, one is in both."""
    place = tmp_path_factory.mktemp("run")
    for worker in (0, 1):
        with EpisodeLog(place / f"worker-{worker}{LOG_SUFFIX}") as log:
            for number in range(worker, 24, 2):
                recorder = log.begin(f"e{number:02}", {"worker": worker})
                play(recorder, number % 4)
                recorder.note("calibration", {"turn": number, "text": "a,b]"})
                if number % 5:
                    recorder.finish({"answer": [str(number)]})
            recorder = log.begin("e07 twice \u00e9", {"worker": worker})
            play(recorder, 1 + worker)
            recorder.finish({"answer": []})
    return place


def test_outlines_are_the_trajectories_without_texts(folder: Path) -> None:
    with LogReader(folder) as reader:
        whole = [one for one in reader.trajectories() if one.entry.state == "finished"]
        outlines = sorted(reader.outlines(), key=lambda one: one.episode)
        assert list(map(what_scoring_reads, outlines)) == list(map(what_scoring_reads, whole))
        assert any(one.usage.input_tokens for one in outlines)
        keys = [one.episode for one in whole]
        assert len(keys) == 20
        shares = [(keys[start], keys[min(start + 6, 19)]) for start in range(0, 20, 7)]
        assert sorted(one.episode for share in shares for one in reader.outlines(*share)) == keys
        assert [one.episode for one in reader.outlines("e08", "e08")] == ["e08"]
        assert not list(reader.outlines("f"))


def test_outlines_of_many_episodes_take_as_many_statements_as_those_of_few(folder: Path) -> None:
    def statements(first: str, last: str) -> int:
        with LogReader(folder) as reader:
            seen: list[str] = []
            for _, bodies in reader._connections:
                bodies.connection.set_trace_callback(seen.append)
            assert list(reader.outlines(first, last))
            return len(seen)

    assert statements("e01", "e23") == statements("e01", "e04")


def test_a_turn_whose_reply_is_gone_is_said_and_not_left_out(tmp_path: Path) -> None:
    path = tmp_path / f"w{LOG_SUFFIX}"
    with EpisodeLog(path) as log:
        recorder = log.begin("a", {})
        play(recorder, 2)
        recorder.finish({})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM message WHERE hash = (SELECT reply_hash FROM turn WHERE ordinal = 1)")
        connection.commit()
    with LogReader(path) as reader, pytest.raises(UserError, match="turn 1 of an episode has no reply"):
        list(reader.outlines())


def test_a_reply_that_is_written_otherwise_than_we_do_is_read_too() -> None:
    text = (
        b'{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"text": "b"}], "tool_calls": '
        b'[{"function": {"name": "look", "arguments": {"at": 1}}}, {"id": 7, "function": null}]}'
    )
    reply = _reply(text, sha256(text).digest(), 3)
    assert reply.content == "ab"
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("call_0", "look", '{"at": 1}'),
        ("7", "", "{}"),
    ]
    with pytest.raises(UserError, match="not as it was written"):
        _reply(text, sha256(b"another").digest(), 3)
    with pytest.raises(UserError, match="turn 3 of an episode has no reply"):
        _reply(None, None, 3)


@pytest.mark.parametrize("table", ["turn", "tool", "note"])
def test_rows_that_a_damaged_page_hides_from_a_range_are_missed(tmp_path: Path, table: str) -> None:
    """An index finds each row of an episode; a range of episodes ends where a key in its midst reads too great."""
    path = tmp_path / f"w{LOG_SUFFIX}"
    with EpisodeLog(path) as log:
        recorder = log.begin("a", {})
        play(recorder, 2)
        recorder.note("a", {})
        recorder.finish({})
    with LogReader(path) as reader:
        (entry,) = reader.episodes()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"DELETE FROM {table}")
            connection.commit()
        ((_, bodies),) = reader._connections
        with pytest.raises(UserError, match="rows of the episode a are missing"):
            list(read_outlines(bodies, [entry]))


def test_a_text_that_became_bytes_is_damage(tmp_path: Path) -> None:
    path = tmp_path / f"w{LOG_SUFFIX}"
    with EpisodeLog(path) as log:
        play(log.begin("a", {}), 2)
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("row_seal", -1, lambda *values: 7, deterministic=True)
        connection.execute("UPDATE body SET text = CAST(text AS BLOB)")
        connection.commit()
    with LogReader(path) as reader, pytest.raises(UserError, match="not as it was written"):
        reader.trajectory("a")
