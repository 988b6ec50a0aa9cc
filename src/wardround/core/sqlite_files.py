"""SQLite files of ours: opened to be written or only read, closed where that fails, with a line for a person."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from wardround.core.errors import UserError
from wardround.core.row_seals import register_seals

Explained = Callable[[sqlite3.Error, Path], UserError]
"""Says SQLite's error of a file in one line, in the words of what the file is."""


def set_up_database(
    connection: sqlite3.Connection, path: Path, prepare: Callable[[sqlite3.Connection], object], explained: Explained
) -> sqlite3.Connection:
    """Prepare a connection and return it; one that cannot be prepared is closed."""
    try:
        return _prepared(connection, prepare)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def open_database_unchanged(
    path: Path,
    connect: Callable[[str], sqlite3.Connection],
    prepare: Callable[[sqlite3.Connection], object],
    explained: Explained,
) -> sqlite3.Connection:
    """Open a file without changing it, also while it is being written and also in a folder that nobody may write.

    ``connect`` is given the file's URI. There SQLite has no room for its side files: the file is then read as it
    stands, if it is whole.
    """
    uri = path.resolve().as_uri()
    try:
        return _prepared(connect(f"{uri}?mode=ro"), prepare)
    except sqlite3.OperationalError:
        must_be_complete(path)
        return set_up_database(connect(f"{uri}?immutable=1"), path, prepare, explained)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _prepared(connection: sqlite3.Connection, prepare: Callable[[sqlite3.Connection], object]) -> sqlite3.Connection:
    try:
        register_seals(connection)
        prepare(connection)
    except (sqlite3.Error, UserError):
        connection.close()
        raise
    return connection


def must_be_complete(path: Path) -> None:
    """Refuse a database with commits still in its side file: opened as immutable it would silently lack them."""
    for ending in ("-wal", "-journal"):
        side = path.with_name(path.name + ending)
        if side.exists() and side.stat().st_size:
            raise UserError(
                f"{side} holds commits that cannot be read in place; copy the folder to where you may write"
            )
