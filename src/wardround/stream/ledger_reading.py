"""Reading a stream's ledger: what was taken, what is told, and which bundles are open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np


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


@dataclass(frozen=True, slots=True)
class PaceMinute:
    """What a stream did in a minute of its machine's clock (from the epoch). ``longest``: seconds that no line waited
    longer than from when it was written to its commit; ``last``: when the last commit was, in seconds of the epoch."""

    minute: int
    commits: int
    lines: int
    told: int
    longest: float
    last: float


class LedgerReading:
    """A ledger through a connection: what was committed when the connection looked."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        self.lines = self._one("SELECT COALESCE(MAX(number), 0) FROM line")
        self.told = self._one("SELECT COALESCE(MAX(number), 0) FROM told")
        self.length = self._one("SELECT COALESCE((SELECT ends FROM told ORDER BY number DESC LIMIT 1), 0)")
        self.offsets: dict[str, int] = dict(self._file.execute("SELECT file, offset FROM source"))

    def _one(self, query: str) -> int:
        return int(self._file.execute(query).fetchone()[0])

    def facts(self) -> dict[str, str]:
        """Return what the stream is of, and whether it was finished."""
        return dict(self._file.execute("SELECT name, value FROM fact"))

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

    def open_subjects(self) -> int:
        """How many subjects have a bundle that is not closed."""
        return self._one("SELECT COUNT(DISTINCT subject) FROM bundle WHERE lines IS NULL")

    def open_hours(self, subject: int) -> list[int]:
        """Return the hours of a subject that are not closed."""
        query = "SELECT hour FROM bundle WHERE subject = ? AND lines IS NULL ORDER BY hour"
        return [hour for (hour,) in self._file.execute(query, (subject,))]

    def pace(self) -> list[PaceMinute]:
        """Return how the stream kept up in the minutes of the last day in which it committed, oldest first."""
        if not self._one("SELECT COUNT(*) FROM sqlite_master WHERE name = 'pace'"):
            return []
        query = "SELECT minute, commits, lines, told, longest, last FROM pace ORDER BY minute"
        return [PaceMinute(*row) for row in self._file.execute(query)]

    def closed_bundles(self, subjects: Iterable[int]) -> Iterator[LoggedBundle]:
        """Yield the closed bundles of some subjects after their snapshots, each subject's by hour."""
        query = (
            "SELECT subject, bundle.hour, lines FROM bundle LEFT JOIN snapshot USING (subject)"
            " WHERE subject IN (SELECT value FROM json_each(?)) AND lines IS NOT NULL"
            " AND bundle.hour > COALESCE(snapshot.hour, bundle.hour - 1) ORDER BY subject, bundle.hour"
        )
        rows = self._file.execute(query, (_listed(subjects),))
        return (LoggedBundle(subject, hour, _unpacked(lines)) for subject, hour, lines in rows)

    def bundles_at(self, subject: int, hours: Iterable[int]) -> Iterator[LoggedBundle]:
        """Yield the closed bundles of a subject in some hours."""
        query = (
            "SELECT hour, lines FROM bundle WHERE subject = ? AND hour IN (SELECT value FROM json_each(?))"
            " AND lines IS NOT NULL ORDER BY hour"
        )
        rows = self._file.execute(query, (subject, _listed(hours))).fetchall()
        return (LoggedBundle(subject, hour, _unpacked(lines)) for hour, lines in rows)

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

    @property
    def refused(self) -> int:
        """How many lines could not be read."""
        return self._one("SELECT COUNT(*) FROM refused")


def _listed(numbers: Iterable[int]) -> str:
    return msgspec.json.encode(list(numbers)).decode()


def _unpacked(body: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(body, "<i8").tolist()
    return numbers
