"""Bedside administration of drugs: emar and emar_detail, in charted order over a subject's life."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wardround.synth.medication import Course
from wardround.synth.output import number_text
from wardround.synth.person import DAY, HOUR, MINUTE, Dice, at_minute, stamp
from wardround.synth.subject_writer import SubjectWriter

_HOURS = {
    "DAILY": (8,), "Q24H": (10,), "QHS": (22,), "QPM": (20,), "DAILY16": (16,), "BID": (8, 20), "Q12H": (8, 20),
    "Q 12H": (8, 20), "TID": (8, 14, 20), "TID W/MEALS": (8, 12, 18), "Q8H": (6, 14, 22), "QID": (6, 12, 18, 22),
    "Q6H": (0, 6, 12, 18),
}  # fmt: skip
_MEALS = (8, 12, 18, 22)
_OLD_YEAR = 2011.5
_AFTER_DUE = "," * 22
_AFTER_PRODUCT = "," * 15


class Dose(NamedTuple):
    """One bedside event."""

    charted: int
    scheduled: int
    event: str
    amount: float
    course: Course


def _fixed_hours(course: Course, hours: tuple[int, ...]) -> list[int]:
    day = course.start - course.start % DAY
    times: list[int] = []
    while day < course.stop:
        times += [day + hour * HOUR for hour in hours if course.start <= day + hour * HOUR < course.stop]
        day += DAY
    return times


def _scheduled(dice: Dice, course: Course) -> list[int]:
    """Return the times a dose is due."""
    drug = course.drug
    if drug.kind in ("once", "replacement"):
        return [course.start]
    if drug.kind == "sliding":
        return _fixed_hours(course, _MEALS)
    if drug.kind == "flush":
        return _fixed_hours(course, (6, 14, 22))
    if drug.kind == "prn":
        at = course.start + int(dice.between(0, 20) * HOUR)
        times: list[int] = []
        gap = 14 if drug.kinds & {"opioid", "analgesic"} else 30
        while at < course.stop and len(times) < 40:
            times.append(at_minute(at))
            at += int((2.5 + dice.waiting(gap)) * HOUR)
        return times
    times = _fixed_hours(course, _HOURS.get(drug.freq, (8,)))
    if not times or times[0] - course.start > 5 * HOUR:
        times.insert(0, course.start)
    return times


def _infusion(dice: Dice, course: Course) -> list[Dose]:
    """Start, adjust, and stop a drip."""
    amount = course.dose
    doses = [Dose(at_minute(course.start + dice.between(5, 40) * 60), course.start, "Started", amount, course)]
    at = doses[0].charted
    while True:
        at += int(dice.between(2.5, 9) * HOUR)
        if at > course.stop - HOUR:
            break
        amount = max(0.01, amount * dice.between(0.75, 1.3))
        doses.append(Dose(at_minute(at), at_minute(at), "Confirmed", amount, course))
    if course.ending == "stopped" and course.stop > doses[0].charted:
        doses.append(Dose(at_minute(course.stop), course.stop, "Stopped", 0.0, course))
    return doses


def _event(dice: Dice, course: Course) -> str:
    kind, luck = course.drug.kind, dice.unit()
    if kind == "flush":
        return "Flushed" if luck < 0.82 else "Not Flushed"
    if kind == "sliding":
        return "Administered" if luck < 0.66 else "Not Given per Sliding Scale"
    if kind == "prn" or luck < 0.92:
        return "Administered"
    return "Not Given" if luck < 0.975 else "Delayed Administered" if luck < 0.985 else "Hold Dose"


def administrations(writer: SubjectWriter, courses: list[Course], limit: int) -> list[Dose]:
    """Return all bedside events of some courses, none after ``limit``."""
    dice, doses = writer.dice, []
    for course in courses:
        drug = course.drug
        if drug.kind == "fluid":
            continue
        if drug.kind == "infusion":
            doses += _infusion(dice, course)
            continue
        for due in _scheduled(dice, course):
            late = dice.normal(12, 22) if drug.kind != "prn" else 0
            event = _event(dice, course)
            amount = course.dose if drug.kind != "sliding" else float(dice.whole(1, 5) * 2)
            doses.append(
                Dose(at_minute(max(due + late * MINUTE, course.order.moment + 180)), due, event, amount, course)
            )
    return [dose for dose in doses if dose.charted < limit]


def charts_electronically(writer: SubjectWriter, moment: int) -> bool:
    """Return whether the ward had bedside bar codes by then; older stays have no emar rows at all."""
    year = writer.subject.real_year(moment)
    return year > _OLD_YEAR + 3.5 or (year > _OLD_YEAR and writer.subject.index % 3 == 0)


def write_administrations(writer: SubjectWriter, doses: list[Dose]) -> None:
    """Write emar and emar_detail rows in charted order; orders must be numbered."""
    subject, dice = writer.subject.subject_id, writer.dice
    add, add_detail = writer.add("emar"), writer.add("emar_detail")
    sequence = 0
    for dose in sorted(doses, key=lambda dose: (dose.charted, dose.course.pharmacy_id)):
        course, drug = dose.course, dose.course.drug
        sequence += 1 if dice.chance(0.95) else 2
        luck = dice.unit()
        wait = (
            int(luck * 4) if luck < 0.9 else int(dice.between(10, 50)) if luck < 0.985 else int(dice.between(90, 700))
        )
        nurse = writer.provider() if dice.chance(0.4) else ""
        emar = f"{subject}-{sequence},{sequence}"
        add(
            f"{subject},{course.hadm_id},{emar},{subject}-{course.linked.sequence},{course.pharmacy_id},{nurse},"
            f"{stamp(dose.charted)},{drug.name},{dose.event},{stamp(dose.scheduled)},"
            f"{stamp(dose.charted + wait * 60)}\n"
        )
        _write_details(writer, add_detail, f"{subject},{emar}", dose)


def _administration_type(dose: Dose) -> str:
    drug = dose.course.drug
    if drug.kind == "flush":
        return "IV Flush"
    if drug.kind == "sliding":
        return "Insulin SC Sliding Scale"
    if drug.kind == "infusion":
        return "Heparin IV Infusion" if drug.key == "heparin_infusion" else "IV Infusion"
    return "Insulin SC Fixed Dose" if "insulin" in drug.kinds else "Standard Maintenance Medication"


def _write_details(writer: SubjectWriter, add: Callable[[str], None], head: str, dose: Dose) -> None:
    drug, course = dose.course.drug, dose.course
    given = dose.event in ("Administered", "Flushed", "Delayed Administered", "Started", "Confirmed")
    due = number_text(course.dose, 3)
    unit = drug.unit
    add(f"{head},,{_administration_type(dose)},,,,,{due},{unit}{_AFTER_DUE}\n")
    if not given:
        return
    amount = number_text(dose.amount, 3)
    if drug.kind == "infusion":
        change = "Initial Rate" if dose.event == "Started" else "See Flowsheet for Titration"
        bag = "Y" if dose.event == "Started" else ""
        add(
            f"{head},1.1,,{course.pharmacy_id},iv,,,,,,,,,,{drug.code},{drug.name},,,{amount},{change},,{unit},"
            f"{drug.route},,,{bag},,,,,\n"
        )
        return
    scanned = "if" if writer.dice.chance(0.93) else ""
    pieces = number_text(dose.amount / drug.per, 2)
    add(
        f"{head},1.1,,{course.pharmacy_id},{scanned},,No,,,{amount},{unit},No,{pieces},{drug.form},{drug.code},"
        f"{drug.name}{_AFTER_PRODUCT}\n"
    )
