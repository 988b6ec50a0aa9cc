"""Reading a stream's ledger: what was taken, what is told, and which bundles are open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from wardround.bundles.events import HOUR


class LoggedLine(msgspec.Struct, frozen=True, gc=False):
    """What one line says of one hour: its place among all, whose it is, the hour of its bundle, and its events.

    ``ahead``: the hour lay ahead of the patient's clock when the line came; ``parked``: the whole line did, by more
    than is allowed.
    """

    number: int
    subject: int
    hour: int
    events: bytes
    ahead: bool = False
    parked: bool = False


class LoggedBundle(msgspec.Struct, frozen=True, gc=False):
    """The lines of one bundle, by their numbers. ``reached``: the patient's clock has come to its hour."""

    subject: int
    hour: int
    lines: Sequence[int]
    reached: bool = True


class RowReading(msgspec.Struct, frozen=True, gc=False):
    """How a row of a line read last: its revision, and a digest of its cells."""

    revision: int
    cells: int


class SourceRow(msgspec.Struct, frozen=True, gc=False):
    """A row as the source's files have it: whose, of which table, what tells it apart, its name, and its versions."""

    subject: int
    table: str
    key: str
    name: str
    versions: bytes


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

    def clock(self) -> int | None:
        """The time of the source's own clock, or of the wall's, in microseconds; None where neither was looked at."""
        found = self._file.execute("SELECT value FROM fact WHERE name = 'clock'").fetchone()
        return None if found is None else int(found[0])

    def last_hour(self) -> int | None:
        """The hour of the clock, where there is one, else that of the last line that was not ahead of its patient."""
        clock = self.clock()
        if clock is not None:
            return clock // HOUR
        row = self._file.execute("SELECT hour FROM line WHERE NOT ahead ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def open_bundles(self) -> list[LoggedBundle]:
        """Return the bundles that are not closed, in the order in which they were opened."""
        query = "SELECT subject, hour, lines, reached FROM bundle WHERE NOT closed"
        found = [
            LoggedBundle(subject, hour, _unpacked(lines), bool(reached))
            for subject, hour, lines, reached in self._file.execute(query)
        ]
        return sorted(found, key=lambda bundle: bundle.lines[0])

    def reached(self, subjects: Iterable[int]) -> dict[int, int]:
        """Return the hours to which the clocks of some subjects had come, of those of whom there is a line."""
        query = (
            "SELECT subject, MAX(hour) FROM (SELECT subject, hour FROM bundle WHERE (closed OR reached)"
            " AND subject IN (SELECT value FROM json_each(?1)) UNION ALL SELECT subject, hour FROM reached"
            " WHERE subject IN (SELECT value FROM json_each(?1))) GROUP BY subject"
        )
        return dict(self._file.execute(query, (_listed(subjects),)))

    def parked(self) -> int:
        """How many lines wait for their time, which lies ahead by more than is allowed."""
        return self._one("SELECT COUNT(*) FROM line JOIN bundle USING (subject, hour) WHERE parked AND NOT closed")

    def open_subjects(self) -> int:
        """How many subjects have a bundle that is not closed."""
        return self._one("SELECT COUNT(DISTINCT subject) FROM bundle WHERE NOT closed")

    def open_hours(self, subject: int) -> list[int]:
        """Return the hours of a subject that are not closed."""
        query = "SELECT hour FROM bundle WHERE subject = ? AND NOT closed ORDER BY hour"
        return [hour for (hour,) in self._file.execute(query, (subject,))]

    def pace(self) -> list[PaceMinute]:
        """Return how the stream kept up in the minutes of the last day in which it committed, oldest first."""
        query = "SELECT minute, commits, lines, told, longest, last FROM pace ORDER BY minute"
        return [PaceMinute(*row) for row in self._file.execute(query)]

    def closed_bundles(self, subjects: Iterable[int]) -> Iterator[LoggedBundle]:
        """Yield the closed bundles of some subjects after their last snapshots, each subject's by hour."""
        query = (
            "SELECT subject, hour, lines FROM bundle WHERE subject IN (SELECT value FROM json_each(?))"
            " AND closed AND hour > COALESCE((SELECT MAX(hour) FROM snapshot"
            " WHERE snapshot.subject = bundle.subject), bundle.hour - 1) ORDER BY subject, hour"
        )
        rows = self._file.execute(query, (_listed(subjects),))
        return (LoggedBundle(subject, hour, _unpacked(lines)) for subject, hour, lines in rows)

    def bundles_at(self, subject: int, hours: Iterable[int]) -> Iterator[LoggedBundle]:
        """Yield the closed bundles of a subject in some hours."""
        query = (
            "SELECT hour, lines FROM bundle WHERE subject = ? AND hour IN (SELECT value FROM json_each(?))"
            " AND closed ORDER BY hour"
        )
        rows = self._file.execute(query, (subject, _listed(hours))).fetchall()
        return (LoggedBundle(subject, hour, _unpacked(lines)) for hour, lines in rows)

    def between(self, subject: int, after: int | None, before: int) -> Iterator[LoggedBundle]:
        """Yield the closed bundles of one subject after an hour (None: from the first) and before another, by hour."""
        query = "SELECT hour, lines FROM bundle WHERE subject = ? AND hour > ? AND hour < ? AND closed ORDER BY hour"
        rows = self._file.execute(query, (subject, _NEVER if after is None else after, before)).fetchall()
        return (LoggedBundle(subject, hour, _unpacked(lines)) for hour, lines in rows)

    def snapshots(self, subjects: Iterable[int]) -> dict[int, bytes]:
        """Return the bodies of the last snapshots that there are of some subjects."""
        query = "SELECT subject, MAX(hour), body FROM snapshot WHERE subject IN (SELECT value FROM json_each(?))"
        return {
            subject: body for subject, _, body in self._file.execute(query + " GROUP BY subject", (_listed(subjects),))
        }

    def snapshot_hours(self, subject: int) -> list[int]:
        """Return the hours after which a subject was written down, the last first."""
        query = "SELECT hour FROM snapshot WHERE subject = ? ORDER BY hour DESC"
        return [hour for (hour,) in self._file.execute(query, (subject,))]

    def snapshot(self, subject: int, hour: int) -> bytes:
        """Return the body of one snapshot."""
        query = "SELECT body FROM snapshot WHERE subject = ? AND hour = ?"
        (body,) = self._file.execute(query, (subject, hour)).fetchone()
        return bytes(body)

    def lines_by_number(self, numbers: Iterable[int]) -> list[LoggedLine]:
        """Return some lines, in order."""
        query = "SELECT number, subject, hour, events FROM line WHERE number IN (SELECT value FROM json_each(?))"
        return [LoggedLine(*row) for row in self._file.execute(query + " ORDER BY number", (_listed(numbers),))]

    def unbased(self, subject: int) -> list[str]:
        """Return a subject's rows of which the first that is known is a later version."""
        return [name for (name,) in self._file.execute("SELECT name FROM unbased WHERE subject = ?", (subject,))]

    def source_rows(self, subjects: Iterable[int], table: str) -> list[SourceRow]:
        """Return the rows of some subjects in one table, as they came first."""
        query = (
            "SELECT subject, tab, key, name, versions FROM source_row WHERE tab = ? AND subject IN"
            " (SELECT value FROM json_each(?)) ORDER BY subject, key"
        )
        return [SourceRow(*row) for row in self._file.execute(query, (table, _listed(subjects)))]

    def source_row(self, subject: int, table: str, key: str) -> SourceRow | None:
        """Return one row; None where there is none."""
        query = "SELECT subject, tab, key, name, versions FROM source_row WHERE subject = ? AND tab = ? AND key = ?"
        row = self._file.execute(query, (subject, table, key)).fetchone()
        return None if row is None else SourceRow(*row)

    def source_keys(self, subject: int, table: str, start: str) -> list[str]:
        """Return the keys of a subject's rows in one table that begin so."""
        query = "SELECT key FROM source_row WHERE subject = ? AND tab = ? AND key >= ? AND key < ?"
        return [key for (key,) in self._file.execute(query, (subject, table, start, f"{start}\U0010ffff"))]

    def issued(self, rows: Iterable[tuple[int, str]]) -> dict[tuple[int, str], bytes]:
        """Return what was taken of some rows, by subject and row."""
        found = {}
        query = "SELECT events FROM issued WHERE subject = ? AND name = ?"
        for subject, name in rows:
            row = self._file.execute(query, (subject, name)).fetchone()
            if row is not None:
                found[subject, name] = row[0]
        return found

    def seen(self, keys: Iterable[int]) -> dict[int, RowReading]:
        """Return how some rows read last."""
        query = "SELECT key, revision, cells FROM seen WHERE key IN (SELECT value FROM json_each(?))"
        return {key: RowReading(*reading) for key, *reading in self._file.execute(query, (_listed(keys),))}

    def counts(self) -> dict[str, int]:
        """Return how many lines say nothing that is told, by why."""
        return dict(self._file.execute("SELECT what, lines FROM count ORDER BY what"))

    def refused_after(self, number: int) -> list[tuple[int, str, int, str, bytes]]:
        """Return the lines that were set aside after so many: number, file, the byte after it, why, and the text."""
        query = "SELECT number, file, ends, reason, text FROM refused WHERE number > ? ORDER BY number LIMIT 1000"
        return list(self._file.execute(query, (number,)))

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


_NEVER = -(1 << 60)


def _listed(numbers: Iterable[int]) -> str:
    return msgspec.json.encode(list(numbers)).decode()


def _unpacked(body: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(body, "<i8").tolist()
    return numbers
