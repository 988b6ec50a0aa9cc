"""The life of one subject in the hospital: visit after visit until death or the end of the years covered."""

from __future__ import annotations

from dataclasses import dataclass, field

from wardround.synth.catalog import Catalog, Condition
from wardround.synth.coding import write_clinic_visit, write_coding
from wardround.synth.emar import Dose, administrations, charts_electronically, write_administrations
from wardround.synth.front_desk import EdVisit, icu_stays, write_admission, write_ed_visit, write_patient
from wardround.synth.icu_charting import write_charting, write_icu_procedures
from wardround.synth.icu_flows import Flows, write_flows
from wardround.synth.imaging import plan_imaging, write_reports
from wardround.synth.labs import Laboratory, Results, Signals, Values, write_labs
from wardround.synth.medication import Course, plan_drugs, write_pharmacy
from wardround.synth.micro import draw_growth, write_culture, write_microbiology
from wardround.synth.notes import write_summary
from wardround.synth.orders import number_orders, order_in_emergency, order_tests, write_care_orders, write_orders
from wardround.synth.output import TableLines
from wardround.synth.person import (
    DAY,
    HOUR,
    LAST_YEAR,
    MINUTE,
    Dice,
    acquire,
    at_minute,
    choose_reason,
    draw_subject,
    stamp,
)
from wardround.synth.planning import ClinicalProblem, Encounter, plan_encounter, quick_return, rarer_dice, severity
from wardround.synth.radiographs import write_film_rows
from wardround.synth.subject_writer import SubjectWriter

# Decoys: rows that look like an answer and are none, so that an audit or a label that uses them is detected.
#
# A result just after a stay, a result corrected to another value later, a death a week after intensive care began.
# Further decoys are drips by the minute (``icu_flows``) and the orders of people whom the emergency department sends
# home (``orders``), which MIMIC-IV does not have.


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


