"""The language of time rules (when something happened or became known, by a source spec), its parser, and rules that
look at other tables.

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
    median_delay(FROM, TO)  FROM plus the table's median of TO - FROM, as the spec declares it (median_minutes) or as
                            ingest was told to measure it over other subjects; null without either
    following(r, COLUMN, 'A', ..) the next r of the subject's rows in the table whose COLUMN holds one of the values,
                            not before this row's own; null if there is none, or if one that holds a value written
                            '!A' comes first
    closed(r, COLUMN, 'A', 'B') for a row whose COLUMN is A and a name: the r at which all of the subject's rows of A
                            and that name have one of B and that name; null if they never have, and for other rows
    around(TABLE, r, START, END) the latest END of the subject's rows of TABLE whose START is not after r, where it is
                            later than r, else r; null if such a row has no END: what it names may still go on. TABLE
                            may be the row's own

A rule is evaluated over all rows at once, as microseconds since 1970 in int64; ``NO_TIME`` stands for null. Where the
columns and the other tables come from is the frame's business (`records/ingest/clocks.py`).

A function is one class, registered in ``RULES`` (`rule.py`): over the row's own cells in `own_row.py`, the others here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wardround.core import UserError
from wardround.records.rules.other_rows import closed, following, over
from wardround.records.rules.own_row import (
    ALWAYS,
    NEVER,
    Choice,
    Column,
    Combined,
    Constant,
    Dated,
    EndOfDay,
    Given,
    Lag,
    Shift,
    Until,
)
from wardround.records.rules.rule import (
    ALWAYS_TIME,
    NO_TIME,
    RULES,
    Arguments,
    Checks,
    Frame,
    Rule,
    Times,
    evaluate,
    shared_parts,
    walk,
    walk_everywhere,
)

# Time rules that read other rows: of another table, or other rows of the subject.


@dataclass(frozen=True, slots=True)
class NamedRow(Rule):
    """A rule that reads the row of ``table`` to which ``key`` refers."""

    reads_own_cells: ClassVar[bool] = False

    key: str
    table: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.key,)

    @property
    def waits_for(self) -> tuple[str, ...]:
        return (self.table,)


@RULES.named("known")
@dataclass(frozen=True, slots=True)
class Known(NamedRow):
    """The available time of the row of ``table`` to which ``key`` refers."""

    function: ClassVar[str] = "known"
    takes: ClassVar[str] = "2 plain names"

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table)

    def evaluate(self, frame: Frame) -> Times:
        return frame.known(self.key, self.table)


@RULES.named("ref")
@dataclass(frozen=True, slots=True)
class Reference(NamedRow):
    """A time cell of the row of ``table`` to which ``key`` refers."""

    function: ClassVar[str] = "ref"
    takes: ClassVar[str] = "3 plain names"

    column: str

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table).time(self.column)

    def evaluate(self, frame: Frame) -> Times:
        return frame.reference(self.key, self.table, self.column)


@RULES.named("cell")
@dataclass(frozen=True, slots=True)
class LateCell(NamedRow):
    """When the cell ``column`` of the row of ``table`` to which ``key`` refers became known."""

    function: ClassVar[str] = "cell"
    takes: ClassVar[str] = "3 plain names"

    column: str

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table).late(self.column)

    def evaluate(self, frame: Frame) -> Times:
        return frame.late_cell(self.key, self.table, self.column)


@RULES.named("at")
@dataclass(frozen=True, slots=True)
class There(NamedRow):
    """A rule evaluated over the row of ``table`` to which ``key`` refers."""

    function: ClassVar[str] = "at"
    takes: ClassVar[str] = "a key, a table and a rule"
    elsewhere: ClassVar[tuple[str, ...]] = ("rule",)

    rule: Rule

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table).rule(self.rule)

    def evaluate(self, frame: Frame) -> Times:
        return frame.there(self.key, self.table, self.rule)


@RULES.named("earliest")
@RULES.named("latest")
@dataclass(frozen=True, slots=True)
class Among(Rule):
    """``earliest`` or ``latest`` of a rule over the rows of ``table`` that refer to this row in their column
    ``key``."""

    elsewhere: ClassVar[tuple[str, ...]] = ("rule",)
    reads_own_cells: ClassVar[bool] = False

    name: str
    table: str
    key: str
    rule: Rule

    def __str__(self) -> str:
        return f"{self.name}({self.table}, {self.key}, {self.rule})"

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        words = arguments.words()
        if len(words) != 3 or words[0] is None or words[1] is None:
            raise arguments.wrong(f"{name} takes a table, its key and a rule")
        return cls(name, words[0], words[1], arguments.rules[2])

    def check(self, place: Checks) -> None:
        """Check the rule. Rows that refer to this one are read only by their own cells, so that no clock can depend on
        itself."""
        place.child(self.table, self.key).rule(self.rule)
        if not all(part.reads_own_cells for part in walk(self.rule)):
            raise place.wrong(f"{self.name}() takes a rule over cells of {self.table} alone, not {str(self.rule)!r}")

    def evaluate(self, frame: Frame) -> Times:
        return frame.among(self.name, self.table, self.key, self.rule)


@RULES.named("median_delay")
@dataclass(frozen=True, slots=True)
class MedianDelay(Rule):
    """``start`` plus the table's ``median_minutes`` of ``end - start``, or the median measured over other subjects."""

    function: ClassVar[str] = "median_delay"
    takes: ClassVar[str] = "2 plain names"
    reads_own_cells: ClassVar[bool] = False
    needs_subject: ClassVar[bool] = True

    start: str
    end: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.start, self.end

    def check(self, place: Checks) -> None:
        place.time(self.start)
        place.time(self.end)

    def evaluate(self, frame: Frame) -> Times:
        times, delays = frame.times(self.start), frame.median_delay(self.start, self.end)
        return np.where((times == NO_TIME) | (delays == NO_TIME), NO_TIME, times + delays)


