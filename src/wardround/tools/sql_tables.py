"""Tables and functions of the gate's database, built when a statement names them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wardround.core import format_time
from wardround.core.sqlite import transaction
from wardround.tools.table_view import column_kind, dense, texts, time_texts

if TYPE_CHECKING:
    from wardround.records import Chart
    from wardround.tools.candidates import CandidateSpace


# The functions a model's SQL may call, and those that are replaced: by the chart's clock, or to bound their cost.
#
# Left out on purpose: whatever opens files or code (``load_extension``), differs from run to run (``random``), makes
# values from nothing (``zeroblob``, ``randomblob``) or costs more than linear time in one step (JSON). SQLite's own
# ``instr``, ``replace`` and two-argument trims are quadratic, and ``printf('%.*c', ...)`` counts to any width
# (measured: one ``trim`` of 190 kB takes 5 s, one ``printf`` 2 s, and no handler can stop them); here they are linear
# and bounded.


LONGEST_VALUE = 200_000
_LONGEST_TRIM_SET = 64
_CACHED_TIMES = 8_192
_DIGITS = re.compile(r"\d{1,19}")

_FUNCTIONS = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh avg cast ceil ceiling char coalesce concat concat_ws cos cosh count
    cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor
    format glob group_concat hex if ifnull iif instr julianday lag last_value lead length like likelihood likely ln
    log log10 log2 lower ltrim max min mod nth_value ntile nullif octet_length percent_rank pi pow power printf
    quote radians rank replace round row_number rtrim sign sin sinh soundex sqrt strftime string_agg substr
    substring sum tan tanh time timediff total trim trunc typeof unicode unixepoch unlikely upper
    """.split()  # noqa: SIM905
)
_REPLACED = frozenset(("cast", "current_date", "current_time", "current_timestamp"))
"""No functions to SQLite's list of them."""

STRING_MAKERS = frozenset(
    ("char", "concat", "concat_ws", "format", "group_concat", "hex", "printf", "quote", "replace")
)
"""Functions (besides ``||``) that can make a text longer than any cell; their callers are watched closely."""

_TIME_FUNCTIONS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1, "timediff": 0}
"""Name -> position of the time value."""


@cache
def allowed_functions() -> frozenset[str]:
    """Return the functions that a model's SQL may call and this machine's SQLite has. The authorizer refuses every
    other."""
    return _FUNCTIONS & (_built_in() | _REPLACED)


class Refused(Exception):
    """A replaced function cannot serve its arguments; the text goes to the model."""


def install(connection: sqlite3.Connection, as_of: datetime, fail: Callable[[str], None]) -> sqlite3.Connection:
    """Replace functions on a connection; ``fail`` hears why one refused. Returns the clock's connection, to close."""
    clock = sqlite3.connect(":memory:", check_same_thread=False)
    clock.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    compute = lru_cache(maxsize=_CACHED_TIMES, typed=True)(partial(_time_function, clock, format_time(as_of)))
    for name in _TIME_FUNCTIONS.keys() & _built_in():
        connection.create_function(name, -1, partial(compute, name), deterministic=True)
    for name, function in (("current_timestamp", "datetime"), ("current_date", "date"), ("current_time", "time")):
        connection.create_function(name, 0, partial(compute, function), deterministic=True)
    for name, arity, replaced in (
        ("printf", -1, partial(_format, clock)),
        ("format", -1, partial(_format, clock)),
        ("instr", 2, _instr),
        ("replace", 3, _replace),
        ("trim", 2, partial(_trim, str.strip)),
        ("ltrim", 2, partial(_trim, str.lstrip)),
        ("rtrim", 2, partial(_trim, str.rstrip)),
    ):
        connection.create_function(name, arity, partial(_guarded, fail, replaced), deterministic=True)
    return clock


