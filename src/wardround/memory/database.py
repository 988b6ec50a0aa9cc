"""The SQLite file of a bank: its tables, its version, and clear errors when it is not one.

``revision`` is append-only and its numbers are the bank's clock: the state at any past number can be rebuilt. Text,
score and state of an experience are those of its last revision; ``experience`` holds what never changes. ``step``
names the ticks of the same clock at which only qualities or edges changed. What is in ``words``, ``term`` and
``mention`` follows from the rest and can be made again.

A new bank is made as schema 1 and grown, so that a grown file and a new one are alike.

What is promised: what ``add``, ``revise`` and the others returned for survives a kill and a power cut (WAL with
``synchronous=FULL``: every commit is on the disk before it returns).
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

from wardround.core import UserError, open_database_unchanged, private_file, private_folder, set_up_database
from wardround.memory.words import index_all, show_places

SCHEMA_VERSION = 4
_BUSY_SECONDS = 30.0
_MAPPED = f"PRAGMA mmap_size = {1024**3}"
"""Pages are read where the system holds them: SQLite's own cache is emptied by every commit of another writer."""

TABLES_1 = """
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


GROWTH_2 = """
ALTER TABLE experience ADD COLUMN task_type TEXT NOT NULL DEFAULT '';
ALTER TABLE experience ADD COLUMN structure TEXT NOT NULL DEFAULT '';
ALTER TABLE revision ADD COLUMN condition TEXT NOT NULL DEFAULT '';
ALTER TABLE revision ADD COLUMN exclusions TEXT NOT NULL DEFAULT '[]';
ALTER TABLE feedback ADD COLUMN episode TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX feedback_once ON feedback (episode, kind, experience) WHERE episode <> '';
CREATE TABLE step (number INTEGER PRIMARY KEY, reason TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE quality (
    experience TEXT NOT NULL REFERENCES experience, number INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (experience, number)
) WITHOUT ROWID;
CREATE INDEX quality_since ON quality (number);
CREATE TABLE edge (
    source TEXT NOT NULL REFERENCES experience, target TEXT NOT NULL REFERENCES experience, number INTEGER NOT NULL,
    live INTEGER NOT NULL, relation TEXT NOT NULL, weight REAL NOT NULL,
    entity REAL, structure REAL, synergy REAL, task REAL, PRIMARY KEY (source, target, number)
) WITHOUT ROWID;
CREATE TABLE alias (
    name TEXT NOT NULL, number INTEGER NOT NULL, entity TEXT NOT NULL, PRIMARY KEY (name, number)
) WITHOUT ROWID;
CREATE INDEX alias_of ON alias (entity);
CREATE TABLE mention (
    name TEXT NOT NULL, experience TEXT NOT NULL REFERENCES experience, PRIMARY KEY (name, experience)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (tokens, content='', tokenize='ascii');
CREATE TABLE term (term TEXT PRIMARY KEY, documents INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER quality_stays BEFORE UPDATE ON quality BEGIN SELECT RAISE(ABORT, 'qualities are append-only'); END;
CREATE TRIGGER edge_stays BEFORE UPDATE ON edge BEGIN SELECT RAISE(ABORT, 'edges are append-only'); END
"""
GROWTH_3 = """
CREATE TABLE moved (
    experience TEXT NOT NULL REFERENCES experience, number INTEGER NOT NULL, value REAL,
    PRIMARY KEY (experience, number)
) WITHOUT ROWID;
INSERT INTO moved SELECT experience, number, value FROM quality;
DROP TABLE quality;
ALTER TABLE moved RENAME TO quality;
CREATE INDEX quality_since ON quality (number);
CREATE TRIGGER quality_stays BEFORE UPDATE ON quality BEGIN SELECT RAISE(ABORT, 'qualities are append-only'); END;
ALTER TABLE step ADD COLUMN sample TEXT NOT NULL DEFAULT '';
CREATE TABLE tombstone (mark BLOB PRIMARY KEY, reason TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID
"""
"""A quality may be taken back (no value). A step names the sample that caused it. A tombstone marks what was
forgotten, by a keyed hash that says nothing."""
GROWTH_4 = """
ALTER TABLE edge ADD COLUMN phi REAL NOT NULL DEFAULT 0;
ALTER TABLE step ADD COLUMN episode TEXT NOT NULL DEFAULT '';
CREATE INDEX feedback_of ON feedback (experience);
CREATE INDEX edge_since ON edge (number);
CREATE UNIQUE INDEX step_once ON step (episode) WHERE episode <> '';
CREATE TABLE trial (
    experience TEXT NOT NULL REFERENCES experience, task TEXT NOT NULL, number INTEGER NOT NULL,
    shown INTEGER NOT NULL, shown_total REAL NOT NULL, shown_squares REAL NOT NULL,
    masked INTEGER NOT NULL, masked_total REAL NOT NULL, masked_squares REAL NOT NULL,
    PRIMARY KEY (experience, task, number)
) WITHOUT ROWID;
CREATE INDEX trial_since ON trial (number);
CREATE TRIGGER trial_stays BEFORE UPDATE ON trial BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;
CREATE TABLE snapshot (name TEXT PRIMARY KEY, number INTEGER NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE gate (
    number INTEGER NOT NULL, task TEXT NOT NULL, verdict TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (number, task)
) WITHOUT ROWID
"""
"""phi of an edge is what its outcomes have added up to. A step that learnt names its episode, once. A trial holds the
scores of the episodes of a task in which an experience was shown, and masked. A snapshot is a revision with a name; a
gate is what held-out evidence said of a revision for a task."""
_NO_TOMBSTONES = "CREATE TEMP TABLE tombstone (mark BLOB, reason TEXT, at TEXT)"
_AS_IF_GROWN = """
CREATE TEMP VIEW experience AS SELECT *, '' AS task_type, '' AS structure FROM main.experience;
CREATE TEMP VIEW revision AS SELECT *, '' AS condition, '[]' AS exclusions FROM main.revision;
CREATE TEMP VIEW feedback AS SELECT *, '' AS episode FROM main.feedback;
CREATE TEMP TABLE step (number INTEGER, reason TEXT, at TEXT, sample TEXT, episode TEXT);
CREATE TEMP TABLE quality (experience TEXT, number INTEGER, value REAL);
CREATE TEMP TABLE edge (
    source TEXT, target TEXT, number INTEGER, live INTEGER, relation TEXT, weight REAL, entity REAL, structure REAL,
    synergy REAL, task REAL, phi REAL
);
CREATE TEMP TABLE alias (name TEXT, number INTEGER, entity TEXT);
CREATE TEMP TABLE mention (name TEXT, experience TEXT);
CREATE TEMP TABLE term (term TEXT, documents INTEGER)
"""
_STEPS_AS_IF_LEARNING = {
    2: "CREATE TEMP VIEW step AS SELECT *, '' AS sample, '' AS episode FROM main.step",
    3: "CREATE TEMP VIEW step AS SELECT *, '' AS episode FROM main.step",
}
_EDGES_AS_IF_LEARNING = "CREATE TEMP VIEW edge AS SELECT *, 0.0 AS phi FROM main.edge"
_NO_TRIALS = """
CREATE TEMP TABLE trial (
    experience TEXT, task TEXT, number INTEGER, shown INTEGER, shown_total REAL, shown_squares REAL, masked INTEGER,
    masked_total REAL, masked_squares REAL
);
CREATE TEMP TABLE snapshot (name TEXT, number INTEGER, at TEXT);
CREATE TEMP TABLE gate (number INTEGER, task TEXT, verdict TEXT, at TEXT)
"""
"""A bank of schema 1 that may only be read looks like one of a later schema without anything new in it."""


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
        _run(connection, TABLES_1)
        connection.execute("INSERT INTO schema VALUES (1, 'wardround-bank')")
    _grow(connection, _check_version(connection, path))
    connection.execute("COMMIT")
    show_places(connection)


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a bank without changing it, also while it is being written and also in a read-only folder."""
    if not path.is_file():
        raise UserError(f"no bank at {path}; `wardround evolve` makes one")
    return open_database_unchanged(path, partial(_connect, uri=True), partial(_prepare_to_read, path=path), explained)


def _prepare_to_read(connection: sqlite3.Connection, *, path: Path) -> None:
    _show_as_grown(connection, _check_version(connection, path))
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
    found |= {name: connection.execute(query).fetchone()[0] for name, query in _DAMAGE.items()}
    if connection.execute("SELECT version FROM schema").fetchone()[0] >= 2:
        found["texts missing in the index"] = connection.execute(_NOT_INDEXED).fetchone()[0]
    return found


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


def _grow(connection: sqlite3.Connection, version: int) -> None:
    """Bring a file to the newest schema, inside the transaction that opens it."""
    if version < 2:
        _run(connection, GROWTH_2)
    if version < 3:
        _run(connection, GROWTH_3)
        index_all(connection)
    if version < 4:
        _run(connection, GROWTH_4)
        connection.execute("UPDATE schema SET version = ?", (SCHEMA_VERSION,))


def _show_as_grown(connection: sqlite3.Connection, version: int) -> None:
    """Let a file that may not be changed look like one of the newest schema."""
    if version < 2:
        _run(connection, _AS_IF_GROWN)
    elif version < 4:
        connection.execute(_STEPS_AS_IF_LEARNING[version])
        connection.execute(_EDGES_AS_IF_LEARNING)
    if version < 3:
        connection.execute(_NO_TOMBSTONES)
    if version < 4:
        _run(connection, _NO_TRIALS)


def _run(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        connection.execute(statement)


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    row = connection.execute("SELECT version, application FROM schema").fetchone()
    if row is None or row[1] != "wardround-bank":
        raise UserError(f"{path} is not a bank of experiences; name another file")
    if row[0] > SCHEMA_VERSION:
        raise UserError(f"{path} has bank schema {row[0]}, this wardround reads up to {SCHEMA_VERSION}; upgrade it")
    return int(row[0])
