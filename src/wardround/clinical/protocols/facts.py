"""Define the facts of a subject that a trigger may use. None: not charted, which never counts as normal or absent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, Protocol, TypeVar

from wardround.clinical.vocabulary import (
    Bounds,
    KnownFindings,
    Truth,
    any_of,
    clinical_name,
    conflicts,
    convert,
    find_concept,
    is_a,
    is_drug,
    parse_quantity,
    read_text,
    reading_unit,
    usual_units,
)

T = TypeVar("T")
Level = Literal["low", "normal", "high"]
Direction = Literal["rising", "falling", "steady"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartedValue:
    """One measured number and the unit it was charted in."""

    value: float
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class CourseReading:
    """One number of a course: when, how much, in which unit, on which row."""

    time: datetime
    value: float
    unit: str | None = None
    row_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingCourse:
    """The readings of a concept up to now, oldest first. ``recent``: whether the newest is young enough to act on;
    ``charted``: the units in which the source has it, none where that is not known."""

    now: datetime
    readings: tuple[CourseReading, ...]
    recent: bool = True
    charted: frozenset[str] = frozenset()


class Facts(Protocol):
    """A subject's present, as triggers ask for it. Names come as the rules spell them."""

    def value(self, concept: str) -> ChartedValue | None:
        """Return the newest number of a concept that is recent enough to act on."""
        ...

    def charted_units(self, concept: str) -> frozenset[str]:
        """Return the source's units of the concept; none if they are unknown."""
        ...

    def level(self, concept: str) -> Level | None:
        """Return where the number lies against its reference range."""
        ...

    def trend(self, concept: str) -> Direction | None:
        """Return the direction of its readings."""
        ...

    def course(self, concept: str) -> ReadingCourse | None:
        """Return all kept readings; None without a reading."""
        ...

    def taking(self, drug: str) -> bool | None:
        """Return whether a drug, or one of a class, is given now; unknown if the source carries no drugs."""
        ...

    def rate(self, drug: str, unit: str) -> float | None:
        """Return the rate at which a drug runs now, in a unit; 0 if it is known not to run."""
        ...

    def has_problem(self, problem: str, *, ever: bool = False) -> bool | None:
        """Return whether a problem is active in this encounter; ``ever``: or was in an earlier one."""
        ...

    def allergic_to(self, substance: str) -> bool | None:
        """Return whether an allergy to a drug or its class is known."""
        ...

    def done(self, action: str, hours: float | None = None, *, ever: bool = False) -> bool | None:
        """Return whether something was ordered, started or performed in this encounter, or in its last hours; ``ever``:
        or in an earlier one."""
        ...

    def times_done(self, action: str, hours: float) -> tuple[int, int] | None:
        """Return how often it was done in the last hours: the minimum and the maximum."""
        ...

    def hours_since(self, action: str) -> float | None:
        """Hours since that was last so in this encounter; None if it never was."""
        ...

    def score(self, name: str, hours: float | None = None) -> Bounds | None:
        """Return the lowest and the highest possible value of a project score (``sofa``), over its window or
        another."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFacts:
    """Facts that are given as values, for examples of rules and for tests.

    A missing field is unknown. A given list is complete: a drug that is not in ``on`` is not taken. Numbers are in the
    unit that ``units`` gives, else in the usual one.

    ``courses``: by name (hours ago, value); ``rates``: of infusions that run, with
    their unit ("0.1 mcg/kg/min"); ``times``: by action how many hours ago each was; ``scores``: by name, the least and
    the most where one is known in part.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Level] = field(default_factory=dict)
    trends: Mapping[str, Direction] = field(default_factory=dict)
    courses: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    on: tuple[str, ...] | None = None
    rates: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] | None = None
    allergies: tuple[str, ...] | None = None
    finished: tuple[str, ...] | None = None
    since: Mapping[str, float] = field(default_factory=dict)
    times: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    scores: Mapping[str, float | tuple[float, float]] = field(default_factory=dict)

    def value(self, concept: str) -> ChartedValue | None:
        """See Facts."""
        found = _named(self.values, concept)
        if found is None:
            course = _named(self.courses, concept)
            found = min(course)[1] if course else None
        return None if found is None else ChartedValue(value=found, unit=_named(self.units, concept))

    def charted_units(self, concept: str) -> frozenset[str]:
        """See Facts: the one that is given, else the usual one."""
        unit = _named(self.units, concept) or next((usual_unit.unit for usual_unit in usual_units(concept)), None)
        return frozenset() if unit is None else frozenset({unit})

    def level(self, concept: str) -> Level | None:
        """See Facts."""
        return _named(self.levels, concept)

    def trend(self, concept: str) -> Direction | None:
        """See Facts."""
        return _named(self.trends, concept)

    def course(self, concept: str) -> ReadingCourse | None:
        """See Facts."""
        course, unit = _named(self.courses, concept), _named(self.units, concept)
        if course is None:
            return None
        readings = (CourseReading(_NOW - timedelta(hours=hours), value, unit) for hours, value in course)
        return ReadingCourse(now=_NOW, readings=tuple(sorted(readings, key=lambda reading: reading.time)))

    def taking(self, drug: str) -> bool | None:
        """See Facts."""
        return None if self.on is None else any(is_drug(given_drug, drug) for given_drug in self.on)

    def rate(self, drug: str, unit: str) -> float | None:
        """See Facts."""
        weight = self.value("weight")
        weight_unit = (
            None if weight is None else reading_unit(weight.value, weight.unit, "weight", self.charted_units("weight"))
        )
        kilograms = None if weight is None or weight_unit is None else convert(weight.value, weight_unit, "kg")
        found = [rate for name, rate in self.rates.items() if is_drug(name, drug)]
        if not found:
            return 0.0 if self.taking(drug) is False else None
        read = parse_quantity(found[0])
        return None if read is None or read.unit is None else convert(read.value, read.unit, unit, weight=kilograms)

    def has_problem(self, problem: str, *, ever: bool = False) -> bool | None:
        """See Facts. What is listed is of this encounter."""
        return (
            None
            if self.problems is None
            else any(is_problem(known_problem, problem) for known_problem in self.problems)
        )

    def allergic_to(self, substance: str) -> bool | None:
        """See Facts."""
        return None if self.allergies is None else is_allergic(self.allergies, substance)

    def done(self, action: str, hours: float | None = None, *, ever: bool = False) -> bool | None:
        """See Facts. What is listed is of this encounter."""
        last = self.hours_since(action)
        if hours is not None and last is not None:
            return last <= hours
        listed = (
            None
            if self.finished is None
            else any(is_same_action(finished_action, action) for finished_action in self.finished)
        )
        if hours is None:
            return True if last is not None else listed
        return False if listed is False else None

    def times_done(self, action: str, hours: float) -> tuple[int, int] | None:
        """See Facts."""
        found = [one for name, one in self.times.items() if is_same_action(name, action)]
        if not found:
            return (0, 0) if self.done(action, hours) is False else None
        known = sum(one <= hours for one in found[0])
        return known, known

    def hours_since(self, action: str) -> float | None:
        """See Facts."""
        listed = [hours for name, hours in self.since.items() if is_same_action(name, action)]
        counted = [hours for name, all_ in self.times.items() if is_same_action(name, action) for hours in all_]
        return min((*listed, *counted), default=None)

    def score(self, name: str, hours: float | None = None) -> Bounds | None:
        """See Facts. A number is known exactly; a part that is missing makes it two, the least and the most."""
        found = self.scores.get(name)
        return Bounds(*found) if isinstance(found, tuple) else None if found is None else Bounds(found, found)


