"""Copy tables of a PostgreSQL database to Parquet files in a folder, which ingest then reads.

One read-only transaction with snapshot isolation reads all tables as of one moment. Rows are streamed, so memory does
not grow with a table. A password comes from PGPASSWORD or libpq's password file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq

from wardround.core import Progress, Reporter, UserError, import_extra, private_folder, silent, write_atomically
from wardround.records.specs.spec import SourceSpec

SNAPSHOT = "snapshot.json"
"""Written last: the facts of the copy. A folder without it is copied again."""
_AS_THEY_ARE = (
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "boolean",
    "text",
    "character varying",
)
_MAY_BE_INFINITE = ("date", "timestamp without time zone", "timestamp with time zone")
_READ_ONLY = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_COLUMNS = (
    "SELECT table_name, column_name, "
    "CASE WHEN data_type = 'numeric' AND numeric_scale = 0 THEN 'whole numeric' ELSE data_type END "
    "FROM information_schema.columns "
    "WHERE table_schema = $1 ORDER BY table_name, ordinal_position"
)
_BATCH_BYTES = "4194304"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database's address (``postgresql://user@host:port/name``, without a password) and the schema of its tables."""

    url: str
    schema: str = "public"

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("postgresql", "postgres"):
            raise UserError("a database's address begins with postgresql://")
        if parts.password is not None or "password=" in parts.query:
            raise UserError("put no password into the address: set PGPASSWORD, or write it into ~/.pgpass")


def copy_tables(spec: SourceSpec, database: Database, out: Path, *, report: Reporter = silent) -> Mapping[str, int]:
    """Copy the tables and dictionaries of a source into ``out``; return their numbers of rows by name.

    A finished copy of the same database is kept. UserError: no connection, or no table of the source.
    """
    finished = _finished(out, database)
    if finished is not None:
        return finished
    shutil.rmtree(out, ignore_errors=True)
    private_folder(out)
    with _reading(database) as cursor:
        tables = _known(spec, cursor, database)
        rows = {name: _copy(cursor, database, name, tables[name], out, report) for name in tables}
    facts = {"database": database.url, "schema": database.schema, "rows": rows}
    write_atomically(out / SNAPSHOT, json.dumps(facts, indent=1) + "\n")
    return rows


def _finished(out: Path, database: Database) -> Mapping[str, int] | None:
    if not (out / SNAPSHOT).exists():
        return None
    facts = json.loads((out / SNAPSHOT).read_text(encoding="utf-8"))
    if (facts["database"], facts["schema"]) != (database.url, database.schema):
        raise UserError(f"{out} holds tables of another database: delete it, or name another store")
    rows: Mapping[str, int] = facts["rows"]
    return rows


@contextmanager
def _reading(database: Database) -> Iterator[Any]:
    postgresql = import_extra("adbc_driver_postgresql.dbapi", "postgres", what="a database")
    try:
        with postgresql.connect(database.url) as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES})
            cursor.execute(_READ_ONLY)
            yield cursor
            connection.rollback()
    except postgresql.Error as error:
        message = " ".join(str(error).split())
        raise UserError(f"the database could not be read: {message}") from None


def _known(spec: SourceSpec, cursor: Any, database: Database) -> dict[str, list[tuple[str, str]]]:
    """Return columns and types of each table of the source, by the table's name in the database."""
    paths = [table.path for table in spec.tables.values()]
    paths += [path for dictionary in spec.dictionaries.values() for path in (dictionary.path, *dictionary.also)]
    wanted = {PurePosixPath(path).name.casefold() for path in paths}
    cursor.execute(_COLUMNS, (database.schema,))
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in cursor.fetchall():
        if table.casefold() in wanted:
            found.setdefault(table, []).append((column, kind))
    if not found:
        example = ", ".join(sorted(wanted)[:3])
        raise UserError(f"the schema {database.schema!r} holds no table of {spec.name!r} (such as {example}): --schema")
    return found


def _copy(
    cursor: Any, database: Database, table: str, columns: Sequence[tuple[str, str]], out: Path, report: Reporter
) -> int:
    chosen = ", ".join(f"{_selected(column, kind)} AS {_quoted(column)}" for column, kind in columns)
    cursor.execute(f"SELECT {chosen} FROM {_quoted(database.schema)}.{_quoted(table)}")  # names are quoted
    batches = cursor.fetch_record_batch()
    rows = 0
    with pq.ParquetWriter(out / f"{table}.parquet", batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
            report(Progress(label=f"copying {table}", done=rows, unit="rows"))
    return rows


def _selected(column: str, kind: str) -> str:
    """Return the SQL of a column: numerics as in CSV; types unknown to Arrow and whole numerics as PostgreSQL's text
    (an identifier of 19 digits is no float). ``infinity`` is an empty cell: no end is known."""
    if kind == "numeric":
        return f"{_quoted(column)}::double precision"
    if kind in _MAY_BE_INFINITE:
        return f"CASE WHEN isfinite({_quoted(column)}) THEN {_quoted(column)} END"
    return _quoted(column) if kind in _AS_THEY_ARE else f"{_quoted(column)}::text"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
