"""The SQL gate: one read-only SELECT over one chart, bounded in time and memory.

It opens SQLite itself, not through `core/sqlite.py`: its databases are in memory, hold no format of ours, and run SQL
that a model wrote, so they have limits, an authorizer and functions that our own files must not have.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import marshal
import os
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wardround.core import ToolFailure
from wardround.core.errors import nearest, unknown
from wardround.tools.sql_tables import LONGEST_VALUE, STRING_MAKERS, TableLoader, allowed_functions, install, quoted
from wardround.tools.sql_text import Token, common_tables, means_all_columns, named, tokens, unfolded_tokens

if TYPE_CHECKING:
    from wardround.records import Chart
    from wardround.tools.candidates import CandidateSpace


# How much memory SQLite holds in this process, so that a statement that takes too much can be stopped.
#
# SQLite's own hard heap limit is a process-wide setting: hitting it would fail the episode log's database too. So the
# gate reads the figure and stops only its own statement.


if sys.platform != "win32":
    import resource


@cache
def heap_probe() -> Callable[[], int]:
    """Return a cheap function that gives the bytes in use: SQLite's own count, else the process's resident size."""
    try:
        library = ctypes.PyDLL(getattr(_sqlite3, "__file__", None))
        count = library.sqlite3_memory_used
    except (OSError, AttributeError):
        return _resident_probe()
    count.restype = ctypes.c_int64
    count.argtypes = ()
    return count if _counts(count) else _resident_probe()


def _counts(count: Callable[[], int]) -> bool:
    """Return whether the library keeps its statistics (some builds do not) and is the one Python uses."""
    before = count()
    connection = _sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t(a)")
    grown = count() > before
    connection.close()
    return grown


def _resident_probe() -> Callable[[], int]:
    """Return the process's resident size where Linux tells it, else its peak (macOS), else nothing (Windows)."""
    if sys.platform == "win32":
        return int
    if not Path("/proc/self/statm").exists():
        return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    page = resource.getpagesize()
    return lambda: int(os.pread(file, 128, 0).split()[1]) * page


# The SQL gate: one read-only SELECT of a model over one chart, within bounds of time and memory.
#
# Three walls, the first of which is the one that matters:
#
# 1. *Data*: an in-memory database that holds only the chart's visible rows. What is not known yet is not in it. 2.
# *Engine*: an authorizer that allows reading these tables and calling listed functions, and nothing else;
# ``query_only``, ``trusted_schema=OFF``, SQLite's own limits; ``now`` is the chart's clock; temporary data stays in
# memory. 3. *Budgets*: operations, CPU time, memory, rows and bytes, checked from the progress handler. What happens
# inside one step is bounded by the length limit and by replacing SQLite's quadratic functions (``sql_functions``), what
# happens while compiling by bounding the unfolded statement (``sql_text``).


_FIRST_WORDS = frozenset(("select", "with", "values"))
_SQL_LENGTH = 20_000
_UNFOLDED_TOKENS = 60_000
_ENGINE_LIMITS: Mapping[int, int] = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * _SQL_LENGTH,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 60,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 128,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_NUMBERED = re.compile(r"(?<=\w):\d+$")
_STEPS_BETWEEN_CHECKS = 1_000
_STEPS_BETWEEN_CLOSE_CHECKS = 10
_LONG_CELL = 4_000
_RECENT_ANSWERS = 4
_SHARED_HEAP_SHARE = 0.25
_ALONE = threading.Lock()
"""Held by the one statement of the process that may take its whole memory budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """Budgets of one statement. ``seconds`` is CPU time of its thread; ``heap_bytes`` what SQLite may take on top."""

    operations: int = 10_000_000
    seconds: float = 0.25
    heap_bytes: int = 64 * 2**20
    rows: int = 1_000
    result_bytes: int = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """What a statement gave. ``truncated`` when the row or byte cap ended it early; ``tables`` are those it names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    tables: tuple[str, ...] = ()


class _HeapSpent(Exception):
    """The statement took more memory than its share."""


class _ColumnUnfilled(Exception):
    """The statement reads a column whose values are not in the database yet."""


