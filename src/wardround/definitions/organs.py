"""SOFA and its six parts, qSOFA, SIRS and the coma scale, as published; each says what is not charted.

A part whose measurement is not charted is unknown (None), never 0. A total is the sum of the known parts, and so the
least that the score can be; ``bounds`` also give the most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wardround.vocabulary import Bounds

MOST_POINTS = 4
"""The most points of one part of SOFA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialScore:
    """A sum of parts. ``unknown`` names the parts that were not charted. ``within``: by part the least and the most
    that it can be; a part that is known by one of two measurements may be higher by the other."""

    parts: Mapping[str, int | None]
    within: Mapping[str, Bounds]

    @property
    def total(self) -> int | None:
        """The sum of the known parts; None where none is known."""
        known = [value for value in self.parts.values() if value is not None]
        return sum(known) if known else None

    @property
    def bounds(self) -> Bounds:
        """The least and the most that the true score can be."""
        return Bounds(sum(one.low for one in self.within.values()), sum(one.high for one in self.within.values()))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts that were not charted."""
        return tuple(name for name, value in self.parts.items() if value is None)


def coma_scale(eye: int | None, verbal: int | None, motor: int | None, *, intubated: bool = False) -> int | None:
    """Glasgow coma scale, 3 to 15 (Teasdale and Jennett 1974). Of an intubated person it is 15, as the MIMIC Code
    Repository takes it: the tube, not the brain, keeps them from speaking."""
    if intubated:
        return 15
    if eye is None or verbal is None or motor is None:
        return None
    return eye + verbal + motor


def sofa_respiration(ratio: float | None, *, ventilated: bool | None) -> int | None:
    """Points of PaO2/FiO2 in mmHg (Vincent 1996). 3 and 4 need respiratory support; without it 2 are the most."""
    if ratio is None:
        return None
    if ratio < 200 and ventilated:
        return 4 if ratio < 100 else 3
    return 2 if ratio < 300 else 1 if ratio < 400 else 0


def sofa_coagulation(platelets: float | None) -> int | None:
    """Points of platelets in 10^3/uL."""
    return None if platelets is None else sum(platelets < bound for bound in (150, 100, 50, 20))


def sofa_liver(bilirubin: float | None) -> int | None:
    """Points of total bilirubin in mg/dL."""
    return None if bilirubin is None else sum(bilirubin >= bound for bound in (1.2, 2.0, 6.0, 12.0))


def sofa_circulation(
    mean_pressure: float | None,
    *,
    dopamine: float = 0.0,
    epinephrine: float = 0.0,
    norepinephrine: float = 0.0,
    dobutamine: float = 0.0,
) -> int | None:
    """Points of mean arterial pressure in mmHg and of pressors in ug/kg/min. A drug that runs tells enough without a
    pressure; without either it is unknown."""
    if dopamine > 15 or epinephrine > 0.1 or norepinephrine > 0.1:
        return 4
    if dopamine > 5 or epinephrine > 0 or norepinephrine > 0:
        return 3
    if dopamine > 0 or dobutamine > 0:
        return 2
    return None if mean_pressure is None else int(mean_pressure < 70)


def sofa_brain(coma: int | None) -> int | None:
    """Points of the Glasgow coma scale."""
    return None if coma is None else sum(coma < bound for bound in (15, 13, 10, 6))


def sofa_kidney(creatinine: float | None, urine_of_day: float | None) -> int | None:
    """Points of creatinine in mg/dL and of urine in mL over 24 hours, the worse of the two."""
    found = []
    if creatinine is not None:
        found.append(sum(creatinine >= bound for bound in (1.2, 2.0, 3.5, 5.0)))
    if urine_of_day is not None:
        found.append(4 if urine_of_day < 200 else 3 if urine_of_day < 500 else 0)
    return max(found, default=None)


def quick_sofa(breaths: float | None, systolic: float | None, coma: int | None) -> PartialScore:
    """qSOFA (Seymour 2016): breaths a minute >= 22, systolic pressure <= 100 mmHg, coma scale below 15."""
    return _criteria(
        {
            "breathing": (None if breaths is None else breaths >= 22,),
            "pressure": (None if systolic is None else systolic <= 100,),
            "consciousness": (None if coma is None else coma < 15,),
        }
    )


def inflammatory_response(
    *,
    temperature: float | None = None,
    heart_rate: float | None = None,
    breaths: float | None = None,
    carbon_dioxide: float | None = None,
    white_cells: float | None = None,
    bands: float | None = None,
) -> PartialScore:
    """SIRS (Bone 1992): temperature in degC above 38 or below 36; heart rate above 90; breaths above 20 or PaCO2 below
    32 mmHg; white cells above 12 or below 4 (10^3/uL) or more than 10 % bands. Without PaCO2 or bands a criterion that
    its other measurement does not meet counts 0, and may be 1."""
    return _criteria(
        {
            "temperature": (None if temperature is None else temperature > 38 or temperature < 36,),
            "heart rate": (None if heart_rate is None else heart_rate > 90,),
            "breathing": (
                None if breaths is None else breaths > 20,
                None if carbon_dioxide is None else carbon_dioxide < 32,
            ),
            "white cells": (
                None if white_cells is None else white_cells > 12 or white_cells < 4,
                None if bands is None else bands > 10,
            ),
        }
    )


def _criteria(told: Mapping[str, tuple[bool | None, ...]]) -> PartialScore:
    """Count criteria, each met where one of its measurements meets it."""
    parts, within = {}, {}
    for name, each in told.items():
        known = [one for one in each if one is not None]
        parts[name] = int(any(known)) if known else None
        within[name] = Bounds(int(any(known)), int(any(known) or len(known) < len(each)))
    return PartialScore(parts=parts, within=within)
