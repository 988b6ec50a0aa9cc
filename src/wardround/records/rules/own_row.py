"""Time rules over the cells of the row itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar

import numpy as np

from wardround.records.rules.rule import ALWAYS_TIME, NO_TIME, RULES, Arguments, Checks, Frame, Rule, Times, evaluate

_MINUTE = 60_000_000
_DAY = 24 * 60 * _MINUTE
_LAST_SECOND = _DAY - 1_000_000


@dataclass(frozen=True, slots=True)
class Column(Rule):
    """A time cell of the row itself."""

    name: str

    def __str__(self) -> str:
        return self.name

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        """Read a column: a name without arguments."""
        raise arguments.wrong(f"{name} is a column and takes no arguments")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)

    def check(self, place: Checks) -> None:
        place.time(self.name)

    def evaluate(self, frame: Frame) -> Times:
        return frame.times(self.name)


@dataclass(frozen=True, slots=True)
class Constant(Rule):
    """``always`` or ``never``."""

    name: str

    def __str__(self) -> str:
        return self.name

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        """Read a constant: a name without arguments."""
        raise arguments.wrong(f"{name} takes no arguments")

    def evaluate(self, frame: Frame) -> Times:
        return np.full(frame.num_rows, ALWAYS_TIME if self.name == "always" else NO_TIME, dtype=np.int64)


ALWAYS = Constant("always")
NEVER = Constant("never")


@RULES.named("max")
@RULES.named("min")
@RULES.named("first")
@RULES.named("last")
@dataclass(frozen=True, slots=True)
class Combined(Rule):
    """``max``, ``min``, ``first`` or ``last`` of other rules."""

    name: str
    parts: tuple[Rule, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})"

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        return cls(name, arguments.rules)

    def evaluate(self, frame: Frame) -> Times:
        return _COMBINATIONS[self.name]([evaluate(part, frame) for part in self.parts])


@RULES.named("given")
@dataclass(frozen=True, slots=True)
class Given(Rule):
    """The second rule where the first has a time, else the third."""

    function: ClassVar[str] = "given"
    takes: ClassVar[str] = "three rules"

    condition: Rule
    chosen: Rule
    other: Rule

    def evaluate(self, frame: Frame) -> Times:
        known = evaluate(self.condition, frame) != NO_TIME
        return np.where(known, evaluate(self.chosen, frame), evaluate(self.other, frame))


@RULES.named("until")
@dataclass(frozen=True, slots=True)
class Until(Rule):
    """A rule's time if it is not after the time of another rule, else null."""

    function: ClassVar[str] = "until"
    takes: ClassVar[str] = "two rules"

    part: Rule
    limit: Rule

    def evaluate(self, frame: Frame) -> Times:
        times = evaluate(self.part, frame)
        return np.where(times <= evaluate(self.limit, frame), times, NO_TIME)


@RULES.named("when")
@dataclass(frozen=True, slots=True)
class Choice(Rule):
    """One rule for rows whose text or int column has one of some values, another rule for other rows."""

    column: str
    values: tuple[str, ...]
    chosen: Rule
    other: Rule

    def __str__(self) -> str:
        values = ", ".join(f"'{value}'" for value in self.values)
        return f"when({self.column}, {values}, {self.chosen}, {self.other})"

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        words = arguments.words()
        quoted = [word[1:-1] for word in words[1:-2] if word is not None and word.startswith("'")]
        if len(words) < 4 or words[0] is None or len(quoted) != len(words) - 3:
            raise arguments.wrong("when takes a column, quoted values and two rules")
        return cls(words[0], tuple(quoted), *arguments.rules[-2:])

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def check(self, place: Checks) -> None:
        place.value(self.column, self.values)

    def evaluate(self, frame: Frame) -> Times:
        is_chosen = frame.holds(self.column, self.values)
        return np.where(is_chosen, evaluate(self.chosen, frame), evaluate(self.other, frame))


@RULES.named("lag")
@dataclass(frozen=True, slots=True)
class Lag(Rule):
    """A rule's time plus a named setting."""

    function: ClassVar[str] = "lag"
    takes: ClassVar[str] = "a rule and the name of a setting"

    part: Rule
    setting: str

    def check(self, place: Checks) -> None:
        place.setting(self.setting)

    def evaluate(self, frame: Frame) -> Times:
        return _add(evaluate(self.part, frame), frame.lag(self.setting))


@RULES.named("shift")
@dataclass(frozen=True, slots=True)
class Shift(Rule):
    """A rule's time plus a fixed number of minutes."""

    function: ClassVar[str] = "shift"

    part: Rule
    minutes: int

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        words = arguments.words()
        minutes = words[1] if len(words) == 2 else None
        if minutes is None or not minutes.lstrip("-").isdecimal():
            raise arguments.wrong("shift takes a rule and a whole number of minutes")
        return cls(arguments.rules[0], int(minutes))

    def evaluate(self, frame: Frame) -> Times:
        return _add(evaluate(self.part, frame), self.minutes * _MINUTE)


@RULES.named("end_of_day")
@dataclass(frozen=True, slots=True)
class EndOfDay(Rule):
    """The last second of the day of a rule's time."""

    function: ClassVar[str] = "end_of_day"
    takes: ClassVar[str] = "one rule"

    part: Rule

    def evaluate(self, frame: Frame) -> Times:
        return _last_second(evaluate(self.part, frame))


@RULES.named("dated")
@dataclass(frozen=True, slots=True)
class Dated(Rule):
    """A rule's time; where it is midnight, the last second of its day. ``day`` replaces a missing time and is a lower
    bound."""

    function: ClassVar[str] = "dated"
    takes: ClassVar[str] = "two rules, a time and its day"

    part: Rule
    day: Rule

    def evaluate(self, frame: Frame) -> Times:
        return _dated(evaluate(self.part, frame), evaluate(self.day, frame))


def _first(parts: list[Times]) -> Times:
    result = parts[0]
    for part in parts[1:]:
        missing = result == NO_TIME
        if not missing.any():
            break
        result = np.where(missing, part, result)
    return result


def _greatest(parts: list[Times]) -> Times:
    result = parts[0]
    for part in parts[1:]:
        missing = (result == NO_TIME) | (part == NO_TIME)
        result = np.where(missing, NO_TIME, np.maximum(result, part))
    return result


_COMBINATIONS: Mapping[str, Callable[[list[Times]], Times]] = {
    "max": _greatest,
    "min": partial(reduce, np.minimum),  # null is the smallest of all
    "first": _first,
    "last": partial(reduce, np.maximum),
}


def _last_second(times: Times) -> Times:
    fixed = (times == NO_TIME) | (times == ALWAYS_TIME)
    return np.where(fixed, times, times // _DAY * _DAY + _LAST_SECOND)


def _dated(times: Times, days: Times) -> Times:
    # Midnights are found without NumPy's remainder, which costs twice as much as a quotient.
    whole, midnight = times, times // _DAY * _DAY == times
    if midnight.any():
        whole = np.where(midnight, _last_second(times), times)
    starts = np.where(days == NO_TIME, NO_TIME, days // _DAY * _DAY)
    return np.where(times == NO_TIME, days, np.maximum(whole, starts))


def _add(times: Times, microseconds: int) -> Times:
    if microseconds == 0:
        return times
    fixed = (times == NO_TIME) | (times == ALWAYS_TIME)
    return np.where(fixed, times, times + microseconds)
