"""The life of one subject in the hospital: visit after visit until death or the end of the years covered."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.synth.catalog import Catalog
from wardround.synth.clock import DAY, HOUR
from wardround.synth.coding import write_coding
from wardround.synth.dice import Dice
from wardround.synth.encounter import Encounter, choose_reason, plan_encounter
from wardround.synth.front_desk import write_admission, write_patient
from wardround.synth.labs import write_labs
from wardround.synth.medication import Course, plan_drugs
from wardround.synth.micro import write_microbiology
from wardround.synth.orders import number_orders, write_orders
from wardround.synth.pen import Pen
from wardround.synth.person import LAST_YEAR, draw_subject
from wardround.synth.pharmacy import write_pharmacy
from wardround.synth.sheet import Sheet
from wardround.synth.signals import Signals

_MOST_STAYS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """Which modules beyond hosp are made."""

    icu: bool = True
    ed: bool = True
    notes: bool = True


def _live_stay(pen: Pen, stay: Encounter, modules: Modules) -> list[Course]:
    """Write one admission; returns its drug courses."""
    fatal = stay.death is not None
    signals = Signals(pen.dice, pen.subject, stay.problems, stay.arrival, stay.discharge, fatal=fatal)
    write_admission(pen, stay)
    results = write_labs(pen, stay, signals)
    write_microbiology(pen, stay)
    courses = plan_drugs(pen, stay, results)
    write_coding(pen, stay)
    return courses


def _gap(dice: Dice, stay: Encounter) -> int:
    """Days to the next visit: one in seven comes back within a month."""
    days = dice.between(3, 30) if dice.chance(0.15) else dice.waiting(330) + 14
    return int(days * DAY)


def _died_after(dice: Dice, stay: Encounter, present: set[str]) -> int | None:
    """Moment of a death after discharge, or None."""
    risk = 0.015 + 0.1 * max(0.0, (stay.age - 60) / 40) ** 2 + 0.04 * (stay.principal.severity > 1.3)
    risk += 0.16 * bool(present & {"cancer_lung", "cirrhosis"}) + 0.06 * ("heart_failure" in present)
    return stay.discharge + int(dice.between(4, 360) * DAY) if dice.chance(risk) else None


def write_subject(sheet: Sheet, seed: int, index: int, catalog: Catalog, modules: Modules) -> None:
    """Write every row of subject number ``index``; depends on nothing but the seed and the index."""
    subject, dice = draw_subject(seed, index, catalog)
    pen = Pen(sheet, subject, dice, catalog)
    burden = len(subject.ailments)
    more = min(0.74, 0.24 + 0.06 * burden)
    moment, died, courses = subject.first_visit, None, []
    for number in range(_MOST_STAYS):
        moment += int(_arrival_hour(dice) * HOUR)
        condition = choose_reason(dice, catalog, subject, moment)
        if condition.get("elective", False):
            moment += -moment % DAY + int(dice.between(5.6, 8) * HOUR)
        stay = plan_encounter(dice, catalog, pen.numbers, subject, condition, moment, number)
        courses += _live_stay(pen, stay, modules)
        died = stay.death or _died_after(dice, stay, {p.condition.key for p in stay.problems})
        moment = stay.discharge + _gap(dice, stay)
        moment -= moment % DAY
        over = died is not None and (stay.death is not None or moment > died - DAY)
        if over or not dice.chance(more) or subject.real_year(moment) > LAST_YEAR + 0.9:
            break
        died = None
    number_orders(pen)
    write_orders(pen)
    write_pharmacy(pen, courses)
    write_patient(pen, died)


def _arrival_hour(dice: Dice) -> float:
    """Hour of the day of an arrival: most come between late morning and evening."""
    return dice.normal(14.5, 4.6) % 24
