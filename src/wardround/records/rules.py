"""Time rules: the small language in which a source spec says when something happened or became known.

    COLUMN                  a time column of the row; a date-typed column reads as 23:59:59 of its day
    always | never          known from the start | at no time
    max(r, ..) min(r, ..)   null if any part is null
    first(r, ..)            the first part that is not null
    known(KEY, TABLE)       when the row of TABLE whose primary key equals this row's KEY cell became available
    ref(KEY, TABLE, COLUMN) a time cell of that row, but not before the row itself became available
    cell(KEY, TABLE, COLUMN) when a late cell of that row became known; null if the cell is empty
    when(COLUMN, 'A', .., r, s) r where the row's text COLUMN is one of the quoted values, else s
    lag(r, SETTING)         r plus a timedelta of the ingest settings
    shift(r, MINUTES)       r plus a whole number of minutes, negative for earlier
    end_of_day(r)           23:59:59 of the day of r
    median_delay(FROM, TO)  FROM plus the table's median of TO - FROM

A rule is evaluated over all rows at once, as microseconds since 1970 in int64; ``NO_TIME`` stands for null. Where the
columns and the other tables come from is the frame's business (`clocks.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
import numpy.typing as npt

from wardround.core import UserError, to_microseconds

Times = npt.NDArray[np.int64]
NO_TIME = int(np.iinfo(np.int64).min)
"""Null as an integer; the same bits as NumPy's NaT."""
ALWAYS_TIME = to_microseconds(datetime.min)
"""The time of ``always``: the first moment a Python datetime can hold."""

_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|-?[0-9]+|'[^']*'|[(),])")
_MINUTE = 60_000_000
_DAY = 24 * 60 * _MINUTE
_LAST_SECOND = _DAY - 1_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A time cell of the row itself."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Constant:
    """``always`` or ``never``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Combined:
    """``max``, ``min`` or ``first`` of other rules."""

    name: str
    parts: tuple[Rule, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Known:
    """The available time of the row that ``key`` names in ``table``."""

    key: str
    table: str

    def __str__(self) -> str:
        return f"known({self.key}, {self.table})"


@dataclass(frozen=True, slots=True)
class Reference:
    """A time cell of the row that ``key`` names in ``table``."""

    key: str
    table: str
    column: str

    def __str__(self) -> str:
        return f"ref({self.key}, {self.table}, {self.column})"


@dataclass(frozen=True, slots=True)
class LateCell:
    """When the cell ``column`` of the row that ``key`` names in ``table`` became known."""

    key: str
    table: str
    column: str

    def __str__(self) -> str:
        return f"cell({self.key}, {self.table}, {self.column})"


@dataclass(frozen=True, slots=True)
class Choice:
    """One rule for rows whose text column holds one of some values, another for the others."""

    column: str
    values: tuple[str, ...]
    chosen: Rule
    other: Rule

    def __str__(self) -> str:
        values = ", ".join(f"'{value}'" for value in self.values)
        return f"when({self.column}, {values}, {self.chosen}, {self.other})"


@dataclass(frozen=True, slots=True)
class Lag:
    """A rule delayed by a named setting."""

    part: Rule
    setting: str

    def __str__(self) -> str:
        return f"lag({self.part}, {self.setting})"


@dataclass(frozen=True, slots=True)
class Shift:
    """A rule moved by a fixed number of minutes."""

    part: Rule
    minutes: int

    def __str__(self) -> str:
        return f"shift({self.part}, {self.minutes})"


@dataclass(frozen=True, slots=True)
class EndOfDay:
    """The last second of the day of a rule's time."""

    part: Rule

    def __str__(self) -> str:
        return f"end_of_day({self.part})"


@dataclass(frozen=True, slots=True)
class MedianDelay:
    """``start`` plus the whole table's median of ``end - start``."""

    start: str
    end: str

    def __str__(self) -> str:
        return f"median_delay({self.start}, {self.end})"


Rule = Column | Constant | Combined | Known | Reference | LateCell | Choice | Lag | Shift | EndOfDay | MedianDelay