@cache
def _built_in() -> frozenset[str]:
    """Return the functions of this SQLite; older versions lack a few."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return frozenset(name for (name,) in connection.execute("SELECT DISTINCT name FROM pragma_function_list"))


def _time_function(clock: sqlite3.Connection, now: str, name: str, *arguments: Any) -> Any:
    """Run SQLite's own function with the chart's clock for ``now``; host time zones do not exist here."""
    position = _TIME_FUNCTIONS[name]
    values = list(arguments)
    if len(values) <= position and name != "timediff":
        values.append("now")
    moments = (0, 1) if name == "timediff" else (position,)
    for place in moments:
        if place < len(values) and isinstance(values[place], str):
            folded = values[place].strip().casefold()
            if folded in ("subsec", "subsecond"):
                values[place : place + 1] = [now, folded]
            elif folded == "now":
                values[place] = now
    kept = [
        value
        for place, value in enumerate(values)
        if place in moments or not isinstance(value, str) or value.strip().casefold() not in ("localtime", "utc")
    ]
    marks = ",".join("?" * len(kept))
    return clock.execute(f"SELECT {name}({marks})", kept).fetchone()[0]


def _guarded(fail: Callable[[str], None], function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Refused as refusal:
        fail(str(refusal))
        raise


def _text(value: Any) -> str:
    """Return a value as SQLite writes it as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        text = format(value, ".15g")
        return text if not text.lstrip("-").isdigit() else text + ".0"
    return str(value)


def _format(clock: sqlite3.Connection, *arguments: Any) -> Any:
    """Run SQLite's printf once the widths and precisions, in the format or in its arguments, are known to be small."""
    if not arguments or arguments[0] is None:
        return None
    form = _text(arguments[0])
    width = sum(int(digits) for digits in _DIGITS.findall(form)) if len(form) < LONGEST_VALUE else LONGEST_VALUE
    if "*" in form:
        width += sum(_magnitude(value) for value in arguments[1:])
    if width > LONGEST_VALUE:
        raise Refused(f"printf() was asked for a width of {width:,}; the limit is {LONGEST_VALUE:,}.")
    made = clock.execute(f"SELECT printf({','.join('?' * len(arguments))})", arguments).fetchone()[0]
    if made is None and form:  # SQLite's own way of saying so: an empty format apart, nothing else gives NULL
        raise Refused(f"printf() would make a text of more than {LONGEST_VALUE:,} characters.")
    return made


def _magnitude(value: Any) -> int:
    """Return how wide a value makes a field that is formatted by ``*``."""
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, float):
        return min(int(abs(value)), 2**63) if abs(value) < float("inf") else 0
    found = _DIGITS.search(_text(value)) if value is not None else None
    return int(found.group()) if found else 0


def _instr(text: Any, part: Any) -> int | None:
    if text is None or part is None:
        return None
    if isinstance(text, bytes) and isinstance(part, bytes):
        return text.find(part) + 1
    return _text(text).find(_text(part)) + 1


def _replace(text: Any, old: Any, new: Any) -> str | None:
    if text is None or old is None or new is None:
        return None
    whole, part, other = _text(text), _text(old), _text(new)
    if not part:
        return whole
    grown = len(whole) + whole.count(part) * (len(other) - len(part))
    if grown > LONGEST_VALUE:
        raise Refused(f"replace() would make a text of {grown:,} characters; the limit is {LONGEST_VALUE:,}.")
    return whole.replace(part, other)


def _trim(strip: Callable[[str, str], str], text: Any, characters: Any) -> str | None:
    if text is None or characters is None:
        return None
    unwanted = "".join(sorted(set(_text(characters))))
    if len(unwanted) > _LONGEST_TRIM_SET:
        raise Refused(f"trim() takes at most {_LONGEST_TRIM_SET} different characters.")
    return strip(_text(text), unwanted) if unwanted else _text(text)


# Filling the gate's database: one typed SQLite table per chart table or candidate space, when first named.


_AFFINITY = {"int": "INTEGER", "float": "REAL", "text": "TEXT", "time": "TEXT", "date": "TEXT"}
_LONGEST_CELL_BYTES = LONGEST_VALUE - 10_000


def quoted(name: str) -> str:
    """Return an identifier in SQL quotes where it needs them."""
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class BuiltTable:
    """A table in the gate's database; ``unfilled`` are the columns, in lower case, whose values are not in it yet."""

    columns: tuple[str, ...]
    unfilled: frozenset[str] = frozenset()
    longest_cell: int = 0
    """Bytes of the longest text of all columns, filled or not."""