_MOST_STAYS = 12
_MOST_VISITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """Which modules beyond hosp are made."""

    icu: bool = True
    ed: bool = True
    notes: bool = True
    films: bool = False
    """Rows about chest radiographs; they need the notes."""
    rarer: bool = False
    """Courses that a small hospital is without (:mod:`wardround.synth.planning`)."""
    decoys: bool = True
    """What looks like an answer and is none (:mod:`wardround.synth.patient_life`)."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """What has happened to the subject so far."""

    courses: list[Course] = field(default_factory=list)
    doses: list[Dose] = field(default_factory=list)
    past: set[str] = field(default_factory=set)
    stays: list[tuple[Encounter, Results]] = field(default_factory=list)
    died: int | None = None


def _live_stay(writer: SubjectWriter, stay: Encounter, modules: Modules, life: _Life) -> None:
    """Write one admission."""
    fatal = stay.death is not None
    signals = Signals(writer.dice, writer.subject, stay.problems, stay.arrival, stay.discharge, fatal=fatal)
    where = write_admission(writer, stay)
    results = write_labs(writer, stay, signals)
    cultures = write_microbiology(writer, stay)
    order_tests(writer, stay, [moment for moment, _ in results], [culture.moment for culture in cultures])
    write_care_orders(writer, stay)
    exams = plan_imaging(writer, stay.problems, stay.arrival, stay.discharge, stay.complaint, stay)
    courses = plan_drugs(writer, stay, results)
    doses = administrations(writer, courses, stay.discharge)
    write_coding(writer, stay)
    life.courses += courses
    life.stays.append((stay, results))
    if charts_electronically(writer, stay.admit):
        life.doses += doses
    if stay.ed_out is not None:
        visit = EdVisit(
            stay_id=stay.places[0].place_id,
            hadm_id=str(stay.hadm_id),
            start=stay.arrival,
            end=stay.ed_out,
            disposition="ADMITTED" if writer.dice.chance(0.97) else "OTHER",
            complaint=stay.complaint,
            condition=stay.principal.condition,
            severity=stay.principal.severity,
            version=stay.version,
        )
        write_ed_visit(writer, visit, signals)
    if modules.icu:
        _live_icu(writer.with_own_dice(f"icu {stay.number}"), stay, courses, doses, modules)
    if modules.notes:
        aside = writer.with_own_dice(f"notes {stay.number}")
        finished = write_reports(aside, exams, str(stay.hadm_id))
        if modules.films:
            write_film_rows(writer, finished)
        write_summary(aside, stay, results=results, cultures=cultures, exams=exams, courses=courses, where=where)


def _live_icu(
    writer: SubjectWriter, stay: Encounter, courses: list[Course], doses: list[Dose], modules: Modules
) -> None:
    fatal = stay.death is not None
    signals = Signals(writer.dice, writer.subject, stay.problems, stay.arrival, stay.discharge, fatal=fatal)
    for first, last in icu_stays(stay):
        start, end = first.start + MINUTE, last.end
        write_charting(writer, stay, first.place_id, start, end, signals)
        flows = Flows(writer, stay, first.place_id, start, end, decoys=modules.decoys)
        write_flows(flows, signals=signals, courses=courses, doses=doses)
        write_icu_procedures(writer, stay, first.place_id, start, end)


def _sent_home(writer: SubjectWriter, condition: Condition, moment: int, modules: Modules) -> int:
    """Write an ED visit that ends at home; returns its end."""
    dice, subject = writer.dice, writer.subject
    complaint = dice.pick(condition.get("complaints"))
    level = min(1.2, severity(dice) * 0.85)
    start = at_minute(moment)
    end = at_minute(start + dice.skewed(4.6, 0.4) * HOUR)
    problems = [ClinicalProblem(condition=condition, severity=level, onset=start, role="principal")]
    problems += [
        ClinicalProblem(condition=ailment.condition, severity=ailment.severity, onset=start, role="chronic")
        for ailment in subject.ailments_at(start)
    ]
    signals = Signals(dice, subject, tuple(problems), start, end, fatal=False)
    stay_id = writer.numbers.place.take()
    left = dice.weighted({"HOME": 90, "LEFT WITHOUT BEING SEEN": 2, "ELOPED": 1, "LEFT AGAINST MEDICAL ADVICE": 2})
    write_ed_visit(
        writer,
        EdVisit(
            stay_id=stay_id,
            hadm_id="",
            start=start,
            end=end,
            disposition=left,
            complaint=complaint,
            condition=condition,
            severity=level,
            version=10 if subject.real_year(start) >= 2015.75 else 9,
        ),
        signals,
    )
    writer.add("transfers")(f"{subject.subject_id},,{stay_id},ED,Emergency Department,{stamp(start)},{stamp(end)}\n")
    draw = at_minute(start + dice.between(20, 70) * MINUTE)
    panels = {"basic", "count"} | {panel for panel, *_ in condition.get("panels")}
    if left == "HOME" and dice.chance(0.75) and draw < end - HOUR:
        Laboratory(writer, signals, None).draw(draw, panels, "")
        for key, share, positive in condition.get("micro"):
            if dice.chance(share * 0.6):
                growth = draw_growth(writer, condition.get("organisms"))
                write_culture(writer, key, draw, growth, "", positive=dice.chance(positive))
    if modules.decoys:
        order_in_emergency(writer.with_own_dice(f"ed orders {stay_id}"), start, end, draw)
    exams = plan_imaging(writer, problems[:1], start, end, complaint, None)
    if modules.notes and left == "HOME":
        finished = write_reports(writer.with_own_dice(f"ed notes {stay_id}"), exams, "")
        if modules.films:
            write_film_rows(writer, finished)
    return end


def _died_after(dice: Dice, stay: Encounter, present: set[str]) -> int | None:
    """Moment of a death after discharge, or None."""
    risk = 0.015 + 0.1 * max(0.0, (stay.age - 60) / 40) ** 2 + 0.04 * (stay.principal.severity > 1.3)
    risk += 0.16 * bool(present & {"cancer_lung", "cirrhosis"}) + 0.06 * ("heart_failure" in present)
    return stay.discharge + int(dice.between(4, 360) * DAY) if dice.chance(risk) else None


def _visits(writer: SubjectWriter, modules: Modules, life: _Life) -> int:
    """Let the subject come back until death or the end of the years covered; returns the last moment."""
    subject, dice, catalog = writer.subject, writer.dice, writer.catalog
    more = min(0.74, 0.26 + 0.06 * len(subject.ailments))
    rarer = rarer_dice(writer.seed, subject.index) if modules.rarer else None
    moment, stays, end = subject.first_visit, 0, subject.first_visit
    for number in range(_MOST_VISITS):
        moment += int(dice.normal(14.5, 4.6) % 24 * HOUR)  # most arrive between late morning and evening
        condition = choose_reason(dice, catalog, subject, moment, life.past)
        soon: int | None = None
        if dice.chance(condition.get("home", 0.0) * 0.85) and (number or dice.chance(0.4)):
            end = _sent_home(writer, condition, moment, modules)
            life.died = None
            soon = None if rarer is None else quick_return(rarer)
        else:
            if condition.get("elective", False):
                moment += -moment % DAY + int(dice.between(5.6, 8) * HOUR)
            stay = plan_encounter(
                dice,
                catalog,
                writer.numbers,
                subject=subject,
                condition=condition,
                arrival=moment,
                number=stays,
                rarer=rarer,
            )
            stays += 1
            _live_stay(writer, stay, modules, life)
            for problem in stay.problems:
                life.past.add(problem.condition.key)
                for left in problem.condition.get("leaves"):
                    acquire(subject, dice, catalog, left, stay.discharge)
            end = stay.discharge
            present = {problem.condition.key for problem in stay.problems}
            life.died = stay.death or _died_after(dice, stay, present)
            if stay.death is not None:
                break
        days = dice.between(3, 30) if dice.chance(0.15) else dice.waiting(330) + 14
        gap = int(days * DAY)
        moment = end + (gap if soon is None else soon)
        moment -= moment % DAY
        dead = life.died is not None and moment > life.died - 2 * DAY
        again = dice.chance(more) or stays == 0 or soon is not None
        if dead or not again or subject.real_year(moment) > LAST_YEAR + 0.9 or stays >= _MOST_STAYS:
            break
        life.died = None
    return end


def _clinic_days(writer: SubjectWriter, last: int, died: int | None) -> None:
    """Scatter clinic days from a year before the first visit to a year after the last."""
    dice, first = writer.dice, writer.subject.first_visit
    stop = min(last + 300 * DAY, (died or last + 300 * DAY) - DAY)
    for _ in range(int(dice.waiting(2.2)) if dice.chance(0.75) else 0):
        moment = int(dice.between(first - 300 * DAY, stop))
        if moment < stop:
            write_clinic_visit(writer, moment)


def write_subject(lines: TableLines, seed: int, index: int, catalog: Catalog, modules: Modules) -> None:
    """Write every row of subject number ``index``; depends on nothing but the seed and the index."""
    subject, dice = draw_subject(seed, index, catalog)
    writer, life = SubjectWriter(lines, subject, dice, catalog, seed), _Life()
    last = _visits(writer, modules, life)
    if modules.decoys and life.died is None and life.stays and life.stays[-1][0].discharge == last:
        life.died = a_week_after(writer.with_own_dice("death").dice, life.stays[-1][0])
    _clinic_days(writer, last, life.died)
    number_orders(writer)
    write_orders(writer)
    write_pharmacy(writer, life.courses)
    write_administrations(writer, life.doses)
    aside = writer.with_own_dice("decoys")
    for stay, results in life.stays if modules.decoys else ():
        write_decoys(aside, stay, results)
    write_patient(writer, life.died)