_NOW = datetime(2000, 1, 1)


@lru_cache(maxsize=65_536)
def is_problem(active: str, wanted: str) -> bool:
    """Return whether a charted problem is the wanted one or one of its kind ("Severe sepsis").

    A problem that the title denies, or that is past or the family's, is not active.
    """
    return "present" in _titled(active).statuses(wanted)


_SUSPECTED = re.compile(r"^(?:suspected|probable|presumed|likely)\s+", re.IGNORECASE)


@lru_cache(maxsize=65_536)
def _titled(active: str) -> KnownFindings:
    """Return what the title of a charted problem states. A suspected problem is acted on as if it were present."""
    known = KnownFindings()
    known.add(read_text(_SUSPECTED.sub("", active)))
    return known


@lru_cache(maxsize=65_536)
def is_allergy(known: str, substance: str) -> Truth:
    """Return whether a known allergy, as charted, forbids a drug or a class."""
    return conflicts(substance, known)


def is_allergic(known: tuple[str, ...], substance: str) -> Truth:
    """Return whether one of the known allergies forbids a substance; unknown if one of them cannot be judged."""
    return any_of(is_allergy(allergy, substance) for allergy in known)


@lru_cache(maxsize=65_536)
def is_same_action(done: str, wanted: str) -> bool:
    """Return whether an action is the wanted one: by its clinical name, as one of its kind, or as a drug."""
    if clinical_name(done) == clinical_name(wanted) or is_drug(done, wanted):
        return True
    first, second = find_concept(done), find_concept(wanted)
    return first is not None and second is not None and is_a(first, second)


def _named(mapping: Mapping[str, T], concept: str) -> T | None:
    name = clinical_name(concept)
    return next((value for key, value in mapping.items() if clinical_name(key) == name), None)
