"""Numbers with their units as people write them, and comparison of two that may be in different ones.

A bare number stands for a unit only where the table of measurements leaves one reading of it, or where every reading
of it says the same. Else a comparison is unknown.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from wardround.vocabulary.measurements import Measurement, UsualUnit, convert, find_measurement, is_unitless
from wardround.vocabulary.names import Concept
from wardround.vocabulary.truth import Truth
from wardround.vocabulary.units import plain_unit, read_unit

Relation = Literal[">", ">=", "<", "<=", "="]
RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}
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
    """Read a number with its unit; None where the text is not one, or its number may be read in two ways ("1,5").

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
    """Readings in one unit held against a threshold. The first group with a way to read a number decides; where its
    ways disagree the truth is unknown."""

    relation: Relation
    groups: tuple[tuple[_Reading, ...], ...]

    def holds(self, value: float) -> Truth:
        """Say whether a number meets the threshold."""
        relation = RELATIONS[self.relation]
        for group in self.groups:
            said = {bool(relation(value, one.threshold)) for one in group if one.low <= value <= one.high}
            if said:
                return said.pop() if len(said) == 1 else None
        return None

    def holds_of(self, values: NDArray[np.floating[Any]]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Say the same of many: (n,) whether each meets it, and (n,) of which that is known."""
        relation = RELATIONS[self.relation]
        true, known = np.zeros(len(values), bool), np.zeros(len(values), bool)
        open_ = np.ones(len(values), bool)
        for group in self.groups:
            yes, no = np.zeros(len(values), bool), np.zeros(len(values), bool)
            for one in group:
                read = open_ & (values >= one.low) & (values <= one.high)
                met = relation(values, one.threshold)
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
) -> Truth:
    """Say whether a reading meets a threshold; unknown where their units cannot be brought together.

    >>> compare(59, "g/L", "<", 7, None, "hemoglobin"), compare(150, "umol/L", ">", 2, None, "creatinine")
    (True, False)
    >>> compare(4.2, "bananas", ">", 4, "mmol/L", "lactate")
    """
    return comparison(unit, relation, threshold, threshold_unit, concept).holds(value)


@lru_cache(maxsize=16_384)
def comparison(
    unit: str | None,
    relation: Relation,
    threshold: float,
    threshold_unit: str | None = None,
    concept: Concept | str | None = None,
) -> ThresholdTest:
    """Return how readings in a unit are held against a threshold, worked out once for all of them."""
    known = find_measurement(concept) if concept is not None else None
    reading_unit = None if is_unitless(unit, known) else unit
    asked_unit = None if is_unitless(threshold_unit, known) else threshold_unit
    groups = _groups(reading_unit, threshold, asked_unit, known)
    return ThresholdTest(relation=relation, groups=tuple(group for group in groups if group))


def _groups(
    unit: str | None, threshold: float, threshold_unit: str | None, known: Measurement | None
) -> tuple[tuple[_Reading, ...], ...]:
    everything = (_Reading(low=-np.inf, high=np.inf, threshold=threshold),)
    if unit is not None and threshold_unit is not None:
        return (_in_unit(unit, ((threshold, threshold_unit),), known),)
    if known is None:
        return (everything,)
    usual = known.units[0]
    if threshold_unit is not None:  # a bare reading
        return _of_bare_reading(((threshold, threshold_unit),), known, usual_first=_same(threshold_unit, usual.unit))
    meant = _meant(threshold, unit, known)
    if unit is not None:
        return (_in_unit(unit, meant, known),)
    first = len(meant) == 1 and _same(meant[0][1], usual.unit)
    return _of_bare_reading(meant, known, usual_first=first)


def _meant(threshold: float, unit: str | None, known: Measurement) -> tuple[tuple[float, str | None], ...]:
    """Return what a bare threshold may mean: in the usual unit where the reading is in that one too or has none."""
    usual = known.units[0]
    if usual.is_plausible(threshold) and (unit is None or _same(unit, usual.unit)):
        return ((threshold, usual.unit),)
    found = tuple((threshold, one.unit) for one in known.units if one.is_plausible(threshold))
    own = tuple(one for one in found if unit is not None and _same(one[1], unit))
    if own and not any(_converted(*one, unit, known) is not None for one in found if one not in own):
        return own  # the others measure otherwise (D-dimer in FEU): a number beside it is in the reading's own unit
    below = threshold < min(one.low for one in known.units)  # what is below all that is charted is so in every unit
    return ((threshold, usual.unit),) if below and not found else found


def _in_unit(unit: str, meant: tuple[tuple[float, str | None], ...], known: Measurement | None) -> tuple[_Reading, ...]:
    found = [_converted(number, asked, unit, known) for number, asked in meant]
    if any(one is None for one in found):
        return ()
    low, high = _believed(unit, known)
    return tuple(_Reading(low=low, high=high, threshold=one) for one in found if one is not None)


def _believed(unit: str, known: Measurement | None) -> tuple[float, float]:
    """Which numbers are taken in the unit that they are charted in: a fraction charted as per cent, or Celsius as
    Fahrenheit, is not."""
    charted = read_unit(unit)
    own = (
        next((one for one in known.units if read_unit(one.unit or "1") == charted), None) if known is not None else None
    )
    if own is None or known is None or len(known.units) < 2 or not _is_mistakable(own.unit):
        return -np.inf, np.inf
    return own.low, own.high


def _is_mistakable(unit: str | None) -> bool:
    read = read_unit(unit or "1")
    return read is not None and read.dimension in ((), (("temperature", 1),))


def _of_bare_reading(
    meant: tuple[tuple[float, str | None], ...], known: Measurement, *, usual_first: bool
) -> tuple[tuple[_Reading, ...], ...]:
    def ways(units: tuple[UsualUnit, ...]) -> tuple[_Reading, ...]:
        return tuple(
            reading
            for one in units
            for number, asked in meant
            for limit in _limits(_converted(number, asked, one.unit, known))
            for reading in (_Reading(low=one.low, high=one.high, threshold=limit),)
        )

    if usual_first:
        return ways(known.units[:1]), ways(known.units[1:])
    return (ways(known.units),)


def _limits(converted: float | None) -> tuple[float, ...]:
    """The threshold in a unit; where there is no way to it, two that never agree: what it says is not known."""
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
