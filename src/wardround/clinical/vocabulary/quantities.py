"""Numbers with their units as people write them, and comparison of two that may be in different ones.

A bare number has the unit that the store has for its concept, where that is one. Where the store has several it may be
in each in which such a number has ever been measured, and a comparison is known only where all of them say the same.
Where no store is known (words), the numbers that people write in a unit count, and two bare ones are in the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from wardround.clinical.vocabulary.measurements import (
    Concept,
    Measurement,
    UsualUnit,
    convert,
    find_measurement,
    is_unitless,
)
from wardround.clinical.vocabulary.time import RELATIONS, Relation, Truth
from wardround.clinical.vocabulary.units import plain_unit, read_unit

_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"
_THOUSANDS = r"(?:\s?(?P<k>k)(?![a-z/]))?"
_QUANTITY = re.compile(
    rf"^(?P<sign><=|>=|<|>|=|~)?\s*(?:between\s+)?(?P<low>{_NUMBER}){_THOUSANDS}"
    rf"(?:\s*(?:-|to|and)\s*(?P<high>{_NUMBER}))?\s*(?P<rest>.*)$",
    re.IGNORECASE,
)
_EITHER = re.compile(r"[1-9]\d{1,2}\.000")
"""Thousands as much of Europe writes them, or a decimal: 50.000 platelets."""
_TIMES = re.compile(r"^(?:x|times|-?fold(?: of)?|×)\s*(?:(?:the|his|her|their)\s+)?(baseline|the upper limit.*|uln)$")
_SIGNS = str.maketrans({"≥": ">=", "≤": "<=", "–": "-", "−": "-", "×": "x"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number and its unit as written. ``high``: the upper end of a range, whose lower end is ``value``;
    ``comparator``: of a reading beyond what was measured (``<0.01``); ``multiple_of``: what it is a multiple of."""

    value: float
    unit: str | None = None
    high: float | None = None
    comparator: Relation | None = None
    multiple_of: str | None = None

    @property
    def low(self) -> float:
        """The lower end: the number itself where it is no range."""
        return self.value


