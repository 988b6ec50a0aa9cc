"""Between stays: clinic measurements (omr) and outpatient laboratory results without an encounter."""

from __future__ import annotations

from wardround.synth.clock import DAY, HOUR, at_minute, day_stamp
from wardround.synth.encounter import ClinicalProblem
from wardround.synth.labs import Laboratory
from wardround.synth.signals import Signals
from wardround.synth.subject_writer import SubjectWriter
from wardround.synth.table_lines import number_text

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
