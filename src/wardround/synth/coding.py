"""Billing codes after discharge, and clinic measurements between stays."""

from __future__ import annotations

from wardround.synth.catalog import Codes, Condition
from wardround.synth.labs import Laboratory, Signals
from wardround.synth.output import number_text, quoted
from wardround.synth.person import DAY, HOUR, at_minute, day_stamp
from wardround.synth.planning import ClinicalProblem, Encounter
from wardround.synth.subject_writer import SubjectWriter

# Billing after discharge: diagnoses, procedures, DRGs and outpatient-type codes of a stay.


_ORDER = {"principal": 0, "complication": 1, "chronic": 2, "terminal": 3}
_EXTRA = {
    "smoker_past": {
        9: ("V1582", "Personal history of tobacco use"),
        10: ("Z87891", "Personal history of nicotine dependence"),
    },
    "anticoagulant": {
        9: ("V5861", "Long-term (current) use of anticoagulants"),
        10: ("Z7901", "Long term (current) use of anticoagulants"),
    },
    "do_not_resuscitate": {9: ("V4986", "Do not resuscitate status"), 10: ("Z66", "Do not resuscitate")},
    "penicillin": {
        9: ("V140", "Personal history of allergy to penicillin"),
        10: ("Z880", "Allergy status to penicillin"),
    },
}
_OBSERVATION = ("G0378", "Hospital observation per hr")


def codes_of(condition: Condition, version: int, level: float) -> Codes:
    """Return the codes of a condition in one ICD version, the severe ones only where it was severe."""
    codes = condition.icd9 if version == 9 else condition.icd10
    severe = condition.severe9 if version == 9 else condition.severe10
    return codes + (severe if level > 1.08 else ())


def extra_codes() -> list[tuple[str, int, str]]:
    """Return (code, version, title) of the status codes that no condition carries."""
    return [(code, version, title) for row in _EXTRA.values() for version, (code, title) in row.items()]


def coded_diagnoses(writer: SubjectWriter, stay: Encounter) -> list[tuple[str, str]]:
    """Return (code, title) in billing order, each code once."""
    present = {problem.condition.key for problem in stay.problems}
    problems = sorted(stay.problems, key=lambda problem: _ORDER[problem.role])
    found: dict[str, str] = {}
    for problem in problems:
        hidden = set(problem.condition.get("hidden_by")) & present
        if hidden or (problem.role == "chronic" and writer.dice.chance(0.06)):
            continue
        for code, title in codes_of(problem.condition, stay.version, problem.severity):
            found.setdefault(code, title)
    home = writer.subject.home_at(stay.admit)
    status = {
        "anticoagulant": any("oral_anticoagulant" in item.drug.kinds for item in home),
        "smoker_past": "smoker" not in present and stay.age > 45 and writer.dice.chance(0.2),
        "do_not_resuscitate": writer.dice.chance(0.5) if stay.death else stay.age > 78 and writer.dice.chance(0.14),
        "penicillin": "penicillin" in writer.subject.allergies and writer.dice.chance(0.6),
    }
    for name, holds in status.items():
        if holds:
            code, title = _EXTRA[name][stay.version]
            found.setdefault(code, title)
    return list(found.items())


def write_coding(writer: SubjectWriter, stay: Encounter) -> list[tuple[str, str]]:
    """Write the billing rows of a stay; returns the coded diagnoses."""
    head = f"{writer.subject.subject_id},{stay.hadm_id}"
    diagnoses = coded_diagnoses(writer, stay)
    add = writer.add("diagnoses_icd")
    for number, (code, _) in enumerate(diagnoses, 1):
        add(f"{head},{number},{code},{stay.version}\n")
    add = writer.add("procedures_icd")
    for number, act in enumerate(stay.acts, 1):
        code, _ = act.row["icd9" if stay.version == 9 else "icd10"]
        add(f"{head},{number},{day_stamp(act.moment)},{code},{stay.version}\n")
    _write_drg(writer, stay, head, len(diagnoses))
    if stay.principal.condition.get("observation", 0.0) > writer.dice.unit():
        writer.add("hcpcsevents")(f"{head},{day_stamp(stay.admit)},{_OBSERVATION[0]},1,{_OBSERVATION[1]}\n")
    return diagnoses


def _write_drg(writer: SubjectWriter, stay: Encounter, head: str, diagnoses: int) -> None:
    drg = stay.principal.condition.get("drg")
    if not drg or writer.dice.chance(0.08):
        return
    medicare, medicare_text, refined, refined_text = drg
    add = writer.add("drgcodes")
    load = stay.principal.severity + 0.05 * diagnoses + (0.6 if stay.icu_places else 0) + (0.8 if stay.death else 0)
    grade = min(4, max(1, round(load + 0.4)))
    risk = min(4, max(1, round(load + (stay.age - 65) / 40)))
    add(f"{head},APR,{refined},{quoted(refined_text)},{grade},{risk}\n")
    add(f"{head},HCFA,{medicare},{quoted(medicare_text)},,\n")


# Between stays: clinic measurements (omr) and outpatient laboratory results without an encounter.


_CM_PER_INCH, _LBS_PER_KG = 2.54, 2.20462


def _measurements(writer: SubjectWriter, moment: int, signals: Signals) -> list[tuple[str, str]]:
    subject, dice = writer.subject, writer.dice
    weight = subject.weight_kg * dice.normal(1, 0.02)
    height = subject.height_cm
    systolic = signals.measure(writer.catalog.vitals["systolic"], moment)
    rows = [
        ("Blood Pressure", f"{round(systolic)}/{round(systolic * dice.between(0.53, 0.62))}"),
        ("Weight (Lbs)", number_text(weight * _LBS_PER_KG, 1)),
        ("BMI (kg/m2)", number_text(weight / (height / 100) ** 2, 1)),
        ("Height (Inches)", number_text(height / _CM_PER_INCH, 1)),
    ]
    return [row for row in rows if dice.chance(0.75)]


def write_clinic_visit(writer: SubjectWriter, moment: int) -> None:
    """Write one clinic day: measurements, and sometimes blood drawn."""
    subject, dice, add = writer.subject, writer.dice, writer.add("omr")
    problems = tuple(
        ClinicalProblem(condition=ailment.condition, severity=ailment.severity, onset=moment - DAY, role="chronic")
        for ailment in subject.ailments_at(moment)
    )
    signals = Signals(dice, subject, problems, moment - DAY, moment + DAY, fatal=False)
    for name, value in _measurements(writer, moment, signals):
        again = 2 if dice.chance(0.06) else 1
        for number in range(1, again + 1):
            add(f"{subject.subject_id},{day_stamp(moment)},{number},{name},{value}\n")
    if dice.chance(0.5):
        panels = {"basic", "count"} if dice.chance(0.8) else {"basic"}
        for problem in problems:
            panels |= {panel for panel, every, _ in problem.condition.get("panels") if every == 0}
        if subject.has("hyperlipidemia", moment) and dice.chance(0.6):
            panels.add("lipids")
        draw = at_minute(moment - moment % DAY + dice.between(8, 16) * HOUR)
        Laboratory(writer, signals, None).draw(draw, panels, "")
