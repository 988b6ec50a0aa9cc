"""What a trigger is made of: conditions on facts, joined by AND, OR and NOT, true, false or unknown (Kleene)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from wardround.protocols.facts import Facts
from wardround.protocols.measured import AtLevel, AtValue, ChangedBy, Held, Moving, TimesBaseline, Within
from wardround.protocols.spelling import number, spell
from wardround.vocabulary import RELATIONS, Relation, Truth, all_of, any_of, negate


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
        told = {bool(RELATIONS[self.relation](one, self.threshold)) for one in range(counts[0], counts[1] + 1)}
        return told.pop() if len(told) == 1 else None

    def __str__(self) -> str:
        compared = f"{self.relation} {number(self.threshold)}"
        return f"count of {spell(self.concept, 'done')} in last {number(self.hours)} h {compared}"


OverTime = Held | Within | TimesBaseline | ChangedBy
Condition = AtValue | AtLevel | Moving | OverTime | HoursSince | Stated | AtScore | AtRate | CountedActions


@dataclass(frozen=True, slots=True, kw_only=True)
class Negated:
    """NOT: unknown stays unknown."""

    part: Node

    def holds(self, facts: Facts) -> Truth:
        return negate(self.part.holds(facts))

    def __str__(self) -> str:
        return f"NOT {self.part}" if not isinstance(self.part, Joined) else f"NOT ({self.part})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """AND or OR of two or more."""

    how: Literal["AND", "OR"]
    parts: tuple[Node, ...]

    def holds(self, facts: Facts) -> Truth:
        truths = (part.holds(facts) for part in self.parts)
        return all_of(truths) if self.how == "AND" else any_of(truths)

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
