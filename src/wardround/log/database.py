"""The SQLite file of a log: tables, columns, texts and pictures by hash."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.core import (
    DatabaseFormat,
    Message,
    Picture,
    ToolCall,
    Usage,
    UserError,
    connect_read_only,
    has_tables,
    must_be_sealed,
    sealed_rows,
    sealed_tables,
)
from wardround.log.rows import TABLE as KEPT_TABLE
from wardround.log.rows import USAGE_FIELDS, ToolRecord, Turn

# The pictures of a log: their bytes, once each, by the hash that messages name them by.


TABLE = "CREATE TABLE picture (hash BLOB PRIMARY KEY, media_type TEXT NOT NULL, data BLOB NOT NULL)"
INSERT = "INSERT OR IGNORE INTO picture VALUES (?, ?, ?)"


def row_of_picture(picture: Picture) -> tuple[bytes, str, bytes]:
    """Return the row of a picture."""
    return bytes.fromhex(picture.sha256), picture.media_type, picture.data


def read_picture(connection: sqlite3.Connection, sha256: str) -> bytes:
    """Return the bytes behind a hash; empty where the log has none. UserError: they are not as they were written."""
    row = connection.execute("SELECT data FROM picture WHERE hash = ?", (bytes.fromhex(sha256),)).fetchone()
    if row is not None and hashlib.sha256(row[0]).hexdigest() != sha256:
        raise UserError("a log is damaged: a picture in it is not as it was written")
    return b"" if row is None else bytes(row[0])


# The SQLite file of a log: its tables, its version, and clear errors when it is not one.
#
# ``body`` holds texts by their hash, ``message`` the tree: a node's hash names its whole path from the root. ``turn``
# and ``tool`` point into both. Everything content-addressed is written once, however many turns share it, and read
# against its hash; every other row holds a checksum of itself (`core/sqlite.py`), and a finished episode how many
# rows it has.


LOG_SUFFIX = ".episodes.sqlite"
"""The suffix of log files in a run folder."""
_ROLLBACK = b"\x01\x01"
ROW_COUNTS = " || ' ' || ".join(
    f"(SELECT count(*) FROM {table} WHERE {table}.episode = episode.key)" for table in ("turn", "tool", "note")
)
"""The number of an episode's turns, tool calls and notes."""

TABLES = """
CREATE TABLE body (hash BLOB PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE message (
    hash BLOB PRIMARY KEY, parent BLOB NOT NULL, role TEXT NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE episode (
    key TEXT PRIMARY KEY, facts TEXT NOT NULL, outcome TEXT, state TEXT NOT NULL, started TEXT NOT NULL, ended TEXT,
    row_counts TEXT
);
CREATE TABLE turn (
    episode TEXT NOT NULL, ordinal INTEGER NOT NULL, purpose TEXT NOT NULL,
    prompt_hash BLOB NOT NULL, reply_hash BLOB NOT NULL, request_digest TEXT NOT NULL,
    model TEXT NOT NULL, identity TEXT NOT NULL, finish TEXT NOT NULL,
    input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER, reasoning_tokens INTEGER, cost REAL,
    seconds REAL NOT NULL, attempts INTEGER NOT NULL, prompt_bytes INTEGER NOT NULL, prefix_bytes INTEGER NOT NULL,
    tools BLOB, settings BLOB NOT NULL, reasoning BLOB, token_logprobs TEXT, ended TEXT NOT NULL,
    PRIMARY KEY (episode, ordinal)
) WITHOUT ROWID;
CREATE TABLE tool (
    episode TEXT NOT NULL, turn INTEGER NOT NULL, n INTEGER NOT NULL, call_id TEXT NOT NULL, name TEXT NOT NULL,
    arguments TEXT NOT NULL, is_error INTEGER NOT NULL, seconds REAL NOT NULL, table_name TEXT,
    rows_total INTEGER, rows_shown INTEGER, row_ids TEXT NOT NULL, result BLOB NOT NULL, cursor TEXT,
    PRIMARY KEY (episode, turn, n)
) WITHOUT ROWID;
CREATE TABLE note (
    episode TEXT NOT NULL, n INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (episode, n)
) WITHOUT ROWID;
"""


LOG_FORMAT = DatabaseFormat(
    name="episode log",
    application="wardround",
    tables=TABLES + KEPT_TABLE,
    tables_without_checksums=TABLE,
    timeout_seconds=10.0,
    if_damaged="move it away to start a fresh one",
    if_other_version="run again with this one",
)


def has_begun(path: Path) -> bool:
    """Whether a log has its tables: a worker that is just starting, or was killed then, leaves a file without any."""
    if _is_left_in_the_switch(path):
        return False
    try:
        with closing(connect_read_only(path)) as connection:
            return has_tables(connection)
    except sqlite3.Error:
        return path.stat().st_size > 0