@RULES.named("following")
@dataclass(frozen=True, slots=True)
class Following(Rule):
    """``part`` of the subject's next row whose ``column`` has one of ``values``, in the order of ``part``. Null if a
    row with one of ``barriers`` comes first."""

    reads_own_cells: ClassVar[bool] = False
    needs_subject: ClassVar[bool] = True

    part: Rule
    column: str
    values: tuple[str, ...]
    barriers: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = ", ".join(f"'{value}'" for value in (*self.values, *(f"!{barrier}" for barrier in self.barriers)))
        return f"following({self.part}, {self.column}, {values})"

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        column, quoted = arguments.after_first()
        barriers = tuple(value[1:] for value in quoted if value.startswith("!"))
        values = tuple(value for value in quoted if not value.startswith("!"))
        if column is None or not values:
            raise arguments.wrong("following takes a rule, a column and quoted values")
        return cls(arguments.rules[0], column, values, barriers)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def check(self, place: Checks) -> None:
        place.value(self.column, self.values)

    def evaluate(self, frame: Frame) -> Times:
        wanted = frame.holds(self.column, self.values)
        ends = frame.holds(self.column, self.barriers) if self.barriers else None
        return following(evaluate(self.part, frame), wanted, ends, frame.subjects())


@RULES.named("closed")
@dataclass(frozen=True, slots=True)
class Closed(Rule):
    """When everything that began under a row's name has ended; ``begin`` and ``end`` are the texts before the name."""

    reads_own_cells: ClassVar[bool] = False
    needs_subject: ClassVar[bool] = True

    part: Rule
    column: str
    begin: str
    end: str

    def __str__(self) -> str:
        return f"closed({self.part}, {self.column}, '{self.begin}', '{self.end}')"

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        column, quoted = arguments.after_first()
        if column is None or len(quoted) != 2:
            raise arguments.wrong("closed takes a rule, a column and two quoted beginnings")
        return cls(arguments.rules[0], column, *quoted)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def check(self, place: Checks) -> None:
        place.text(self.column)

    def evaluate(self, frame: Frame) -> Times:
        which, names = frame.names_after(self.column, (self.begin, self.end))
        return closed(evaluate(self.part, frame), which, names, frame.subjects())


@RULES.named("around")
@dataclass(frozen=True, slots=True)
class Around(Rule):
    """When what was in progress at ``part`` ended: rows of the subject in ``table``, each from ``start`` to ``end``."""

    function: ClassVar[str] = "around"
    takes: ClassVar[str] = "a table and three rules, a time, a start and an end"
    elsewhere: ClassVar[tuple[str, ...]] = ("start", "end")
    reads_own_cells: ClassVar[bool] = False
    needs_subject: ClassVar[bool] = True

    table: str
    part: Rule
    start: Rule
    end: Rule

    @property
    def waits_for(self) -> tuple[str, ...]:
        return (self.table,)

    def check(self, place: Checks) -> None:
        other = place.table(self.table)
        other.rule(self.start)
        other.rule(self.end)

    def evaluate(self, frame: Frame) -> Times:
        return over(evaluate(self.part, frame), frame.subjects(), *frame.spans(self.table, self.start, self.end))


__all__ = [
    "ALWAYS",
    "ALWAYS_TIME",
    "NEVER",
    "NO_TIME",
    "RULES",
    "Among",
    "Arguments",
    "Around",
    "Checks",
    "Choice",
    "Closed",
    "Column",
    "Combined",
    "Constant",
    "Dated",
    "EndOfDay",
    "Following",
    "Frame",
    "Given",
    "Known",
    "Lag",
    "LateCell",
    "MedianDelay",
    "Reference",
    "Rule",
    "Shift",
    "There",
    "Times",
    "Until",
    "evaluate",
    "shared_parts",
    "walk",
    "walk_everywhere",
]


# Parsing time rules; the language is described at the top of this file.


_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|-?[0-9]+|'[^']*'|[(),])")


def parse_rule(text: str) -> Rule:
    """Parse one rule. UserError says what was expected and shows the text."""
    tokens, position = list[str](), 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UserError(f"time rule {text!r}: cannot read {text[position:].strip()!r}")
        tokens.append(match.group(1))
        position = match.end()
    if not tokens:
        raise UserError("a time rule is empty; write a column, 'always' or 'never'")
    rule, rest = _parse(tokens, text)
    if rest:
        raise UserError(f"time rule {text!r}: expected the end after {str(rule)!r}, found {rest[0]!r}")
    return rule


def _parse(tokens: list[str], text: str) -> tuple[Rule, list[str]]:
    head, rest = tokens[0], tokens[1:]
    if head in "(),":
        raise UserError(f"time rule {text!r}: expected a name, found {head!r}")
    if not rest or rest[0] != "(":
        return (Constant(head) if head in ("always", "never") else Column(head)), rest
    if head not in RULES:
        raise UserError(f"time rule {text!r}: unknown function {head!r}; known are {', '.join(sorted(RULES.names))}")
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
            return RULES.get(head).read(head, Arguments(arguments, text)), rest[1:]
        if rest[0] != ",":
            raise UserError(f"time rule {text!r}: expected ',' or ')', found {rest[0]!r}")
        rest = rest[1:]
