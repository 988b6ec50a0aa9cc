"""SQLite files of ours: opened, checked, refused in one line, with a checksum in every row.

Logs, queues, banks, ledgers and vector caches each declare a :class:`DatabaseFormat`. What a model's SQL may do is
decided elsewhere (`tools/sql_gate.py`).
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import msgspec

from wardround.core.errors import UserError
from wardround.core.files import private_file, private_folder

_encode = msgspec.msgpack.Encoder().encode
_CHECKSUM = "row_seal"
_COLUMN = "seal"
_TABLE = re.compile(r"\bCREATE TABLE (\w+) ?\(")
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of Python's sqlite3; the latter where a damaged name or text is not UTF-8."""
_AGAIN_SECONDS = 0.005
_DAMAGED = ("not a database", "malformed", "no such table")
_SCHEMA = "CREATE TABLE schema (version INTEGER NOT NULL, application TEXT NOT NULL)"


def _nothing(_connection: sqlite3.Connection) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFormat:
    """A kind of SQLite file that we write.

    Its table ``schema`` holds the version of the format and the application that wrote it. ``tables``: CREATE
    statements, parted by ``;`` and a new line; each row of their tables holds a checksum. ``prepare`` readies each
    connection. ``is_durable``: a commit is on the disk before it returns; otherwise a power cut may take the last ones.
    """

    name: str
    application: str
    tables: str
    if_damaged: str
    if_other_version: str
    made_by: str = ""
    tables_without_checksums: str = ""
    version: int = 1
    timeout_seconds: float = 30.0
    is_durable: bool = False
    makes_folder: bool = False
    for_threads: bool = False
    prepare: Callable[[sqlite3.Connection], object] = _nothing

    def open(
        self,
        path: Path,
        *,
        several_machines: bool | None = False,
        fill: Callable[[sqlite3.Connection], object] = _nothing,
    ) -> sqlite3.Connection:
        """Open or make a file to write. Raises UserError when it is something else or cannot be written.

        ``several_machines``: others than this one use it meanwhile, so it takes SQLite's rollback mode instead of WAL;
        None keeps the mode of a file that exists. ``fill`` writes the first rows of a new file.
        """
        try:
            if self.makes_folder:
                private_folder(path.parent)
            private_file(path)
            connection = self._connect(str(path))
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"cannot write the {self.name} {path}: {error}; check the folder and its permissions"
            ) from error
        with self.errors(path), _closed_on_error(connection):
            if several_machines is not None or not path.stat().st_size:
                self._await_journal(connection, several_machines=bool(several_machines))
            connection.execute(f"PRAGMA synchronous={'FULL' if self.is_durable else 'NORMAL'}")
            if not has_tables(connection):
                self._make(connection, fill)
            self._check(connection, path)
        return connection

    def open_unchanged(self, path: Path) -> sqlite3.Connection:
        """Open a file without changing it, also while it is being written and also in a folder that nobody may write.

        There SQLite has no room for its side files: the file is then read as it stands, if it is whole. A file that a
        loss of power left in the midst of a change is read as before that change, from a copy: only its next writer may
        undo the change in the file itself.
        """
        if not path.is_file():
            raise UserError(f"no {self.name} at {path}" + (f"; {self.made_by}" if self.made_by else ""))
        uri = path.resolve().as_uri()
        with self.errors(path):
            try:
                return self._checked(self._connect(f"{uri}?mode=ro"), path)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname == "SQLITE_READONLY_ROLLBACK":
                    return self._checked(self._rolled_back(path), path)
                must_be_complete(path)
                return self._checked(self._connect(f"{uri}?immutable=1"), path)

    def settle(self, path: Path) -> None:
        """Bring into a file what a writer that is gone left beside it; another one may write to it."""
        with self.errors(path), closing(self._connect(f"{path.resolve().as_uri()}?mode=rw")) as connection:
            has_tables(connection)

    def damage(self, path: Path, look: Callable[[sqlite3.Connection], Iterable[str]] = lambda _: ()) -> list[str]:
        """Return what is damaged in a file, a line each; ``look`` finds what only those of this format can see."""
        try:
            with closing(self.open_unchanged(path)) as connection, self.errors(path):
                return [f"{path}: {line}" for line in (*look(connection), *damage_lines(connection))]
        except UserError as error:
            return [str(error)]

    def in_memory(self) -> sqlite3.Connection:
        """Return an empty database of this format that is in no file."""
        connection = self._connect(":memory:")
        self._make(connection, _nothing)
        return connection

    @contextmanager
    def errors(self, path: Path) -> Iterator[None]:
        """Turn SQLite's errors of a file into one line for a person (UserError)."""
        try:
            yield
        except _FAULTS as error:
            raise UserError(self._explained(error, path)) from error

    def _explained(self, error: Exception, path: Path) -> str:
        text = str(error)
        if "full" in text or "I/O" in text:
            why = "the disk is full" if "full" in text else text
            then = "free some space and run the same command again, it continues where it was"
            return f"{why}: {path} cannot grow; {then}"
        if "locked" in text:
            seconds = f"{self.timeout_seconds:g}"
            return f"another process has locked {path} for {seconds} s; end it, or name another file"
        if isinstance(error, UnicodeDecodeError) or any(word in text for word in _DAMAGED):
            return f"{path} is not {self._a_name}, or is damaged ({text}); {self.if_damaged}"
        return f"cannot use the {self.name} {path}: {text}"

    @property
    def _a_name(self) -> str:
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    def _connect(self, target: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            target,
            uri=target.startswith("file:"),
            isolation_level=None,
            timeout=self.timeout_seconds,
            check_same_thread=not self.for_threads,
        )
        register_seals(connection)
        return connection

    def _await_journal(self, connection: sqlite3.Connection, *, several_machines: bool) -> None:
        """Set the journal's mode. Where another process makes the file just now, SQLite refuses that at once, whatever
        its timeout, so it is waited for here."""
        until = time.monotonic() + self.timeout_seconds
        while True:
            try:
                return set_journal(connection, several_machines=several_machines)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= until:
                    raise
            time.sleep(_AGAIN_SECONDS)

    def _rolled_back(self, path: Path) -> sqlite3.Connection:
        """Return a copy in memory of a file, as before the change that a loss of power cut off."""
        with TemporaryDirectory(prefix="wardround-") as scratch:
            copy = Path(scratch) / path.name
            for ending in ("", "-journal"):
                shutil.copyfile(path.with_name(path.name + ending), copy.with_name(copy.name + ending))
            with closing(sqlite3.connect(copy)) as interrupted:
                has_tables(interrupted)  # SQLite undoes the change before it reads
                restored = self._connect(":memory:")
                interrupted.backup(restored)
        return restored

    def _make(self, connection: sqlite3.Connection, fill: Callable[[sqlite3.Connection], object]) -> None:
        with transaction(connection):
            if has_tables(connection):  # another process has just made them
                return
            connection.execute(_SCHEMA)
            for statement in (*with_row_seals(self.tables).split(";\n"), *self.tables_without_checksums.split(";\n")):
                connection.execute(statement)
            connection.execute("INSERT INTO schema VALUES (?, ?)", (self.version, self.application))
            fill(connection)

    def _checked(self, connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
        with _closed_on_error(connection):
            self._check(connection, path)
        return connection

    def _check(self, connection: sqlite3.Connection, path: Path) -> None:
        row = connection.execute("SELECT version, application FROM schema").fetchone()
        if row is None or row[1] != self.application:
            raise UserError(f"{path} is not {self._a_name} of wardround; name another file")
        if row[0] != self.version:
            raise UserError(
                f"{path} has {self.name} schema {row[0]}, this wardround reads {self.version}: {self.if_other_version}"
            )
        self.prepare(connection)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything that is written inside at once, or nothing of it.

    The lock is taken at the start, so that who comes to a busy file waits instead of failing.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether a database has any table yet."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def set_journal(connection: sqlite3.Connection, *, several_machines: bool) -> None:
    """Choose SQLite's rollback mode, which needs only locks of a shared folder, or WAL, which needs one machine."""
    connection.execute(f"PRAGMA journal_mode={'DELETE' if several_machines else 'WAL'}")


def is_for_several_machines(connection: sqlite3.Connection) -> bool:
    """Whether a file is in SQLite's rollback mode."""
    return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal")


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Move what was committed from the side file into the file; False where another process reads an earlier state.

    Raises sqlite3.OperationalError where another process writes.
    """
    return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect to a database of any kind, without checking it and without changing it."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def must_be_complete(path: Path) -> None:
    """Refuse a database with commits still in its side file: opened as immutable it would silently lack them."""
    for ending in ("-wal", "-journal"):
        side = path.with_name(path.name + ending)
        if side.exists() and side.stat().st_size:
            raise UserError(
                f"{side} holds commits that cannot be read in place; copy the folder to where you may write"
            )


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except (*_FAULTS, UserError):
        connection.close()
        raise


# A checksum in every row, written by SQLite itself in a generated column, so that a flipped bit is seen when the row is
# read. It finds damage, not forgery: whoever can write the file can compute it again.


@cache
def with_row_seals(statements: str) -> str:
    """Return CREATE TABLE statements, parted by ``;``, in which every table has a checksum of its row."""
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.executescript(statements)
        columns = {
            name: [row[1] for row in scratch.execute(f"PRAGMA table_info({name})")]
            for (name,) in scratch.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }

    def with_seal(found: re.Match[str]) -> str:
        seal = f"{_CHECKSUM}({', '.join(columns[found[1]])})"
        return f"{found[0]}{_COLUMN} INTEGER GENERATED ALWAYS AS ({seal}) STORED, "

    return _TABLE.sub(with_seal, statements)


def register_seals(connection: sqlite3.Connection) -> None:
    """Let a connection write tables with checksums and check them."""
    connection.create_function(_CHECKSUM, -1, row_seal, deterministic=True)


def row_seal(*values: Any) -> int:
    """Return the CRC-32 of a row's values, as SQLite stores them (None, int, float, str, bytes), in MessagePack."""
    return crc32(_encode(values))


def sealed_tables(connection: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    """Yield every table that has checksums, with the columns that they cover."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    for (name,) in names:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")]
        if _COLUMN in columns:
            yield name, [column for column in columns if column != _COLUMN]


def must_be_sealed(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], where: str = "", values: Sequence[Any] = ()
) -> None:
    """Raise UserError where a row that is about to be read is not as it was written."""
    _refuse(table, _count_broken(connection, table, columns, where, values))


def sealed_rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], where: str, values: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Return rows that are as they were written, sorted, their seal behind their columns; no other statement may run.

    A function takes the rows: a cursor fetches them in twice the time, a lock and a call for each value.
    """
    rows: list[tuple[Any, ...]] = []
    connection.create_function("take_row", -1, lambda *row: rows.append(row))
    taken = f"take_row({', '.join(columns)}, {_COLUMN})"
    connection.execute(f"SELECT count(*) FROM {table} WHERE {where} AND {taken}", values).fetchone()
    _refuse(table, sum(crc32(_encode(row[:-1])) != row[-1] for row in rows))
    rows.sort()
    return rows


def _refuse(table: str, broken: int) -> None:
    if broken:
        raise UserError(f"the file is damaged: {broken:,} rows of its table {table} are not as they were written")


def broken_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many rows are not as they were written, by table."""
    return {table: _count_broken(connection, table, columns) for table, columns in sealed_tables(connection)}


def broken_pages(connection: sqlite3.Connection) -> list[str]:
    """Return what SQLite finds wrong with the pages of a file, at most a hundred faults."""
    return [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]


def damage_lines(connection: sqlite3.Connection) -> list[str]:
    """Return what is damaged in a database, a line each."""
    rows = broken_rows(connection).items()
    lines = [f"{count:,} rows of {table} are not as they were written" for table, count in rows if count]
    faults = broken_pages(connection)
    return lines + ([f"its pages are damaged: {'; '.join(faults[:5])}"] if faults else [])


def _count_broken(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], where: str = "", values: Sequence[Any] = ()
) -> int:
    query = f"SELECT count(*) FROM {table} WHERE {_CHECKSUM}({', '.join(columns)}) IS NOT {_COLUMN} {where}"
    return int(connection.execute(query, values).fetchone()[0])
