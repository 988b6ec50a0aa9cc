"""The SQLite file of a bank: schema, connection, transactions."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from wardround.core import (
    UserError,
    count_broken_seals,
    open_database_unchanged,
    private_file,
    private_folder,
    sealed_tables,
    set_up_database,
    with_row_seals,
)
from wardround.memory.words import show_places

# The SQLite file of a bank: its tables, its version, and clear errors when it is not one.
#
# ``revision`` is append-only and its numbers are the bank's clock: the state at any past number can be rebuilt. Text,
# score and state of an experience are those of its last revision; ``experience`` holds what never changes. ``step``
# names the ticks of the same clock at which something else was written. What is in ``words``, ``term`` and ``mention``
# follows from the rest and can be made again. Every row holds a checksum of itself (`core/files.py`), which
# ``memory audit`` and ``audit files`` look at.
#
# What is promised: what ``add``, ``revise`` and the others returned for survives a kill and a power cut (WAL with
# ``synchronous=FULL``: every commit is on the disk before it returns).


SCHEMA_VERSION = 1
_BUSY_SECONDS = 30.0
_MAPPED = f"PRAGMA mmap_size = {1024**3}"
"""Pages are read where the system holds them: SQLite's own cache is emptied by every commit of another writer."""

TABLES = """
CREATE TABLE schema (version INTEGER NOT NULL, application TEXT NOT NULL);
CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE key (
    number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, encoder TEXT NOT NULL, text_hash TEXT NOT NULL,
    vector BLOB NOT NULL
);
CREATE TABLE experience (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, task TEXT NOT NULL, tool TEXT NOT NULL, key INTEGER REFERENCES key,
    sample TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL, provenance TEXT NOT NULL, facts TEXT NOT NULL,
    task_type TEXT NOT NULL, structure TEXT NOT NULL
);
CREATE TABLE revision (
    number INTEGER PRIMARY KEY AUTOINCREMENT, experience TEXT NOT NULL REFERENCES experience, live INTEGER NOT NULL,
    title TEXT NOT NULL, description TEXT NOT NULL, content TEXT NOT NULL, score REAL,
    condition TEXT NOT NULL, exclusions TEXT NOT NULL,
    sample TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL
);
CREATE INDEX revision_of ON revision (experience, number);
CREATE TABLE feedback (
    number INTEGER PRIMARY KEY AUTOINCREMENT, experience TEXT NOT NULL REFERENCES experience, kind TEXT NOT NULL,
    value REAL, detail TEXT NOT NULL, at TEXT NOT NULL, episode TEXT NOT NULL
);
CREATE INDEX feedback_of ON feedback (experience);
CREATE UNIQUE INDEX feedback_once ON feedback (episode, kind, experience) WHERE episode <> '';
CREATE TABLE step (
    number INTEGER PRIMARY KEY, reason TEXT NOT NULL, at TEXT NOT NULL, sample TEXT NOT NULL, episode TEXT NOT NULL
);
CREATE UNIQUE INDEX step_once ON step (episode) WHERE episode <> '';
CREATE INDEX step_of ON step (sample) WHERE sample <> '';
CREATE TABLE quality (
    experience TEXT NOT NULL REFERENCES experience, number INTEGER NOT NULL, value REAL,
    PRIMARY KEY (experience, number)
) WITHOUT ROWID;
CREATE INDEX quality_since ON quality (number);
CREATE TABLE edge (
    source TEXT NOT NULL REFERENCES experience, target TEXT NOT NULL REFERENCES experience, number INTEGER NOT NULL,
    live INTEGER NOT NULL, relation TEXT NOT NULL, weight REAL NOT NULL,
    entity REAL, structure REAL, synergy REAL, task REAL, PRIMARY KEY (source, target, number)
) WITHOUT ROWID;
CREATE INDEX edge_since ON edge (number);
CREATE TABLE outcome (
    number INTEGER PRIMARY KEY REFERENCES step, run TEXT NOT NULL, task TEXT NOT NULL, score REAL NOT NULL,
    rule TEXT NOT NULL
);
CREATE TABLE met (
    number INTEGER NOT NULL REFERENCES outcome, place INTEGER NOT NULL, experience TEXT NOT NULL,
    shown INTEGER NOT NULL, masked_share REAL NOT NULL, PRIMARY KEY (number, place)
) WITHOUT ROWID;
CREATE INDEX met_of ON met (experience);
CREATE TABLE withdrawal (
    number INTEGER NOT NULL REFERENCES step, source TEXT NOT NULL, experience TEXT NOT NULL,
    PRIMARY KEY (number, source, experience)
) WITHOUT ROWID;
CREATE TABLE undone (number INTEGER PRIMARY KEY REFERENCES step, target INTEGER NOT NULL);
CREATE TABLE alias (
    name TEXT NOT NULL, number INTEGER NOT NULL, entity TEXT NOT NULL, PRIMARY KEY (name, number)
) WITHOUT ROWID;
CREATE INDEX alias_of ON alias (entity);
CREATE TABLE mention (
    name TEXT NOT NULL, experience TEXT NOT NULL REFERENCES experience, PRIMARY KEY (name, experience)
) WITHOUT ROWID;
CREATE TABLE snapshot (name TEXT PRIMARY KEY, number INTEGER NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE gate (
    look INTEGER NOT NULL, number INTEGER NOT NULL, content TEXT NOT NULL, task TEXT NOT NULL, verdict TEXT NOT NULL,
    at TEXT NOT NULL, PRIMARY KEY (look, task)
) WITHOUT ROWID;
CREATE TABLE tombstone (mark BLOB PRIMARY KEY, reason TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (tokens, content='', tokenize='ascii');
CREATE TABLE term (term TEXT PRIMARY KEY, documents INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER revision_stays BEFORE UPDATE ON revision BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END;
CREATE TRIGGER revision_remains BEFORE DELETE ON revision BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END;
CREATE TRIGGER quality_stays BEFORE UPDATE ON quality BEGIN SELECT RAISE(ABORT, 'qualities are append-only'); END;
CREATE TRIGGER edge_stays BEFORE UPDATE ON edge BEGIN SELECT RAISE(ABORT, 'edges are append-only'); END;
CREATE TRIGGER outcome_stays BEFORE UPDATE ON outcome BEGIN SELECT RAISE(ABORT, 'outcomes are append-only'); END;
CREATE TRIGGER met_stays BEFORE UPDATE ON met BEGIN SELECT RAISE(ABORT, 'outcomes are append-only'); END
"""
"""``quality`` and ``edge`` hold what was set; ``outcome`` and ``met`` what episodes said, from which qualities and
weights are computed; ``withdrawal`` and ``undone`` what of all this counts no more. A step names the sample that caused
it and the episode that was learnt from, once. A snapshot is a revision with a name; a gate is what held-out evidence
said of the content of a revision, by task; a tombstone marks what was forgotten, by a keyed hash that says nothing."""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open or make a bank. Raises UserError when the file is something else or cannot be written."""
    try:
        private_folder(path.parent)
        private_file(path)
        connection = _connect(str(path))
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"cannot write the bank {path}: {error}; check the folder and its permissions") from error
    return set_up_database(connection, path, partial(_prepare, path=path), explained)


def _prepare(connection: sqlite3.Connection, *, path: Path) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_MAPPED)
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in with_row_seals(TABLES).split(";\n"):
            connection.execute(statement)
        connection.execute("INSERT INTO schema VALUES (?, 'wardround-bank')", (SCHEMA_VERSION,))
    _check_version(connection, path)
    connection.execute("COMMIT")
    show_places(connection)
    connection.create_function("names", 2, _names, deterministic=True)


def _names(text: str, name: str) -> bool:
    """Whether a text names something, and not only something longer: ``stream-2`` is not in ``stream-20``."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a bank without changing it, also while it is being written and also in a read-only folder."""
    if not path.is_file():
        raise UserError(f"no bank at {path}; `wardround evolve` makes one")
    return open_database_unchanged(path, partial(_connect, uri=True), partial(_prepare_to_read, path=path), explained)


