"""What a trigger is made of: conditions on facts, joined by AND, OR and NOT, true, false or unknown (Kleene)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from wardround.codes import normalise_label
from wardround.protocols.facts import Direction, Facts, Level
from wardround.vocabulary import clinical_name

Truth = bool | None
Relation = Literal[">", ">=", "<", "<=", "="]
RELATIONS: Mapping[str, Callable[[Any, float], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AtValue:
    """``lactate > 4 mmol/L``. A reading in another unit than the trigger's is unknown, never converted in silence."""

    concept: str
    relation: Relation
    threshold: float
    unit: str | None = None

    def holds(self, facts: Facts) -> Truth:
        reading = facts.value(self.concept)
        if reading is None or not self.is_in_unit(reading.unit):
            return None
        return bool(RELATIONS[self.relation](reading.value, self.threshold))

    def is_in_unit(self, unit: str | None) -> bool:
        """Whether a reading in a unit may be compared: none is said on one side, or both are the same."""
        return not self.unit or not unit or _same_unit(self.unit, unit)

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{spell(self.concept)} {self.relation} {self.threshold:g}{unit}"


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
class HoursSince:
    """``hours since blood culture >= 24``; unknown where it never was."""

    concept: str
    relation: Relation
    threshold: float

    def holds(self, facts: Facts) -> Truth:
        hours = facts.hours_since(self.concept)
        return None if hours is None else bool(RELATIONS[self.relation](hours, self.threshold))

    def __str__(self) -> str:
        return f"hours since {spell(self.concept)} {self.relation} {self.threshold:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """``on norepinephrine``, ``problem sepsis``, ``allergy penicillins``, ``done blood culture``. Problems and what was
    done are those of this encounter; with ``ever``, of a problem or of what was done, those of earlier ones too."""

    what: Literal["on", "problem", "allergy", "done"]
    concept: str
    ever: bool = False

    def holds(self, facts: Facts) -> Truth:
        match self.what:
            case "on":
                return facts.taking(self.concept)
            case "problem":
                return facts.has_problem(self.concept, ever=self.ever)
            case "allergy":
                return facts.allergic_to(self.concept)
            case "done":
                return facts.done(self.concept, ever=self.ever)

    def __str__(self) -> str:
        return f"{'ever ' if self.ever else ''}{self.what} {spell(self.concept)}"


Condition = AtValue | AtLevel | Moving | HoursSince | Stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Negated:
    """NOT: unknown stays unknown."""

    part: Node

    def holds(self, facts: Facts) -> Truth:
        held = self.part.holds(facts)
        return None if held is None else not held

    def __str__(self) -> str:
        return f"NOT {self.part}" if not isinstance(self.part, Joined) else f"NOT ({self.part})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """AND or OR of two or more."""

    how: Literal["AND", "OR"]
    parts: tuple[Node, ...]

    def holds(self, facts: Facts) -> Truth:
        deciding = self.how == "OR"
        unknown = False
        for part in self.parts:
            held = part.holds(facts)
            if held is deciding:
                return deciding
            unknown = unknown or held is None
        return None if unknown else not deciding

    def __str__(self) -> str:
        return f" {self.how} ".join(f"({part})" if isinstance(part, Joined) else str(part) for part in self.parts)


Node = Condition | Negated | Joined


def conditions_of(node: Node) -> Iterator[Condition]:
    """Yield every condition of a trigger, in the order it is written."""
    if isinstance(node, Joined):
        for part in node.parts:
            yield from conditions_of(part)
    elif isinstance(node, Negated):
        yield from conditions_of(node.part)
    else:
        yield node


def spell(name: str) -> str:
    """A name as triggers spell it: in quotes where it holds more than words."""
    words = all(_WORD.issuperset(word) and word.upper() not in _KEYWORDS for word in name.split())
    return name if words and name else f'"{name}"'


def same_concept(first: str, second: str) -> bool:
    """Whether two names stand for one concept."""
    return clinical_name(first) == clinical_name(second)


def _same_unit(first: str, second: str) -> bool:
    return normalise_label(first).replace(" ", "") == normalise_label(second).replace(" ", "")


_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/%.+")
_KEYWORDS = frozenset({"AND", "OR", "NOT", "IS"})
