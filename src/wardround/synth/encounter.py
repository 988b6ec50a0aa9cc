"""One stay in hospital as a plan: why, how bad, where, for how long, and how it ends. Rows are drawn from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wardround.synth.catalog import Condition

ICU_KINDS = frozenset({"micu", "sicu", "ccu", "cvicu", "neuro_icu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinicalProblem:
    """A condition at work during the stay. ``role``: principal, complication, chronic or terminal."""

    condition: Condition
    severity: float
    onset: int
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStretch:
    """A stretch of the stay in one care unit; ``event`` is the transfers event type."""

    event: str
    kind: str
    unit: str
    start: int
    end: int
    place_id: int

    @property
    def is_icu(self) -> bool:
        """Whether it counts as an intensive care stay."""
        return self.kind in ICU_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A procedure done at a moment."""

    key: str
    row: Mapping[str, Any]
    moment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounter:
    """The plan of one admission. ``arrival`` is ED registration, or admission where there was no ED."""

    hadm_id: int
    version: int
    age: int
    arrival: int
    admit: int
    ed_out: int | None
    discharge: int
    death: int | None
    principal: ClinicalProblem
    problems: tuple[ClinicalProblem, ...]
    places: tuple[UnitStretch, ...]
    acts: tuple[Act, ...]
    ventilation: tuple[int, int] | None
    complaint: str
    elective: bool
    number: int

    @property
    def icu_places(self) -> list[UnitStretch]:
        """Intensive care stretches, in order."""
        return [place for place in self.places if place.is_icu]

    def in_icu(self, moment: int) -> bool:
        """Whether the subject lies in intensive care at a moment."""
        return any(place.start <= moment < place.end for place in self.places if place.is_icu)

    def title(self) -> str:
        """The principal problem in words."""
        return self.principal.condition.title