class TableLoader:
    """Knows which tables there are and which are built (by lower-case name); fills one at a time."""

    def __init__(self, chart: Chart | None, candidates: Mapping[str, CandidateSpace]) -> None:
        self._chart = chart
        self._candidates = candidates
        names = (*(chart.table_names if chart is not None else ()), *candidates)
        self._by_folded = {name.lower(): name for name in names}
        self.built: dict[str, BuiltTable] = {}

    @classmethod
    def of_connection(cls, connection: sqlite3.Connection) -> TableLoader:
        """Return a loader for tables that are already there."""
        loader = cls(None, {})
        found = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in found:
            if not name.startswith("sqlite_"):
                cursor = connection.execute(f"SELECT * FROM {quoted(name)} LIMIT 0")
                loader._by_folded[name.lower()] = name
                loader.built[name.lower()] = BuiltTable(tuple(entry[0] for entry in cursor.description))
        return loader

    @property
    def names(self) -> tuple[str, ...]:
        """All tables by their own spelling."""
        return tuple(self._by_folded.values())

    def missing(self, wanted: frozenset[str], *, whole: bool) -> list[str]:
        """Return the tables among lower-case names that are not built, or lack values of a column among the names, in a
        fixed order; ``whole``: that lack values of any column."""

        def lacks(folded: str) -> bool:
            table = self.built.get(folded)
            return table is None or bool(table.unfilled if whole else table.unfilled & wanted)

        return [name for folded, name in self._by_folded.items() if folded in wanted and lacks(folded)]

    def longest_cell(self, wanted: Iterable[str]) -> int:
        """Return the longest text, in bytes, of the built tables among some lower-case names."""
        return max((self.built[name].longest_cell for name in wanted if name in self.built), default=0)

    def build(self, connection: sqlite3.Connection, name: str, wanted: frozenset[str] | None) -> None:
        """Create one table, or go on filling it: the columns among lower-case names; None: all.

        Columns that are not filled are NULL. A column whose name is more than ASCII letters, digits and ``_`` is always
        filled, with its whole table: a statement's tokens may not show that it is named.
        """
        if name in self._candidates:
            names, columns = ["candidate"], [pa.array(self._candidates[name].labels.labels, pa.string())]
        else:
            assert self._chart is not None
            batch = self._chart.table(name).batch
            names, columns = batch.schema.names, [dense(array) for array in batch.columns]
        built = self.built.get(name.lower())
        before = frozenset(column.lower() for column in names) if built is None else built.unfilled
        can_wait = "_rowid_" not in before and all(column.isidentifier() and column.isascii() for column in names)
        unfilled = before - wanted if wanted is not None and can_wait else frozenset()
        fills = [
            column.lower() in before - unfilled and array.null_count < len(array)
            for column, array in zip(names, columns, strict=True)
        ]
        longest = list(map(_longest_text, columns))
        values = [python_values(columns[n], longest[n]) for n, now in enumerate(fills) if now]
        rows = range(1, len(columns[0]) + 1)
        with transaction(connection):
            if built is None:
                pairs = zip(names, columns, strict=True)
                header = (f'"{column}" {_AFFINITY[column_kind(array.type)]}' for column, array in pairs)
                connection.execute(f"CREATE TABLE {quoted(name)} ({', '.join(header)})")
                marks = ",".join("?" if now else "NULL" for now in fills)
                cells = zip(*values, strict=True) if values else (() for _ in rows)
                connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", cells)
            elif values:
                marks = ", ".join(f'"{column}" = ?' for column, now in zip(names, fills, strict=True) if now)
                cells = zip(*values, rows, strict=True)
                connection.executemany(f"UPDATE {quoted(name)} SET {marks} WHERE _rowid_ = ?", cells)
        self.built[name.lower()] = BuiltTable(tuple(names), unfilled, max(longest, default=0))


def python_values(array: pa.Array, longest: int) -> list[Any]:
    """Return a column as SQLite values: numbers, texts, times and dates as text; a text that is too long says so.

    ``longest``: the bytes of its longest text.
    """
    kind = column_kind(array.type)
    if kind == "time":
        return time_texts(array)
    if kind == "date":
        return texts(array.cast(pa.string()))
    if kind != "text":
        return array.to_pylist()  # type: ignore[no-any-return]
    values = texts(array)
    return [_cut(value) for value in values] if longest > _LONGEST_CELL_BYTES else values


def _longest_text(array: pa.Array) -> int:
    """Return the bytes of the longest text of a column, 0 where it holds none."""
    large = pa.types.is_large_string(array.type)
    if not len(array) or not (large or pa.types.is_string(array.type)):
        return 0
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64 if large else np.int32)
    return int(np.diff(offsets[array.offset : array.offset + len(array) + 1]).max())


def _cut(value: str | None) -> str | None:
    if value is None or len(value.encode("utf-8", "replace")) <= _LONGEST_CELL_BYTES:
        return value
    kept = value.encode("utf-8", "replace")[: _LONGEST_CELL_BYTES - 100].decode("utf-8", "ignore")
    return f"{kept} [{len(value) - len(kept):,} more characters; read the row with get_records_by_value]"
