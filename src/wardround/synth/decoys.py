"""Write decoys: rows that look like an answer and are none, so that an audit or a label that uses them is detected.

A result just after a stay, a result corrected to another value later, a death a week after intensive care began.
Further decoys are drips by the minute (:mod:`wardround.synth.icu_flows`) and the orders of people whom the emergency
department sends home (:mod:`wardround.synth.orders`), which MIMIC-IV does not have.
"""

from __future__ import annotations

from wardround.synth.labs import Laboratory, Results, Signals, Values
from wardround.synth.person import DAY, MINUTE, Dice
from wardround.synth.planning import Encounter
from wardround.synth.subject_writer import SubjectWriter

_CORRECTED_AFTER = 130 * MINUTE
"""The delay from a result to its correction."""


def a_week_after(dice: Dice, stay: Encounter) -> int | None:
    """Draw whether a discharged person dies within a week after intensive care began, and not within a week of the
    question, a day later."""
    if stay.death is not None or not stay.icu_places or not dice.chance(0.5):
        return None
    week = stay.icu_places[0].start + 7 * DAY
    return week if week - week % DAY > stay.discharge else None


def write_decoys(writer: SubjectWriter, stay: Encounter, results: Results) -> None:
    """Write the decoys of one stay, after all other rows of the subject."""
    dice, hadm = writer.dice, str(stay.hadm_id)
    signals = Signals(dice, writer.subject, stay.problems, stay.arrival, stay.discharge, fatal=stay.death is not None)
    laboratory = Laboratory(writer, signals, None)
    potassium_results = [(moment, values) for moment, values in results if "potassium" in values]
    if potassium_results and dice.chance(0.3):
        moment, values = dice.pick(potassium_results)
        again = Values(values | {"potassium": values["potassium"] + 1.5})
        laboratory.report_correction("potassium", again, moment, moment + _CORRECTED_AFTER, hadm)
    if stay.death is None and dice.chance(0.3):
        laboratory.draw(stay.discharge + dice.whole(10, 50) * MINUTE, {"basic"}, "")  # of no stay: it is over