def _prepare_to_read(connection: sqlite3.Connection, *, path: Path) -> None:
    _check_version(connection, path)
    connection.execute(_MAPPED)
    show_places(connection)


_DAMAGE = {
    "revisions of no experience": """
        SELECT count(*) FROM revision LEFT JOIN experience ON id = revision.experience WHERE id IS NULL
    """,
    "experiences without a revision": """
        SELECT count(*) FROM experience WHERE id NOT IN (SELECT experience FROM revision)
    """,
    "experiences without their key": """
        SELECT count(*) FROM experience WHERE key IS NOT NULL AND key NOT IN (SELECT number FROM key)
    """,
    "edges that lead nowhere": """
        SELECT count(*) FROM edge
        WHERE source NOT IN (SELECT id FROM experience) OR target NOT IN (SELECT id FROM experience)
    """,
}
_NOT_INDEXED = """
SELECT count(*) FROM revision
WHERE live AND number IN (SELECT max(number) FROM revision GROUP BY experience)
    AND number NOT IN (SELECT id FROM words_docsize)
"""


def damage(connection: sqlite3.Connection) -> dict[str, int]:
    """What is wrong with a bank, counted."""
    said = [text for (text,) in connection.execute("PRAGMA integrity_check")]
    found = {"faults that SQLite sees": sum(text != "ok" for text in said)}
    found |= {
        f"rows of {table} that are not as they were written": count_broken_seals(connection, table, columns)
        for table, columns in sealed_tables(connection)
    }
    found |= {name: connection.execute(query).fetchone()[0] for name, query in _DAMAGE.items()}
    found["texts missing in the index"] = connection.execute(_NOT_INDEXED).fetchone()[0]
    return found


