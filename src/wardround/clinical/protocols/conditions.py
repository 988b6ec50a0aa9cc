"""Conditions of triggers: AND, OR, NOT and measurements, in three-valued logic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from wardround.clinical.protocols.facts import ChartedValue, CourseReading, Direction, Facts, Level, ReadingCourse
from wardround.clinical.protocols.tokens import number, spell
from wardround.clinical.vocabulary import (
    RELATIONS,
    Relation,
    Truth,
    Window,
    all_of,
    any_of,
    baseline,
    comparison,
    convert,
    falls_by,
    held_for,
    highest,
    negate,
    reading_unit,
    rises_by,
    usual_units,
)

# Conditions on measurements: a number now, its level, its trend, its course over hours.


BASELINE_HOURS = 168.0
"""A baseline is the lowest value of so many hours before the newest (KDIGO's seven days)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtValue:
    """``lactate > 4 mmol/L``. A reading in another unit is converted; where it cannot be, the truth is unknown."""

    concept: str
    relation: Relation
    threshold: float
    unit: str | None = None

    def holds(self, facts: Facts) -> Truth:
        reading = facts.value(self.concept)
        return None if reading is None else self.holds_of(reading, facts.charted_units(self.concept))

    def holds_of(self, reading: ChartedValue | CourseReading, charted: frozenset[str]) -> Truth:
        """Return whether one reading meets it, where the source has the concept in some units."""
        way = comparison(reading.unit, self.relation, self.threshold, self.unit, self.concept, charted)
        return way.holds(reading.value)

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{spell(self.concept)} {self.relation} {number(self.threshold)}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLevel:
    """``potassium is low``; ``abnormal`` is low or high."""

    concept: str
    level: Level | Literal["abnormal"]

    def holds(self, facts: Facts) -> Truth:
        level = facts.level(self.concept)
        if level is None:
            return None
        return level != "normal" if self.level == "abnormal" else level == self.level

    def __str__(self) -> str:
        return f"{spell(self.concept)} is {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """``creatinine is rising``."""

    concept: str
    direction: Direction

    def holds(self, facts: Facts) -> Truth:
        trend = facts.trend(self.concept)
        return None if trend is None else trend == self.direction

    def __str__(self) -> str:
        return f"{spell(self.concept)} is {self.direction}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFor:
    """``map < 65 for 30 minutes``: without a break up to the newest reading (``vocabulary.held_for``)."""

    value: AtValue
    minutes: float

    @property
    def concept(self) -> str:
        """What is measured."""
        return self.value.concept

    @property
    def hours(self) -> float:
        """How far back it looks; readings before decide when it began."""
        return self.minutes / 60 + 3

    def holds(self, facts: Facts) -> Truth:
        return self.holds_of(facts.course(self.concept))

    def holds_of(self, course: ReadingCourse | None) -> Truth:
        """Return whether a course meets it."""
        if course is None or not course.recent:
            return None
        truths = {place: self.value.holds_of(reading, course.charted) for place, reading in enumerate(course.readings)}
        series = [(reading.time, float(place)) for place, reading in enumerate(course.readings)]
        return held_for(series, lambda place: truths[int(place)], self.minutes)

    def __str__(self) -> str:
        return f"{self.value} for {number(self.minutes)} min"


@dataclass(frozen=True, slots=True, kw_only=True)
class InWindow:
    """``any map < 65 in last 6 h``, ``every map >= 65 in last 6 h``; unknown where none was charted in them."""

    value: AtValue
    hours: float
    how: Literal["any", "every"]

    @property
    def concept(self) -> str:
        """What is measured."""
        return self.value.concept

    def holds(self, facts: Facts) -> Truth:
        return self.holds_of(facts.course(self.concept))

    def holds_of(self, course: ReadingCourse | None) -> Truth:
        """Return whether a course meets it."""
        if course is None:
            return None
        since = course.now - timedelta(hours=self.hours)
        truths = [self.value.holds_of(reading, course.charted) for reading in course.readings if reading.time >= since]
        if not truths:
            return None
        return any_of(truths) if self.how == "any" else all_of(truths)

    def __str__(self) -> str:
        return f"{self.how} {self.value} in last {number(self.hours)} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesBaseline:
    """``creatinine >= 1.5 x baseline``: against the lowest of seven days before; unknown without one."""

    concept: str
    relation: Relation
    times: float
    hours: float = BASELINE_HOURS

    def holds(self, facts: Facts) -> Truth:
        return self.holds_of(facts.course(self.concept))

    def holds_of(self, course: ReadingCourse | None) -> Truth:
        """Return whether a course meets it."""
        series = _series(course, self.concept)
        if not series or course is None or not course.recent:
            return None
        time, newest = series[-1]
        lowest = baseline(series, Window(now=time, hours=self.hours))
        if lowest is None or lowest <= 0:
            return None
        return bool(RELATIONS[self.relation](newest, float(f"{self.times * lowest:.12g}")))

    def __str__(self) -> str:
        return f"{spell(self.concept)} {self.relation} {number(self.times)} x baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBy:
    """``creatinine rises by >= 0.3 mg/dL within 48 h``, ``lactate falls by >= 10 % within 6 h``: the newest against the
    lowest (highest) of the hours before it. ``share``: the amount is a percentage of that one."""

    concept: str
    direction: Literal["rises", "falls"]
    amount: float
    hours: float
    unit: str | None = None
    share: bool = False

    def holds(self, facts: Facts) -> Truth:
        return self.holds_of(facts.course(self.concept))

    def holds_of(self, course: ReadingCourse | None) -> Truth:
        """Return whether a course meets it."""
        series = _series(course, self.concept, self.unit)
        if not series or course is None or not course.recent:
            return None
        rises = self.direction == "rises"
        amount = self.amount
        if self.share:
            before = Window(now=series[-1][0], hours=self.hours)
            first = baseline(series, before) if rises else highest(before.of(series)[:-1])
            if first is None or first <= 0:
                return None
            amount = first * self.amount / 100
        return rises_by(series, amount, self.hours) if rises else falls_by(series, amount, self.hours)

    def __str__(self) -> str:
        unit = " %" if self.share else f" {self.unit}" if self.unit else ""
        return f"{spell(self.concept)} {self.direction} by >= {number(self.amount)}{unit} within {number(self.hours)} h"


def _series(course: ReadingCourse | None, concept: str, unit: str | None = None) -> list[tuple[datetime, float]] | None:
    """Return a course in one unit, that of the condition or of the newest reading; None if one cannot be. Readings of
    which nothing says the unit are in one where the source does not have several."""
    if course is None or not course.readings:
        return None
    units = [reading_unit(reading.value, reading.unit, concept, course.charted) for reading in course.readings]
    wanted = reading_unit(course.readings[-1].value, unit, concept, course.charted) if unit else units[-1]
    has_none = any(usual_unit.unit is None for usual_unit in usual_units(concept))
    if wanted is None and len(course.charted) > 1 and not has_none:
        return None
    found = [_in_unit(one.value, own, wanted, concept) for one, own in zip(course.readings, units, strict=True)]
    known = [(one.time, value) for one, value in zip(course.readings, found, strict=True) if value is not None]
    return known if len(known) == len(found) else None


def _in_unit(value: float, own: str | None, wanted: str | None, concept: str) -> float | None:
    if own == wanted:
        return value
    return None if own is None or wanted is None else convert(value, own, wanted, concept)


# What a trigger is made of: conditions on facts, joined by AND, OR and NOT, true, false or unknown (Kleene).


@dataclass(frozen=True, slots=True, kw_only=True)
class AtScore:
    """``sofa >= 2``; ``urine output < 0.5 mL/kg/h for 6 h``: a score of the project's own, over its hours or others.
    One of which parts are not charted meets it where the least and the most that it can be both do."""

    score: str
    relation: Relation
    threshold: float
    hours: float | None = None

    @property
    def concept(self) -> str:
        """Its name."""
        return self.score

    def holds(self, facts: Facts) -> Truth:
        bounds = facts.score(self.score, self.hours)
        return None if bounds is None else bounds.holds(self.relation, self.threshold)

    def __str__(self) -> str:
        if self.score == "urine_output":
            return f"urine output {self.relation} {number(self.threshold)} mL/kg/h for {number(self.hours or 6)} h"
        return f"{self.score} {self.relation} {number(self.threshold)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRate:
    """``rate of norepinephrine > 0.1 mcg/kg/min``: of what runs now. Where it must, weight leads to ``/kg``."""

    concept: str
    relation: Relation
    threshold: float
    unit: str

    def holds(self, facts: Facts) -> Truth:
        rate = facts.rate(self.concept, self.unit)
        return None if rate is None else bool(RELATIONS[self.relation](rate, self.threshold))

    def __str__(self) -> str:
        return f"rate of {spell(self.concept, 'on')} {self.relation} {number(self.threshold)} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursSince:
    """``hours since blood culture >= 24``; unknown where it never was."""

    concept: str
    relation: Relation
    threshold: float

    def holds(self, facts: Facts) -> Truth:
        hours = facts.hours_since(self.concept)
        return None if hours is None else bool(RELATIONS[self.relation](hours, self.threshold))

    def __str__(self) -> str:
        return f"hours since {spell(self.concept, 'done')} {self.relation} {number(self.threshold)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """``on norepinephrine``, ``problem sepsis``, ``allergy penicillins``, ``done blood culture in last 24 h``. Problems
    and what was done are those of this encounter; with ``ever`` those of earlier ones too."""

    what: Literal["on", "problem", "allergy", "done"]
    concept: str
    ever: bool = False
    hours: float | None = None
    """Of ``done``: in the last so many hours."""

    def holds(self, facts: Facts) -> Truth:
        match self.what:
            case "on":
                return facts.taking(self.concept)
            case "problem":
                return facts.has_problem(self.concept, ever=self.ever)
            case "allergy":
                return facts.allergic_to(self.concept)
            case "done":
                return facts.done(self.concept, self.hours, ever=self.ever)

    def __str__(self) -> str:
        window = "" if self.hours is None else f" in last {number(self.hours)} h"
        return f"{'ever ' if self.ever else ''}{self.what} {spell(self.concept, self.what)}{window}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedActions:
    """``count of blood culture in last 24 h >= 2``."""

    concept: str
    hours: float
    relation: Relation
    threshold: float

    def holds(self, facts: Facts) -> Truth:
        counts = facts.times_done(self.concept, self.hours)
        if counts is None:
            return None
        truths = {bool(RELATIONS[self.relation](count, self.threshold)) for count in range(counts[0], counts[1] + 1)}
        return truths.pop() if len(truths) == 1 else None

    def __str__(self) -> str:
        compared = f"{self.relation} {number(self.threshold)}"
        return f"count of {spell(self.concept, 'done')} in last {number(self.hours)} h {compared}"


OverTime = HeldFor | InWindow | TimesBaseline | ChangedBy
Condition = AtValue | AtLevel | Moving | OverTime | HoursSince | Stated | AtScore | AtRate | CountedActions


@dataclass(frozen=True, slots=True, kw_only=True)
class Negated:
    """NOT: unknown stays unknown."""

    part: Node

    def holds(self, facts: Facts) -> Truth:
        return negate(self.part.holds(facts))

    def __str__(self) -> str:
        return f"NOT {self.part}" if not isinstance(self.part, AndOr) else f"NOT ({self.part})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AndOr:
    """AND or OR of two or more."""

    how: Literal["AND", "OR"]
    parts: tuple[Node, ...]

    def holds(self, facts: Facts) -> Truth:
        truths = (part.holds(facts) for part in self.parts)
        return all_of(truths) if self.how == "AND" else any_of(truths)

    def __str__(self) -> str:
        return f" {self.how} ".join(f"({part})" if isinstance(part, AndOr) else str(part) for part in self.parts)


Node = Condition | Negated | AndOr


def conditions_of(node: Node) -> Iterator[Condition]:
    """Yield every condition of a trigger, in the order it is written."""
    if isinstance(node, AndOr):
        for part in node.parts:
            yield from conditions_of(part)
    elif isinstance(node, Negated):
        yield from conditions_of(node.part)
    else:
        yield node
