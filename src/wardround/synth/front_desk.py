"""Registration, transfers and the emergency department."""

from __future__ import annotations

from typing import NamedTuple

from wardround.synth.catalog import Condition
from wardround.synth.coding import codes_of
from wardround.synth.labs import Signals
from wardround.synth.medication import allowed
from wardround.synth.output import number_text, quoted
from wardround.synth.person import DAY, HOUR, MINUTE, at_minute, calendar, day_stamp, stamp
from wardround.synth.planning import Encounter, UnitStretch
from wardround.synth.subject_writer import SubjectWriter

# Registration: patients, admissions, transfers, services and ICU stays.


_GROUPS = (
    (2008, "2008 - 2010"),
    (2011, "2011 - 2013"),
    (2014, "2014 - 2016"),
    (2017, "2017 - 2019"),
    (2020, "2020 - 2022"),
)


def write_patient(writer: SubjectWriter, died: int | None) -> None:
    """Write the patients row; ages over 89 read 91 as in MIMIC."""
    subject = writer.subject
    anchor = calendar(subject.first_visit).year
    real = anchor - subject.shift_years
    group = [text for start, text in _GROUPS if start <= max(2008, real)][-1]
    age = subject.age(subject.first_visit)
    dod = day_stamp(died) if died is not None else ""
    writer.add("patients")(f"{subject.subject_id},{subject.sex},{91 if age > 89 else age},{anchor},{group},{dod}\n")


def _admission_type(writer: SubjectWriter, stay: Encounter) -> tuple[str, str]:
    if stay.elective:
        kind = "SURGICAL SAME DAY ADMISSION" if writer.dice.chance(0.75) else "ELECTIVE"
        return kind, "PHYSICIAN REFERRAL"
    if stay.ed_out is None:
        where = writer.dice.weighted({"TRANSFER FROM HOSPITAL": 6, "CLINIC REFERRAL": 2, "PHYSICIAN REFERRAL": 2})
        return ("URGENT" if where == "TRANSFER FROM HOSPITAL" else "DIRECT EMER."), where
    kinds = {"EW EMER.": 62, "OBSERVATION ADMIT": 22, "URGENT": 10}
    short = stay.discharge - stay.admit < 2 * DAY and not stay.death
    kind = writer.dice.weighted(kinds | ({"EU OBSERVATION": 60} if short else {}))
    where = writer.dice.weighted(
        {"EMERGENCY ROOM": 70, "WALK-IN/SELF REFERRAL": 8, "PHYSICIAN REFERRAL": 12, "TRANSFER FROM HOSPITAL": 9}
        | ({"TRANSFER FROM SKILLED NURSING FACILITY": 6} if stay.age > 75 else {})
    )
    return kind, where


def discharge_location(writer: SubjectWriter, stay: Encounter) -> str:
    """Draw where a survivor goes: the older and the longer the stay, the less often home."""
    if stay.death is not None:
        return "DIED"
    days = (stay.discharge - stay.admit) / DAY
    frail = max(0.0, (stay.age - 55) / 40) + days / 18 + (0.25 if stay.icu_places else 0)
    weights = {
        "HOME": 6.0,
        "HOME HEALTH CARE": 1.2 + 4 * frail,
        "SKILLED NURSING FACILITY": 2.6 * frail**2,
        "REHAB": 1.1 * frail**2,
        "CHRONIC/LONG TERM ACUTE CARE": 0.5 * frail**2,
        "HOSPICE": 0.2 * frail**2,
        "AGAINST ADVICE": 0.12,
        "": 0.5 if days < 2 else 0.03,
    }
    return writer.dice.weighted(weights)


def write_admission(writer: SubjectWriter, stay: Encounter) -> str:
    """Write admissions, transfers, services and icustays of a stay; returns the discharge location."""
    subject, dice = writer.subject, writer.dice
    kind, origin = _admission_type(writer, stay)
    where = discharge_location(writer, stay)
    if stay.age >= 65:
        insurance = "Medicare" if dice.chance(0.75) else "Other"
    else:
        insurance = dice.weighted({"Other": 66, "Medicaid": 20, "Medicare": 14})
    young = stay.age < 45
    marital = subject.baseline["marital"]
    shares = writer.catalog.people["marital_young" if young else "marital_old"]
    registered = stamp(stay.arrival) if stay.ed_out is not None else ""
    left = stamp(stay.ed_out) if stay.ed_out is not None else ""
    death = "" if stay.death is None else stamp(stay.death)
    writer.add("admissions")(
        f"{subject.subject_id},{stay.hadm_id},{stamp(stay.admit)},{stamp(stay.discharge)},{death},{kind},"
        f"{writer.provider()},{origin},{where},{insurance},{subject.language},{_share_at(shares, marital)},"
        f"{subject.race},{registered},{left},{0 if stay.death is None else 1}\n"
    )
    _write_transfers(writer, stay)
    _write_icu_stays(writer, stay)
    return where