def damage_of_bank(path: Path) -> dict[str, int] | None:
    """What is wrong with the bank in a file, counted; None where the file is a database of something else."""
    try:
        with closing(_connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'revision'").fetchone()[0]:
                return None
        with closing(open_for_reading(path)) as connection:
            return damage(connection)
    except (UserError, sqlite3.Error) as error:
        return {f"faults that end its reading ({error})": 1}


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
    if row[0] != SCHEMA_VERSION:
        raise UserError(
            f"{path} has bank schema {row[0]}, this wardround reads {SCHEMA_VERSION}: "
            "build it again (wardround memory build, or evolve)"
        )


# An open file of a bank: one connection behind one lock, its settings, and transactions that are all or nothing.


_LAST_NUMBER = (
    "SELECT max((SELECT coalesce(max(number), 0) FROM revision), (SELECT coalesce(max(number), 0) FROM step))"
)


class BankFile:
    """One connection to a bank; safe for the threads of one process that hold ``lock`` while they use it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.path = path
        self.connection = connection
        self.writable = writable
        self.lock = threading.RLock()

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query. Raises UserError in words for a person."""
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def setting(self, name: str) -> Any:
        """A setting of the bank; None where it was not made."""
        rows = self.rows("SELECT value FROM setting WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    @property
    def last_number(self) -> int:
        """The last number of the bank's clock."""
        return int(self.rows(_LAST_NUMBER)[0][0])

    @property
    def data_version(self) -> int:
        """A number that changes when another connection has written."""
        return int(self.rows("PRAGMA data_version")[0][0])

    @contextmanager
    def view(self) -> Iterator[None]:
        """Read everything inside from one view of the file, whoever writes meanwhile."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    @contextmanager
    def writing(self, *, undone: Callable[[], None]) -> Iterator[None]:
        """Commit everything written inside at once; ``undone`` is called where it was rolled back."""
        if not self.writable:
            raise UserError(f"{self.path} was opened for reading only")
        if self.connection.in_transaction:
            yield
            return
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(undone)
            raise explained(error, self.path) from error
        except BaseException:
            self._roll_back(undone)
            raise

    def _roll_back(self, undone: Callable[[], None]) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
            undone()

    def rebuild(self) -> None:
        """Write the file anew, without what was deleted from it, and empty the log beside it.

        Raises UserError while another process reads an earlier state: until it ends, the log holds that state.
        """
        try:
            self.connection.execute("VACUUM")
            busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            raise explained(error, self.path) from error
        if busy:
            raise UserError(
                f"another process reads {self.path}: what was deleted is still in its log; end it, ask again"
            )

    def close(self) -> None:
        """Close the file; a writer first moves what it committed into it, so that a copy of that one file is whole.

        SQLite does so only for the last one to close, and who may only read cannot: a reader that closes later would
        leave all commits in the log beside the file. A reader in the midst of a read keeps its log, and nothing waits.
        """
        with self.lock:
            if self.writable:
                with suppress(sqlite3.OperationalError):  # another one writes: whoever closes last does it
                    self.connection.execute("PRAGMA busy_timeout = 0")
                    self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.close()
