"""The emergency department: stays, triage, vital signs, home lists, dispensing, diagnoses."""

from __future__ import annotations

from typing import NamedTuple

from wardround.synth.catalog import Condition
from wardround.synth.clock import HOUR, MINUTE, at_minute, stamp
from wardround.synth.coding import codes_of
from wardround.synth.medication import allowed
from wardround.synth.signals import Signals
from wardround.synth.subject_writer import SubjectWriter
from wardround.synth.table_lines import number_text, quoted

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
