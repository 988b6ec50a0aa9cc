"""Why people come: the choice of the next condition that brings a subject to hospital."""

from __future__ import annotations

from wardround.synth.catalog import Catalog, Condition
from wardround.synth.clock import calendar
from wardround.synth.dice import Dice
from wardround.synth.person import SyntheticSubject


def choose_reason(dice: Dice, catalog: Catalog, subject: SyntheticSubject, moment: int, past: set[str]) -> Condition:
    """Draw what brings a subject to hospital, given age, sex, season, year, what they live with and what is past."""
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
