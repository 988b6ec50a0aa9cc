"""What goes in and out in intensive care: drips, boluses, antibiotics, food, blood, urine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wardround.synth.emar import Dose
from wardround.synth.icu_charting import shift_nurse
from wardround.synth.labs import Signals
from wardround.synth.medication import Course
from wardround.synth.output import number_text
from wardround.synth.person import HOUR, MINUTE, at_minute, stamp
from wardround.synth.planning import Encounter
from wardround.synth.subject_writer import SubjectWriter

_RATES = {"mcg/kg/min": ("mcg/kg/min", "mg"), "mcg/hr": ("mcg/hour", "mcg"), "UNIT/HR": ("units/hour", "units")}
_CARRIER = {
    "norepinephrine": 15.0,
    "phenylephrine": 20.0,
    "fentanyl": 4.0,
    "insulin_infusion": 5.0,
    "heparin_infusion": 11.0,
}
_ANTIBIOTIC, _BOLUS, _DRIP, _CRYSTALLOID = "08-Antibiotics (IV)", "05-Med Bolus", "01-Drips", "02-Fluids (Crystalloids)"


class Flows:
    """Writes inputevents, ingredientevents and outputevents of one ICU stay."""

    def __init__(
        self, writer: SubjectWriter, stay: Encounter, stay_id: int, start: int, end: int, *, decoys: bool
    ) -> None:
        self.writer, self.dice, self.stay, self.stay_id = writer, writer.dice, stay, stay_id
        self.start, self.end = start, end
        self.by_minute = decoys and writer.with_own_dice(f"drips {stay_id}").dice.chance(0.5)
        """Drips dosed by weight are charted by the minute, as some wards do."""
        self.head = f"{writer.subject.subject_id},{stay.hadm_id},{stay_id}"
        self.weight = number_text(writer.subject.weight_kg, 1)
        self.items: Mapping[str, Any] = writer.catalog.items["inputevents"]
        self.ingredients: Mapping[str, Any] = writer.catalog.items["ingredientevents"]
        self.add, self.add_ingredient = writer.add("inputevents"), writer.add("ingredientevents")
        self.add_output = writer.add("outputevents")

    def _times(self, begin: int, finish: int) -> str:
        luck = self.dice.unit()
        stored = begin + int(luck * 50) * MINUTE if luck < 0.96 else finish + int(luck * 60) * MINUTE
        return f"{self.head},{shift_nurse(self.stay_id, begin)},{stamp(begin)},{stamp(finish)},{stamp(stored)}"

    def _input(
        self,
        times: str,
        key: str,
        *,
        amount: tuple[float, str],
        rate: tuple[float, str] | None,
        order: tuple[int, int],
        category: tuple[str, str, str, str],
        total: float,
        status: str,
        original: tuple[float, float],
    ) -> None:
        rated = f"{number_text(rate[0], 4)},{rate[1]}" if rate is not None else ","
        whole = f"{number_text(total, 1)},ml" if total else ","
        self.add(
            f"{times},{self.items[key]['id']},{number_text(amount[0], 4)},{amount[1]},{rated},{order[0]},{order[1]},"
            f"{','.join(category)},{self.weight},{whole},0,0,{status},{number_text(original[0], 4)},"
            f"{number_text(original[1], 4)}\n"
        )

    def _ingredient(
        self, times: str, kinds: tuple[str, ...], amount: float, rate: float, order: int, status: str
    ) -> None:
        rated = f"{number_text(rate, 2)},mL/hour" if rate else ","
        for kind in kinds:
            self.add_ingredient(
                f"{times},{self.ingredients[kind]['id']},{number_text(amount, 2)},ml,{rated},{order},{order},{status},"
                f"0,{number_text(rate or amount, 2)}\n"
            )

    def drip(self, course: Course) -> None:
        """Give a titrated infusion with its carrier fluid, one row per rate."""
        dice, key = self.dice, course.drug.key
        begin = max(self.start, course.start + int(dice.between(2, 20)) * MINUTE)
        stop = min(self.end, course.stop)
        if key not in self.items or stop - begin < 20 * MINUTE:
            return
        unit, amount_unit = _RATES.get(course.drug.unit, (course.drug.unit, "mg"))
        per_kg = "kg/min" in unit
        shown = (unit.replace("/kg", ""), self.writer.subject.weight_kg) if per_kg and self.by_minute else (unit, 1.0)
        rate, link, at = course.dose, 0, begin
        bag = course.drug.per
        while at < stop:
            until = min(stop, at_minute(at + dice.between(0.7, 6) * HOUR))
            until = stop if stop - until < 20 * MINUTE else until
            order = self.writer.numbers.infusion.take()
            link = link or order
            hours = (until - at) / HOUR
            per_hour = self.writer.subject.weight_kg * 60 / 1000 if per_kg else 1.0
            status = "ChangeDose/Rate" if until < stop else "Stopped" if dice.chance(0.25) else "FinishedRunning"
            times = self._times(at, until)
            names = (_DRIP, _CRYSTALLOID, "Main order parameter", "Continuous Med")
            amount = (rate * per_hour * hours, amount_unit)
            self._input(
                times,
                key,
                amount=amount,
                rate=(rate * shown[1], shown[0]),
                order=(order, link),
                category=names,
                total=250,
                status=status,
                original=(bag, rate * shown[1]),
            )
            flow = _CARRIER.get(key, 6.0)
            carrier = "dextrose" if key in ("norepinephrine", "phenylephrine") else "saline"
            names = (_DRIP, _CRYSTALLOID, "Mixed solution", "Continuous Med")
            volume = flow * hours
            self._input(
                times,
                carrier,
                amount=(volume, "ml"),
                rate=(flow, "mL/hour"),
                order=(order, link),
                category=names,
                total=250,
                status=status,
                original=(250, flow),
            )
            self._ingredient(times, ("water", "vein"), volume, flow, order, status)
            factor = dice.between(0.6, 1.25) if "vasopressor" in course.drug.kinds else dice.between(0.75, 1.3)
            rate = min(2.2 * course.dose, max(0.25 * course.dose, rate * factor))
            at = until

    def fluid(self, course: Course) -> None:
        """Give a litre or a maintenance line."""
        begin = max(self.start, course.start)
        stop = min(self.end, course.stop)
        while begin + HOUR < stop:
            rate = self.dice.pick((125.0, 150.0, 250.0, 500.0))
            until = min(stop, int(begin + self.dice.between(1, 4) * HOUR))
            until = at_minute(until)
            volume = rate * (until - begin) / HOUR
            order = self.writer.numbers.infusion.take()
            times, status = self._times(begin, until), "FinishedRunning"
            bolus = rate >= 250
            names = (
                "03-IV Fluid Bolus" if bolus else _CRYSTALLOID,
                "",
                "Main order parameter",
                "Bolus" if bolus else "Continuous IV",
            )
            key = course.drug.key
            self._input(
                times,
                key,
                amount=(volume, "ml"),
                rate=(rate, "mL/hour"),
                order=(order, order),
                category=names,
                total=volume,
                status=status,
                original=(1000, rate),
            )
            self._ingredient(times, ("water", "vein"), volume, rate, order, status)
            begin = until + int(self.dice.between(1, 8)) * HOUR

    def push(self, dose: Dose) -> None:
        """Give one dose of an antibiotic or other drug."""
        key, drug = dose.course.drug.key, dose.course.drug
        if key not in self.items or not self.start <= dose.charted < self.end - 2 * MINUTE:
            return
        order = self.writer.numbers.infusion.take()
        times = self._times(dose.charted, dose.charted + MINUTE)
        counted = self.items[key]["unit"] == "dose"
        amount = (1.0, "dose") if counted else (dose.amount, self.items[key]["unit"])
        group = (
            _ANTIBIOTIC if "antibiotic" in drug.kinds else "11-Prophylaxis (Non IV)" if key == "heparin_sc" else _BOLUS
        )
        names = (group, _CRYSTALLOID, "Main order parameter", "Drug Push")
        total = 100.0 if "antibiotic" in drug.kinds else 0.0
        self._input(
            times,
            key,
            amount=amount,
            rate=None,
            order=(order, order),
            category=names,
            total=total,
            status="FinishedRunning",
            original=(amount[0], amount[0]),
        )

    def mouth(self) -> None:
        """Drinking, unless a tube is in."""
        at = self.start + 3 * HOUR
        while at < self.end - 10 * MINUTE:
            window = self.stay.ventilation
            if not (window is not None and window[0] <= at < window[1]) and self.dice.chance(0.75):
                order = self.writer.numbers.infusion.take()
                volume = float(self.dice.pick((60, 120, 120, 180, 240)))
                times = self._times(at, at + MINUTE)
                names = ("14-Oral/Gastric Intake", "", "Main order parameter", "Bolus")
                self._input(
                    times,
                    "mouth",
                    amount=(volume, "ml"),
                    rate=None,
                    order=(order, order),
                    category=names,
                    total=volume,
                    status="FinishedRunning",
                    original=(volume, volume),
                )
                self._ingredient(times, ("gut", "water"), volume, 0, order, "FinishedRunning")
            at += int(self.dice.between(4, 8)) * HOUR

    def blood(self) -> None:
        """Red cells given while in intensive care."""
        for act in self.stay.acts:
            if act.key == "transfusion" and self.start <= act.moment < self.end - 4 * HOUR:
                for unit in range(self.dice.whole(1, 2)):
                    begin = act.moment + unit * 3 * HOUR
                    until = begin + int(self.dice.between(80, 170)) * MINUTE
                    if until > self.end:
                        break
                    order = self.writer.numbers.infusion.take()
                    times, names = (
                        self._times(begin, until),
                        ("07-Blood Products", "", "Main order parameter", "Continuous IV"),
                    )
                    rate = 350 / ((until - begin) / HOUR)
                    self._input(
                        times,
                        "red_cells",
                        amount=(350, "ml"),
                        rate=(rate, "mL/hour"),
                        order=(order, order),
                        category=names,
                        total=350,
                        status="FinishedRunning",
                        original=(350, rate),
                    )
                    self._ingredient(times, ("blood", "water"), 350, rate, order, "FinishedRunning")

    def output(self, signals: Signals) -> None:
        """Urine every hour or two by catheter, and drains after heart surgery."""
        dice, items = self.dice, self.writer.catalog.items["outputevents"]
        urine = self.writer.catalog.vitals["urine_output"]
        catheter = self.stay.ventilation is not None or dice.chance(0.6)
        step = 2 if catheter else 5
        chest = any(act.key == "coronary_bypass" for act in self.stay.acts)
        at = self.start - self.start % HOUR + 2 * HOUR
        while at < self.end - 5 * MINUTE:
            volume = round(signals.measure(urine, at) * step / 5) * 5
            item = items["catheter" if catheter else "void"]["id"]
            self._output(at, item, volume)
            if chest and at - self.start < 44 * HOUR:
                self._output(at, items["chest_tube"]["id"], max(0, round(dice.normal(40, 18) / 10) * 10))
            if dice.chance(0.02):
                self._output(at, items["stool"]["id"], dice.pick((100, 200, 300)))
            at += step * HOUR

    def _output(self, at: int, item: int, volume: float) -> None:
        luck = self.dice.unit()
        stored = at + (int(luck * 45) if luck < 0.97 else int(luck * 600)) * MINUTE
        nurse = shift_nurse(self.stay_id, at)
        self.add_output(f"{self.head},{nurse},{stamp(at)},{stamp(stored)},{item},{number_text(volume, 0)},ml\n")


def write_flows(flows: Flows, *, signals: Signals, courses: list[Course], doses: list[Dose]) -> None:
    """Write intake and output of one ICU stay from the drug courses that overlap it."""
    for course in courses:
        if course.start < flows.end and course.stop > flows.start:
            if course.drug.kind == "infusion":
                flows.drip(course)
            elif course.drug.kind == "fluid":
                flows.fluid(course)
    for dose in doses:
        if dose.event in ("Administered", "Delayed Administered"):
            flows.push(dose)
    flows.mouth()
    flows.blood()
    flows.output(signals)
