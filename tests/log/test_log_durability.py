from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forking import commands, kill, wait_for
from log_doubles import START, ask, calling, play
from wardround.core import Message, UserError
from wardround.log import LOG_SUFFIX, EpisodeLog, LogReader, ToolRecord, settle_logs

WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from log_doubles import START, ask, calling
from wardround.core import Message
from wardround.log import EpisodeLog, ToolRecord

log = EpisodeLog(Path(sys.argv[1]), group_turns=8, group_seconds=1e9)
for n in range(10**6):
    recorder = log.begin(f"e{n:06d}", {})
    messages = START
    for ordinal in range(20):
        reply = calling(ordinal)
        record = ToolRecord(call=reply.message.tool_calls[0], result_text=f"{n} {ordinal} " + "x" * 2000)
        recorder.turn(ask(messages, ordinal), reply, [record])
        print(n, ordinal, flush=True)
        messages += (reply.message, Message(role="tool", content=record.result_text, tool_call_id=record.call.id))
    recorder.finish({"answer": []})
    print("finished", n, flush=True)
"""


@pytest.mark.parametrize("moment", range(4))
def test_kill_9_loses_at_most_the_last_group(tmp_path: Path, moment: int) -> None:
    path = tmp_path / f"w{LOG_SUFFIX}"
    folder = str(Path(__file__).parent.parent)
    printed = tmp_path / "printed"
    writer = commands().start_program(WRITER, [str(path), folder], str(printed))
    wait_for(lambda: printed.exists() and printed.stat().st_size >= 2000, writer)
    time.sleep(random.Random(moment).uniform(0, 0.3))
    kill(writer)
    said = printed.read_text().rpartition("\n")[0].splitlines()
    assert len(said) > 100, "the writer did not get going"
    last_turn = next(line for line in reversed(said) if line[0].isdigit())
    finished = [int(line.split()[1]) for line in said if line.startswith("finished")]

    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with LogReader(path) as reader:
        entries = {entry.key: entry for entry in reader.episodes()}
        assert all(entries[f"e{n:06d}"].state == "finished" for n in finished)
        for key in list(entries)[-3:]:
            turns = reader.trajectory(key).turns
            assert [turn.ordinal for turn in turns] == list(range(len(turns)))
            assert all(len(turn.results[0].result_text) > 2000 for turn in turns)
        n, ordinal = map(int, last_turn.split())
        kept = entries[f"e{n:06d}"].turns if f"e{n:06d}" in entries else 0
        assert ordinal - kept < 8
    with EpisodeLog(path) as log:
        recorder = log.begin("after", {})
        play(recorder, 1)
        recorder.finish({})


def test_turns_far_apart_are_committed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    log = EpisodeLog(path, group_turns=1000, group_seconds=0.0)
    play(log.begin("e", {}), 3)
    with LogReader(path) as reader:
        assert len(reader.trajectory("e").turns) == 3
    log.close()


class CountedMessage(Message):
    """Counts how often its hash is asked for."""

    asked = 0

    @property
    def digest(self) -> bytes:
        CountedMessage.asked += 1
        return super().digest


def test_a_turn_costs_the_same_at_turn_1_50_and_100(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    costs = []
    with EpisodeLog(path, group_turns=1) as log:
        recorder = log.begin("e", {})
        messages = START
        for ordinal in range(101):
            reply = calling(ordinal + 1000)
            call = reply.message.tool_calls[0]
            before = _size(path), CountedMessage.asked
            recorder.turn(ask(messages, ordinal + 1000), reply, [ToolRecord(call=call, result_text="y" * 500)])
            after = _size(path), CountedMessage.asked
            if ordinal in (1, 50, 100):
                costs.append(tuple(b - a for a, b in zip((*before[0], before[1]), (*after[0], after[1]), strict=True)))
            messages += (
                CountedMessage(role="assistant", content=None, tool_calls=reply.message.tool_calls),
                CountedMessage(role="tool", content="y" * 500, tool_call_id=call.id),
            )
    assert costs[0] == costs[1] == costs[2]
    rows, text_bytes, hashes = costs[0]
    assert rows == 2 + 2 + 1 + 1, "two bodies (reply, result), two nodes, a turn, a tool call"
    assert text_bytes < 1500
    assert hashes <= 8


def _size(path: Path) -> tuple[int, int]:
    """Rows in the file, and bytes of text in it."""
    connection = sqlite3.connect(path)
    tables = ("body", "message", "turn", "tool", "note", "episode")
    rows = sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
    text = connection.execute("SELECT coalesce(sum(length(text)), 0) FROM body").fetchone()[0]
    connection.close()
    return rows, text


def test_an_episode_begun_again_replaces_its_earlier_try(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {"try": 1})
        recorder.note("a", {})
        recorder.note("b", {})
        play(recorder, 6, result="first")
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {"try": 2})
        recorder.note("c", {})
        play(recorder, 2, result="first")
        log.flush()
        with LogReader(path) as reader:
            assert len(reader.trajectory("e").turns) == 6, "until it finishes, the longer record is worth keeping"
        reply = calling(2, name="finish")
        recorder.turn(ask(START, 2), reply, [])
        recorder.finish({"answer": ["x"]})
    with LogReader(path) as reader:
        trajectory = reader.trajectory("e")
    assert [turn.ordinal for turn in trajectory.turns] == [0, 1, 2]
    assert trajectory.turns[2].reply == reply.message
    assert trajectory.turns[2].results == ()
    assert [note.kind for note in trajectory.notes] == ["c"]
    assert trajectory.facts == {"try": 2}


def test_an_episode_that_ends_before_its_first_turn_keeps_nothing_of_its_earlier_try(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path / "w.sqlite") as log:
        recorder = log.begin("e", {})
        recorder.note("a", {})
        play(recorder, 2)
        log.begin("e", {}).finish({"error": "no model"})
    with LogReader(tmp_path / "w.sqlite") as reader:
        trajectory = reader.trajectory("e")
    assert (trajectory.turns, trajectory.notes, trajectory.outcome) == ((), (), {"error": "no model"})


def test_one_ordinal_twice_is_a_bug_in_the_caller(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path / "w.sqlite") as log:
        recorder = log.begin("e", {})
        recorder.turn(ask(START, 0), calling(0))
        with pytest.raises(ValueError, match="turn 0 of episode 'e'"):
            recorder.turn(ask(START, 0), calling(0))


def test_a_full_disk_is_one_clear_line_and_nothing_waiting_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    log = EpisodeLog(path)
    recorder = log.begin("e", {})
    log._connection.execute("PRAGMA max_page_count = 40")
    play(recorder, 20, result="z" * 20_000)
    with pytest.raises(UserError, match=r"the disk is full: .*w\.sqlite"):
        recorder.finish({"answer": []})
    log._connection.execute("PRAGMA max_page_count = 100000")
    log.close()
    with LogReader(path) as reader:
        trajectory = reader.trajectory("e")
    assert (len(trajectory.turns), trajectory.outcome) == (20, {"answer": []})


def test_a_closed_log_is_whole_without_its_side_files_although_somebody_reads_it(tmp_path: Path) -> None:
    path = tmp_path / f"w{LOG_SUFFIX}"
    log = EpisodeLog(path)
    with LogReader(path) as reader:
        recorder = log.begin("e", {})
        play(recorder, 3)
        recorder.finish({"answer": []})
        assert reader.entry("e") is not None
        log.close()
        copy = tmp_path / f"copy{LOG_SUFFIX}"
        copy.write_bytes(path.read_bytes())
    with LogReader(copy) as alone:
        assert len(alone.trajectory("e").turns) == 3


def test_a_killed_log_in_a_read_only_folder_is_refused_and_never_read_in_part(read_only_disk: Path) -> None:
    whole, cut = (read_only_disk / f"{name}{LOG_SUFFIX}" for name in ("whole", "cut"))
    with LogReader(whole) as reader:
        assert reader.entry("e") is not None
    with pytest.raises(UserError, match=r"cut.*-wal holds commits.*copy the folder"):
        LogReader(cut)


@pytest.fixture
def read_only_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system nobody may write to, with a closed log and one whose writer was killed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a disk")
    log = EpisodeLog(disk / f"whole{LOG_SUFFIX}")
    play(log.begin("e", {}), 3)
    log.flush()
    for side in ("", "-wal"):
        (disk / f"cut{LOG_SUFFIX}{side}").write_bytes((disk / f"whole{LOG_SUFFIX}{side}").read_bytes())
    log.close()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_files_that_are_no_log_are_refused_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("hello " * 1000)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (a)")
    connection.commit()
    connection.close()
    newer = tmp_path / "newer.sqlite"
    EpisodeLog(newer).close()
    connection = sqlite3.connect(newer)
    connection.execute("UPDATE schema SET version = 99")
    connection.commit()
    connection.close()
    for path, words in ((text, "is not an episode log"), (other, "is not an episode log"), (newer, "log schema 99")):
        for opening in (LogReader, EpisodeLog):
            with pytest.raises(UserError, match=words) as caught:
                opening(path)
            assert "\n" not in str(caught.value)
            assert str(path) in str(caught.value)
    with pytest.raises(UserError, match="no episode log at"):
        LogReader(tmp_path / "none.sqlite")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match="is it a run folder"):
        LogReader(empty)
    with pytest.raises(UserError, match="cannot write the episode log"):
        EpisodeLog(tmp_path / "missing" / "w.sqlite")


def test_a_half_written_file_is_refused_or_reads_clean(tmp_path: Path) -> None:
    """A copy cut short: never a traceback of SQLite, never half a trajectory."""
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {})
        play(recorder, 30, result="w" * 3000)
        recorder.finish({})
    whole = path.read_bytes()
    refused = []
    for share in (0.02, 0.1, 0.3, 0.6, 0.9):
        cut = tmp_path / f"cut{share}.sqlite"
        cut.write_bytes(whole[: int(len(whole) * share)])
        try:
            with LogReader(cut) as reader:
                assert len(reader.trajectory("e").turns) == 30
        except UserError as error:
            refused.append(str(error))
    assert len(refused) >= 4
    assert all("damaged" in line for line in refused)


READINGS: dict[str, Callable[[LogReader], object]] = {
    "entry": lambda reader: reader.entry("e"),
    "episodes": lambda reader: reader.episodes(),
    "outlines": lambda reader: list(reader.outlines("e", "e")),
    "trajectory": lambda reader: reader.trajectory("e"),
    "kept": lambda reader: reader.kept("e"),
}


@pytest.mark.parametrize(
    ("statement", "said", "seen_by"),
    [
        ("UPDATE episode SET outcome = '{}' WHERE key = 'e'", "1 rows of its table episode", set(READINGS)),
        ("DELETE FROM tool WHERE episode = 'e' AND turn = 1", "rows of the episode e are missing", set(READINGS)),
        ("UPDATE turn SET cost = 9.0 WHERE episode = 'e' AND ordinal = 1", "table turn", {"outlines", "trajectory"}),
        ("UPDATE tool SET seconds = 9.0 WHERE episode = 'e'", "2 rows of its table tool", {"outlines", "trajectory"}),
        ("UPDATE note SET kind = 'b' WHERE episode = 'e'", "table note", {"outlines", "trajectory"}),
        ("UPDATE kept SET reply = '{}' WHERE episode = 'e'", "table kept", {"kept"}),
        ("UPDATE turn SET cost = 9.0 WHERE episode = 'other'", "", set()),
    ],
)
def test_a_row_that_was_changed_is_refused_by_whoever_reads_it(
    tmp_path: Path, statement: str, said: str, seen_by: set[str]
) -> None:
    path = tmp_path / f"w{LOG_SUFFIX}"
    with EpisodeLog(path) as log:
        for key in ("e", "other"):
            recorder = log.begin(key, {})
            recorder.note("a", {})
            play(recorder, 2)
            recorder.finish({"answer": ["x"]})
        log.begin("open", {}).keep(ask(START, 5), calling(5))
        log.flush()
        log._connection.execute("UPDATE kept SET episode = 'e'")
    connection = sqlite3.connect(path)
    connection.create_function("row_seal", -1, lambda *values: 7, deterministic=True)
    assert connection.execute(statement).rowcount
    connection.commit()
    connection.close()
    for name, read in READINGS.items():
        with LogReader(path) as reader:
            if name in seen_by:
                with pytest.raises(UserError, match=said):
                    read(reader)
            else:
                assert read(reader)


def test_what_a_killed_writer_left_beside_its_log_is_brought_in(tmp_path: Path) -> None:
    whole, killed = (tmp_path / f"{name}{LOG_SUFFIX}" for name in ("whole", "killed"))
    log = EpisodeLog(whole)
    play(log.begin("e", {}), 3)
    log.flush()
    wal = killed.with_name(killed.name + "-wal")
    killed.write_bytes(whole.read_bytes())
    wal.write_bytes(whole.with_name(whole.name + "-wal").read_bytes())
    log.close()
    settle_logs(tmp_path)
    assert not wal.exists()
    alone = tmp_path / "alone.sqlite"
    alone.write_bytes(killed.read_bytes())
    with LogReader(alone) as reader:
        assert len(reader.trajectory("e").turns) == 3


def test_a_log_for_several_machines_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / f"w{LOG_SUFFIX}"
    with EpisodeLog(path, several_machines=True) as log:
        play(log.begin("e", {}), 3)
        log.flush()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("CREATE TABLE more (a)")
            assert path.with_name(path.name + "-journal").exists()
            with LogReader(tmp_path) as reader:
                assert [entry.turns for entry in reader.episodes()] == [3]
            other.execute("ROLLBACK")


def test_a_worker_killed_as_its_log_changed_its_mode_stops_nobody(tmp_path: Path) -> None:
    """The kill comes inside SQLite's own first commit: a rollback journal lies beside a file without tables."""
    begin = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN IMMEDIATE'); c.execute('CREATE TABLE a (b)');"
        "[c.execute('INSERT INTO a VALUES (zeroblob(4000))') for _ in range(50)]; os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", begin, str(tmp_path / "killed.episodes.sqlite")], check=False)
    assert (tmp_path / "killed.episodes.sqlite-journal").stat().st_size
    assert (tmp_path / "killed.episodes.sqlite").stat().st_size
    with LogReader(tmp_path, may_be_empty=True) as reader:
        assert reader.episodes() == ()
    with EpisodeLog(tmp_path / "next.episodes.sqlite") as log:
        play(log.begin("e", {}), 2)
    with LogReader(tmp_path) as reader:
        assert [entry.turns for entry in reader.episodes()] == [2]
