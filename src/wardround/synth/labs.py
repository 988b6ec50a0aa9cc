"""Laboratory panels and results, from physiology."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import exp

from wardround.synth.catalog import Analyte, LabPanel
from wardround.synth.output import number_text
from wardround.synth.person import DAY, HOUR, Dice, SyntheticSubject, at_minute, stamp
from wardround.synth.planning import ClinicalProblem, Encounter
from wardround.synth.subject_writer import SubjectWriter

# Physiology: what a laboratory value or vital sign is at a moment, given the problems at work.
#
# value = (person's baseline x all factors + all offsets), each effect scaled by severity and by its shape in time. In a
# fatal stay the acute problems stop resolving.


_Effect = tuple[bool, float, str, float, int, bool]


class Signals:
    """Values of one subject over one stretch of time."""

    __slots__ = ("_dice", "_effects", "_end", "_fatal", "_start", "_subject")

    def __init__(
        self,
        dice: Dice,
        subject: SyntheticSubject,
        problems: tuple[ClinicalProblem, ...],
        start: int,
        end: int,
        *,
        fatal: bool,
    ) -> None:
        self._dice, self._subject = dice, subject
        self._start, self._end, self._fatal = start, end, fatal
        effects: dict[str, list[_Effect]] = {}
        for problem in problems:
            acute = problem.role in ("principal", "complication")
            for table in (problem.condition.labs, problem.condition.vitals):
                for key, (op, amount, shape, hours) in table.items():
                    scaled = (amount - 1) * problem.severity if op == "x" else amount * problem.severity
                    effect = (op == "x", scaled, shape, hours, problem.onset, acute)
                    effects.setdefault(key, []).append(effect)
        self._effects = effects

    def _shape(self, shape: str, hours: float, onset: int, moment: int, acute: bool) -> float:
        if shape == "steady":
            return 1.0
        passed = (moment - onset) / 3600
        if passed < 0:
            return 0.0
        if shape == "resolve":
            value = exp(-passed / hours)
        elif shape == "hump":
            ratio = passed / hours
            value = ratio * exp(1 - ratio)
        else:
            value = 1 - exp(-passed / hours)
        if self._fatal and acute:
            progress = (moment - self._start) / max(1, self._end - self._start)
            value = max(value, 0.25 + 0.7 * progress)
        return value

    def level(self, analyte: Analyte, moment: int) -> float:
        """Return the true value at a moment, unbounded and without noise."""
        value = self._subject.baseline[analyte.key]
        offset = 0.0
        for factor, amount, shape, hours, onset, acute in self._effects.get(analyte.key, ()):
            strength = amount * self._shape(shape, hours, onset, moment, acute)
            if factor:
                value *= max(0.05, 1 + strength)
            else:
                offset += strength
        return value + offset

    def measure(self, analyte: Analyte, moment: int) -> float:
        """Return one measurement: the level with noise, within the limits of a living, treated person."""
        value = self.level(analyte, moment)
        value += self._dice.normal(0, abs(value) * analyte.cv)
        if value < analyte.soft:
            value = analyte.soft - 0.35 * (analyte.soft - value)
        return min(analyte.ceiling, max(analyte.floor, value))


# Laboratory results: which panels are drawn when, and what comes back.


Draws = dict[int, set[str]]
Values = dict[str, float]
Results = list[tuple[int, Values]]
"""(moment, values) of every draw of a stay."""
_HEMOLYZED = "HEMOLYSIS FALSELY ELEVATES THIS TEST."


def _bicarbonate_of(values: Values) -> float:
    return values.get("bicarbonate", 25.0)


def _gas_ph(values: Values) -> float:
    return 6.1 + math.log10(max(2.0, _bicarbonate_of(values)) / (0.0307 * values["pco2"]))


def _gfr(values: Values, age: int, female: bool) -> float:
    value = float(175.0 * max(0.2, values["creatinine"]) ** -1.154 * max(18, age) ** -0.203)
    return value * (0.742 if female else 1.0)


_RULES: dict[str, Callable[[Values], float]] = {
    "chloride": lambda v: v["sodium"] + v["potassium"] - v["bicarbonate"] - v["anion_gap"],
    "hematocrit": lambda v: v["hemoglobin"] * 100 / v["mchc"],
    "red_cells": lambda v: v["hematocrit"] * 10 / v["mcv"],
    "mch": lambda v: v["hemoglobin"] * 10 / v["red_cells"],
    "mchc": lambda v: 33.4 + 0.05 * (v["hemoglobin"] - 13) - 0.25 * max(0.0, 80 - v["mcv"]) / 4,
    "lymphocytes": lambda v: (100 - v["neutrophils"]) * 0.72,
    "monocytes": lambda v: (100 - v["neutrophils"]) * 0.2,
    "eosinophils": lambda v: (100 - v["neutrophils"]) * 0.065,
    "basophils": lambda v: (100 - v["neutrophils"]) * 0.015,
    "absolute_neutrophils": lambda v: v["white_cells"] * v["neutrophils"] / 100,
    "absolute_lymphocytes": lambda v: v["white_cells"] * v["lymphocytes"] / 100,
    "prothrombin_time": lambda v: 11.1 * v["inr"] + 0.1,
    "bilirubin_direct": lambda v: v["bilirubin"] * (0.35 if v["bilirubin"] < 2 else 0.62),
    "cholesterol": lambda v: v["ldl"] + v["hdl"] + v["triglycerides"] / 5,
    "gas_ph": _gas_ph,
    "base_excess": lambda v: 0.93 * (_bicarbonate_of(v) - 24.4 + 14.8 * (_gas_ph(v) - 7.4)),
    "total_co2": lambda v: _bicarbonate_of(v) + 0.03 * v["pco2"],
}
_NEEDS = {
    "chloride": ("sodium", "potassium", "bicarbonate", "anion_gap"),
    "mchc": ("hemoglobin", "mcv"),
    "hematocrit": ("mchc",),
    "red_cells": ("hematocrit",),
    "mch": ("red_cells",),
    "lymphocytes": ("neutrophils",),
    "monocytes": ("neutrophils",),
    "eosinophils": ("neutrophils",),
    "basophils": ("neutrophils",),
    "absolute_neutrophils": ("white_cells", "neutrophils"),
    "absolute_lymphocytes": ("white_cells", "lymphocytes"),
    "prothrombin_time": ("inr",),
    "bilirubin_direct": ("bilirubin",),
    "cholesterol": ("ldl", "hdl", "triglycerides"),
    "gas_ph": ("bicarbonate", "pco2"),
    "base_excess": ("bicarbonate", "pco2"),
    "total_co2": ("bicarbonate", "pco2"),
    "egfr": ("creatinine",),
}


def plan_draws(writer: SubjectWriter, stay: Encounter) -> Draws:
    """Decide which panels are drawn at which minute, from arrival to shortly before the end."""
    dice = writer.dice
    draws: Draws = {}
    last = stay.discharge - (2 * HOUR if stay.death is None else HOUR)
    first = at_minute(stay.arrival + dice.between(12, 70) * 60)
    if stay.elective:
        first = at_minute(stay.admit + dice.between(30, 110) * 60)
    draws[first] = {"count", "basic", "kidney_function"} | ({"coagulation"} if dice.chance(0.5) else set())
    mornings: list[int] = []
    day = (first // DAY + 1) * DAY
    while day < last:
        morning = at_minute(day + dice.between(4.2, 7.4) * HOUR)
        skip = 0.06 if stay.in_icu(morning) else 0.12 if day - stay.admit < 4 * DAY else 0.28
        if morning < last and morning > first + 5 * HOUR and not dice.chance(skip):
            draws[morning] = {"basic", "count"}
            mornings.append(morning)
        day += DAY
    for place in stay.icu_places:
        at = place.start + int(dice.between(0.3, 1.2) * HOUR)
        while at < min(place.end, last):
            _add(draws, at, {"basic", "count"}, mornings)
            at += int(dice.between(8, 13) * HOUR)
    for problem in stay.problems:
        for panel, every, length in problem.condition.get("panels"):
            at = first if problem.onset <= first else at_minute(problem.onset + dice.between(10, 50) * 60)
            stop = problem.onset + length * HOUR
            while at < last:
                _add(draws, at, {panel}, mornings)
                at += at_minute(every * HOUR + dice.between(-15, 15) * 60)
                if not every or at > stop:
                    break
    return {moment: draws[moment] for moment in sorted(draws) if stay.arrival < moment < last}


def _add(draws: Draws, at: int, panels: set[str], mornings: list[int]) -> None:
    """Add panels to a draw that is close, the morning round from further away, or draw anew."""
    for moment in mornings:
        if abs(moment - at) < 100 * 60:
            draws[moment] |= panels
            return
    for moment in draws:
        if abs(moment - at) < 40 * 60:
            draws[moment] |= panels
            return
    draws[at_minute(at)] = set(panels)


class Laboratory:
    """Turns draws into labevents rows for one subject."""

    __slots__ = ("_add", "_signals", "_stay", "_writer")

    def __init__(self, writer: SubjectWriter, signals: Signals, stay: Encounter | None) -> None:
        self._writer, self._signals, self._stay = writer, signals, stay
        self._add = writer.add("labevents")

    def _values(self, panels: list[LabPanel], moment: int) -> Values:
        """Measure everything of one draw together, so that what must agree agrees."""
        analytes, values = self._writer.catalog.analytes, Values()
        measure = self._signals.measure

        def want(key: str) -> None:
            if key in values:
                return
            for other in _NEEDS.get(key, ()):
                want(other)
            analyte = analytes[key]
            if key in _RULES:
                value = _RULES[key](values)
                values[key] = min(analyte.ceiling, max(analyte.floor, value))
            elif not analyte.derived:
                values[key] = measure(analyte, moment)

        for panel in panels:
            for key in panel.members:
                want(key)
        return values

    def draw(self, moment: int, keys: set[str], hadm: str) -> dict[str, float]:
        """Write the rows of one draw and return the values."""
        writer, dice = self._writer, self._writer.dice
        panels = [writer.catalog.panels[key] for key in sorted(keys)]
        values = self._values(panels, moment)
        acute = self._stay is not None and (moment < self._stay.admit or self._stay.in_icu(moment))
        priority = "STAT" if acute or dice.chance(0.3) else "ROUTINE"
        orderer = writer.provider() if dice.chance(0.85) else ""
        specimens: dict[str, int] = {}
        taken_at = stamp(moment)
        hemolyzed = dice.chance(0.03)
        seen: set[str] = set()
        for panel in panels:
            specimen = specimens.get(panel.tube) or writer.numbers.specimen.take()
            specimens[panel.tube] = specimen
            times = f"{taken_at},{self._store_time(moment, panel)}"
            for key in panel.members:
                if key not in seen:
                    seen.add(key)
                    analyte = writer.catalog.analytes[key]
                    self._row(
                        analyte,
                        values,
                        specimen,
                        moment=moment,
                        times=times,
                        orderer=orderer,
                        priority=priority,
                        hadm=hadm,
                        hemolyzed=hemolyzed,
                    )
        return values

    def report_correction(self, key: str, values: Values, moment: int, reported_at: int, hadm: str) -> None:
        """Write one more result of an earlier draw: what its laboratory says later is another value."""
        writer = self._writer
        self._row(
            writer.catalog.analytes[key],
            values,
            writer.numbers.specimen.take(),
            moment=moment,
            times=f"{stamp(moment)},{stamp(reported_at)}",
            orderer="",
            priority="ROUTINE",
            hadm=hadm,
            hemolyzed=False,
        )

    def _store_time(self, moment: int, panel: LabPanel) -> str:
        dice = self._writer.dice
        luck = dice.unit()
        if luck < 0.012:
            return ""
        minutes = dice.between(*panel.minutes)
        if luck > 0.985:
            minutes *= dice.between(3, 14)
        return stamp(moment + int(minutes) * 60)

    def _row(
        self,
        analyte: Analyte,
        values: Values,
        specimen: int,
        *,
        moment: int,
        times: str,
        orderer: str,
        priority: str,
        hadm: str,
        hemolyzed: bool,
    ) -> None:
        writer = self._writer
        column = writer.subject.column
        writer.lab_rows += 1
        low, high = analyte.low[column], analyte.high[column]
        value, number, flag, comment = self._result(analyte, values, moment, low, high, hemolyzed)
        subject = writer.subject
        row = writer.numbers.row_base + writer.lab_rows
        self._add(
            f"{row},{subject.subject_id},{hadm},{specimen},{analyte.itemid},{orderer},"
            f"{times},{value},{number},{analyte.unit},{low},{high},{flag},{priority},{comment}\n"
        )

    def _result(
        self, analyte: Analyte, values: Values, moment: int, low: str, high: str, hemolyzed: bool
    ) -> tuple[str, str, str, str]:
        """Return value, valuenum, flag and comments."""
        dice, key = self._writer.dice, analyte.key
        if analyte.grades:
            return self._graded(analyte, values)
        if key == "egfr":
            rate = _gfr(values, self._writer.subject.age(moment), self._writer.subject.sex == "F")
            text = "> 60" if rate > 60 else str(round(rate))
            return "___", "", "", f'"ESTIMATED GFR (MDRD) {text} ML/MIN/1.73 M2, FROM AGE, SEX AND SERUM CREATININE."'
        value = values[key]
        comment = analyte.note if analyte.note and dice.chance(0.7) else ""
        if key == "potassium" and hemolyzed:
            value, comment = min(value + 0.7, analyte.ceiling), _HEMOLYZED
        if analyte.below is not None and value < analyte.below:
            return f"<{analyte.below:g}", "", "", comment
        text = number_text(value, analyte.digits)
        rounded = float(text)
        flag = "abnormal" if (low and rounded < float(low)) or (high and rounded > float(high)) else ""
        if dice.chance(0.006):
            return "___", text, flag, comment
        return text, text, flag, comment

    def _graded(self, analyte: Analyte, values: Values) -> tuple[str, str, str, str]:
        dice = self._writer.dice
        if analyte.key == "specimen_type":
            lined = self._stay is not None and dice.chance(0.6)
            text = analyte.grades[0 if lined else 1]
            return text, "", "", ""
        grade = min(len(analyte.grades) - 1, max(0, round(values[analyte.key])))
        text = analyte.grades[grade]
        abnormal = grade >= 2 or (grade == 1 and len(analyte.grades) == 2)
        flag = "abnormal" if abnormal and analyte.key not in ("urine_color", "urine_appearance") else ""
        number = text if text.isdigit() else ""
        if dice.chance(0.3):
            return "___", number, flag, f"{text}."
        return text, number, flag, ""


def write_labs(writer: SubjectWriter, stay: Encounter, signals: Signals) -> Results:
    """Draw and write all laboratory results of a stay; returns (moment, values) of every draw."""
    laboratory = Laboratory(writer, signals, stay)
    results = []
    for moment, panels in plan_draws(writer, stay).items():
        linked = moment >= stay.admit or writer.dice.chance(0.85)
        results.append((moment, laboratory.draw(moment, panels, str(stay.hadm_id) if linked else "")))
    return results
