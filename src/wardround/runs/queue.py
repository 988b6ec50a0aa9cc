"""The work of a run: a SQLite table of episode keys that any number of workers lease from.

A lease names its owner: a file beside the queue that the owner's process keeps locked for as long as it lives. The
system lets go of the lock whatever ends the process, so a lease depends on no clock, host name or process id, and a
restarted container finds its own at once. A finished episode is never handed out again; a lease without a living owner
is.

WAL needs memory that all processes share, so it is for one host. For workers on several machines the queue is put into
SQLite's rollback mode (:meth:`WorkQueue.journal_for`), which needs of the shared folder only that its locks hold.

What is promised: a killed process loses no commit; a power cut may take the last ones, never the file (WAL with
``synchronous=NORMAL``). The logs say what is finished: a run that goes on opens again what is done here and not there.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.core import DatabaseFormat, UserError, is_for_several_machines, set_journal, transaction

fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
"""File locks, where the system has them; elsewhere a lease of another process counts as held by nobody."""
QUEUE_FORMAT = DatabaseFormat(
    name="run's queue",
    application="wardround-queue",
    tables="""
CREATE TABLE work (
  key      TEXT PRIMARY KEY,
  ordinal  INTEGER NOT NULL,
  state    TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'leased', 'done')),
  owner    TEXT,
  attempts INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX work_state ON work (state, ordinal);
""",
    timeout_seconds=60.0,
    if_damaged="run again into a new folder",
    if_other_version="run again with this one",
)
_LEASE_ONE = "UPDATE work SET state = 'leased', owner = ?, attempts = attempts + 1 WHERE key = ? AND state = 'open'"


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


class Owner:
    """Who leases: a locked file in a folder beside the queue, made when the first lease is taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = ""
        self._file: int | None = None

    @property
    def name(self) -> str:
        """Its name; from now on it lives until it is closed or its process ends."""
        if self._file is None:
            self._name = secrets.token_hex(16)
            self._folder.mkdir(exist_ok=True)
            self._file = os.open(self._folder / self._name, os.O_CREAT | os.O_RDWR, 0o600)
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._name

    def is_alive(self, name: str) -> bool:
        """Say whether an owner, this one or another, still lives."""
        if self._file is not None and name == self._name:
            return True
        try:
            file = os.open(self._folder / (Path(name).name or "none"), os.O_RDWR)
        except OSError:  # none of ours: it has no lock to hold
            return False
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def forget(self, name: str) -> None:
        """Remove the file of an owner that is gone."""
        (self._folder / (Path(name).name or "none")).unlink(missing_ok=True)

    def close(self) -> None:
        """Live no longer."""
        if self._file is not None:
            self.forget(self._name)
            os.close(self._file)
            self._file = None


class WorkQueue:
    """One connection to the queue file; open one per process."""

    def __init__(self, path: Path) -> None:
        self._owner = Owner(path.with_name(path.name + "-owners"))
        self._connection = QUEUE_FORMAT.open(path, several_machines=None)

    @property
    def spans_machines(self) -> bool:
        """Whether the queue, and the logs of those who lease from it, may be open on several machines."""
        return is_for_several_machines(self._connection)

    def journal_for(self, *, several_machines: bool) -> None:
        """Get the file ready for workers on one machine or on several; UserError while others have it open."""
        if self.spans_machines is several_machines:
            return
        try:
            set_journal(self._connection, several_machines=several_machines)
        except sqlite3.OperationalError as error:
            raise UserError(f"this run is at work elsewhere, end that first (its queue: {error})") from error

    def add(self, keys: Iterable[str]) -> None:
        """Add episodes that are not there yet, in the order given."""
        rows = [(key, ordinal) for ordinal, key in enumerate(keys)]
        with transaction(self._connection):
            self._connection.executemany("INSERT OR IGNORE INTO work (key, ordinal) VALUES (?, ?)", rows)

    def lease(self, count: int) -> list[str]:
        """Take up to ``count`` open episodes for this process."""
        with transaction(self._connection):
            rows = self._connection.execute(
                "UPDATE work SET state = 'leased', owner = ?, attempts = attempts + 1 WHERE key IN "
                "(SELECT key FROM work WHERE state = 'open' ORDER BY ordinal LIMIT ?) RETURNING ordinal, key",
                (self._owner.name, count),
            ).fetchall()
        return [key for _, key in sorted(rows)]

    def lease_these(self, keys: Iterable[str]) -> list[str]:
        """Take those of some episodes that are open, in the order given."""
        with transaction(self._connection):
            return [key for key in keys if self._connection.execute(_LEASE_ONE, (self._owner.name, key)).rowcount]

    def was_begun(self, key: str) -> bool:
        """Whether another worker had leased an episode before the one that has it now."""
        row = self._connection.execute("SELECT attempts FROM work WHERE key = ?", (key,)).fetchone()
        return row is not None and row[0] > 1

    def done(self, key: str) -> None:
        """Mark an episode finished, for good."""
        with transaction(self._connection):
            self._connection.execute("UPDATE work SET state = 'done', owner = NULL WHERE key = ?", (key,))

    def give_back(self, key: str) -> None:
        """Return a lease unfinished (this process is stopping)."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE work SET state = 'open', owner = NULL WHERE key = ? AND owner = ?",
                (key, self._owner.name),
            )

    def reclaim(self) -> int:
        """Open every lease whose owner is gone; return how many."""
        with transaction(self._connection):  # nobody takes a lease meanwhile, so nobody's lock is about to be taken
            query = "SELECT DISTINCT owner FROM work WHERE state = 'leased'"
            owners = [row[0] or "" for row in self._connection.execute(query)]
            gone = [owner for owner in owners if not self._owner.is_alive(owner)]
            marks = ",".join("?" * len(gone))
            cursor = self._connection.execute(
                f"UPDATE work SET state = 'open', owner = NULL WHERE state = 'leased' AND owner IN ({marks})", gone
            )
            for owner in gone:
                self._owner.forget(owner)
        return cursor.rowcount

    def reopen(self, keys: Iterable[str]) -> None:
        """Open finished episodes again (retry of failures)."""
        with transaction(self._connection):
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
        """Close the connection; leases that were not given back have no owner from now on."""
        self._connection.close()
        self._owner.close()
