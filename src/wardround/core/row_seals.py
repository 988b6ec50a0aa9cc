"""A checksum in every row of a SQLite table, written by SQLite itself, so that a flipped bit is seen when it is read.

``with_row_seals`` gives tables a generated column: whatever writes a row (an insert, an update, an upsert) seals it. It
finds damage, not forgery: whoever can write the file can seal it again.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from typing import Any
from zlib import crc32

import msgspec

from wardround.core.errors import UserError

_encode = msgspec.msgpack.Encoder().encode
_FUNCTION = "row_seal"
_COLUMN = "seal"
_TABLE = re.compile(r"\bCREATE TABLE (?:IF NOT EXISTS )?(?!schema\b)(\w+) ?\(")


@cache
def with_row_seals(statements: str) -> str:
    """Return CREATE TABLE statements, parted by ``;``, in which every table but ``schema`` has a seal."""
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.executescript(statements)
        columns = {
            name: [row[1] for row in scratch.execute(f"PRAGMA table_info({name})")]
            for (name,) in scratch.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }

    def with_seal(found: re.Match[str]) -> str:
        seal = f"{_FUNCTION}({', '.join(columns[found[1]])})"
        return f"{found[0]}{_COLUMN} INTEGER GENERATED ALWAYS AS ({seal}) STORED, "

    return _TABLE.sub(with_seal, statements)


def register_seals(connection: sqlite3.Connection) -> None:
    """Let a connection write sealed tables and check them."""
    connection.create_function(_FUNCTION, -1, row_seal, deterministic=True)


def row_seal(*values: Any) -> int:
    """Return the CRC-32 of a row's values, as SQLite stores them (None, int, float, str, bytes), in MessagePack."""
    return crc32(_encode(values))


def sealed_tables(connection: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    """Yield every table that has seals, with the columns that they seal."""
    names = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    for name in names:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")]
        if _COLUMN in columns:
            yield name, [column for column in columns if column != _COLUMN]


def count_broken_seals(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], where: str = "", values: Sequence[Any] = ()
) -> int:
    """Return how many rows of a table (of those that ``where`` names) are not as they were written."""
    query = f"SELECT count(*) FROM {table} WHERE {_FUNCTION}({', '.join(columns)}) IS NOT {_COLUMN} {where}"
    return int(connection.execute(query, values).fetchone()[0])


def must_be_sealed(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], where: str = "", values: Sequence[Any] = ()
) -> None:
    """Raise UserError where a row that is about to be read is not as it was written."""
    broken = count_broken_seals(connection, table, columns, where, values)
    if broken:
        raise UserError(f"the file is damaged: {broken:,} rows of its table {table} are not as they were written")
