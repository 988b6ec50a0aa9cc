"""A stream read whole: rows of its ledger against their seals, lines that were told against their checksums."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from wardround.core import UserError, count_broken_seals, register_seals, sealed_tables
from wardround.stream.ledger import make_tables
from wardround.stream.ledger_reading import LedgerReading
from wardround.stream.quarantine import QUARANTINE, is_as_set_aside
from wardround.stream.told import is_as_told
from wardround.stream.watching import LEDGER, TOLD, open_ledger


def damage_of_stream(folder: Path) -> list[str]:
    """Return what is damaged in a stream's folder, a line each; nothing where all is as it was written."""
    path = folder / LEDGER
    try:
        with closing(open_ledger(path)) as connection:
            connection.execute("BEGIN")
            ledger = LedgerReading(connection)
            found = [*_of_ledger(path, connection), *_of_told(folder / TOLD, ledger.length)]
            if not is_as_set_aside(folder / QUARANTINE, ledger):
                found.append(f"{folder / QUARANTINE} is not what the ledger says")
            return found
    except (UserError, sqlite3.Error) as error:
        return [f"{path} cannot be read whole: {error}"]


def _of_ledger(path: Path, connection: sqlite3.Connection) -> Iterator[str]:
    for name, columns in sealed_tables(connection):
        broken = count_broken_seals(connection, name, columns)
        if broken:
            yield f"{path}: {broken:,} rows of {name} are not as they were written"
    if _form(connection) != _form_of_a_new_one():
        yield f"{path}: its tables are not those of a ledger"
    whole = [text for (text,) in connection.execute("PRAGMA integrity_check(5)")]
    if whole != ["ok"]:
        yield f"{path}: its pages are damaged: {'; '.join(whole)}"


def _form(connection: sqlite3.Connection) -> list[tuple[str, str | None]]:
    return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def _form_of_a_new_one() -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        register_seals(connection)
        make_tables(connection)
        return _form(connection)


def _of_told(path: Path, committed: int) -> Iterator[str]:
    """What was committed is looked at; of that a kill may have kept the end from being written, and no more."""
    ends = broken = 0
    with path.open("rb") as file:
        for line in file:
            ends += len(line)
            is_cut = not line.endswith(b"\n") and ends < committed
            broken += ends <= committed and not is_cut and not is_as_told(line)
    if broken:
        yield f"{path}: {broken:,} lines are not as they were told"
