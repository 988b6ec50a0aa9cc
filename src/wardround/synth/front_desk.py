"""Registration: patients, admissions, transfers, services and ICU stays."""

from __future__ import annotations

from wardround.synth.clock import DAY, calendar, day_stamp, stamp
from wardround.synth.encounter import Encounter, UnitStretch
from wardround.synth.subject_writer import SubjectWriter

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
