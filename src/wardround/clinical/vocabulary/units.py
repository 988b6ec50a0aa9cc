"""Units of measurement as charts and people spell them, and conversion between them.

A closed grammar of our own: parts joined by ``/``, each from the tables below. General unit libraries read a clinic's
``K/uL`` as kelvin and its ``units/hr`` as micronits, know no ``mEq/L`` and no ``bpm``, and take 0.4 s to load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

Dimension = tuple[tuple[str, int], ...]
_SIGNIFICANT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit: what it measures, and its size in the base unit (gram, litre, mole, second, mmHg, degree Celsius)."""

    dimension: Dimension
    size: float
    zero: float = 0.0
    """The base unit's number at this unit's zero: of degrees only."""


def _powers(symbols: Mapping[str, float], kind: str) -> dict[str, tuple[str, float]]:
    return {symbol: (kind, size) for symbol, size in symbols.items()}


_PARTS: Mapping[str, tuple[str, float]] = {
    **_powers({"kg": 1e3, "g": 1.0, "gm": 1.0, "gms": 1.0, "gram": 1.0, "grams": 1.0, "mg": 1e-3, "milligram": 1e-3,
               "mgs": 1e-3, "milligrams": 1e-3, "ug": 1e-6, "mcg": 1e-6, "mcgs": 1e-6, "microgram": 1e-6,
               "micrograms": 1e-6, "ng": 1e-9, "nanogram": 1e-9, "nanograms": 1e-9, "pg": 1e-12}, "mass"),
    **_powers({"l": 1.0, "liter": 1.0, "liters": 1.0, "litre": 1.0, "litres": 1.0, "dl": 0.1, "ml": 1e-3, "mls": 1e-3,
               "milliliter": 1e-3, "milliliters": 1e-3, "cc": 1e-3, "ccs": 1e-3, "ul": 1e-6, "mcl": 1e-6,
               "microliter": 1e-6, "cmm": 1e-6, "cumm": 1e-6, "mm3": 1e-6, "mm^3": 1e-6, "mmcu": 1e-6,
               "fl": 1e-15}, "volume"),
    **_powers({"mol": 1.0, "mmol": 1e-3, "mmols": 1e-3, "millimol": 1e-3, "umol": 1e-6, "mcmol": 1e-6,
               "micromol": 1e-6, "nmol": 1e-9, "pmol": 1e-12}, "substance"),
    **_powers({"eq": 1.0, "meq": 1e-3, "meqs": 1e-3}, "charge"),
    **_powers({"u": 1.0, "unit": 1.0, "units": 1.0, "unt": 1.0, "iu": 1.0, "[iu]": 1.0, "[u]": 1.0, "ku": 1e3,
               "mu": 1e-3, "miu": 1e-3, "m[iu]": 1e-3, "milliunit": 1e-3, "milliunits": 1e-3, "munits": 1e-3,
               "uu": 1e-6, "uiu": 1e-6, "mcu": 1e-6, "mciu": 1e-6, "u[iu]": 1e-6, "mcunit": 1e-6, "mcunits": 1e-6,
               "microiu": 1e-6}, "activity"),
    **_powers({"s": 1.0, "ms": 1e-3, "msec": 1e-3, "sec": 1.0,
               "secs": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0, "mins": 60.0,
               "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0,
               "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0, "24h": 86400.0, "24hr": 86400.0,
               "24hrs": 86400.0, "wk": 604800.0, "week": 604800.0, "weeks": 604800.0, "year": 31557600.0,
               "years": 31557600.0, "yr": 31557600.0, "yrs": 31557600.0}, "time"),
    **_powers({"mmhg": 1.0, "mm[hg]": 1.0, "torr": 1.0, "kpa": 7.50062, "cmh2o": 0.735559, "cm[h2o]": 0.735559},
              "pressure"),
    **_powers({"osm": 1.0, "mosm": 1e-3, "mosmol": 1e-3}, "osmoles"),
    **_powers({"mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": 0.0254, "inch": 0.0254, "inches": 0.0254}, "length"),
    **_powers({"m2": 1.0, "m^2": 1.0}, "area"),
    **_powers({"1.73m2": 1.0, "1.73m^2": 1.0}, "body surface"),
    **_powers({"hpf": 1.0}, "high-power field"),
    **_powers({"lpf": 1.0}, "low-power field"),
    **_powers({"%": 0.01, "percent": 0.01, "1": 1.0, "": 1.0, "#": 1.0, "cells": 1.0, "cell": 1.0, "copies": 1.0,
               "cop": 1.0, "beats": 1.0, "breaths": 1.0, "insp": 1.0, "b": 1.0, "br": 1.0, "ratio": 1.0,
               "fraction": 1.0, "points": 1.0, "k": 1e3, "th": 1e3, "ths": 1e3, "thou": 1e3, "thous": 1e3,
               "thousand": 1e3, "mil": 1e6, "mill": 1e6, "mi": 1e6, "million": 1e6}, "number"),
}  # fmt: skip
_WHOLE: Mapping[str, str] = {
    "bpm": "/min", "mm/l": "mmol/l", "mm/hg": "mmhg", "mm(hg)": "mmhg", "cm/h2o": "cmh2o", "cmh20": "cmh2o",
    "cmh?o": "cmh2o", "lpm": "l/min", "mg%": "mg/dl", "g%": "g/dl", "gm%": "g/dl", "vol%": "ml/dl",
    "x103": "k/ul", "x106": "mil/ul", "u3": "fl", "uug": "pg", "mosm/k": "mosm/kg", "mosm/kgh2o": "mosm/kg",
    "mmol/kgh2o": "mosm/kg", "%sat": "%", "%thb": "%", "%totalhgb": "%", "sat%": "%",
    "kilograms": "kg", "kilogram": "kg", "kgs": "kg", "lb": "lb", "lbs": "lb", "rate": "/min",
    "breaths": "/min", "beats": "/min",
}  # fmt: skip
_CELLS_PER = frozenset({"ul", "mcl", "mm3", "mm^3", "cmm", "cumm", "mmcu", "l"})
_DEGREES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("c", "degc", "celsius", "degreesc", "degreec", "deg.c", "cel", "degreescelsius"), (1.0, 0.0)),
    **dict.fromkeys(("f", "degf", "fahrenheit", "degreesf", "degreef", "[degf]", "degreesfahrenheit"),
                    (5 / 9, -160 / 9)),
}  # fmt: skip
_TENS = re.compile(r"x?10(?:[*^e]|\()?([369]|12)\)?(?=/|ul|mcl|l|$)")
_NO_UNIT = frozenset({"", "n/a", "na", "none", "null", "-", "+/-"})


