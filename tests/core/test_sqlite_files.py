"""A database whose last commits stand beside it is never read without them."""

from __future__ import annotations

import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from wardround.core import DatabaseFormat, UserError, damage_lines, is_for_several_machines, register_seals, transaction
from wardround.core.sqlite import must_be_complete

NOTES = DatabaseFormat(
    name="album",
    application="wardround-album",
    tables="CREATE TABLE t (x)",
    made_by="`make` makes one",
    if_damaged="move it away",
    if_other_version="make it again",
    timeout_seconds=0.1,
)


def test_commits_in_the_side_file_are_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    with pytest.raises(UserError, match="copy the folder"):
        must_be_complete(path)
    writer.close()
    must_be_complete(path)


def test_a_change_that_a_loss_of_power_cut_off_is_read_as_before_it(tmp_path: Path) -> None:
    """A copy of a file and its journal in the midst of a transaction is what a disk holds then."""
    path, left = tmp_path / "bank.sqlite", tmp_path / "left" / "bank.sqlite"
    writer = NOTES.open(path, several_machines=True)
    writer.executemany("INSERT INTO t (x) VALUES (?)", [("before" * 100,)] * 200)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN")
    writer.execute("UPDATE t SET x = ?", ("after" * 100,))
    left.parent.mkdir()
    for ending in ("", "-journal"):
        shutil.copyfile(path.with_name(path.name + ending), left.with_name(left.name + ending))
    writer.close()
    before = {one.name: one.read_bytes() for one in left.parent.iterdir()}
    assert b"afterafter" in before["bank.sqlite"]

    found = NOTES.open_unchanged(left)
    assert found.execute("SELECT DISTINCT x FROM t").fetchall() == [("before" * 100,)]
    assert {one.name: one.read_bytes() for one in left.parent.iterdir()} == before


def changed(path: Path, statement: str) -> Path:
    NOTES.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        register_seals(connection)
        connection.execute(statement)
    return path


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("UPDATE schema SET version = 2", "has album schema 2, this wardround reads 1: make it again"),
        ("UPDATE schema SET application = 'other'", "is not an album of wardround; name another file"),
        ("DELETE FROM schema", "is not an album of wardround; name another file"),
        ("DROP TABLE schema", r"is not an album, or is damaged \(no such table: schema\); move it away"),
    ],
)
def test_what_is_refused_is_refused_alike_by_readers_and_writers(tmp_path: Path, statement: str, line: str) -> None:
    path = changed(tmp_path / "a.sqlite", statement)
    for opened in (NOTES.open, NOTES.open_unchanged):
        with pytest.raises(UserError, match=line):
            opened(path)


def test_a_file_that_is_missing_or_locked_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no album at .*; `make` makes one"):
        NOTES.open_unchanged(tmp_path / "none")
    with pytest.raises(UserError, match=r"cannot write the album .*; check the folder"):
        NOTES.open(tmp_path / "none" / "a.sqlite")
    path = tmp_path / "a.sqlite"
    one, other = NOTES.open(path), NOTES.open(path)
    with transaction(one), pytest.raises(UserError, match="another process has locked"), NOTES.errors(path):
        other.execute("BEGIN IMMEDIATE")
    one.close()
    other.close()


def test_who_opens_a_file_while_another_makes_it_waits(tmp_path: Path) -> None:
    """SQLite refuses at once to change the mode of a file that another is about to write, whatever its timeout."""
    path = tmp_path / "a.sqlite"
    patient = replace(NOTES, timeout_seconds=30.0)
    maker = patient.open(path, several_machines=True)
    with ThreadPoolExecutor(1) as pool:
        with transaction(maker):
            opening = pool.submit(lambda: patient.open(path).close())
            time.sleep(0.1)
            assert not opening.done()
        opening.result()
    maker.close()


def test_a_file_is_shared_as_its_last_opener_said(tmp_path: Path) -> None:
    """For one machine unless it is said, new or not; None leaves a file as it is."""
    for said, shared in ((False, False), (True, True), (None, True), (False, False), (None, False), (True, True)):
        with closing(NOTES.open(tmp_path / "a.sqlite", several_machines=said)) as file:
            assert is_for_several_machines(file) is shared
    with closing(NOTES.open(tmp_path / "new.sqlite", several_machines=None)) as file:
        assert not is_for_several_machines(file)


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    with closing(NOTES.open(tmp_path / "a.sqlite", fill=lambda new: new.execute("INSERT INTO t VALUES (0)"))) as file:
        with transaction(file):
            file.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.ProgrammingError), transaction(file):
            file.executemany("INSERT INTO t VALUES (?)", iter([(2,), {3: 4}]))
        assert file.execute("SELECT x FROM t ORDER BY x").fetchall() == [(0,), (1,)]
        assert damage_lines(file) == []
        file.create_function("row_seal", -1, lambda *values: 7, deterministic=True)
        file.execute("UPDATE t SET x = 5 WHERE x = 1")
    with closing(NOTES.open(tmp_path / "a.sqlite", fill=lambda new: pytest.fail("it is not new"))) as file:
        assert damage_lines(file) == ["1 rows of t are not as they were written"]
