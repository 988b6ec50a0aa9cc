"""A database whose last commits stand beside it is never read without them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.core.files import must_be_complete


def test_commits_in_the_side_file_are_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    with pytest.raises(UserError, match="copy the folder"):
        must_be_complete(path)
    writer.close()
    must_be_complete(path)