def parse_quantity(text: str) -> Quantity | None:
    """Read a number with its unit; None if the text is not one, or its number may be read in two ways ("1,5").

    >>> parse_quantity("50,000 /uL"), parse_quantity("1.5 x baseline")
    (Quantity(value=50000.0, unit='/uL', high=None, comparator=None, multiple_of=None), \
Quantity(value=1.5, unit=None, high=None, comparator=None, multiple_of='baseline'))
    """
    match = _QUANTITY.match(" ".join(text.translate(_SIGNS).split()))
    if match is None or match["sign"] == "~":
        return None
    if any(_EITHER.fullmatch(one or "") for one in (match["low"], match["high"])):
        return None
    value, rest = _number(match["low"]) * (1000 if match["k"] else 1), match["rest"].strip()
    high = _number(match["high"]) if match["high"] else None
    if high is not None and high < value:
        return None
    times = _TIMES.match(rest.lower())
    if times:
        return Quantity(value=value, high=high, multiple_of="baseline" if times[1] == "baseline" else "upper limit")
    unit = rest or None
    if unit is not None and read_unit(unit) is None:
        return None
    return Quantity(value=value, unit=unit, high=high, comparator=cast("Relation | None", match["sign"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One way to read a number: which numbers it may be read so, and the threshold in the same unit."""

    low: float
    high: float
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdTest:
    """A comparison of readings in one unit with a threshold.

    The first group with a way to read a number decides. If the ways of a group disagree, the truth is unknown.
    """

    relation: Relation
    groups: tuple[tuple[_Reading, ...], ...]

    def holds(self, value: float) -> Truth:
        """Return whether a number meets the threshold."""
        relation = RELATIONS[self.relation]
        for group in self.groups:
            truths = {
                bool(relation(value, reading.threshold)) for reading in group if reading.low <= value <= reading.high
            }
            if truths:
                return truths.pop() if len(truths) == 1 else None
        return None

    def holds_of(self, values: NDArray[np.floating[Any]]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Test many values: return (n,) whether each meets the threshold, and (n,) whether that is known."""
        relation = RELATIONS[self.relation]
        true, known = np.zeros(len(values), bool), np.zeros(len(values), bool)
        open_ = np.ones(len(values), bool)
        for group in self.groups:
            yes, no = np.zeros(len(values), bool), np.zeros(len(values), bool)
            for reading in group:
                read = open_ & (values >= reading.low) & (values <= reading.high)
                met = relation(values, reading.threshold)
                yes |= read & met
                no |= read & ~met
            true |= yes & ~no
            known |= yes ^ no
            open_ &= ~(yes | no)
        return true, known


def compare(
    value: float,
    unit: str | None,
    relation: Relation,
    threshold: float,
    threshold_unit: str | None = None,
    concept: Concept | str | None = None,
    *,
    charted: Collection[str] = (),
) -> Truth:
    """Return whether a reading meets a threshold; unknown if their units cannot be brought together. ``charted``: the
    units that the store has for the concept, none if that is not known.

    >>> compare(59, "g/L", "<", 7, None, "hemoglobin"), compare(150, "umol/L", ">", 2, None, "creatinine")
    (True, False)
    >>> compare(4.2, "bananas", ">", 4, "mmol/L", "lactate"), compare(4.2, None, ">", 4, "mmol/L", "lactate")
    (None, None)
    >>> compare(4.2, None, ">", 4, "mmol/L", "lactate", charted=["mmol/L"])
    True
    """
    return comparison(unit, relation, threshold, threshold_unit, concept, frozenset(charted)).holds(value)


@lru_cache(maxsize=16_384)
def comparison(
    unit: str | None,
    relation: Relation,
    threshold: float,
    threshold_unit: str | None = None,
    concept: Concept | str | None = None,
    charted: frozenset[str] = frozenset(),
) -> ThresholdTest:
    """Return the comparison of readings in a unit with a threshold, computed once for all of them."""
    known = find_measurement(concept) if concept is not None else None
    reading_unit = None if is_unitless(unit, known) else unit
    limit_unit = None if is_unitless(threshold_unit, known) else threshold_unit
    here = tuple(one for one in charted if not is_unitless(one, known))
    known = _charted_as(known, here)
    groups = _groups(reading_unit, threshold, limit_unit, known, here)
    return ThresholdTest(relation=relation, groups=tuple(group for group in groups if group))


def reading_unit(value: float, unit: str | None, concept: Concept | str, charted: Collection[str] = ()) -> str | None:
    """Return the unit of a reading: its own, else the store's only one, else the only one in which the number is
    plausible; None if it is unknown, or the number has no unit (pH)."""
    known = find_measurement(concept)
    if not is_unitless(unit, known):
        return unit
    here = [charted_unit for charted_unit in charted if not is_unitless(charted_unit, known)]
    if known is None:
        return here[0] if len({plain_unit(charted_unit) for charted_unit in here}) == 1 else None
    known = _charted_as(known, here) or known
    known = known.in_extremes if here else known
    found = _plausible(value, known.units, known, here)
    same = bool(found) and all(_is_same_size(usual.unit, found[0].unit, known) for usual in found)
    return found[0].unit if same else None


def _charted_as(known: Measurement | None, charted: Sequence[str]) -> Measurement | None:
    """Return a measurement with the units of a store that the table has not: in those every number is plausible."""
    if known is None:
        return None
    others = (one for one in charted if not any(_is_same_size(one, each.unit, known) for each in known.units))
    readable = (
        fromkey for fromkey in dict.fromkeys(others) if _converted(1.0, fromkey, known.units[0].unit, known) is not None
    )
    more = tuple(UsualUnit(unit=one, low=-np.inf, high=np.inf) for one in readable)
    return replace(known, units=(*known.units, *more)) if more else known


def _groups(
    unit: str | None,
    threshold: float,
    threshold_unit: str | None,
    known: Measurement | None,
    charted: Sequence[str],
) -> tuple[tuple[_Reading, ...], ...]:
    everything = (_Reading(low=-np.inf, high=np.inf, threshold=threshold),)
    # in a store's own units whatever was ever measured is plausible
    measured = known.in_extremes if known is not None and charted else known
    if unit is not None and threshold_unit is not None:
        return (_in_unit(unit, ((threshold, threshold_unit),), measured),)
    if known is None:
        units = {plain_unit(one) for one in (*charted, unit, threshold_unit) if one is not None}
        return (everything,) if len(units) <= 1 else ()
    if unit is not None:
        return (_in_unit(unit, _meant(threshold, unit, known, charted), measured),)
    readings = measured or known
    if threshold_unit is not None:
        return _of_bare_reading(((threshold, threshold_unit),), readings, charted, has_unit=True)
    return _of_bare_reading(_meant(threshold, None, known, charted), readings, charted, has_unit=False)


def _meant(
    threshold: float, unit: str | None, known: Measurement, charted: Sequence[str]
) -> tuple[tuple[float, str | None], ...]:
    """Return what a bare threshold may mean. Where the store's units are not known, a reading in the usual unit says
    that the threshold is in it too, if it can be."""
    everywhere = tuple((threshold, one.unit) for one in known.units if one.is_plausible(threshold))
    own = tuple(one for one in everywhere if unit is not None and _same(one[1], unit))
    if own and not any(_converted(*one, unit, known) is not None for one in everywhere if one not in own):
        return own  # the others measure otherwise (D-dimer in FEU): a number beside it is in the reading's own unit
    if not everywhere:  # a threshold below all charted values is below them in every unit
        below = threshold < min(one.low for one in known.units)
        return ((threshold, known.units[0].unit),) if below else ()
    usual = known.units[0].unit
    here = charted or ((unit,) if unit is not None and _same(unit, usual) else ())
    found = _plausible(threshold, known.units, known, here)
    measured = _plausible(threshold, known.in_extremes.units, known, charted) if charted else ()
    if not any(_is_charted(one, known, charted) for one in found):  # such a number is not written in the store's unit
        found += tuple(one for one in measured if _is_charted(one, known, charted))
    return tuple((threshold, one.unit) for one in found)


def _plausible(
    number: float, units: Sequence[UsualUnit], known: Measurement, charted: Sequence[str]
) -> tuple[UsualUnit, ...]:
    """Return the units in which a number is plausible, of those that the store has where it is so in one of them."""
    found = tuple(unit for unit in units if unit.is_plausible(number))
    return tuple(unit for unit in found if _is_charted(unit, known, charted)) or found


def _is_charted(unit: UsualUnit, known: Measurement, charted: Sequence[str]) -> bool:
    return any(_is_same_size(unit.unit, other, known) for other in charted)


@lru_cache(maxsize=4_096)
def _is_same_size(first: str | None, second: str | None, known: Measurement) -> bool:
    """Return whether a number says the same in two units (mEq/L and mmol/L of potassium)."""
    return all(_converted(number, first, second, known) == number for number in (1.0, 10.0))


def _in_unit(unit: str, meant: tuple[tuple[float, str | None], ...], known: Measurement | None) -> tuple[_Reading, ...]:
    found = [_converted(number, limit_unit, unit, known) for number, limit_unit in meant]
    if any(one is None for one in found):
        return ()
    low, high = _believed(unit, known)
    return tuple(_Reading(low=low, high=high, threshold=one) for one in found if one is not None)


def _believed(unit: str, known: Measurement | None) -> tuple[float, float]:
    """Return the range of numbers that are read in their charted unit: not a fraction charted as per cent, nor Celsius
    charted as Fahrenheit."""
    charted = read_unit(unit)
    own = (
        next((usual for usual in known.units if read_unit(usual.unit or "1") == charted), None)
        if known is not None
        else None
    )
    if own is None or known is None or len(known.units) < 2:
        return -np.inf, np.inf
    read = read_unit(own.unit or "1")
    mistakable = read is not None and read.dimension in ((), (("temperature", 1),))
    return (own.low, own.high) if mistakable else (-np.inf, np.inf)


def _of_bare_reading(
    meant: tuple[tuple[float, str | None], ...], known: Measurement, charted: Sequence[str], *, has_unit: bool
) -> tuple[tuple[_Reading, ...], ...]:
    """Return the ways to read bare numbers: those in the store's units first, and the others' of what fits none of
    them. Where the store has none, a bare threshold and a bare reading that both fit a unit are both in it."""
    here = tuple(one for one in known.units if _is_charted(one, known, charted))
    others = tuple(one for one in known.units if one not in here)
    together = not (has_unit or here)

    def ways(units: tuple[UsualUnit, ...]) -> tuple[_Reading, ...]:
        return tuple(
            _Reading(low=low, high=high, threshold=limit)
            for one in units
            for number, unit in meant
            for low, high in _read_apart(one, unit, number, known, together=together)
            for limit in _limits(_converted(number, unit, one.unit, known))
        )

    return ways(here), ways(others)


def _read_apart(
    one: UsualUnit, unit: str | None, threshold: float, known: Measurement, *, together: bool
) -> tuple[tuple[float, float], ...]:
    """Return which bare numbers may be readings in a unit beside a threshold meant in another: where both fit both,
    ``together`` says that they are in the same."""
    other = next((each for each in known.units if _same(each.unit, unit)), None)
    if not together or other is None or other is one or not one.is_plausible(threshold):
        return ((one.low, one.high),)
    below = (one.low, min(one.high, float(np.nextafter(other.low, -np.inf))))
    above = (max(one.low, float(np.nextafter(other.high, np.inf))), one.high)
    return tuple((low, high) for low, high in (below, above) if low <= high)


def _limits(converted: float | None) -> tuple[float, ...]:
    """Return the threshold in a unit; without a conversion, two thresholds that never agree, so that the truth is
    unknown."""
    return (-np.inf, np.inf) if converted is None else (converted,)


def _converted(number: float, from_unit: str | None, to_unit: str | None, known: Measurement | None) -> float | None:
    if _same(from_unit, to_unit):
        return number
    name = known.name if known is not None else None
    return convert(number, from_unit or "1", to_unit or "1", name)


def _same(first: str | None, second: str | None) -> bool:
    return plain_unit(first) == plain_unit(second)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