class SqlGate:
    """A gate over a chart's visible rows. Safe across threads.

    A table is built when a statement first names it, with the columns that the statement names; the next statement that
    needs another fills them all. Which columns those are is read from the statement, and the engine checks it: reading
    an unfilled column ends the statement, fills the table and runs it again.
    """

    def __init__(
        self,
        chart: Chart,
        *,
        candidates: Mapping[str, CandidateSpace] = MappingProxyType({}),
        limits: SqlLimits | None = None,
    ) -> None:
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._open(connection, TableLoader(chart, candidates), chart.as_of, limits or SqlLimits())

    @classmethod
    def over(cls, connection: sqlite3.Connection, *, as_of: datetime, limits: SqlLimits | None = None) -> SqlGate:
        """Put the same walls around the tables of a connection (``check_same_thread=False``); the gate then owns it."""
        gate = cls.__new__(cls)
        gate._open(connection, TableLoader.of_connection(connection), as_of, limits or SqlLimits())
        return gate

    def _open(self, connection: sqlite3.Connection, loader: TableLoader, as_of: datetime, limits: SqlLimits) -> None:
        self.limits = limits
        self._connection = connection
        self._loader = loader
        self._lock = threading.Lock()
        self._closed = False
        self._reason = ""
        self.ran_out_of_time = False
        self._refusals: list[str] = []
        self._recent: dict[str, SqlAnswer] = {}
        self._steps = self._every = 0
        self._deadline = 0.0
        self._heap_limit = 0
        self._unfilled = False
        self._heap = heap_probe()
        self._readable: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA trusted_schema=OFF")
        self._clock = install(connection, as_of, self._refusals.append)
        for limit, value in _ENGINE_LIMITS.items():
            connection.setlimit(limit, value)
        self._lock_down()

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables a statement may name."""
        return self._loader.names

    def query(self, sql: str) -> SqlAnswer:
        """Run one SELECT; ToolFailure says why it was refused or stopped."""
        statement = _read(sql)
        with self._lock:
            if self._closed:
                raise ToolFailure("the session is closed.")
            self.ran_out_of_time = False
            if sql in self._recent:
                return self._recent[sql]
            self._names = named(statement)
            self._load(whole=means_all_columns(statement))
            self._readable = frozenset(common_tables(statement))
            self._every = self._step_size(statement)
            try:
                answer = self._answer(sql)
            except _ColumnUnfilled:
                self._load(whole=True)
                answer = self._answer(sql)
            answer = replace(answer, tables=tuple(name for name in self.table_names if name.lower() in self._names))
            while len(self._recent) >= _RECENT_ANSWERS:  # the next page does not run the statement again
                self._recent.pop(next(iter(self._recent)))
            self._recent[sql] = answer
            return answer

    def _answer(self, sql: str) -> SqlAnswer:
        """Run a statement with a share of its memory budget; if that is too little, with all of it and alone."""
        self._deadline = time.thread_time() + self.limits.seconds
        try:
            return self._run(sql, int(self.limits.heap_bytes * _SHARED_HEAP_SHARE))
        except _HeapSpent:
            with _ALONE:
                return self._run(sql, self.limits.heap_bytes)

    def close(self) -> None:
        """Free the database."""
        with self._lock:
            self._closed = True
            self._connection.close()
            self._clock.close()

    def _load(self, *, whole: bool) -> None:
        """Build the tables a statement names with the columns it names, or ``whole``; the walls are down only here,
        where no model's SQL runs."""
        wanted = self._loader.missing(self._names, whole=whole)
        if not wanted:
            return
        self._connection.set_authorizer(None)
        self._connection.execute("PRAGMA query_only=OFF")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000_000)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 2_000)
        try:
            for name in wanted:
                self._loader.build(self._connection, name, None if whole else self._names)
        finally:
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 0)
            self._lock_down()

    def _lock_down(self) -> None:
        self._connection.execute("PRAGMA query_only=ON")
        self._connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, first: str | None, second: str | None, database: str | None, _: object) -> int:
        """Allow reading the built tables and calling the listed functions; SQLite passes None if it has no name."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            return self._may_read((first or "").lower(), (second or "").lower(), database)
        if action == sqlite3.SQLITE_FUNCTION:
            if (second or "").lower() in allowed_functions():
                return sqlite3.SQLITE_OK
            self._reason = self._reason or f"function {second}() cannot be used here."
            return sqlite3.SQLITE_DENY
        self._reason = self._reason or "only reading is allowed: one SELECT over the tables of this chart."
        return sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str, database: str | None) -> int:
        if table in self._readable and database is None:
            return sqlite3.SQLITE_OK
        built = self._loader.built.get(table)
        if built is not None:
            self._unfilled = self._unfilled or column in built.unfilled
            return sqlite3.SQLITE_DENY if column in built.unfilled else sqlite3.SQLITE_OK
        self._reason = self._reason or (
            f"table {table!r} cannot be read. Tables: {', '.join(self.table_names)}; get_column_names lists columns."
        )
        return sqlite3.SQLITE_DENY

    def _step_size(self, statement: list[Token]) -> int:
        """Check more often where one step can be slow: with long cells, or where texts can be made longer."""
        words = {token.text for token in statement}
        long = words & STRING_MAKERS or "||" in words or self._loader.longest_cell(self._names) > _LONG_CELL
        return _STEPS_BETWEEN_CLOSE_CHECKS if long else _STEPS_BETWEEN_CHECKS

    def _run(self, sql: str, heap_bytes: int) -> SqlAnswer:
        self._reason = ""
        self._unfilled = False
        self._refusals.clear()
        self._steps = 0
        self._heap_limit = self._heap() + heap_bytes
        self._connection.set_progress_handler(self._watch, self._every)
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql)
            return self._fetch(cursor)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if self._unfilled and not self._reason:
                raise _ColumnUnfilled from error
            if self._reason == "heap":
                if heap_bytes < self.limits.heap_bytes:
                    raise _HeapSpent from error
                self._reason = _stopped("needed too much memory")
            raise ToolFailure(self._reason or " ".join(self._refusals) or self._explain(str(error))) from error
        except MemoryError as error:  # what SQLite answers when a statement compiles to too many operations
            raise ToolFailure("the query is too complex to run; split it into smaller ones.") from error
        finally:
            cursor.close()
            self._connection.set_progress_handler(None, 1)

    def _fetch(self, cursor: sqlite3.Cursor) -> SqlAnswer:
        if cursor.description is None:
            raise ToolFailure("only one SELECT statement over the tables of this chart can be run.")
        columns = _stable_names(entry[0] for entry in cursor.description)
        rows: list[tuple[Any, ...]] = []
        size = 0
        for row in cursor:
            size += len(marshal.dumps(row))  # the quickest way to a row's size
            if len(rows) == self.limits.rows or (rows and size > self.limits.result_bytes):
                return SqlAnswer(columns=columns, rows=tuple(rows), truncated=True)
            rows.append(row)
        return SqlAnswer(columns=columns, rows=tuple(rows), truncated=False)

    def _watch(self) -> int:
        """Called by SQLite every few steps; anything but 0 stops the statement."""
        self._steps += self._every
        if self._steps > self.limits.operations:
            self._reason = self._reason or _stopped(f"needed more than {self.limits.operations:,} steps")
        elif time.thread_time() > self._deadline:
            self.ran_out_of_time = not self._reason
            self._reason = self._reason or _stopped(f"took longer than {self.limits.seconds:g} s")
        elif self._heap() > self._heap_limit:
            self._reason = self._reason or "heap"
        return 1 if self._reason else 0

    def _explain(self, error: str) -> str:
        """Turn SQLite's message into one that names what would be right."""
        kind, _, name = error.partition(": ")
        if kind == "no such table":
            return unknown("table", name, self.table_names)
        if kind == "no such column":
            built = self._loader.built
            tables = [table for table in self.table_names if table.lower() in self._names]
            return _unknown_column(name, {table: built[table.lower()].columns for table in tables})
        if kind == "no such function":
            close = nearest(name, sorted(allowed_functions()))
            return f"SQLite has no function {name!r}." + (f" Did you mean {', '.join(close)}?" if close else "")
        if "one statement at a time" in error:
            return "only one statement can be run; leave out everything after the first ';'."
        return f"the query cannot be run: {error}."


