"""Measurements: units, plausible ranges, and their many names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Literal, cast

from wardround.clinical.codes import load_lab_words, load_panels, normalise_label
from wardround.clinical.vocabulary.tables import cell_parts, table_rows
from wardround.clinical.vocabulary.units import convert_unit, plain_unit, read_unit, rounded, without_body

# One name for what charts, rules and replies call by many ("MAP", "ART BP mean"), and how names are compared.


ConceptKind = Literal["lab", "vital", "drug", "drug_class", "problem", "procedure", "device"]


@dataclass(frozen=True, slots=True, order=True)
class Concept:
    """The concept of a name: a kind and its one name (``Concept("vital", "mean arterial pressure")``)."""

    kind: ConceptKind
    name: str


@lru_cache(maxsize=65_536)
def clinical_name(text: str) -> str:
    """Return the one name of a measurement, procedure or laboratory test, in the form in which names are compared.

    >>> clinical_name("Arterial Blood Pressure mean"), clinical_name("MAP"), clinical_name("serum K")
    ('mean arterial pressure', 'mean arterial pressure', 'serum k')
    """
    name = normalise_label(text)
    found = _spellings().get(name)
    if found is not None:
        return found
    words = load_lab_words()
    likeliest = next(iter(words.get(name) or words.get(_CHARGE.sub("", name), ())), "")
    return normalise_label(likeliest) if likeliest else name


@lru_cache(maxsize=65_536)
def lab_panel(test: str) -> str | None:
    """Return the panel that usually contains a laboratory test, from our own table; None if the table does not have the
    test."""
    return _panel_of().get(clinical_name(test))


@lru_cache(maxsize=65_536)
def words_of(text: str) -> tuple[str, ...]:
    """Return a text's words as names are looked up by them: lower case, no marks, no plural ending.

    >>> words_of("Blood Cultures"), words_of("D-dimer"), words_of("biopsies")
    (('blood', 'culture'), ('d', 'dimer'), ('biopsy',))
    """
    return tuple(singular(word) for word in _WORD.findall(normalise_label(text)))


def singular(word: str) -> str:
    """Return a word without its plural ending. Both sides of a comparison use the same crude rule."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_CHARGE = re.compile(r"(?<=^[a-z])\d?[+-]+$|(?<=^[a-z]{2})\d?[+-]+$")
"""The charge of an ion: K+, Cl-, Mg2+."""
_WORD = re.compile(r"[^\W_]+")
_PANELS = ("CBC", "diff", "chem 10", "LFT", "coags", "ABG", "cardiac enzymes", "iron studies")
"""The panels that tests are put together by, the first that holds one."""


@cache
def _panel_of() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for panel in _PANELS:
        for spellings in load_panels()[normalise_label(panel)]:
            for spelling in spellings:
                found.setdefault(clinical_name(spelling), panel)
    return MappingProxyType(found)


@cache
def _spellings() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for kind, name, spellings, _ in table_rows("concepts", 4):
        if kind in ("vital", "lab", "procedure"):
            found |= {normalise_label(word): name for word in (name, *cell_parts(spellings))}
    return MappingProxyType(found)


# Facts of a measurement: its units, the plausible numbers in each, its conversion to moles.


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualUnit:
    """A unit that a measurement comes in, and the lowest and highest number that people write in it; ``extremes``: the
    lowest and highest ever measured, where they differ. ``unit`` is None where the number has none (pH, INR)."""

    unit: str | None
    low: float
    high: float
    extremes: tuple[float, float] | None = None

    def is_plausible(self, number: float) -> bool:
        """Return whether a number may be one in this unit."""
        return self.low <= number <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measurement: its units, the usual one first; ``molar_mass`` in g/mol; ``valence`` in Eq/mol."""

    name: str
    kind: Literal["lab", "vital"]
    units: tuple[UsualUnit, ...]
    molar_mass: float | None = None
    valence: float | None = None

    @property
    def in_extremes(self) -> Measurement:
        """The same, where every number ever measured is plausible."""
        found = ((one, one.extremes or (one.low, one.high)) for one in self.units)
        return replace(self, units=tuple(replace(one, low=low, high=high) for one, (low, high) in found))


@lru_cache(maxsize=65_536)
def find_measurement(concept: Concept | str) -> Measurement | None:
    """Return the facts of a measurement, by any of its names; None if it is unknown."""
    return _measurements().get(clinical_name(concept if isinstance(concept, str) else concept.name))


def usual_units(concept: Concept | str) -> tuple[UsualUnit, ...]:
    """Return the units that a measurement comes in, the usual one first; none if nothing is known of it."""
    found = find_measurement(concept)
    return () if found is None else found.units


@cache
def load_measurements() -> tuple[Measurement, ...]:
    """Return every measurement of our table."""
    return tuple(
        Measurement(
            name=name,
            kind=cast(Literal["lab", "vital"], kind),
            units=tuple(map(_usual_unit, cell_parts(units))),
            molar_mass=float(mass) if mass else None,
            valence=float(valence) if valence else None,
        )
        for name, kind, units, mass, valence in table_rows("measurements", 5)
    )


def convert(
    value: float, from_unit: str, to_unit: str, concept: Concept | str | None = None, *, weight: float | None = None
) -> float | None:
    """Return a number in another unit; None if no conversion is known.

    ``concept``: whose molar mass leads from grams to moles and whose valence from moles to equivalents; ``weight``: kg.

    >>> convert(59, "g/L", "g/dL"), convert(150, "umol/L", "mg/dL", "creatinine"), convert(1, "mmol/L", "mEq/L", "Mg")
    (5.9, 1.6968, 2.0)
    """
    plain = convert_unit(value, from_unit, to_unit, weight=weight)
    if plain is not None or concept is None:
        return plain
    known, source, target = find_measurement(concept), read_unit(from_unit), read_unit(to_unit)
    if known is None or source is None or target is None:
        return None
    per_mole = {"mass": known.molar_mass, "substance": 1.0, "charge": known.valence}
    amounts = [next((kind for kind, power in unit.dimension if kind in per_mole), "") for unit in (source, target)]
    rest = [
        tuple(part for part in without_body(unit.dimension) if part[0] not in per_mole) for unit in (source, target)
    ]
    sizes = [per_mole.get(amount) for amount in amounts]
    if rest[0] != rest[1] or sizes[0] is None or sizes[1] is None:
        return None
    return rounded(value * source.size / sizes[0] * sizes[1] / target.size)


@cache
def _measurements() -> Mapping[str, Measurement]:
    return MappingProxyType({clinical_name(measurement.name): measurement for measurement in load_measurements()})


def _usual_unit(text: str) -> UsualUnit:
    unit, numbers = _UNIT_AND_NUMBERS.fullmatch(text).groups()  # type: ignore[union-attr]
    low, high, *extremes = map(float, numbers.split())
    return UsualUnit(
        unit=None if unit == "1" else unit,
        low=low,
        high=high,
        extremes=tuple(extremes) or None,  # type: ignore[arg-type]
    )


def is_unitless(unit: str | None, known: Measurement | None) -> bool:
    """Return whether a unit says nothing: none is given, or the measurement has none and the unit is a filler
    (``units``)."""
    plain = plain_unit(unit)
    return plain is None or (plain in _FILLERS and known is not None and any(one.unit is None for one in known.units))


_UNIT_AND_NUMBERS = re.compile(r"(.*?)((?: -?[\d.]+){4}|(?: -?[\d.]+){2})")
_FILLERS = frozenset({"units", "unit", "ratio", "points", "index", "1", "#", "fraction"})
