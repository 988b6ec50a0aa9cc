"""A database whose last commits stand beside it is never read without them."""

from __future__ import annotations

import shutil
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.core.files import must_be_complete, open_database_unchanged


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
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("CREATE TABLE t (x)")
    writer.executemany("INSERT INTO t VALUES (?)", [("before" * 100,)] * 200)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN")
    writer.execute("UPDATE t SET x = ?", ("after" * 100,))
    left.parent.mkdir()
    for ending in ("", "-journal"):
        shutil.copyfile(path.with_name(path.name + ending), left.with_name(left.name + ending))
    writer.close()
    before = {one.name: one.read_bytes() for one in left.parent.iterdir()}
    assert b"afterafter" in before["bank.sqlite"]

    def prepare(connection: sqlite3.Connection) -> object:
        return connection.execute("SELECT count(*) FROM t").fetchone()

    def explained(error: sqlite3.Error, path: Path) -> UserError:
        return UserError(f"{path}: {error}")

    found = open_database_unchanged(left, partial(sqlite3.connect, uri=True), prepare, explained)
    assert found.execute("SELECT DISTINCT x FROM t").fetchall() == [("before" * 100,)]
    assert {one.name: one.read_bytes() for one in left.parent.iterdir()} == before