def _share_at(shares: dict[str, float], point: float) -> str:
    """Return the item at a fixed quantile, so that a person keeps a status from stay to stay."""
    left = point * sum(shares.values())
    for item, weight in shares.items():  # noqa: B007
        left -= weight
        if left < 0:
            break
    return item


def _write_transfers(writer: SubjectWriter, stay: Encounter) -> None:
    head = f"{writer.subject.subject_id},{stay.hadm_id}"
    add, services = writer.add("transfers"), writer.add("services")
    for place in stay.places:
        start, end = stamp(place.start + _seconds(place)), stamp(place.end + _seconds(place, 1))
        if place.event == "ED":
            start = stamp(place.start)
        add(f"{head},{place.place_id},{place.event},{place.unit},{start},{end}\n")
    end = stamp(stay.discharge + _seconds(stay.places[-1], 1))
    add(f"{head},{writer.numbers.place.take()},discharge,,{end},\n")
    service = stay.principal.condition.get("service", "MED")
    services(f"{head},{stamp(stay.admit + 61)},,{service}\n")
    if service == "MED" and stay.icu_places and writer.dice.chance(0.08):
        moved = stay.icu_places[-1].end
        if moved < stay.discharge:
            services(f"{head},{stamp(moved)},{service},{writer.dice.pick(('CMED', 'SURG', 'NMED'))}\n")


def _seconds(place: UnitStretch, end: int = 0) -> int:
    """Transfers carry seconds; the end of one stretch is the start of the next."""
    moment = place.end if end else place.start
    return moment // 60 * 37 % 60


def icu_stays(stay: Encounter) -> list[tuple[UnitStretch, UnitStretch]]:
    """Return (first, last) place of every unbroken stretch of intensive care."""
    found: list[tuple[UnitStretch, UnitStretch]] = []
    for place in stay.icu_places:
        if found and found[-1][1].end == place.start:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _write_icu_stays(writer: SubjectWriter, stay: Encounter) -> None:
    add = writer.add("icustays")
    for first, last in icu_stays(stay):
        start, end = first.start + _seconds(first), last.end + _seconds(last, 1)
        add(
            f"{writer.subject.subject_id},{stay.hadm_id},{first.place_id},{first.unit},{last.unit},"
            f"{stamp(start)},{stamp(end)},{(end - start) / DAY:.16g}\n"
        )


# The emergency department: stays, triage, vital signs, home lists, dispensing, diagnoses.


_EARLY = 5.0
"""Drugs that a condition starts within this many hours are given in the department."""


class EdVisit(NamedTuple):
    """One ED stay. ``hadm_id`` is empty when it did not lead to admission."""

    stay_id: int
    hadm_id: str
    start: int
    end: int
    disposition: str
    complaint: str
    condition: Condition
    severity: float
    version: int


def _acuity(visit: EdVisit) -> int:
    if visit.condition.get("home", 0.0) >= 0.75:
        return 4 if visit.severity < 0.9 else 3
    serious = visit.condition.get("icu", 0.0) * visit.severity
    return 1 if serious > 0.5 else 2 if serious > 0.08 or visit.severity > 1.2 else 3


def _vital_cells(writer: SubjectWriter, signals: Signals, moment: int, *, gaps: float) -> list[str]:
    """Return temperature, heart rate, breathing, saturation, systolic, diastolic; some missing."""
    dice, vitals = writer.dice, writer.catalog.vitals
    cells = []
    for key in ("temperature", "heart_rate", "respiratory_rate", "oxygen_saturation"):
        cells.append("" if dice.chance(gaps) else number_text(signals.measure(vitals[key], moment), vitals[key].digits))
    systolic = signals.measure(vitals["systolic"], moment)
    pressure = [number_text(systolic, 0), number_text(max(28, systolic * dice.between(0.5, 0.62)), 0)]
    return cells + (["", ""] if dice.chance(gaps) else pressure)


