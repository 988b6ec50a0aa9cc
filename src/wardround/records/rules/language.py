"""Time rules: the small language in which a source spec says when something happened or became known.

    COLUMN                  a time column of the row; a date-typed column reads as 23:59:59 of its day
    always | never          known from the start | at no time
    max(r, ..) min(r, ..)   null if any part is null
    first(r, ..) last(r, ..) the first part that is not null | the largest of those that are not
    given(r, s, t)          s where r is not null, else t
    until(r, s)             r where it is not after s, else null
    known(KEY, TABLE)       when the row of TABLE whose primary key equals this row's KEY cell became available
    ref(KEY, TABLE, COLUMN) a time cell of that row, but not before the row itself became available
    cell(KEY, TABLE, COLUMN) when a late cell of that row became known; null if the cell is empty
    at(KEY, TABLE, r)       r of that row, but not before the row itself became available
    earliest(TABLE, KEY, r) latest(TABLE, KEY, r)
                            the least or largest r of the rows of TABLE whose KEY cell is this row's primary key; null
                            if none has one. Theirs is the time that they have in the end, known by now or not
    when(COLUMN, 'A', .., r, s) r where the row's text or int COLUMN is one of the quoted values ('' is an empty cell,
                            of a float too; 'A*' a text that begins with A), else s
    when(COLUMN, {LIST}, ..)  the quoted values of a named list of the spec's [source.lists]
    lag(r, SETTING)         r plus a timedelta of the ingest settings
    shift(r, MINUTES)       r plus a whole number of minutes, negative for earlier
    end_of_day(r)           23:59:59 of the day of r
    dated(r, DAY)           r, but 23:59:59 of its day where r is exactly midnight (some sources write so a day without
                            a time); DAY where r is null, and not before the start of DAY
    median_delay(FROM, TO)  FROM plus the table's median of TO - FROM over other subjects
    following(r, COLUMN, 'A', ..) the next r of the subject's rows in the table whose COLUMN holds one of the values,
                            not before this row's own; null if there is none, or if one that holds a value written
                            '!A' comes first
    closed(r, COLUMN, 'A', 'B') for a row whose COLUMN is A and a name: the r at which all of the subject's rows of A
                            and that name have one of B and that name; null if they never have, and for other rows
    around(TABLE, r, START, END) the latest END of the subject's rows of TABLE whose START is not after r, where it is
                            later than r, else r; null if such a row has no END: what it names may still go on

A rule is evaluated over all rows at once, as microseconds since 1970 in int64; ``NO_TIME`` stands for null. Where the
columns and the other tables come from is the frame's business (`clocks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
import numpy.typing as npt

from wardround.core import to_microseconds
from wardround.records.rules.other_rows import NO_TIME as NO_TIME
from wardround.records.rules.other_rows import Times as Times
from wardround.records.rules.other_rows import closed, following, over

ALWAYS_TIME = to_microseconds(datetime.min)
"""The time of ``always``: the first moment a Python datetime can hold."""

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
    """``max``, ``min``, ``first`` or ``last`` of other rules."""

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
class There:
    """A rule of the row that ``key`` names in ``table``."""

    key: str
    table: str
    rule: Rule

    def __str__(self) -> str:
        return f"at({self.key}, {self.table}, {self.rule})"


@dataclass(frozen=True, slots=True)
class Among:
    """``earliest`` or ``latest`` of a rule over the rows of ``table`` that name this row in their column ``key``."""

    name: str
    table: str
    key: str
    rule: Rule

    def __str__(self) -> str:
        return f"{self.name}({self.table}, {self.key}, {self.rule})"


@dataclass(frozen=True, slots=True)
class Given:
    """One rule where another has a time, else a third."""

    condition: Rule
    chosen: Rule
    other: Rule

    def __str__(self) -> str:
        return f"given({self.condition}, {self.chosen}, {self.other})"


@dataclass(frozen=True, slots=True)
class Until:
    """A rule's time where it is not after that of another."""

    part: Rule
    limit: Rule

    def __str__(self) -> str:
        return f"until({self.part}, {self.limit})"


@dataclass(frozen=True, slots=True)
class Choice:
    """One rule for rows whose text or int column holds one of some values, another for the others."""

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
class Dated:
    """A rule's time, the last second of its day where it is midnight; ``day`` stands in for it and bounds it below."""

    part: Rule
    day: Rule

    def __str__(self) -> str:
        return f"dated({self.part}, {self.day})"


@dataclass(frozen=True, slots=True)
class MedianDelay:
    """``start`` plus the table's median of ``end - start`` over other subjects."""

    start: str
    end: str

    def __str__(self) -> str:
        return f"median_delay({self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class Following:
    """``part`` of the subject's next row, in the order of ``part``, whose ``column`` holds one of ``values``.

    Null where a row that holds one of ``barriers`` comes first.
    """

    part: Rule
    column: str
    values: tuple[str, ...]
    barriers: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = ", ".join(f"'{value}'" for value in (*self.values, *(f"!{barrier}" for barrier in self.barriers)))
        return f"following({self.part}, {self.column}, {values})"


@dataclass(frozen=True, slots=True)
class Closed:
    """When all that began under a row's name has ended; ``begin`` and ``end`` are what stands before the name."""

    part: Rule
    column: str
    begin: str
    end: str

    def __str__(self) -> str:
        return f"closed({self.part}, {self.column}, '{self.begin}', '{self.end}')"