ALWAYS = Constant("always")
NEVER = Constant("never")


def parse_rule(text: str) -> Rule:
    """Read one rule. UserError says what was expected and shows the text."""
    tokens = _tokens(text)
    rule, rest = _parse(tokens, text)
    if rest:
        raise UserError(f"time rule {text!r}: nothing may follow {str(rule)!r}, found {rest[0]!r}")
    return rule


def walk(rule: Rule) -> Iterator[Rule]:
    """Yield a rule and every rule inside it."""
    yield rule
    if isinstance(rule, Combined):
        for part in rule.parts:
            yield from walk(part)
    elif isinstance(rule, Choice):
        yield from walk(rule.chosen)
        yield from walk(rule.other)
    elif isinstance(rule, Lag | Shift | EndOfDay):
        yield from walk(rule.part)


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UserError(f"time rule {text!r}: cannot read {text[position:].strip()!r}")
        tokens.append(match.group(1))
        position = match.end()
    if not tokens:
        raise UserError("a time rule is empty; write a column, 'always' or 'never'")
    return tokens


def _parse(tokens: list[str], text: str) -> tuple[Rule, list[str]]:
    head, rest = tokens[0], tokens[1:]
    if head in "(),":
        raise UserError(f"time rule {text!r}: expected a name, found {head!r}")
    if not rest or rest[0] != "(":
        return (Constant(head) if head in ("always", "never") else Column(head)), rest
    if head not in _BUILDERS:
        raise UserError(f"time rule {text!r}: unknown function {head!r}; known are {', '.join(sorted(_BUILDERS))}")
    arguments: list[Rule] = []
    rest = rest[1:]
    while True:
        if not rest:
            raise UserError(f"time rule {text!r}: a ')' is missing")
        argument, rest = _parse(rest, text)
        arguments.append(argument)
        if not rest:
            raise UserError(f"time rule {text!r}: a ')' is missing")
        if rest[0] == ")":
            return _BUILDERS[head](head, arguments, text), rest[1:]
        if rest[0] != ",":
            raise UserError(f"time rule {text!r}: expected ',' or ')', found {rest[0]!r}")
        rest = rest[1:]


def _names(head: str, arguments: list[Rule], count: int, text: str) -> list[str]:
    names = [argument.name for argument in arguments if isinstance(argument, Column)]
    if len(arguments) != count or len(names) != count:
        raise UserError(f"time rule {text!r}: {head} takes {count} plain names")
    return names


def _combined(head: str, arguments: list[Rule], text: str) -> Rule:
    return Combined(head, tuple(arguments))


def _known(head: str, arguments: list[Rule], text: str) -> Rule:
    key, table = _names(head, arguments, 2, text)
    return Known(key, table)


def _reference(head: str, arguments: list[Rule], text: str) -> Rule:
    key, table, column = _names(head, arguments, 3, text)
    return Reference(key, table, column)


def _late_cell(head: str, arguments: list[Rule], text: str) -> Rule:
    key, table, column = _names(head, arguments, 3, text)
    return LateCell(key, table, column)


def _choice(head: str, arguments: list[Rule], text: str) -> Rule:
    quoted = [part.name for part in arguments[1:-2] if isinstance(part, Column) and part.name.startswith("'")]
    if len(arguments) < 4 or not isinstance(arguments[0], Column) or len(quoted) != len(arguments) - 3:
        raise UserError(f"time rule {text!r}: when takes a column, quoted values and two rules")
    return Choice(arguments[0].name, tuple(value[1:-1] for value in quoted), arguments[-2], arguments[-1])


