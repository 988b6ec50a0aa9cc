"""An open file of a bank: one connection behind one lock, its settings, and transactions that are all or nothing."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wardround.core import UserError
from wardround.memory.database import explained

_LAST_NUMBER = (
    "SELECT max((SELECT coalesce(max(number), 0) FROM revision), (SELECT coalesce(max(number), 0) FROM step))"
)


class BankFile:
    """One connection to a bank; safe for the threads of one process that hold ``lock`` while they use it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.path = path
        self.connection = connection
        self.writable = writable
        self.lock = threading.RLock()

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query. Raises UserError in words for a person."""
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def setting(self, name: str) -> Any:
        """A setting of the bank; None where it was not made."""
        rows = self.rows("SELECT value FROM setting WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    @property
    def last_number(self) -> int:
        """The last number of the bank's clock."""
        return int(self.rows(_LAST_NUMBER)[0][0])

    @property
    def data_version(self) -> int:
        """A number that changes when another connection has written."""
        return int(self.rows("PRAGMA data_version")[0][0])

    @contextmanager
    def view(self) -> Iterator[None]:
        """Read everything inside from one view of the file, whoever writes meanwhile."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    @contextmanager
    def writing(self, *, undone: Callable[[], None]) -> Iterator[None]:
        """Commit everything written inside at once; ``undone`` is called where it was rolled back."""
        if not self.writable:
            raise UserError(f"{self.path} was opened for reading only")
        if self.connection.in_transaction:
            yield
            return
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(undone)
            raise explained(error, self.path) from error
        except BaseException:
            self._roll_back(undone)
            raise

    def _roll_back(self, undone: Callable[[], None]) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
            undone()

    def rebuild(self) -> None:
        """Write the file anew, without what was deleted from it, and empty the log beside it.

        Raises UserError while another process reads an earlier state: until it ends, the log holds that state.
        """
        try:
            self.connection.execute("VACUUM")
            busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            raise explained(error, self.path) from error
        if busy:
            raise UserError(
                f"another process reads {self.path}: what was deleted is still in its log; end it, ask again"
            )

    def close(self) -> None:
        """Close the file; a writer first moves what it committed into it, so that a copy of that one file is whole.

        SQLite does so only for the last one to close, and who may only read cannot: a reader that closes later would
        leave all commits in the log beside the file. A reader in the midst of a read keeps its log, and nothing waits.
        """
        with self.lock:
            if self.writable:
                with suppress(sqlite3.OperationalError):  # another one writes: whoever closes last does it
                    self.connection.execute("PRAGMA busy_timeout = 0")
                    self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.close()
