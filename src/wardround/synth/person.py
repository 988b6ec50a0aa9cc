"""Invented subjects: who they are, why they come, seeded chance, ids and hospital time."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import TypeVar

from wardround.core import derive_seed
from wardround.synth.catalog import Catalog, Condition, Drug

# Built on ``random.random`` alone, whose stream Python promises to keep: a seed means the same hospital everywhere.


T = TypeVar("T")
_SQRT3 = math.sqrt(3.0)


class Dice:
    """Draws for one subject; every method advances the same stream."""

    __slots__ = ("unit",)

    def __init__(self, seed: int) -> None:
        self.unit = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.unit() < probability

    def between(self, low: float, high: float) -> float:
        """Uniform."""
        return low + (high - low) * self.unit()

    def whole(self, low: int, high: int) -> int:
        """Uniform whole number, both ends included."""
        return low + int((high - low + 1) * self.unit())

    def normal(self, mean: float, deviation: float) -> float:
        """Draw a bell-shaped number with tails cut at 3.5 deviations (sum of four uniforms)."""
        unit = self.unit
        return mean + deviation * _SQRT3 * (unit() + unit() + unit() + unit() - 2.0)

    def skewed(self, median: float, spread: float) -> float:
        """Log-normal-shaped around a median; ``spread`` 0.5 gives about 0.4 to 2.5 times it."""
        return median * math.exp(self.normal(0.0, spread))

    def waiting(self, mean: float) -> float:
        """Exponential waiting time."""
        return -mean * math.log(1.0 - self.unit())

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of some options with equal chances."""
        return items[int(self.unit() * len(items))]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """Draw one key, in proportion to its weight."""
        point = self.unit() * sum(weights.values())
        for item, weight in weights.items():  # noqa: B007
            point -= weight
            if point < 0:
                break
        return item


# Numbers of the synthetic hospital: unique, a function of (subject index, running number) alone, none of them real.
#
# Every kind owns a block of numbers per subject. Kinds whose real numbers look random are scrambled by a bijection, so
# that a number says nothing about order in time; labevent_id and microevent_id run up within a subject, as in MIMIC.


SUBJECT_BASE = 90_000_000
MOST_PATIENTS = 1 << 22
"""More would run out of blocks."""
_SUBJECT_BITS = 22
_ODD = 0x9E3779B97F4A7C15
_PROVIDERS = 2400
_CAREGIVERS = 900
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def scramble(number: int, bits: int) -> int:
    """Map ``0 .. 2**bits - 1`` onto itself, one to one."""
    mask = (1 << bits) - 1
    number = number * _ODD & mask
    number ^= number >> (bits // 2)
    return number * _ODD & mask


class NumberBlock:
    """The numbers of one kind for one subject."""

    __slots__ = ("_base", "_bits", "_block_bits", "_next", "_start")

    def __init__(self, index: int, base: int, block_bits: int) -> None:
        self._base = base
        self._block_bits = block_bits
        self._bits = _SUBJECT_BITS + block_bits
        self._start = index << block_bits
        self._next = 0

    def take(self) -> int:
        """Return the next number; raises OverflowError when the block is used up."""
        number = self._next
        if number >> self._block_bits:
            raise OverflowError("a subject needs more numbers than its block holds")
        self._next = number + 1
        return self._base + scramble(self._start + number, self._bits)


class Numbers:
    """All blocks of one subject."""

    __slots__ = ("encounter", "infusion", "micro_specimen", "pharmacy", "place", "row_base", "specimen")

    def __init__(self, index: int) -> None:
        self.encounter = NumberBlock(index, 200_000_000, 4)
        self.place = NumberBlock(index, 300_000_000, 8)
        self.pharmacy = NumberBlock(index, 40_000_000_000, 13)
        self.specimen = NumberBlock(index, 10_000_000_000, 13)
        self.micro_specimen = NumberBlock(index, 3_000_000_000, 10)
        self.infusion = NumberBlock(index, 1_000_000_000_000, 17)
        self.row_base = index << 17


@cache
def provider(number: int) -> str:
    """Return the code of one of the hospital's clinicians."""
    number = scramble(number % _PROVIDERS, 25) + 36**4
    letters = []
    for _ in range(5):
        number, digit = divmod(number, 36)
        letters.append(_DIGITS[digit])
    return "P" + "".join(reversed(letters))


def providers() -> list[str]:
    """Return every clinician's code, sorted."""
    return sorted(provider(number) for number in range(_PROVIDERS))


@cache
def caregiver(number: int) -> int:
    """Return the number of one of the hospital's ICU nurses and therapists."""
    return 900_000 + scramble(number % _CAREGIVERS, 16)


def caregivers() -> list[int]:
    """Return every caregiver number, sorted."""
    return sorted(caregiver(number) for number in range(_CAREGIVERS))


# Shifted hospital time as integer seconds since 1970-01-01, and its two spellings.
#
# Integers keep the generator fast; nothing outside this room sees them.


MINUTE = 60
HOUR = 3600
DAY = 86400
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1)