def _read(sql: str) -> list[Token]:
    """Return a statement's tokens, or refuse what need not reach SQLite at all."""
    if len(sql) > _SQL_LENGTH:
        raise ToolFailure(f"the query has {len(sql):,} characters; the limit is {_SQL_LENGTH:,}.")
    statement = tokens(sql)
    if not statement or statement[0].text not in _FIRST_WORDS:
        raise ToolFailure("only one SELECT statement (or WITH ... SELECT) over the tables of this chart can be run.")
    if any(token.kind == "parameter" for token in statement):
        raise ToolFailure("the query has parameters (?, :name, @name or $name); write the values into it.")
    if unfolded_tokens(statement) > _UNFOLDED_TOKENS:
        raise ToolFailure("the query uses its WITH tables too many times over; use each of them once or twice.")
    return statement


def _stable_names(names: Iterable[str]) -> tuple[str, ...]:
    """Number repeated columns ``name:1``, ``name:2``: SQLite falls back on random numbers when there are many."""
    seen: dict[str, int] = {}
    stable = []
    for name in names:
        plain = _NUMBERED.sub("", name)
        times = seen[plain] = seen.get(plain, -1) + 1
        stable.append(f"{plain}:{times}" if times else plain)
    return tuple(stable)


def _stopped(why: str) -> str:
    return f"the query was stopped: it {why}. Narrow it with WHERE, join on keys, or aggregate in fewer steps."


def _unknown_column(name: str, columns: Mapping[str, tuple[str, ...]]) -> str:
    plain = name.rpartition(".")[2].strip('"')
    everywhere = list(dict.fromkeys(column for names in columns.values() for column in names))
    close = nearest(plain, everywhere)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    listed = "; ".join(f"{quoted(table)}: {', '.join(names)}" for table, names in list(columns.items())[:3])
    return f"there is no column {name!r}.{hint} Columns of {listed}." if listed else f"there is no column {name!r}."