def _is_left_in_the_switch(path: Path) -> bool:
    """Whether the writer of a log was killed while it switched to WAL, which is before its first table: that leaves a
    rollback journal. SQLite would play it back, which nobody who only reads may. A log that stays in rollback mode has
    one whenever it is written, and says so in bytes 18 and 19."""
    if not path.with_name(path.name + "-journal").exists():
        return False
    with path.open("rb") as file:
        return file.read(20)[18:] != _ROLLBACK


def settle_logs(folder: Path) -> None:
    """Bring into every log of a folder what writers that are gone left beside it; others may write to theirs."""
    for path in sorted(folder.glob(f"*{LOG_SUFFIX}")):
        if any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal")):
            LOG_FORMAT.settle(path)


# Which columns make a turn and the record of a tool call, and texts by their hash.


TURN_COLUMNS = """
ordinal, purpose, prompt_hash, reply_hash, request_digest, model, identity, finish,
input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost, seconds, attempts, prompt_bytes, prefix_bytes,
tools, settings, turn.ended
"""
"""Those of :func:`turn_of`, in its order."""

TOOL_COLUMNS = """
turn, call_id, name, arguments, is_error, seconds, table_name, rows_total, rows_shown, cursor
"""
"""Those of :func:`record_of`, in its order, after the turn that asked for it."""


class Bodies:
    """Texts by hash; what turns share (tool schemas, settings) is fetched and decoded once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._decoded: dict[bytes, Any] = {}
        self._sealed = dict(sealed_tables(connection))

    def must_be_sealed(self, table: str, where: str, values: Sequence[Any]) -> None:
        """Raise UserError where rows of a table that are about to be read are not as they were written."""
        must_be_sealed(self.connection, table, self._sealed[table], where, values)

    def sealed_rows(self, table: str, where: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return rows with all columns and their seal, sorted by them. UserError: one is not as it was written."""
        return sealed_rows(self.connection, table, self._sealed[table], where, values)

    def text(self, digest: bytes | None) -> str | None:
        """Return a text; None for no hash. UserError: it is missing or damaged."""
        if digest is None:
            return None
        row = self.connection.execute("SELECT text FROM body WHERE hash = ?", (digest,)).fetchone()
        return checked(None if row is None else str(row[0]), digest)

    def decoded(self, digest: bytes) -> Any:
        """Return the value of a JSON text."""
        if digest not in self._decoded:
            self._decoded[digest] = json.loads(self.text(digest) or "null")
        return self._decoded[digest]


def checked(text: str | None, digest: bytes | None) -> str:
    """Return a text that has its hash. UserError: it has another or is missing, so the log is damaged."""
    must_have_hash(text.encode() if isinstance(text, str) else None, digest)
    return text or ""


def must_have_hash(text: bytes | None, digest: bytes | None) -> None:
    """Raise UserError where a text in UTF-8 has another hash or is missing."""
    if text is None or sha256(text).digest() != digest:
        raise UserError("a log is damaged: a text in it is not as it was written; `wardround audit files` says which")


def turn_of(
    columns: Sequence[Any],
    bodies: Bodies,
    *,
    reply: Message,
    results: tuple[ToolRecord, ...],
    prompt: tuple[Message, ...] = (),
    reasoning: str | None = None,
    token_logprobs: tuple[float, ...] | None = None,
) -> Turn:
    """Make a turn of its columns and of what lies elsewhere."""
    ordinal, purpose, prompt_hash, reply_hash, digest, model, identity, finish, *rest = columns
    given, read, cached, thought, cost, seconds, attempts, prompt_bytes, prefix_bytes, tools, settings, ended = rest
    counts = (given, read, cached, thought)
    return Turn(
        ordinal=ordinal,
        purpose=purpose,
        prompt=prompt,
        reply=reply,
        prompt_hash=prompt_hash.hex(),
        reply_hash=reply_hash.hex(),
        request_digest=digest,
        model=model,
        identity=identity,
        finish_reason=finish,
        usage=Usage(
            input_tokens=given or 0, output_tokens=read or 0, cached_tokens=cached or 0, reasoning_tokens=thought or 0
        ),
        unreported=tuple(name for name, count in zip(USAGE_FIELDS, counts, strict=True) if count is None)
        if None in counts
        else (),
        cost=cost,
        seconds=seconds,
        attempts=attempts,
        prompt_bytes=prompt_bytes,
        prefix_bytes=prefix_bytes,
        tools=() if tools is None else tuple(bodies.decoded(tools)),
        settings=bodies.decoded(settings),
        reasoning=reasoning,
        token_logprobs=token_logprobs,
        ended=ended,
        results=results,
    )


def record_of(columns: Sequence[Any], *, result: Message, row_ids: tuple[str, ...] = ()) -> ToolRecord:
    """Make a record of its columns, without its turn's, and of its result's message."""
    call_id, name, arguments, is_error, seconds, table, total, shown, cursor = columns
    return ToolRecord(
        call=ToolCall(id=call_id, name=name, arguments=arguments),
        result_text=result.content or "",
        is_error=bool(is_error),
        seconds=seconds,
        table=table,
        rows_total=total,
        rows_shown=shown,
        row_ids=row_ids,
        cursor=cursor,
        pictures=result.pictures,
    )
