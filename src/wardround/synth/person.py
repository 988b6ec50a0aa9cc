"""Subjects: who they are, what they live with for good, what they take at home and what they must not be given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise

from wardround.core import derive_seed
from wardround.synth.catalog import Catalog, Condition, Drug
from wardround.synth.clock import DAY, moment_of
from wardround.synth.dice import Dice
from wardround.synth.ids import SUBJECT_BASE

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
        """Where this subject's value stands in a (male, female) pair."""
        return 0 if self.sex == "M" else 1

    def age(self, moment: int) -> int:
        """Whole years at a moment."""
        return int((moment - self.born) / YEAR)

    def real_year(self, moment: int) -> float:
        """The year that decides ICD version, seasons of epidemics and fashions of treatment."""
        return 1970 + moment / YEAR - self.shift_years

    def has(self, key: str, moment: int) -> bool:
        """Whether a long-standing condition is present at a moment."""
        return any(ailment.condition.key == key and ailment.since <= moment for ailment in self.ailments)

    def ailments_at(self, moment: int) -> list[Ailment]:
        """The long-standing conditions present at a moment."""
        return [ailment for ailment in self.ailments if ailment.since <= moment]

    def home_at(self, moment: int) -> list[HomeDrug]:
        """The home list at a moment."""
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
    """Return the classes of a drug of which nobody takes two at once."""
    guarded = set(drug.kinds & {"statin", "beta_blocker", "ppi", "oral_anticoagulant", "antidepressant"})
    guarded |= {"raas"} if drug.kinds & {"ace_inhibitor", "arb"} else set()
    return guarded | ({"loop"} if drug.key in ("furosemide", "torsemide") else set())


def _draw_home(
    dice: Dice, catalog: Catalog, ailments: list[Ailment], allergies: frozenset[str], known: list[HomeDrug]
) -> list[HomeDrug]:
    home: dict[str, HomeDrug] = {item.drug.key: item for item in known}
    kinds_taken = {kind for item in known for kind in exclusive_classes(item.drug)}
    for ailment in ailments:
        for key, share in ailment.condition.get("home_drugs"):
            drug = catalog.drugs[key]
            guarded = exclusive_classes(drug)
            if not dice.chance(share) or drug.kinds & allergies or guarded & kinds_taken or key in home:
                continue
            kinds_taken |= guarded
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