@dataclass(frozen=True, slots=True)
class Around:
    """When what was going on at ``part`` is over: rows of the subject in ``table``, each from ``start`` to ``end``."""

    table: str
    part: Rule
    start: Rule
    end: Rule

    def __str__(self) -> str:
        return f"around({self.table}, {self.part}, {self.start}, {self.end})"


Rule = (
    Column
    | Constant
    | Combined
    | Known
    | Reference
    | LateCell
    | There
    | Among
    | Given
    | Until
    | Choice
    | Lag
    | Shift
    | EndOfDay
    | Dated
    | MedianDelay
    | Following
    | Closed
    | Around
)

ALWAYS = Constant("always")
NEVER = Constant("never")


def walk(rule: Rule) -> Iterator[Rule]:
    """Yield a rule and every rule inside it that reads the same row."""
    yield rule
    for part in _inside(rule):
        yield from walk(part)


def walk_everywhere(rule: Rule) -> Iterator[Rule]:
    """Yield a rule and every rule inside it, those that read rows of other tables too."""
    for part in walk(rule):
        yield part
        if isinstance(part, There | Among):
            yield from walk_everywhere(part.rule)
        if isinstance(part, Around):
            yield from walk_everywhere(part.start)
            yield from walk_everywhere(part.end)


def _inside(rule: Rule) -> tuple[Rule, ...]:
    match rule:
        case Combined(_, parts):
            return parts
        case Choice(_, _, chosen, other):
            return chosen, other
        case Given(condition, chosen, other):
            return condition, chosen, other
        case Until(part, limit):
            return part, limit
        case Dated(part, day):
            return part, day
        case Lag(part) | Shift(part) | EndOfDay(part) | Following(part) | Closed(part) | Around(_, part):
            return (part,)
        case _:
            return ()


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

    def there(self, key: str, table: str, rule: Rule) -> Times:
        """A rule of the rows that ``key`` names in ``table``, not before those rows are there themselves."""
        ...

    def among(self, part: Among) -> Times:
        """The least or largest time of the rows of another table that name these."""
        ...

    def holds(self, column: str, values: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Which rows hold one of ``values`` in a text or int column; ``''`` is an empty cell, ``A*`` begins with A."""
        ...

    def subjects(self) -> npt.NDArray[np.int64]:
        """Whose row each is."""
        ...

    def spans(self, part: Around) -> tuple[npt.NDArray[np.int64], Times, Times]:
        """Subject, start and end of the rows of another table."""
        ...

    def names_after(self, column: str, starts: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Which of ``starts`` a text begins with (-1: none), and a number for what follows it."""
        ...

    def lag(self, setting: str) -> int:
        """A setting in microseconds."""
        ...

    def median_delay(self, start: str, end: str) -> Times:
        """Per row the table's median of ``end - start``, in microseconds, over other subjects; null without any."""
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
        case Combined("last", parts):
            return _latest([evaluate(part, frame) for part in parts])
        case Combined(name, parts):
            return _extreme(name, [evaluate(part, frame) for part in parts])
        case Known(key, table):
            return frame.known(key, table)
        case Reference(key, table, column):
            return frame.reference(key, table, column)
        case LateCell(key, table, column):
            return frame.late_cell(key, table, column)
        case There(key, table, inner):
            return frame.there(key, table, inner)
        case Among():
            return frame.among(rule)
        case Given(condition, chosen, other):
            known = evaluate(condition, frame) != NO_TIME
            return np.where(known, evaluate(chosen, frame), evaluate(other, frame))
        case Until(part, limit):
            times = evaluate(part, frame)
            return np.where(times <= evaluate(limit, frame), times, NO_TIME)
        case Choice(column, values, chosen, other):
            return np.where(frame.holds(column, values), evaluate(chosen, frame), evaluate(other, frame))
        case Lag(part, setting):
            return _add(evaluate(part, frame), frame.lag(setting))
        case Shift(part, minutes):
            return _add(evaluate(part, frame), minutes * _MINUTE)
        case EndOfDay(part):
            return _last_second(evaluate(part, frame))
        case Dated(part, day):
            return _dated(evaluate(part, frame), evaluate(day, frame))
        case MedianDelay(start, end):
            times, delays = frame.times(start), frame.median_delay(start, end)
            return np.where((times == NO_TIME) | (delays == NO_TIME), NO_TIME, times + delays)
        case Following(part, column, values, barriers):
            wanted, ends = frame.holds(column, values), frame.holds(column, barriers) if barriers else None
            return following(evaluate(part, frame), wanted, ends, frame.subjects())
        case Closed(part, column, begin, end):
            which, names = frame.names_after(column, (begin, end))
            return closed(evaluate(part, frame), which, names, frame.subjects())
        case Around(_, part):
            return over(evaluate(part, frame), frame.subjects(), *frame.spans(rule))


def _first(parts: list[Times]) -> Times:
    result = parts[0]
    for part in parts[1:]:
        missing = result == NO_TIME
        if not missing.any():
            break
        result = np.where(missing, part, result)
    return result


def _latest(parts: list[Times]) -> Times:
    result = parts[0]
    for part in parts[1:]:
        result = np.maximum(result, part)  # null is the smallest of all
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


def _dated(times: Times, days: Times) -> Times:
    whole = np.where(times % _DAY == 0, _last_second(times), times)
    bounded = np.where(days == NO_TIME, whole, np.maximum(whole, days // _DAY * _DAY))
    return np.where(times == NO_TIME, days, bounded)


def _add(times: Times, microseconds: int) -> Times:
    if microseconds == 0:
        return times
    fixed = (times == NO_TIME) | (times == ALWAYS_TIME)
    return np.where(fixed, times, times + microseconds)
