"""What a stream has taken and told, in one SQLite file: a commit holds lines, what is told and the source's offsets.

The file of what is told is cut to the length that was committed, and what a kill kept from being written is written
again: it is the same, byte for byte, as if nothing had happened.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from wardround.core import UserError

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE line (number INTEGER PRIMARY KEY, subject INTEGER NOT NULL, hour INTEGER NOT NULL, text BLOB NOT NULL);
CREATE INDEX line_subject ON line (subject, number);
CREATE TABLE told (number INTEGER PRIMARY KEY, ends INTEGER NOT NULL, text BLOB NOT NULL);
CREATE TABLE source (file TEXT PRIMARY KEY, offset INTEGER NOT NULL);
CREATE TABLE refused (file TEXT NOT NULL, ends INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_KEPT_TOLD = 4_000
"""So many told lines stay in the ledger after they were written: the file may have lost its end with the power."""
LoggedLine = tuple[int, int, bytes]
"""Subject, hour and text."""


class StreamLedger:
    """The ledger of one stream. ``about`` says what it is of: another source or partition is refused (UserError)."""

    def __init__(self, path: Path, about: Mapping[str, str]) -> None:
        fresh = not path.exists()
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=NORMAL")
        if fresh or not self._file.execute("SELECT 1 FROM sqlite_master WHERE name = 'fact'").fetchone():
            self._make(about)
        self._check(path, about)
        self.lines = int(self._one("SELECT COALESCE(MAX(number), 0) FROM line"))
        self.told = int(self._one("SELECT COALESCE(MAX(number), 0) FROM told"))
        self.length = int(self._one("SELECT COALESCE(MAX(ends), 0) FROM told"))
        self.offsets: dict[str, int] = dict(self._file.execute("SELECT file, offset FROM source"))

    def _make(self, about: Mapping[str, str]) -> None:
        facts = {**about, "schema_version": str(SCHEMA_VERSION), "finished": "no"}
        self._file.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.strip().split(";\n"):
            self._file.execute(statement)
        self._file.executemany("INSERT INTO fact VALUES (?, ?)", facts.items())
        self._file.execute("COMMIT")

    def _check(self, path: Path, about: Mapping[str, str]) -> None:
        facts = dict(self._file.execute("SELECT name, value FROM fact"))
        for name, value in {**about, "schema_version": str(SCHEMA_VERSION)}.items():
            if facts.get(name) != value:
                raise UserError(
                    f"{path} is of a stream with {name} {facts.get(name)}, not {value}; choose another folder"
                )
        self.finished = facts["finished"] == "yes"

    def _one(self, query: str) -> int:
        return int(self._file.execute(query).fetchone()[0])

    def commit(
        self,
        lines: Sequence[LoggedLine],
        told: Sequence[bytes],
        offsets: Mapping[str, int],
        refused: Iterable[tuple[str, int, str]],
        *,
        finished: bool = False,
    ) -> None:
        """Keep what was taken and told, and how far the source was read: all of it or nothing."""
        number, count, length = self.lines, self.told, self.length
        rows = []
        for text in told:
            count, length = count + 1, length + len(text)
            rows.append((count, length, text))
        self._file.execute("BEGIN IMMEDIATE")
        numbered = ((number + place, *line) for place, line in enumerate(lines, 1))
        self._file.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", numbered)
        self._file.executemany("INSERT INTO told VALUES (?, ?, ?)", rows)
        self._file.executemany("INSERT OR REPLACE INTO source VALUES (?, ?)", offsets.items())
        self._file.executemany("INSERT INTO refused VALUES (?, ?, ?)", refused)
        if finished:
            self._file.execute("UPDATE fact SET value = 'yes' WHERE name = 'finished'")
        self._file.execute("COMMIT")
        self.lines, self.told, self.length = number + len(lines), count, length
        self.offsets.update(offsets)
        self.finished = self.finished or finished

    def every_line(self) -> Iterator[LoggedLine]:
        """Yield all lines, in order."""
        return iter(self._file.execute("SELECT subject, hour, text FROM line ORDER BY number"))

    def lines_of(self, subject: int, limit: int | None = None) -> list[tuple[int, bytes]]:
        """Return hour and text of one subject's lines, in order; of the first ``limit`` lines of all, if given."""
        query = "SELECT hour, text FROM line WHERE subject = ? AND number <= ? ORDER BY number"
        return self._file.execute(query, (subject, self.lines if limit is None else limit)).fetchall()

    def told_after(self, length: int) -> Iterator[tuple[int, bytes]]:
        """Yield what was told and ends after a length of the file: where it ends, and its text."""
        return iter(self._file.execute("SELECT ends, text FROM told WHERE ends > ? ORDER BY number", (length,)))

    def forget_told(self) -> None:
        """Drop what was told long ago; the file must be on the disk."""
        self._file.execute("DELETE FROM told WHERE number <= ?", (self.told - _KEPT_TOLD,))

    @property
    def refused(self) -> int:
        """How many lines could not be read."""
        return self._one("SELECT COUNT(*) FROM refused")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ToldFile:
    """The file of what is told. Opened, it is as long as the ledger says, whatever a kill left of it."""

    def __init__(self, path: Path, ledger: StreamLedger) -> None:
        self._file = path.open("r+b" if path.exists() else "w+b")
        size = min(self._file.seek(0, os.SEEK_END), ledger.length)
        for ends, text in ledger.told_after(size):
            self._file.seek(ends - len(text))
            self._file.write(text)
        self._file.truncate(ledger.length)
        self._file.seek(ledger.length)
        self._file.flush()

    def append(self, told: Iterable[bytes]) -> None:
        """Write what was committed."""
        self._file.write(b"".join(told))
        self._file.flush()

    def sync(self) -> None:
        """See it onto the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, seen onto the disk."""
        self.sync()
        self._file.close()
