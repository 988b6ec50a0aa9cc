"""The functions a model's SQL may call, and those that are replaced: by the chart's clock, or to bound their cost.

Left out on purpose: whatever opens files or code (``load_extension``), differs from run to run (``random``), makes
values from nothing (``zeroblob``, ``randomblob``) or costs more than linear time in one step (JSON). SQLite's own
``instr``, ``replace`` and two-argument trims are quadratic, and ``printf('%.*c', ...)`` counts to any width (measured:
one ``trim`` of 190 kB takes 5 s, one ``printf`` 2 s, and no handler can stop them); here they are linear and bounded.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import cache, lru_cache, partial
from typing import Any

from wardround.core import format_time

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
    """The functions that a model's SQL may call and this machine's SQLite has; the authorizer refuses every other."""
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
    """The functions this SQLite has; older ones lack a few."""
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
    """How wide a value makes a field when it stands for ``*``."""
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