def _pain(writer: SubjectWriter, signals: Signals, moment: int) -> str:
    if writer.dice.chance(0.12):
        return writer.dice.pick(("", "unable", "UTA", "asleep"))
    return str(min(10, max(0, round(signals.measure(writer.catalog.vitals["pain"], moment)))))


def write_ed_visit(writer: SubjectWriter, visit: EdVisit, signals: Signals) -> None:
    """Write all six ED tables for one stay."""
    subject, dice = writer.subject, writer.dice
    head = f"{subject.subject_id},{visit.stay_id}"
    transport = "AMBULANCE" if _acuity(visit) == 1 else dice.weighted(writer.catalog.people["transport"])
    writer.add("edstays")(
        f"{subject.subject_id},{visit.hadm_id},{visit.stay_id},{stamp(visit.start)},{stamp(visit.end)},{subject.sex},"
        f"{subject.race},{transport},{visit.disposition}\n"
    )
    cells = _vital_cells(writer, signals, visit.start + 5 * MINUTE, gaps=0.04)
    complaint = quoted(visit.complaint)
    acuity = "" if dice.chance(0.02) else str(_acuity(visit))
    pain = _pain(writer, signals, visit.start + 5 * MINUTE)
    writer.add("triage")(f"{head},{','.join(cells)},{pain},{acuity},{complaint}\n")
    _write_vitals(writer, visit, signals, head)
    _write_home_list(writer, visit, head)
    _write_dispensing(writer, visit, head)
    _write_diagnoses(writer, visit, head)


def _write_vitals(writer: SubjectWriter, visit: EdVisit, signals: Signals, head: str) -> None:
    dice, add = writer.dice, writer.add("vitalsign")
    irregular = visit.condition.key == "rapid_fibrillation" or writer.subject.has("atrial_fibrillation", visit.start)
    at = visit.start + int(dice.between(1, 20)) * MINUTE
    while at < visit.end:
        cells = _vital_cells(writer, signals, at, gaps=0.08)
        if dice.chance(0.4):
            cells[0] = ""
        rhythm = ("Atrial Fibrillation" if irregular else "Sinus Rhythm") if dice.chance(0.06) else ""
        add(f"{head},{stamp(at_minute(at))},{','.join(cells)},{rhythm},{_pain(writer, signals, at)}\n")
        at += int(dice.between(0.7, 2.6) * HOUR)


def _write_home_list(writer: SubjectWriter, visit: EdVisit, head: str) -> None:
    at = visit.start + int(writer.dice.between(8, 90)) * MINUTE
    if at >= visit.end or writer.dice.chance(0.08):
        return
    add, when = writer.add("medrecon"), stamp(at_minute(at))
    for item in writer.subject.home_at(visit.start):
        drug = item.drug
        ndc = drug.ndc if writer.dice.chance(0.9) else "0"
        code = f"{int(drug.gsn) % 6000:08d}"
        add(f"{head},{when},{drug.home},{drug.gsn},{ndc},1,{code},{drug.therapy}\n")


def _write_dispensing(writer: SubjectWriter, visit: EdVisit, head: str) -> None:
    dice, add, number = writer.dice, writer.add("pyxis"), 0
    given = []
    for key, share, hours, _ in visit.condition.get("drugs"):
        drug = allowed(writer, key) if hours <= _EARLY and dice.chance(share * 0.85) else None
        if drug is not None and drug.kind not in ("sliding", "infusion"):
            given.append((visit.start + int(hours * dice.between(0.9, 1.7) * HOUR) + 10 * MINUTE, drug))
    for moment, drug in sorted(given, key=lambda pair: pair[0]):
        if moment < visit.end:
            number += 1
            add(f"{head},{stamp(at_minute(moment))},{number},{drug.name},1,{drug.gsn}\n")


def _write_diagnoses(writer: SubjectWriter, visit: EdVisit, head: str) -> None:
    add = writer.add("diagnosis")
    codes = list(codes_of(visit.condition, visit.version, visit.severity))[:2]
    for ailment in writer.subject.ailments_at(visit.start):
        if writer.dice.chance(0.12):
            codes += codes_of(ailment.condition, visit.version, 1.0)[:1]
    seen: set[str] = set()
    for code, title in codes:
        if code not in seen:
            seen.add(code)
            add(f"{head},{len(seen)},{code},{visit.version},{quoted(title)}\n")
