"""The SQLite file of a bank: its tables, its version, and clear errors when it is not one.

``revision`` is append-only and its numbers are the bank's clock: the state at any past number can be rebuilt. Text,
score and state of an experience are those of its last revision; ``experience`` holds what never changes.

What is promised: what ``add``, ``revise`` and the others returned for survives a kill and a power cut (WAL with
``synchronous=FULL``: every commit is on the disk before it returns).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from wardround.core import UserError, must_be_complete, private_file, private_folder

SCHEMA_VERSION = 1
_BUSY_SECONDS = 30.0

TABLES = """
CREATE TABLE schema (version INTEGER NOT NULL, application TEXT NOT NULL);
CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE key (
    number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, encoder TEXT NOT NULL, text_hash TEXT NOT NULL,
    vector BLOB NOT NULL
);
CREATE TABLE experience (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, task TEXT NOT NULL, tool TEXT NOT NULL, key INTEGER REFERENCES key,
    sample TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL, provenance TEXT NOT NULL, facts TEXT NOT NULL
);
CREATE TABLE revision (
    number INTEGER PRIMARY KEY AUTOINCREMENT, experience TEXT NOT NULL REFERENCES experience, live INTEGER NOT NULL,
    title TEXT NOT NULL, description TEXT NOT NULL, content TEXT NOT NULL, score REAL,
    sample TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL
);
CREATE INDEX revision_of ON revision (experience, number);
CREATE TABLE feedback (
    number INTEGER PRIMARY KEY AUTOINCREMENT, experience TEXT NOT NULL REFERENCES experience, kind TEXT NOT NULL,
    value REAL, detail TEXT NOT NULL, at TEXT NOT NULL
);
CREATE TRIGGER revision_stays BEFORE UPDATE ON revision BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END;
CREATE TRIGGER revision_remains BEFORE DELETE ON revision BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END
"""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open or make a bank. Raises UserError when the file is something else or cannot be written."""
    try:
        private_folder(path.parent)
        private_file(path)
        connection = _connect(str(path))
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"cannot write the bank {path}: {error}; check the folder and its permissions") from error
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO schema VALUES (?, 'wardround-bank')", (SCHEMA_VERSION,))
        connection.execute("COMMIT")
        _check_version(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise explained(error, path) from error
    except UserError:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a bank without changing it, also while it is being written and also in a read-only folder."""
    if not path.is_file():
        raise UserError(f"no bank at {path}; `wardround evolve` makes one")
    last: sqlite3.Error | None = None
    for option in ("mode=ro", "immutable=1"):
        if option == "immutable=1":
            must_be_complete(path)
        connection = _connect(f"{path.resolve().as_uri()}?{option}", uri=True)
        try:
            _check_version(connection, path)
        except sqlite3.OperationalError as error:
            connection.close()
            last = error
            continue
        except sqlite3.Error as error:
            connection.close()
            raise explained(error, path) from error
        except UserError:
            connection.close()
            raise
        return connection
    assert last is not None
    raise explained(last, path) from last


def explained(error: sqlite3.Error, path: Path) -> UserError:
    """Turn SQLite's error into one line for a person."""
    text = str(error)
    if "full" in text:
        return UserError(f"the disk is full: {path} cannot grow; free space and go on, what was committed is kept")
    if "locked" in text:
        return UserError(f"{path} has been locked by another process for {_BUSY_SECONDS:g} s; is one stuck?")
    if "not a database" in text or "malformed" in text or "no such table" in text:
        return UserError(f"{path} is not a bank of experiences, or is damaged ({text}); name another file")
    return UserError(f"cannot use the bank {path}: {text}")


def _connect(target: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(target, uri=uri, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    row = connection.execute("SELECT version, application FROM schema").fetchone()
    if row is None or row[1] != "wardround-bank":
        raise UserError(f"{path} is not a bank of experiences; name another file")
    if row[0] > SCHEMA_VERSION:
        raise UserError(f"{path} has bank schema {row[0]}, this wardround reads up to {SCHEMA_VERSION}; upgrade it")
