"""What a stream has taken and told, in one SQLite file: a commit holds lines, what is told and the source's offsets.

Lines are only ever put at the end; a bundle says which of them are its own, so that a patient is found without an index
over lines. A snapshot is a patient after a closed bundle: with the bundles since, it gives the patient back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from wardround.core import UserError

SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE line (number INTEGER PRIMARY KEY, subject INTEGER NOT NULL, hour INTEGER NOT NULL, text BLOB NOT NULL);
CREATE TABLE bundle (subject INTEGER, hour INTEGER, first INTEGER NOT NULL, lines BLOB, PRIMARY KEY (subject, hour))
 WITHOUT ROWID;
CREATE INDEX open_bundle ON bundle (first) WHERE lines IS NULL;
CREATE TABLE snapshot (subject INTEGER PRIMARY KEY, hour INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE version (row TEXT PRIMARY KEY, revision INTEGER NOT NULL, cells BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE naming (number INTEGER PRIMARY KEY, text BLOB NOT NULL);
CREATE TABLE told (number INTEGER PRIMARY KEY, ends INTEGER NOT NULL, text BLOB NOT NULL);
CREATE TABLE source (file TEXT PRIMARY KEY, offset INTEGER NOT NULL);
CREATE TABLE refused (file TEXT NOT NULL, ends INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_KEPT_TOLD = 4_000
"""So many told lines stay in the ledger after they were written: the file may have lost its end with the power."""


@dataclass(frozen=True, slots=True)
class LoggedLine:
    """A line that was taken: its place among all, whose it is, the hour it is told with, and its text."""

    number: int
    subject: int
    hour: int
    text: bytes


@dataclass(frozen=True, slots=True)
class LoggedBundle:
    """The lines of one bundle, by their numbers."""

    subject: int
    hour: int
    lines: Sequence[int]


@dataclass(frozen=True, slots=True)
class RowVersion:
    """How a row was told last: how often before, and a digest of its cells."""

    revision: int
    cells: bytes


@dataclass(slots=True, kw_only=True)
class Commit:
    """What one transaction holds. ``snapshots``: by subject the hour of the last closed bundle, and the body;
    ``versions``: of resources, by row; ``naming``: the resources that name others."""

    lines: list[LoggedLine] = field(default_factory=list)
    told: list[bytes] = field(default_factory=list)
    opened: list[LoggedBundle] = field(default_factory=list)
    closed: list[LoggedBundle] = field(default_factory=list)
    snapshots: list[tuple[int, int, bytes]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    versions: dict[str, RowVersion] = field(default_factory=dict)
    naming: list[bytes] = field(default_factory=list)
    refused: list[tuple[str, int, str]] = field(default_factory=list)
    finished: bool = False


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
        self.lines = self._one("SELECT COALESCE(MAX(number), 0) FROM line")
        self.told = self._one("SELECT COALESCE(MAX(number), 0) FROM told")
        self.length = self._one("SELECT COALESCE(MAX(ends), 0) FROM told")
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

    def commit(self, commit: Commit) -> None:
        """Keep what was taken and told, and how far the source was read: all of it or nothing."""
        count, length = self.told, self.length
        told = []
        for text in commit.told:
            count, length = count + 1, length + len(text)
            told.append((count, length, text))
        run = self._file.executemany
        self._file.execute("BEGIN IMMEDIATE")
        run("INSERT INTO line VALUES (?, ?, ?, ?)", ((e.number, e.subject, e.hour, e.text) for e in commit.lines))
        run("INSERT INTO told VALUES (?, ?, ?)", told)
        run("INSERT INTO bundle VALUES (?, ?, ?, NULL)", ((e.subject, e.hour, e.lines[0]) for e in commit.opened))
        closed = ((_packed(e.lines), e.subject, e.hour) for e in commit.closed)
        run("UPDATE bundle SET lines = ? WHERE subject = ? AND hour = ?", closed)
        run("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", commit.snapshots)
        versions = ((row, each.revision, each.cells) for row, each in commit.versions.items())
        run("INSERT OR REPLACE INTO version VALUES (?, ?, ?)", versions)
        run("INSERT INTO naming (text) VALUES (?)", ((text,) for text in commit.naming))
        run("INSERT OR REPLACE INTO source VALUES (?, ?)", commit.offsets.items())
        run("INSERT INTO refused VALUES (?, ?, ?)", commit.refused)
        if commit.finished:
            self._file.execute("UPDATE fact SET value = 'yes' WHERE name = 'finished'")
        self._file.execute("COMMIT")
        self.lines, self.told, self.length = self.lines + len(commit.lines), count, length
        self.offsets.update(commit.offsets)
        self.finished = self.finished or commit.finished

    def last_hour(self) -> int | None:
        """The hour of the last line; None before the first."""
        row = self._file.execute("SELECT hour FROM line ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def open_bundles(self) -> Iterator[LoggedBundle]:
        """Yield the bundles that are not closed, in the order in which they were opened."""
        rows = self._file.execute(
            "SELECT subject, hour, first FROM bundle WHERE lines IS NULL ORDER BY first"
        ).fetchall()
        found: dict[tuple[int, int], list[int]] = {(subject, hour): [] for subject, hour, _ in rows}
        first = min((first for _, _, first in rows), default=self.lines + 1)
        query = "SELECT number, subject, hour FROM line WHERE number >= ? ORDER BY number"
        for number, subject, hour in self._file.execute(query, (first,)):
            if (subject, hour) in found:
                found[subject, hour].append(number)
        return (LoggedBundle(subject, hour, lines) for (subject, hour), lines in found.items())

    def closed_bundles(self, subjects: Iterable[int]) -> Iterator[LoggedBundle]:
        """Yield the closed bundles of some subjects after their snapshots, each subject's by hour."""
        query = (
            "SELECT subject, bundle.hour, lines FROM bundle LEFT JOIN snapshot USING (subject)"
            " WHERE subject IN (SELECT value FROM json_each(?)) AND lines IS NOT NULL"
            " AND bundle.hour > COALESCE(snapshot.hour, bundle.hour - 1) ORDER BY subject, bundle.hour"
        )
        rows = self._file.execute(query, (_listed(subjects),))
        return (LoggedBundle(subject, hour, _unpacked(lines)) for subject, hour, lines in rows)

    def history(self, subject: int, hour: int) -> Iterator[LoggedBundle]:
        """Yield all closed bundles of one subject to an hour."""
        query = "SELECT hour, lines FROM bundle WHERE subject = ? AND hour <= ? AND lines IS NOT NULL ORDER BY hour"
        rows = self._file.execute(query, (subject, hour)).fetchall()
        return (LoggedBundle(subject, hour, _unpacked(lines)) for hour, lines in rows)

    def snapshots(self, subjects: Iterable[int]) -> dict[int, bytes]:
        """Return the bodies of the snapshots that there are of some subjects."""
        query = "SELECT subject, body FROM snapshot WHERE subject IN (SELECT value FROM json_each(?))"
        return dict(self._file.execute(query, (_listed(subjects),)))

    def lines_by_number(self, numbers: Iterable[int]) -> list[LoggedLine]:
        """Return some lines, in order."""
        query = "SELECT number, subject, hour, text FROM line WHERE number IN (SELECT value FROM json_each(?))"
        return [LoggedLine(*row) for row in self._file.execute(query + " ORDER BY number", (_listed(numbers),))]

    def versions(self, rows: Iterable[str]) -> dict[str, RowVersion]:
        """Return how some rows were told last."""
        query = "SELECT row, revision, cells FROM version WHERE row IN (SELECT value FROM json_each(?))"
        found = self._file.execute(query, (msgspec.json.encode(list(rows)).decode(),))
        return {row: RowVersion(revision, cells) for row, revision, cells in found}

    def naming(self) -> list[bytes]:
        """Return the resources that name others, in the order in which they came."""
        return [text for (text,) in self._file.execute("SELECT text FROM naming ORDER BY number")]

    def subjects(self) -> list[int]:
        """Return everybody of whom there is a line."""
        return [subject for (subject,) in self._file.execute("SELECT DISTINCT subject FROM bundle ORDER BY subject")]

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


def _listed(numbers: Iterable[int]) -> str:
    return msgspec.json.encode(list(numbers)).decode()


def _packed(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<i8").tobytes()


def _unpacked(body: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(body, "<i8").tolist()
    return numbers