@lru_cache(maxsize=8_192)
def plain_unit(text: str | None) -> str | None:
    """Return the form in which units are compared; None without a unit (empty, "N/A")."""
    plain = (
        (text or "").strip().replace("µ", "u").replace("μ", "u").replace("&#176;", "").replace("°", "").replace("º", "")
    )
    plain = "".join(plain.lower().replace("₂", "2").replace("³", "3").replace(" per ", "/").split())
    plain = plain.rstrip(".").replace("./", "/").removesuffix("(s)")
    spelt = _WHOLE.get(plain, plain)
    return None if spelt in _NO_UNIT else spelt


@lru_cache(maxsize=8_192)
def read_unit(text: str) -> Unit | None:
    """Read a unit; None if it is not one of this grammar.

    >>> read_unit("K/uL") == read_unit("10*9/L"), read_unit("mm Hg") == read_unit("mmHg"), read_unit("bananas")
    (True, True, None)
    """
    spelt = plain_unit(text)
    if spelt is None:
        return None
    if spelt in _DEGREES:
        size, zero = _DEGREES[spelt]
        return Unit(dimension=(("temperature", 1),), size=size, zero=zero)
    if spelt == "lb":
        return Unit(dimension=(("mass", 1),), size=453.59237)
    return _composed(spelt)


def convert_unit(value: float, from_unit: str, to_unit: str, *, weight: float | None = None) -> float | None:
    """Return a number in another unit of its dimension; None without a conversion. ``weight``: kg, for ``/kg``."""
    source, target = read_unit(from_unit), read_unit(to_unit)
    if source is None or target is None:
        return None
    if plain_unit(from_unit) == plain_unit(to_unit):
        return value
    factor = source.size / target.size
    gap = dict(source.dimension).get("body", 0) - dict(target.dimension).get("body", 0)
    if gap:
        if not weight or weight <= 0:
            return None
        factor *= float(weight) ** -gap
    if without_body(source.dimension) != without_body(target.dimension):
        return None
    return rounded(value * factor + (source.zero - target.zero) / target.size)


def without_body(dimension: Dimension) -> Dimension:
    """Return a dimension without ``per kg of body weight``."""
    return tuple(part for part in dimension if part[0] != "body")


def rounded(value: float) -> float:
    """Return a converted number without the noise of its last digits."""
    return float(f"{value:.{_SIGNIFICANT}g}")


def _composed(spelt: str) -> Unit | None:
    extra = ""
    for suffix in ("feu", "ddu"):
        if spelt.endswith(suffix):
            spelt, extra = spelt.removesuffix(suffix), suffix
    size, tens = 1.0, _TENS.match(spelt)
    if tens is not None:  # ``10*9/L``, ``10E3/mcL``, ``x10(6)/mcL``; an empty part between two strokes is a number: 1
        spelt, size = f"/{spelt[tens.end() :]}", 10.0 ** int(tens[1])
    first, *rest = spelt.split("/")
    if first == "m" and rest and rest[0] in _CELLS_PER:
        first = "mil"
    powers: dict[str, int] = {extra: 1} if extra else {}
    for place, part in enumerate((first, *rest)):
        found = (part, 1.0) if part.startswith("log10") else _PARTS.get(part)  # a logarithm is a measure of its own
        if found is None:
            return None
        kind, factor = found
        if place and part == "kg":
            kind, factor = ("water" if "osmoles" in powers else "body"), 1.0
        power = -1 if place else 1
        size *= factor**power
        if kind != "number":
            powers[kind] = powers.get(kind, 0) + power
    return Unit(dimension=tuple(sorted((kind, power) for kind, power in powers.items() if power)), size=size)
