"""Files: private folders, atomic writes, SQLite files, a checksum in every row."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import msgspec

from wardround.core.errors import UserError

# Writing small files whole.


def write_atomically(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a file so that a reader sees the old one or the new one, never a half.

    ``durable``: it is on the disk when this returns, its name too, so that a power cut leaves one of the two as well;
    what can be made again at any time does without.
    """
    scratch = path.with_name(path.name + ".tmp")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(scratch, path)
    if durable:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """See the names in a folder onto the disk, where the system can open one."""
    try:
        folder = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sync_tree(path: Path) -> None:
    """See everything under a folder onto the disk, before it is given its name."""
    for file in sorted(path.rglob("*")):
        if file.is_dir():
            sync_folder(file)
        else:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
    sync_folder(path)


def this_boot() -> str:
    """Name this run of the machine, from its start on, where the system tells it: what was written before it and not
    synced may be gone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_read_only(error: OSError) -> bool:
    """Whether an error says that one may not write there, rather than that writing went wrong."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


# Who may read what wardround makes: its owner, or with a word also the group. Patient data is never made for all.
#
# Folders are made through :func:`private_folder`, which nobody else may enter, whatever the umask. The command line
# calls :func:`keep_private` first, so that every file and folder of the process, whoever makes it (SQLite, Arrow), is
# private.


_OWNER, _GROUP = 0o077, 0o007
"""Umasks: what is kept from others."""


@contextmanager
def keep_private(*, share_group: bool = False) -> Iterator[None]:
    """For a while, make what this process makes 0700 and 0600, with ``share_group`` 0770 and 0660."""
    before = os.umask(_GROUP if share_group else _OWNER)
    try:
        yield
    finally:
        os.umask(before)


def private_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there; a new one is for its owner (and group, where shared)."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(exist_ok=True)
    path.chmod(0o770 if umask() == _GROUP else 0o700)


def must_be_new(folder: Path, *, otherwise: str = "choose another one") -> None:
    """Raise UserError where a folder that is about to be written holds something, or is a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: the folder is not empty; {otherwise}")


def private_file(path: Path) -> None:
    """Make an empty file for its owner (and group, where shared), unless it is there; SQLite makes its own readable.

    Where it cannot be made, whoever opens it next says so.
    """
    with suppress(OSError):
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.fchmod(file, 0o660 if umask() == _GROUP else 0o600)
        os.close(file)


def umask() -> int:
    """Return the mask of new files; it can only be read by setting it, so for a moment it is the strictest."""
    current = os.umask(_OWNER)
    os.umask(current)
    return current


# A checksum in every row of a SQLite table, written by SQLite itself, so that a flipped bit is seen when it is read.
#
# ``with_row_seals`` gives tables a generated column: whatever writes a row (an insert, an update, an upsert) seals it.
# It finds damage, not forgery: whoever can write the file can seal it again.


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


# SQLite files of ours: opened to be written or only read, closed where that fails, with a line for a person.


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
    stands, if it is whole. A file that a loss of power left in the midst of a change is read as before that change,
    from a copy: only its next writer may undo the change in the file itself.
    """
    uri = path.resolve().as_uri()
    try:
        return _prepared(connect(f"{uri}?mode=ro"), prepare)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname == "SQLITE_READONLY_ROLLBACK":
            return _open_rolled_back(path, connect, prepare, explained)
        must_be_complete(path)
        return set_up_database(connect(f"{uri}?immutable=1"), path, prepare, explained)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _open_rolled_back(
    path: Path,
    connect: Callable[[str], sqlite3.Connection],
    prepare: Callable[[sqlite3.Connection], object],
    explained: Explained,
) -> sqlite3.Connection:
    with TemporaryDirectory(prefix="wardround-") as scratch:
        copy = Path(scratch) / path.name
        for ending in ("", "-journal"):
            shutil.copyfile(path.with_name(path.name + ending), copy.with_name(copy.name + ending))
        with closing(sqlite3.connect(copy)) as undoing:
            undoing.execute("SELECT count(*) FROM sqlite_master")  # SQLite undoes the change before it reads
            held = connect("file::memory:")
            undoing.backup(held)
    return set_up_database(held, path, prepare, explained)


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