def _lag(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 2 or not isinstance(arguments[1], Column):
        raise UserError(f"time rule {text!r}: lag takes a rule and the name of a setting")
    return Lag(arguments[0], arguments[1].name)


def _shift(head: str, arguments: list[Rule], text: str) -> Rule:
    minutes = arguments[1] if len(arguments) == 2 else None
    if not isinstance(minutes, Column) or not minutes.name.lstrip("-").isdecimal():
        raise UserError(f"time rule {text!r}: shift takes a rule and a whole number of minutes")
    return Shift(arguments[0], int(minutes.name))


def _end_of_day(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 1:
        raise UserError(f"time rule {text!r}: end_of_day takes one rule")
    return EndOfDay(arguments[0])


def _median_delay(head: str, arguments: list[Rule], text: str) -> Rule:
    start, end = _names(head, arguments, 2, text)
    return MedianDelay(start, end)


_BUILDERS: dict[str, Callable[[str, list[Rule], str], Rule]] = {
    "max": _combined,
    "min": _combined,
    "first": _combined,
    "known": _known,
    "ref": _reference,
    "cell": _late_cell,
    "when": _choice,
    "lag": _lag,
    "shift": _shift,
    "end_of_day": _end_of_day,
    "median_delay": _median_delay,
}


class Frame(Protocol):
    """The rows a rule is evaluated over, and the tables it may look into."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        ...

    def times(self, column: str) -> Times:
        """A time or date column of the rows."""
        ...

    def known(self, key: str, table: str) -> Times:
        """Available times of the rows that ``key`` names in ``table``."""
        ...

    def reference(self, key: str, table: str, column: str) -> Times:
        """Time cells of the rows that ``key`` names in ``table``."""
        ...

    def late_cell(self, key: str, table: str, column: str) -> Times:
        """When the late cells of the rows that ``key`` names in ``table`` became known; null for empty cells."""
        ...

    def holds(self, column: str, values: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Which rows hold one of ``values`` in a text column."""
        ...

    def lag(self, setting: str) -> int:
        """A setting in microseconds."""
        ...

    def median_delay(self, start: str, end: str) -> int | None:
        """The table's median of ``end - start`` in microseconds; None when no row has both."""
        ...


def evaluate(rule: Rule, frame: Frame) -> Times:
    """Return the rule's time for every row of the frame, ``NO_TIME`` where it is null."""
    match rule:
        case Column(name):
            return frame.times(name)
        case Constant(name):
            return np.full(frame.num_rows, ALWAYS_TIME if name == "always" else NO_TIME, dtype=np.int64)
        case Combined("first", parts):
            return _first([evaluate(part, frame) for part in parts])
        case Combined(name, parts):
            return _extreme(name, [evaluate(part, frame) for part in parts])
        case Known(key, table):
            return frame.known(key, table)
        case Reference(key, table, column):
            return frame.reference(key, table, column)
        case LateCell(key, table, column):
            return frame.late_cell(key, table, column)
        case Choice(column, values, chosen, other):
            return np.where(frame.holds(column, values), evaluate(chosen, frame), evaluate(other, frame))
        case Lag(part, setting):
            return _add(evaluate(part, frame), frame.lag(setting))
        case Shift(part, minutes):
            return _add(evaluate(part, frame), minutes * _MINUTE)
        case EndOfDay(part):
            return _last_second(evaluate(part, frame))
        case MedianDelay(start, end):
            delay = frame.median_delay(start, end)
            return np.full(frame.num_rows, NO_TIME) if delay is None else _add(frame.times(start), delay)


def _first(parts: list[Times]) -> Times:
    result = parts[0]
    for part in parts[1:]:
        missing = result == NO_TIME
        if not missing.any():
            break
        result = np.where(missing, part, result)
    return result


def _extreme(name: str, parts: list[Times]) -> Times:
    result = parts[0]
    for part in parts[1:]:
        if name == "min":
            result = np.minimum(result, part)
        else:
            missing = (result == NO_TIME) | (part == NO_TIME)
            result = np.where(missing, NO_TIME, np.maximum(result, part))
    return result


def _last_second(times: Times) -> Times:
    fixed = (times == NO_TIME) | (times == ALWAYS_TIME)
    return np.where(fixed, times, times // _DAY * _DAY + _LAST_SECOND)


def _add(times: Times, microseconds: int) -> Times:
    if microseconds == 0:
        return times
    fixed = (times == NO_TIME) | (times == ALWAYS_TIME)
    return np.where(fixed, times, times + microseconds)
