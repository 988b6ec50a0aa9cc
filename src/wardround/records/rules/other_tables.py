"""Time rules that look at other rows: of another table, or of the subject's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wardround.records.rules.other_rows import closed, following, over
from wardround.records.rules.rule import NO_TIME, RULES, Arguments, Checks, Frame, Rule, Times, walk


@dataclass(frozen=True, slots=True)
class NamedRow(Rule):
    """Something of the row that ``key`` names in ``table``."""

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
    """The available time of the row that ``key`` names in ``table``."""

    function: ClassVar[str] = "known"

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        return cls(*arguments.names(2, "known takes 2 plain names"))

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table)

    def evaluate(self, frame: Frame) -> Times:
        return frame.known(self.key, self.table)


@RULES.named("ref")
@dataclass(frozen=True, slots=True)
class Reference(NamedRow):
    """A time cell of the row that ``key`` names in ``table``."""

    function: ClassVar[str] = "ref"

    column: str

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        return cls(*arguments.names(3, "ref takes 3 plain names"))

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table).time(self.column)

    def evaluate(self, frame: Frame) -> Times:
        return frame.reference(self.key, self.table, self.column)


@RULES.named("cell")
@dataclass(frozen=True, slots=True)
class LateCell(NamedRow):
    """When the cell ``column`` of the row that ``key`` names in ``table`` became known."""

    function: ClassVar[str] = "cell"

    column: str

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        return cls(*arguments.names(3, "cell takes 3 plain names"))

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table).late(self.column)

    def evaluate(self, frame: Frame) -> Times:
        return frame.late_cell(self.key, self.table, self.column)


@RULES.named("at")
@dataclass(frozen=True, slots=True)
class There(NamedRow):
    """A rule of the row that ``key`` names in ``table``."""

    function: ClassVar[str] = "at"
    elsewhere: ClassVar[tuple[str, ...]] = ("rule",)

    rule: Rule

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        words = arguments.words()
        if len(words) != 3 or words[0] is None or words[1] is None:
            raise arguments.wrong("at takes a key, a table and a rule")
        return cls(words[0], words[1], arguments.rules[2])

    def check(self, place: Checks) -> None:
        place.parent(self.key, self.table).rule(self.rule)

    def evaluate(self, frame: Frame) -> Times:
        return frame.there(self.key, self.table, self.rule)


@RULES.named("earliest")
@RULES.named("latest")
@dataclass(frozen=True, slots=True)
class Among(Rule):
    """``earliest`` or ``latest`` of a rule over the rows of ``table`` that name this row in their column ``key``."""

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
        """Rows that name this one are read by their own cells only, so that no clock can come to need itself."""
        place.child(self.table, self.key).rule(self.rule)
        if not all(part.reads_own_cells for part in walk(self.rule)):
            raise place.wrong(f"{self.name}() takes a rule over cells of {self.table} alone, not {str(self.rule)!r}")

    def evaluate(self, frame: Frame) -> Times:
        return frame.among(self.name, self.table, self.key, self.rule)


@RULES.named("median_delay")
@dataclass(frozen=True, slots=True)
class MedianDelay(Rule):
    """``start`` plus the table's median of ``end - start`` over other subjects."""

    function: ClassVar[str] = "median_delay"
    reads_own_cells: ClassVar[bool] = False
    needs_subject: ClassVar[bool] = True

    start: str
    end: str

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        return cls(*arguments.names(2, "median_delay takes 2 plain names"))

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
    """``part`` of the subject's next row, in the order of ``part``, whose ``column`` holds one of ``values``.

    Null where a row that holds one of ``barriers`` comes first.
    """

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
        return following(self.part.evaluate(frame), wanted, ends, frame.subjects())


@RULES.named("closed")
@dataclass(frozen=True, slots=True)
class Closed(Rule):
    """When all that began under a row's name has ended; ``begin`` and ``end`` are what stands before the name."""

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
        return closed(self.part.evaluate(frame), which, names, frame.subjects())


@RULES.named("around")
@dataclass(frozen=True, slots=True)
class Around(Rule):
    """When what was going on at ``part`` is over: rows of the subject in ``table``, each from ``start`` to ``end``."""

    function: ClassVar[str] = "around"
    elsewhere: ClassVar[tuple[str, ...]] = ("start", "end")
    reads_own_cells: ClassVar[bool] = False
    needs_subject: ClassVar[bool] = True

    table: str
    part: Rule
    start: Rule
    end: Rule

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        words = arguments.words()
        if len(words) != 4 or words[0] is None:
            raise arguments.wrong("around takes a table and three rules, a time, a start and an end")
        return cls(words[0], *arguments.rules[1:])

    @property
    def waits_for(self) -> tuple[str, ...]:
        return (self.table,)

    def check(self, place: Checks) -> None:
        other = place.table(self.table)
        other.rule(self.start)
        other.rule(self.end)

    def evaluate(self, frame: Frame) -> Times:
        return over(self.part.evaluate(frame), frame.subjects(), *frame.spans(self.table, self.start, self.end))
