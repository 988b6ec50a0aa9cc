"""The SQLite file of a bank: schema, connection, transactions."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from wardround.core import (
    DatabaseFormat,
    UserError,
    broken_pages,
    broken_rows,
    checkpoint,
    connect_read_only,
    transaction,
)
from wardround.core.sqlite import row_seal
from wardround.memory.words import show_places

# The SQLite file of a bank: its tables, its version, and clear errors when it is not one.
#
# ``revision`` is append-only and its numbers are the bank's clock: the state at any past number can be rebuilt. Text,
# score and state of an experience are those of its last revision; ``experience`` holds what never changes. ``step``
# names the ticks of the same clock at which something else was written. ``entry`` says of each revision what holds
# from it on, ``until`` the next one of the same experience. What is in ``entry``, ``words``, ``term`` and ``mention``
# follows from the rest. Every row holds a checksum of itself (`core/sqlite.py`), which readers look at in rows of
# ``entry``, ``key``, ``revision`` and ``experience``, ``memory audit`` and ``audit files`` in all.
#
# What is promised: what ``add``, ``revise`` and the others returned for survives a kill and a power cut (WAL with
# ``synchronous=FULL``: every commit is on the disk before it returns).


_MAPPED = f"PRAGMA mmap_size = {1024**3}"
"""Pages are read where the system holds them: SQLite's own cache is emptied by every commit of another writer."""

_TABLES = """
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
CREATE INDEX revision_by ON revision (subject, experience);
CREATE TABLE entry (
    number INTEGER PRIMARY KEY REFERENCES revision, until INTEGER NOT NULL,
    experience TEXT NOT NULL REFERENCES experience, age INTEGER NOT NULL, kind TEXT NOT NULL, task TEXT NOT NULL,
    tool TEXT NOT NULL, key INTEGER REFERENCES key, live INTEGER NOT NULL, score REAL,
    subjects TEXT NOT NULL, splits TEXT NOT NULL
);
CREATE INDEX entry_of ON entry (experience, until, number, live);
CREATE INDEX entry_of_kind ON entry (kind, splits, task, tool, key, until, number) WHERE live;
CREATE INDEX entry_of_key ON entry (key, number, until) WHERE key IS NOT NULL;
CREATE INDEX entry_retired ON entry (until, number, experience) WHERE NOT live;
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
"""``quality`` and ``edge`` contain what was set. ``outcome`` and ``met`` contain the outcomes of episodes, from which
qualities and weights are computed. ``withdrawal`` and ``undone`` list what no longer counts. A step names the sample
that caused it and the episode that was learnt from, once. A snapshot is a revision with a name. A gate is the verdict
of held-out evidence on the content of a revision, by task. A tombstone marks what was forgotten by a keyed hash that
reveals nothing."""


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(_MAPPED)
    show_places(connection)
    connection.create_function("names", 2, _names, deterministic=True)


def _names(text: str, name: str) -> bool:
    """Return whether a text names something, and not only something longer: ``stream-2`` is not in ``stream-20``."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


BANK_FORMAT = DatabaseFormat(
    name="bank",
    application="wardround-bank",
    tables=_TABLES,
    is_durable=True,
    makes_folder=True,
    for_threads=True,
    prepare=_prepare,
    made_by="`wardround memory evolve` makes one",
    if_damaged="name another file",
    if_other_version="build it again (wardround memory build, or evolve)",
)


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
    "entries that do not follow from the revisions": """
        SELECT count(*) FROM (
            SELECT number, experience, live, score, subject, split,
                lead(number, 1, 1 << 62) OVER (PARTITION BY experience ORDER BY number) AS until,
                first_value(number) OVER (PARTITION BY experience ORDER BY number) AS age
            FROM revision
        ) AS revision JOIN experience ON experience.id = revision.experience LEFT JOIN entry USING (number)
        WHERE (revision.until, revision.age, revision.experience, revision.live, revision.score)
            IS NOT (entry.until, entry.age, entry.experience, entry.live, entry.score)
            OR (experience.kind, experience.task, experience.tool, experience.key)
            IS NOT (entry.kind, entry.task, entry.tool, entry.key)
            OR revision.subject NOT IN (SELECT value FROM json_each(entry.subjects))
            OR revision.split NOT IN (SELECT value FROM json_each(entry.splits))
    """,
    "entries of no revision": "SELECT count(*) FROM entry WHERE number NOT IN (SELECT number FROM revision)",
    "edges that lead nowhere": """
        SELECT count(*) FROM edge
        WHERE source NOT IN (SELECT id FROM experience) OR target NOT IN (SELECT id FROM experience)
    """,
}
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_NOT_INDEXED = """
SELECT count(*) FROM revision
WHERE live AND number IN (SELECT max(number) FROM revision GROUP BY experience)
    AND number NOT IN (SELECT id FROM words_docsize)
"""


def damage(connection: sqlite3.Connection) -> dict[str, int]:
    """Return counts of what is wrong with a bank."""
    with closing(BANK_FORMAT.in_memory()) as empty:
        ours, found_here = (set(one.execute(_SCHEMA).fetchall()) for one in (empty, connection))
    found = {"faults that SQLite sees": len(broken_pages(connection))}
    found["tables, indexes and guards that are not as they were made"] = len(ours - found_here)
    found |= {
        f"rows of {table} that are not as they were written": count for table, count in broken_rows(connection).items()
    }
    found |= {name: connection.execute(query).fetchone()[0] for name, query in _DAMAGE.items()}
    found["texts missing in the index"] = connection.execute(_NOT_INDEXED).fetchone()[0]
    return found


def damage_of_bank(path: Path) -> dict[str, int] | None:
    """Return counts of what is wrong with the bank in a file; None if the file is another kind of database."""
    try:
        with BANK_FORMAT.errors(path), closing(connect_read_only(path)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'revision'").fetchone()[0]:
                return None
        with closing(BANK_FORMAT.open_unchanged(path)) as connection, BANK_FORMAT.errors(path):
            return damage(connection)
    except UserError as error:
        return {f"faults that end its reading ({error})": 1}


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
        """Return all rows of a query. Raises UserError in words for a person."""
        with BANK_FORMAT.errors(self.path):
            return self.connection.execute(query, values).fetchall()

    def setting(self, name: str) -> Any:
        """Return a setting of the bank; None if it was not set."""
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
        """Read everything inside from one view of the file, whatever others write meanwhile."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("COMMIT")

    @contextmanager
    def writing(self, *, undone: Callable[[], None]) -> Iterator[None]:
        """Commit everything written inside at once; ``undone`` is called where it was rolled back."""
        if not self.writable:
            raise UserError(f"{self.path} was opened for reading only")
        if self.connection.in_transaction:
            yield
            return
        try:
            with BANK_FORMAT.errors(self.path), transaction(self.connection):
                yield
        except BaseException:
            undone()
            raise

    def rebuild(self) -> None:
        """Write the file anew, without what was deleted from it, and empty the log beside it.

        Raises UserError while another process reads an earlier state: until it ends, the log holds that state.
        """
        with BANK_FORMAT.errors(self.path):
            self.connection.execute("VACUUM")
            is_whole = checkpoint(self.connection)
        if not is_whole:
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
                    checkpoint(self.connection)
            self.connection.close()


def checked(file: BankFile, table: str, row: Sequence[Any]) -> Sequence[Any]:
    """Return a row without its seal, which is its last value. Raises UserError if the row is not as it was written."""
    *values, seal = row
    if row_seal(*values) != seal:
        raise UserError(
            f"{file.path} is damaged: a row of its table {table} is not as it was written; `wardround memory audit` "
            "counts all that are"
        )
    return values
