"""The work of a run: a SQLite table of episode keys that any number of workers on one host lease from.

A lease names its owner (host, process id, process start). A finished episode is never handed out again; a lease whose
owner is gone, or which ran out, is. WAL over network file systems is unsafe, so one host only; many nodes use Ray.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from wardround.core import UserError

LEASE_SECONDS = 120.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS work (
  key      TEXT PRIMARY KEY,
  ordinal  INTEGER NOT NULL,
  state    TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'leased', 'done')),
  owner    TEXT,
  until    REAL,
  attempts INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS work_state ON work (state, ordinal);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Episodes by state."""

    open: int
    leased: int
    done: int

    @property
    def total(self) -> int:
        """All episodes of the run."""
        return self.open + self.leased + self.done


def this_owner() -> str:
    """Name this process so that another one on the host can tell whether it still lives."""
    return f"{socket.gethostname()}:{os.getpid()}:{_process_start(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Say whether an owner's process still runs; owners on other hosts count as alive until their lease ends."""
    host, pid, start = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _process_start(int(pid)) == start


def _process_start(pid: int) -> str:
    """Start time of a process in clock ticks (Linux); empty elsewhere, where the process id alone must do."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields_after_name = stat.rpartition(")")[2].split()
    if fields_after_name[0] == "Z":
        return "dead"
    return fields_after_name[19]


class WorkQueue:
    """One connection to the queue file; open one per process."""

    def __init__(self, path: Path) -> None:
        self._owner = this_owner()
        try:
            self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise UserError(f"cannot open the run's queue {str(path)!r}: {error}") from error

    def add(self, keys: Iterable[str]) -> None:
        """Add episodes that are not there yet, in the order given."""
        rows = [(key, ordinal) for ordinal, key in enumerate(keys)]
        with self._writing():
            self._connection.executemany("INSERT OR IGNORE INTO work (key, ordinal) VALUES (?, ?)", rows)

    def lease(self, count: int) -> list[str]:
        """Take up to ``count`` open episodes for this process."""
        with self._writing():
            rows = self._connection.execute(
                "UPDATE work SET state = 'leased', owner = ?, until = ?, attempts = attempts + 1 WHERE key IN "
                "(SELECT key FROM work WHERE state = 'open' ORDER BY ordinal LIMIT ?) RETURNING ordinal, key",
                (self._owner, time.time() + LEASE_SECONDS, count),
            ).fetchall()
        return [key for _, key in sorted(rows)]

    def renew(self) -> None:
        """Prolong every lease of this process."""
        with self._writing():
            self._connection.execute(
                "UPDATE work SET until = ? WHERE state = 'leased' AND owner = ?",
                (time.time() + LEASE_SECONDS, self._owner),
            )

    def done(self, key: str) -> None:
        """Mark an episode finished, for good."""
        with self._writing():
            self._connection.execute("UPDATE work SET state = 'done', owner = NULL, until = NULL WHERE key = ?", (key,))

    def give_back(self, key: str) -> None:
        """Return a lease unfinished (this process is stopping)."""
        with self._writing():
            self._connection.execute(
                "UPDATE work SET state = 'open', owner = NULL, until = NULL WHERE key = ? AND owner = ?",
                (key, self._owner),
            )

    def reclaim(self) -> int:
        """Open every lease that ran out or whose owner is gone; return how many."""
        owners = [row[0] for row in self._connection.execute("SELECT DISTINCT owner FROM work WHERE state = 'leased'")]
        gone = [owner for owner in owners if not is_alive(owner)]
        marks = ",".join("?" * len(gone))
        with self._writing():
            cursor = self._connection.execute(
                "UPDATE work SET state = 'open', owner = NULL, until = NULL "
                f"WHERE state = 'leased' AND (until < ? OR owner IN ({marks}))",
                (time.time(), *gone),
            )
        return cursor.rowcount

    def reopen(self, keys: Iterable[str]) -> None:
        """Open finished episodes again (retry of failures)."""
        with self._writing():
            self._connection.executemany("UPDATE work SET state = 'open' WHERE key = ?", [(key,) for key in keys])

    def counts(self) -> Counts:
        """Count the episodes by state."""
        found = dict(self._connection.execute("SELECT state, count(*) FROM work GROUP BY state").fetchall())
        return Counts(open=found.get("open", 0), leased=found.get("leased", 0), done=found.get("done", 0))

    def listed(self, state: str | None = None) -> list[str]:
        """List episode keys in order, of one state or of all."""
        query = "SELECT key FROM work WHERE state = coalesce(?, state) ORDER BY ordinal"
        return [row[0] for row in self._connection.execute(query, (state,))]

    def close(self) -> None:
        """Close the connection; leases stay until they run out or the process ends."""
        self._connection.close()

    def _writing(self) -> _Transaction:
        return _Transaction(self._connection)


class _Transaction:
    """BEGIN IMMEDIATE ... COMMIT: the lock is taken at the start, so that a busy queue waits instead of failing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