class _Days(dict[int, str]):
    def __missing__(self, day: int) -> str:
        text = self[day] = (_EPOCH + timedelta(days=day)).isoformat()
        return text


class _Clocks(dict[int, str]):
    def __missing__(self, second: int) -> str:
        text = self[second] = f" {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        return text


_DAYS = _Days()
_CLOCKS = _Clocks()


def stamp(moment: int) -> str:
    """Return ``YYYY-MM-DD HH:MM:SS``."""
    day, second = divmod(moment, 86400)
    return _DAYS[day] + _CLOCKS[second]


def day_stamp(moment: int) -> str:
    """Return ``YYYY-MM-DD``."""
    return _DAYS[moment // 86400]


def at_minute(moment: float) -> int:
    """Cut to the whole minute: nurses and laboratories chart minutes."""
    whole = int(moment)
    return whole - whole % 60


def moment_of(year: int, month: int, day: int, hour: int = 0) -> int:
    """Return the moment of a calendar date and hour."""
    return ((date(year, month, day) - _EPOCH).days * 24 + hour) * HOUR


def calendar(moment: int) -> datetime:
    """Return the moment as a datetime."""
    return _EPOCH_TIME + timedelta(seconds=moment)


# Subjects: who they are, what they live with for good, what they take at home and what they must not be given.


YEAR = 365.25 * DAY
_FIRST_YEAR, _LAST_YEAR = 2008, 2022
_SICK = 1.35


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """A long-standing condition of one subject, since a moment."""

    condition: Condition
    severity: float
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeDrug:
    """A drug taken at home, with its dose, for one of the ailments."""

    drug: Drug
    dose: float
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSubject:
    """One invented person. ``shift_years`` separates the shifted calendar from the one that decides code versions.

    ``ailments`` and ``home`` grow as life goes on.
    """

    index: int
    subject_id: int
    sex: str
    born: int
    shift_years: int
    first_visit: int
    ailments: list[Ailment]
    home: list[HomeDrug]
    allergies: frozenset[str]
    race: str
    language: str
    height_cm: float
    weight_kg: float
    baseline: dict[str, float] = field(default_factory=dict, compare=False)

    @property
    def column(self) -> int:
        """The index of this subject's value in a (male, female) pair."""
        return 0 if self.sex == "M" else 1

    def age(self, moment: int) -> int:
        """Whole years at a moment."""
        return int((moment - self.born) / YEAR)

    def real_year(self, moment: int) -> float:
        """Return the year that decides ICD version, seasons of epidemics and fashions of treatment."""
        return 1970 + moment / YEAR - self.shift_years

    def has(self, key: str, moment: int) -> bool:
        """Return whether a long-standing condition is present at a moment."""
        return any(ailment.condition.key == key and ailment.since <= moment for ailment in self.ailments)

    def ailments_at(self, moment: int) -> list[Ailment]:
        """Return the long-standing conditions present at a moment."""
        return [ailment for ailment in self.ailments if ailment.since <= moment]

    def home_at(self, moment: int) -> list[HomeDrug]:
        """Return the home list at a moment."""
        return [item for item in self.home if item.since <= moment]


def interpolate(points: list[list[float]], at: float) -> float:
    """Piecewise linear through ``[[x, y], ...]``, flat outside."""
    if at <= points[0][0]:
        return points[0][1] if at > points[0][0] - 10 else 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        if at < x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return points[-1][1]


@cache
def _order_of_ailments(keys: tuple[str, ...], links: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(TopologicalSorter(dict(zip(keys, links, strict=True))).static_order())


def _draw_ailments(dice: Dice, catalog: Catalog, sex: str, age: float, first_visit: int) -> list[Ailment]:
    chronic = {key: condition for key, condition in catalog.conditions.items() if condition.kind == "chronic"}
    links = tuple(tuple(condition.get("boosted_by", {})) for condition in chronic.values())
    found: dict[str, Ailment] = {}
    for key in _order_of_ailments(tuple(chronic), links):
        condition = chronic[key]
        luck = dice.unit()
        if condition.get("sex", sex) != sex or any(other in found for other in condition.get("excludes")):
            continue
        share = interpolate(condition.get("prevalence"), age + 4) * _SICK
        share *= condition.get("male_factor", 1.0) if sex == "M" else condition.get("female_factor", 1.0)
        for other, factor in condition.get("boosted_by", {}).items():
            share *= factor if other in found else 0.8
        if luck < min(share, 0.92):
            late = dice.chance(0.15)
            since = first_visit + int(dice.between(0.3, 4) * YEAR) if late else first_visit - int(YEAR)
            found[key] = Ailment(condition=condition, severity=min(1.7, max(0.5, dice.normal(1, 0.22))), since=since)
    return list(found.values())


def exclusive_classes(drug: Drug) -> set[str]:
    """Return the classes of a drug that exclude a second drug of the class."""
    guarded = set(drug.kinds & {"statin", "beta_blocker", "ppi", "oral_anticoagulant", "antidepressant"})
    guarded |= {"raas"} if drug.kinds & {"ace_inhibitor", "arb"} else set()
    return guarded | ({"loop"} if drug.key in ("furosemide", "torsemide") else set())


def _draw_home(
    dice: Dice, catalog: Catalog, ailments: list[Ailment], allergies: frozenset[str], known: list[HomeDrug]
) -> list[HomeDrug]:
    home: dict[str, HomeDrug] = {item.drug.key: item for item in known}
    kinds_used = {kind for item in known for kind in exclusive_classes(item.drug)}
    for ailment in ailments:
        for key, share in ailment.condition.get("home_drugs"):
            drug = catalog.drugs[key]
            guarded = exclusive_classes(drug)
            if not dice.chance(share) or drug.kinds & allergies or guarded & kinds_used or key in home:
                continue
            kinds_used |= guarded
            home[key] = HomeDrug(drug=drug, dose=dice.pick(drug.dose), since=ailment.since)
    return list(home.values())


def acquire(subject: SyntheticSubject, dice: Dice, catalog: Catalog, key: str, moment: int) -> None:
    """Give a subject a long-standing condition from a moment on, with its home drugs."""
    condition = catalog.conditions[key]
    known = {ailment.condition.key for ailment in subject.ailments}
    if key in known or condition.get("sex", subject.sex) != subject.sex:
        return
    ailment = Ailment(condition=condition, severity=1.0, since=moment)
    subject.ailments.append(ailment)
    subject.home[:] = _draw_home(dice, catalog, [ailment], subject.allergies, subject.home)


def _draw_allergies(dice: Dice, shares: Mapping[str, float]) -> frozenset[str]:
    first = dice.weighted(shares)
    second = dice.weighted(shares) if dice.chance(0.15) else "none"
    found = {first, second} - {"none"}
    return frozenset(found | ({"morphine"} if "opioid" in found else set()))


def draw_subject(seed: int, index: int, catalog: Catalog) -> tuple[SyntheticSubject, Dice]:
    """Return subject number ``index`` of the hospital ``seed`` and the dice that go on deciding its life."""
    dice = Dice(derive_seed("wardround.synth", seed, index))
    sex = "F" if dice.chance(0.51) else "M"
    age = min(97.0, max(18.2, dice.normal(61 if sex == "M" else 63, 17)))
    shift = dice.whole(104, 186)
    year = dice.whole(_FIRST_YEAR, _LAST_YEAR - 2)
    first_visit = moment_of(year + shift, dice.whole(1, 12), dice.whole(1, 28))
    ailments = _draw_ailments(dice, catalog, sex, age, first_visit)
    allergies = _draw_allergies(dice, catalog.people["allergies"])
    height = dice.normal(176, 7) if sex == "M" else dice.normal(162, 6.5)
    obese = any(ailment.condition.key == "obesity" for ailment in ailments)
    body_mass = dice.normal(35, 3.2) if obese else dice.normal(25.8, 3.0)
    subject = SyntheticSubject(
        index=index,
        subject_id=SUBJECT_BASE + index,
        sex=sex,
        born=first_visit - int(age * YEAR),
        shift_years=shift,
        first_visit=first_visit,
        ailments=ailments,
        home=_draw_home(dice, catalog, ailments, allergies, []),
        allergies=allergies,
        race=dice.weighted(catalog.people["race"]),
        language=dice.weighted(catalog.people["language"]),
        height_cm=height,
        weight_kg=max(42.0, body_mass * (height / 100) ** 2),
    )
    for analyte in (*catalog.analytes.values(), *catalog.vitals.values()):
        subject.baseline[analyte.key] = dice.normal(analyte.base[subject.column], analyte.spread)
    subject.baseline["marital"] = dice.unit()
    return subject, dice


LAST_YEAR = _LAST_YEAR


# Why people come: the choice of the next condition that brings a subject to hospital.


def choose_reason(dice: Dice, catalog: Catalog, subject: SyntheticSubject, moment: int, past: set[str]) -> Condition:
    """Draw the reason of an admission, given age, sex, season, year, long-standing conditions and the past."""
    weights: dict[str, float] = {}
    age, year, month = subject.age(moment), subject.real_year(moment), calendar(moment).month
    present = {ailment.condition.key for ailment in subject.ailments_at(moment)}
    for key, condition in catalog.conditions.items():
        if condition.kind != "acute" or year < condition.get("from_year", 0):
            continue
        if condition.get("once", False) and key in past:
            continue
        if condition.get("sex", subject.sex) != subject.sex or not set(condition.get("needs")) <= present:
            continue
        if set(condition.get("never_with")) & present or age < condition.get("age_least", 18):
            continue
        gap = (age - condition.get("age_peak", 62)) / 22
        weight = float(condition.get("weight", 1)) * max(0.06, 2.718281828 ** (-gap * gap))
        weight *= condition.get("female_factor", 1.0) if subject.sex == "F" else condition.get("male_factor", 1.0)
        for other, factor in condition.get("driven_by", {}).items():
            weight *= factor if other in present else 1.0
        if condition.get("season", "") == "winter":
            weight *= 3.0 if month in (12, 1, 2, 3) else 0.12
        weights[key] = weight
    return catalog.conditions[dice.weighted(weights)]
