"""What a trigger may ask of a subject. None means that it is not charted, which is never taken for normal or absent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol, TypeVar

from wardround.codes import normalise_label
from wardround.vocabulary import clinical_name, drug_class, drug_classes, drug_name

T = TypeVar("T")
Level = Literal["low", "normal", "high"]
Direction = Literal["rising", "falling", "steady"]
DrugKey = tuple[Literal["drug", "class"], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartedValue:
    """One measured number and the unit it was charted in."""

    value: float
    unit: str | None = None


class Facts(Protocol):
    """A subject's present, as triggers ask for it. Names come as the rules spell them."""

    def value(self, concept: str) -> ChartedValue | None:
        """The newest number of a concept that is not too old to act on."""
        ...

    def level(self, concept: str) -> Level | None:
        """Where that number stands against its reference range."""
        ...

    def trend(self, concept: str) -> Direction | None:
        """Where it goes."""
        ...

    def taking(self, drug: str) -> bool | None:
        """Whether a drug, or one of a class, is given now."""
        ...

    def has_problem(self, problem: str, *, ever: bool = False) -> bool | None:
        """Whether a problem is active in this encounter; ``ever``: or was in an earlier one."""
        ...

    def allergic_to(self, substance: str) -> bool | None:
        """Whether an allergy to a drug or its class is known."""
        ...

    def done(self, action: str, *, ever: bool = False) -> bool | None:
        """Whether something was ordered, started or performed in this encounter; ``ever``: or in an earlier one."""
        ...

    def hours_since(self, action: str) -> float | None:
        """Hours since that was last so in this encounter; None where it never was."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFacts:
    """Facts that somebody wrote down: for examples of rules and for tests. What is not listed is unknown, but a list
    that is given is complete: a drug not in ``on`` is not taken."""

    values: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Level] = field(default_factory=dict)
    trends: Mapping[str, Direction] = field(default_factory=dict)
    on: tuple[str, ...] | None = None
    problems: tuple[str, ...] | None = None
    allergies: tuple[str, ...] | None = None
    finished: tuple[str, ...] | None = None
    since: Mapping[str, float] = field(default_factory=dict)

    def value(self, concept: str) -> ChartedValue | None:
        """See Facts."""
        found = _named(self.values, concept)
        return None if found is None else ChartedValue(value=found, unit=_named(self.units, concept))

    def level(self, concept: str) -> Level | None:
        """See Facts."""
        return _named(self.levels, concept)

    def trend(self, concept: str) -> Direction | None:
        """See Facts."""
        return _named(self.trends, concept)

    def taking(self, drug: str) -> bool | None:
        """See Facts."""
        return None if self.on is None else any(is_drug(one, drug) for one in self.on)

    def has_problem(self, problem: str, *, ever: bool = False) -> bool | None:
        """See Facts. What is listed is of this encounter."""
        return None if self.problems is None else any(is_problem(one, problem) for one in self.problems)

    def allergic_to(self, substance: str) -> bool | None:
        """See Facts."""
        return None if self.allergies is None else any(is_allergy(one, substance) for one in self.allergies)

    def done(self, action: str, *, ever: bool = False) -> bool | None:
        """See Facts. What is listed is of this encounter."""
        return None if self.finished is None else any(is_same_action(one, action) for one in self.finished)

    def hours_since(self, action: str) -> float | None:
        """See Facts."""
        return next((hours for name, hours in self.since.items() if is_same_action(name, action)), None)


def is_drug(given: str, asked: str) -> bool:
    """Whether a given drug is the one asked for, or of the class asked for."""
    return drug_key(asked) in drug_keys(given)


@lru_cache(maxsize=65_536)
def drug_key(asked: str) -> DrugKey:
    """As what a drug is asked for: a class where the name is one's, else the drug."""
    named = drug_class(asked)
    return ("drug", drug_name(asked)) if named is None else ("class", named)


@lru_cache(maxsize=65_536)
def drug_keys(given: str) -> frozenset[DrugKey]:
    """As what a given drug may be asked for: itself, each of its classes, and the class that the order itself names."""
    classes = {*drug_classes(given), drug_class(given)} - {None}
    return frozenset({("drug", drug_name(given)), *(("class", str(one)) for one in classes)})


def is_problem(active: str, asked: str) -> bool:
    """Whether an active problem is the one asked for: its words are all in the active one's name."""
    return set(normalise_label(asked).split()) <= set(normalise_label(active).split())


def is_allergy(known: str, substance: str) -> bool:
    """Whether a known allergy, to a drug or to a class, forbids a substance."""
    return is_drug(substance, known)


def is_same_action(done: str, asked: str) -> bool:
    """Whether what was done is what was asked for, by its clinical name or as a drug."""
    return clinical_name(done) == clinical_name(asked) or is_drug(done, asked)


def _named(mapping: Mapping[str, T], concept: str) -> T | None:
    name = clinical_name(concept)
    return next((value for key, value in mapping.items() if clinical_name(key) == name), None)
