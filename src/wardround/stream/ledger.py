"""The ledger of a stream: a SQLite file of what was read and written, commit by commit."""

from __future__ import annotations

import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from wardround.clinical.bundles.events import HOUR
from wardround.core import DatabaseFormat, UserError, transaction

# Read a stream's ledger: the lines that were read, the output that was written, and the bundles that are open.


class LoggedLine(msgspec.Struct, frozen=True, gc=False):
    """The events of one line in one hour, with the line's number, its subject and the hour of the bundle.

    ``ahead``: the hour was later than the patient's clock when the line came; ``parked``: the whole line was, by more
    than is allowed.
    """

    number: int
    subject: int
    hour: int
    events: bytes
    ahead: bool = False
    parked: bool = False


class LoggedBundle(msgspec.Struct, frozen=True, gc=False):
    """The numbers of the lines of one bundle. ``reached``: the patient's clock has come to its hour."""

    subject: int
    hour: int
    lines: Sequence[int]
    reached: bool = True


class RowReading(msgspec.Struct, frozen=True, gc=False):
    """The last reading of a row: its revision, and a digest of its cells."""

    revision: int
    cells: int


class SourceRow(msgspec.Struct, frozen=True, gc=False):
    """A row as the source's files have it: subject, table, key, name, and versions."""

    subject: int
    table: str
    key: str
    name: str
    versions: bytes


@dataclass(frozen=True, slots=True)
class PaceMinute:
    """What a stream did in one minute of this machine's clock (minutes since the epoch).

    ``longest``: upper bound in seconds of the wait of a line between its writing and its commit; ``last``: time of the
    last commit, in seconds since the epoch.
    """

    minute: int
    commits: int
    lines: int
    bundles: int
    longest: float
    last: float


class LedgerReading:
    """A ledger read through a connection: the state that was committed when the connection was opened."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        self.lines = self._one("SELECT COALESCE(MAX(number), 0) FROM line")
        self.written = self._one("SELECT COALESCE(MAX(number), 0) FROM output")
        self.length = self._one("SELECT COALESCE((SELECT ends FROM output ORDER BY number DESC LIMIT 1), 0)")
        self.offsets: dict[str, int] = dict(self._file.execute("SELECT file, offset FROM source"))

    def _one(self, query: str) -> int:
        return int(self._file.execute(query).fetchone()[0])

    def facts(self) -> dict[str, str]:
        """Return the facts of the stream (source, protocol, partition ...), and whether it was finished."""
        return dict(self._file.execute("SELECT name, value FROM fact"))

    def clock(self) -> int | None:
        """The time of the source's own clock or of the wall clock, in microseconds; None before either was read."""
        found = self._file.execute("SELECT value FROM fact WHERE name = 'clock'").fetchone()
        return None if found is None else int(found[0])

    def pace_of_closing(self) -> tuple[int, int] | None:
        """The latest time within the clock's hour, in microseconds, and how many bundles were due by then."""
        found = self._file.execute("SELECT value FROM fact WHERE name = 'closing'").fetchone()
        return None if found is None else _pair(found[0])

    def last_hour(self) -> int | None:
        """The hour of the clock; without a clock the hour of the last line that was not ahead of its patient."""
        clock = self.clock()
        if clock is not None:
            return clock // HOUR
        row = self._file.execute("SELECT hour FROM line WHERE NOT ahead ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def open_bundles(self) -> list[LoggedBundle]:
        """Return the open bundles, in the order in which they were opened."""
        query = "SELECT subject, hour, lines, reached FROM bundle WHERE NOT closed"
        found = [
            LoggedBundle(subject, hour, _unpacked(lines), bool(reached))
            for subject, hour, lines, reached in self._file.execute(query)
        ]
        return sorted(found, key=lambda bundle: bundle.lines[0])

    def reached(self, subjects: Iterable[int]) -> dict[int, int]:
        """Return the hours of some subjects' clocks; subjects without a line are left out."""
        query = (
            "SELECT subject, MAX(hour) FROM (SELECT subject, hour FROM bundle WHERE (closed OR reached)"
            " AND subject IN (SELECT value FROM json_each(?1)) UNION ALL SELECT subject, hour FROM reached"
            " WHERE subject IN (SELECT value FROM json_each(?1))) GROUP BY subject"
        )
        return dict(self._file.execute(query, (_listed(subjects),)))

    def parked(self) -> int:
        """How many lines wait for their time because they are further ahead than is allowed."""
        return self._one("SELECT COUNT(*) FROM line JOIN bundle USING (subject, hour) WHERE parked AND NOT closed")

    def open_subjects(self) -> int:
        """How many subjects have a bundle that is not closed."""
        return self._one("SELECT COUNT(DISTINCT subject) FROM bundle WHERE NOT closed")

    def open_hours(self, subject: int) -> list[int]:
        """Return the hours of a subject's open bundles."""
        query = "SELECT hour FROM bundle WHERE subject = ? AND NOT closed ORDER BY hour"
        return [hour for (hour,) in self._file.execute(query, (subject,))]

    def pace(self) -> list[PaceMinute]:
        """Return the stream's pace in each minute of the last day with a commit, oldest first."""
        query = "SELECT minute, commits, lines, bundles, longest, last FROM pace ORDER BY minute"
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
        """Yield the closed bundles of a subject between two hours, both excluded, by hour (None: from the first)."""
        query = "SELECT hour, lines FROM bundle WHERE subject = ? AND hour > ? AND hour < ? AND closed ORDER BY hour"
        rows = self._file.execute(query, (subject, _NEVER if after is None else after, before)).fetchall()
        return (LoggedBundle(subject, hour, _unpacked(lines)) for hour, lines in rows)

    def snapshots(self, subjects: Iterable[int]) -> dict[int, bytes]:
        """Return the bodies of the last snapshots of some subjects; subjects without a snapshot are left out."""
        query = "SELECT subject, MAX(hour), body FROM snapshot WHERE subject IN (SELECT value FROM json_each(?))"
        return {
            subject: body for subject, _, body in self._file.execute(query + " GROUP BY subject", (_listed(subjects),))
        }

    def snapshot_hours(self, subject: int) -> list[int]:
        """Return the hours of a subject's snapshots, the last first."""
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
        """Return a subject's rows whose first known version is a later one."""
        return [name for (name,) in self._file.execute("SELECT name FROM unbased WHERE subject = ?", (subject,))]

    def source_rows(self, subjects: Iterable[int], table: str) -> list[SourceRow]:
        """Return the rows of some subjects in one table, by subject and key."""
        query = (
            "SELECT subject, tab, key, name, versions FROM source_row WHERE tab = ? AND subject IN"
            " (SELECT value FROM json_each(?)) ORDER BY subject, key"
        )
        return [SourceRow(*row) for row in self._file.execute(query, (table, _listed(subjects)))]

    def source_row(self, subject: int, table: str, key: str) -> SourceRow | None:
        """Return one row; None if the ledger has no such row."""
        query = "SELECT subject, tab, key, name, versions FROM source_row WHERE subject = ? AND tab = ? AND key = ?"
        row = self._file.execute(query, (subject, table, key)).fetchone()
        return None if row is None else SourceRow(*row)

    def source_keys(self, subject: int, table: str, start: str) -> list[str]:
        """Return the keys of a subject's rows in one table that begin with ``start``."""
        query = "SELECT key FROM source_row WHERE subject = ? AND tab = ? AND key >= ? AND key < ?"
        return [key for (key,) in self._file.execute(query, (subject, table, start, f"{start}\U0010ffff"))]

    def issued(self, rows: Iterable[tuple[int, str]]) -> dict[tuple[int, str], bytes]:
        """Return the events that were issued for some rows, as bytes, by subject and row name."""
        found = {}
        query = "SELECT events FROM issued WHERE subject = ? AND name = ?"
        for subject, name in rows:
            row = self._file.execute(query, (subject, name)).fetchone()
            if row is not None:
                found[subject, name] = row[0]
        return found

    def seen(self, keys: Iterable[int]) -> dict[int, RowReading]:
        """Return the last reading of some rows, by key."""
        query = "SELECT key, revision, cells FROM seen WHERE key IN (SELECT value FROM json_each(?))"
        return {key: RowReading(*reading) for key, *reading in self._file.execute(query, (_listed(keys),))}

    def counts(self) -> dict[str, int]:
        """Return how many lines had no effect on the output, by reason."""
        return dict(self._file.execute("SELECT what, lines FROM count ORDER BY what"))

    def refused_after(self, number: int) -> list[tuple[int, str, int, str, bytes]]:
        """Return quarantined lines after a number: number, file, the byte after it, reason, text (at most 1,000)."""
        query = "SELECT number, file, ends, reason, text FROM refused WHERE number > ? ORDER BY number LIMIT 1000"
        return list(self._file.execute(query, (number,)))

    def naming(self) -> list[bytes]:
        """Return the resources that name others, in the order in which they came."""
        return [text for (text,) in self._file.execute("SELECT text FROM naming ORDER BY number")]

    def subjects(self) -> list[int]:
        """Return every subject that has a line."""
        return [subject for (subject,) in self._file.execute("SELECT DISTINCT subject FROM bundle ORDER BY subject")]

    def output_after(self, length: int) -> Iterator[tuple[int, bytes]]:
        """Yield the output lines that end after a length of the file: the byte after each, and its text."""
        return iter(self._file.execute("SELECT ends, text FROM output WHERE ends > ? ORDER BY number", (length,)))

    @property
    def refused(self) -> int:
        """How many lines could not be read."""
        return self._one("SELECT COUNT(*) FROM refused")


_NEVER = -(1 << 60)


def _listed(numbers: Iterable[int]) -> str:
    return msgspec.json.encode(list(numbers)).decode()


def _pair(text: str) -> tuple[int, int]:
    first, second = text.split()
    return int(first), int(second)


def _unpacked(body: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(body, "<i8").tolist()
    return numbers


# Input and output of a stream in one SQLite file: a commit holds lines, output and the offsets of the source's files.
#
# A line is stored as the events that were read from it, one entry for every hour in which it has an event. A bundle
# lists its entries, so a patient is found without an index over them. A snapshot is a patient after a closed bundle:
# the snapshot and the bundles since restore the patient. Every row holds a checksum of itself (`core/sqlite.py`).


LEDGER_FORMAT = DatabaseFormat(
    name="stream's ledger",
    application="wardround-stream",
    tables="""
CREATE TABLE line (number INTEGER PRIMARY KEY, subject INTEGER NOT NULL, hour INTEGER NOT NULL, events BLOB NOT NULL,
 ahead INTEGER NOT NULL, parked INTEGER NOT NULL);
CREATE INDEX parked_line ON line (subject, hour) WHERE parked;
CREATE TABLE bundle (subject INTEGER, hour INTEGER, lines BLOB NOT NULL, reached INTEGER NOT NULL,
 closed INTEGER NOT NULL, PRIMARY KEY (subject, hour)) WITHOUT ROWID;
CREATE INDEX open_bundle ON bundle (subject, hour) WHERE NOT closed;
CREATE TABLE reached (subject INTEGER PRIMARY KEY, hour INTEGER NOT NULL);
CREATE TABLE snapshot (subject INTEGER, hour INTEGER, body BLOB NOT NULL, PRIMARY KEY (subject, hour)) WITHOUT ROWID;
CREATE TABLE unbased (subject INTEGER, name TEXT, PRIMARY KEY (subject, name)) WITHOUT ROWID;
CREATE TABLE seen (key INTEGER PRIMARY KEY, revision INTEGER NOT NULL, cells INTEGER NOT NULL);
CREATE TABLE source_row (subject INTEGER, tab TEXT, key TEXT, name TEXT NOT NULL, versions BLOB NOT NULL,
 PRIMARY KEY (subject, tab, key)) WITHOUT ROWID;
CREATE TABLE issued (subject INTEGER, name TEXT, events BLOB NOT NULL, PRIMARY KEY (subject, name)) WITHOUT ROWID;
CREATE TABLE naming (number INTEGER PRIMARY KEY, text BLOB NOT NULL);
CREATE TABLE output (number INTEGER PRIMARY KEY, ends INTEGER NOT NULL, text BLOB NOT NULL);
CREATE TABLE source (file TEXT PRIMARY KEY, offset INTEGER NOT NULL);
CREATE TABLE refused (number INTEGER PRIMARY KEY, file TEXT NOT NULL, ends INTEGER NOT NULL, reason TEXT NOT NULL,
 text BLOB NOT NULL);
CREATE TABLE count (what TEXT PRIMARY KEY, lines INTEGER NOT NULL);
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE pace (minute INTEGER PRIMARY KEY, commits INTEGER NOT NULL, lines INTEGER NOT NULL,
 bundles INTEGER NOT NULL, longest REAL NOT NULL, last REAL NOT NULL);
""",
    made_by="`wardround stream follow` makes one",
    if_damaged="it may not have begun: wait, or name another folder",
    if_other_version="follow into a new folder",
)
"""``pace``: how the stream keeps up, by minutes of this machine's clock; no output depends on it."""
_KEEP_UP = """
INSERT INTO pace VALUES (?, 1, ?, ?, ?, ?) ON CONFLICT (minute) DO UPDATE SET commits = commits + 1,
 lines = lines + excluded.lines, bundles = bundles + excluded.bundles, longest = MAX(longest, excluded.longest),
 last = excluded.last
"""
_COUNT = "INSERT INTO count VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET lines = lines + excluded.lines"
_KEPT_SNAPSHOTS = 8
"""The last snapshots of a patient that are kept: an older correction is folded from the patient's first line."""
_THIN_OUT = """
DELETE FROM snapshot WHERE subject = ?1 AND hour <= (SELECT hour FROM snapshot WHERE subject = ?1
 ORDER BY hour DESC LIMIT 1 OFFSET ?2)
"""
_CACHE_KIB = 65_536
"""Rows of patients lie all over the file: rows outside the cache are read again with every commit."""
_CHECKPOINT_PAGES = 4_000
"""A commit of a full stream writes a thousand pages: under SQLite's own limit every commit would wait for the disk."""
_KEPT_MINUTES = 1_440
_KEPT_OUTPUT = 4_000
"""Output lines that stay in the ledger after they were written: a loss of power may cut the end of the output file."""


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was quarantined: its file, the byte after it, the reason, and its text."""

    file: str
    ends: int
    reason: str
    text: bytes


@dataclass(slots=True, kw_only=True)
class Commit:
    """The content of one transaction.

    ``changed``: bundles with new lines; ``closed``: bundles that are over; ``emptied``: bundles without a line left;
    ``reached``: clocks of patients that no bundle shows; ``clock``: time of the source or the wall, in microseconds;
    ``closing``: progress of closing bundles (``pace_of_closing``); ``snapshots``: subject, hour of the closed bundle,
    body; ``stale``: by subject the hour from which its snapshots are invalid; ``seen``: last readings of rows;
    ``unbased``: rows that begin with a later version; ``source_rows``: rows as the source's files have them;
    ``issued``: the events issued for them; ``naming``: resources that name others; ``counts``: lines without effect, by
    reason; ``since``: no line could be read before this time (seconds since the epoch).
    """

    lines: list[LoggedLine] = field(default_factory=list)
    output: list[bytes] = field(default_factory=list)
    changed: dict[tuple[int, int], LoggedBundle] = field(default_factory=dict)
    closed: dict[int, list[LoggedBundle]] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)
    clock: int | None = None
    closing: tuple[int, int] | None = None
    snapshots: list[tuple[int, int, bytes]] = field(default_factory=list)
    stale: dict[int, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    unbased: set[tuple[int, str]] = field(default_factory=set)
    seen: dict[int, RowReading] = field(default_factory=dict)
    source_rows: dict[tuple[int, str, str], SourceRow] = field(default_factory=dict)
    issued: dict[tuple[int, str], bytes] = field(default_factory=dict)
    emptied: set[tuple[int, int]] = field(default_factory=set)
    naming: list[bytes] = field(default_factory=list)
    refused: list[RefusedLine] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    since: float | None = None
    finished: bool = False


class StreamLedger(LedgerReading):
    """The ledger of one stream, open for writing. UserError: ``about`` names another source, protocol or partition."""

    def __init__(self, path: Path, about: Mapping[str, str]) -> None:
        facts = {**about, "finished": "no"}.items()
        self._file = LEDGER_FORMAT.open(
            path, fill=lambda file: file.executemany("INSERT INTO fact VALUES (?, ?)", facts)
        )
        self._file.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        self._file.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        self._check(path, about)
        super().__init__(self._file)

    def _check(self, path: Path, about: Mapping[str, str]) -> None:
        facts = self.facts()
        for name, value in about.items():
            if facts.get(name) != value:
                raise UserError(
                    f"{path} is of a stream with {name} {facts.get(name)}, not {value}; choose another folder"
                )
        self.finished = facts["finished"] == "yes"

    def note(self, facts: Mapping[str, str]) -> None:
        """Write facts for people to read; they are not compared with those of a later start."""
        self._file.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", facts.items())

    def commit(self, commit: Commit) -> None:
        """Write lines, output and offsets of the source in one transaction."""
        count, length = self.written, self.length
        output = []
        for text in commit.output:
            count, length = count + 1, length + len(text)
            output.append((count, length, text))
        with transaction(self._file):
            self._write(commit, output)
        self.lines, self.written, self.length = self.lines + len(commit.lines), count, length
        self.offsets.update(commit.offsets)
        self.finished = self.finished or commit.finished

    def _write(self, commit: Commit, output: Sequence[tuple[int, int, bytes]]) -> None:
        run = self._file.executemany
        lines = ((e.number, e.subject, e.hour, e.events, e.ahead, e.parked) for e in commit.lines)
        run("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?)", lines)
        run("INSERT INTO output VALUES (?, ?, ?)", output)
        changed = ((e.subject, e.hour, _packed(e.lines), e.reached) for e in commit.changed.values())
        run("INSERT OR REPLACE INTO bundle VALUES (?, ?, ?, ?, 0)", changed)
        closed = ((e.subject, e.hour, _packed(e.lines)) for several in commit.closed.values() for e in several)
        run("INSERT OR REPLACE INTO bundle VALUES (?, ?, ?, 1, 1)", closed)
        run("INSERT OR REPLACE INTO reached VALUES (?, ?)", commit.reached.items())
        run("DELETE FROM snapshot WHERE subject = ? AND hour >= ?", commit.stale.items())
        run("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", commit.snapshots)
        run(_THIN_OUT, {(subject, _KEPT_SNAPSHOTS) for subject, _, _ in commit.snapshots})
        run("INSERT OR IGNORE INTO unbased VALUES (?, ?)", commit.unbased)
        seen = ((key, each.revision, each.cells) for key, each in commit.seen.items())
        run("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", seen)
        source_rows = ((e.subject, e.table, e.key, e.name, e.versions) for e in commit.source_rows.values())
        run("INSERT OR REPLACE INTO source_row VALUES (?, ?, ?, ?, ?)", source_rows)
        issued = ((*row, events) for row, events in commit.issued.items())
        run("INSERT OR REPLACE INTO issued VALUES (?, ?, ?)", issued)
        run("DELETE FROM bundle WHERE subject = ? AND hour = ? AND NOT closed", commit.emptied)
        run("INSERT INTO naming (text) VALUES (?)", ((text,) for text in commit.naming))
        run("INSERT OR REPLACE INTO source VALUES (?, ?)", commit.offsets.items())
        refused = ((e.file, e.ends, e.reason, e.text) for e in commit.refused)
        run("INSERT INTO refused (file, ends, reason, text) VALUES (?, ?, ?, ?)", refused)
        run(_COUNT, commit.counts.items())
        if commit.clock is not None:
            self._file.execute("INSERT OR REPLACE INTO fact VALUES ('clock', ?)", (str(commit.clock),))
        if commit.closing is not None:
            pace = f"{commit.closing[0]} {commit.closing[1]}"
            self._file.execute("INSERT OR REPLACE INTO fact VALUES ('closing', ?)", (pace,))
        if commit.finished:
            self._file.execute("UPDATE fact SET value = 'yes' WHERE name = 'finished'")
        self._keep_pace(commit)

    def _keep_pace(self, commit: Commit) -> None:
        now = time.time()
        minute = int(now // 60)
        longest = 0.0 if commit.since is None else max(0.0, now - commit.since)
        self._file.execute(_KEEP_UP, (minute, len(commit.lines), len(commit.output), longest, now))
        self._file.execute("DELETE FROM pace WHERE minute <= ?", (minute - _KEPT_MINUTES,))

    def forget_output(self) -> None:
        """Delete old output lines; the output file must be on the disk."""
        self._file.execute("DELETE FROM output WHERE number <= ?", (self.written - _KEPT_OUTPUT,))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)
