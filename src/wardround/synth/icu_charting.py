"""Bedside charting and procedures in intensive care."""

from __future__ import annotations

from wardround.synth.labs import Signals
from wardround.synth.output import number_text
from wardround.synth.person import DAY, HOUR, MINUTE, at_minute, caregiver, day_stamp, stamp
from wardround.synth.planning import Encounter
from wardround.synth.subject_writer import SubjectWriter

_EYES = {4: "Spontaneously", 3: "To Speech", 2: "To Pain", 1: "None"}
_WORDS = {5: "Oriented", 4: "Confused", 3: "Inappropriate Words", 2: "Incomprehensible sounds", 1: "No Response"}
_TUBE = "No Response-ETT"
_MOVES = {
    6: "Obeys Commands", 5: "Localizes Pain", 4: "Flex-withdraws", 3: "Abnormal Flexion", 2: "Abnormal extension",
    1: "No response",
}  # fmt: skip
_ACTIVITIES = {1: "Bedfast", 2: "Chairfast"}  # Braden's scale has 3 and 4 for who walks
_SEDATION = {
    1: "+1 Anxious, apprehensive, but not aggressive", 0: " 0  Alert and calm",
    -1: "-1 Awakens to voice (eye opening/contact) > 10 sec", -2: "-2 Light sedation, briefly awakens to voice",
    -3: "-3 Moderate sedation, movement or eye opening; No eye contact",
    -4: "-4 Deep sedation, no response to voice, but movement or eye opening with physical stimulation",
}  # fmt: skip
_PAIN = {0: "None", 1: "None to Mild", 2: "Mild", 3: "Mild to Mod", 4: "Mild to Mod", 5: "Moderate", 6: "Mod to Severe",
         7: "Mod to Severe", 8: "Severe", 9: "Severe", 10: "Worst"}  # fmt: skip


def shift_nurse(stay_id: int, moment: int) -> int:
    """Return the nurse of the twelve-hour shift."""
    return caregiver(stay_id * 7 + (moment - 7 * HOUR) // (12 * HOUR))


class BedsideChart:
    """Writes chartevents of one ICU stay."""

    __slots__ = ("_add", "_dice", "_head", "_items", "_signals", "_stay", "_stay_id", "_vitals", "_writer")

    def __init__(self, writer: SubjectWriter, stay: Encounter, stay_id: int, signals: Signals) -> None:
        self._writer, self._dice, self._stay, self._stay_id, self._signals = writer, writer.dice, stay, stay_id, signals
        self._head = f"{writer.subject.subject_id},{stay.hadm_id},{stay_id}"
        self._add = writer.add("chartevents")
        self._vitals = writer.catalog.vitals
        self._items = {
            key: (row["id"], row.get("unit", ""), row.get("low"), row.get("high"))
            for key, row in writer.catalog.items["chartevents"].items()
        }

    def _prefix(self, moment: int) -> str:
        luck = self._dice.unit()
        wait = int(luck * 40) if luck < 0.97 else int(luck * 400)
        stored = stamp(moment + wait * MINUTE)
        return f"{self._head},{shift_nurse(self._stay_id, moment)},{stamp(moment)},{stored},"

    def _number(self, prefix: str, key: str, value: float, digits: int = 0) -> None:
        item, unit, low, high = self._items[key]
        text = number_text(value, digits)
        warn = 1 if (low is not None and value < low) or (high is not None and value > high) else 0
        self._add(f"{prefix}{item},{text},{text},{unit},{warn}\n")

    def _words(self, prefix: str, key: str, text: str, number: int | str = "") -> None:
        text = f'"{text}"' if "," in text else text
        self._add(f"{prefix}{self._items[key][0]},{text},{number},,0\n")

    def hourly(self, moment: int, *, line: bool) -> None:
        """Heart rate, breathing, saturation and pressure."""
        dice, measure, vitals = self._dice, self._signals.measure, self._vitals
        prefix = self._prefix(moment)
        self._number(prefix, "heart_rate", measure(vitals["heart_rate"], moment))
        self._number(prefix, "respiratory_rate", measure(vitals["respiratory_rate"], moment))
        if not dice.chance(0.03):
            self._number(prefix, "saturation", measure(vitals["oxygen_saturation"], moment))
        systolic = measure(vitals["systolic"], moment)
        diastolic = max(28.0, systolic * dice.between(0.48, 0.62))
        mean = diastolic + (systolic - diastolic) / 3
        kind = "line" if line else "cuff"
        if dice.chance(0.97):
            self._number(prefix, f"{kind}_systolic", systolic)
            self._number(prefix, f"{kind}_diastolic", diastolic)
            self._number(prefix, f"{kind}_mean", mean)

    def assessment(self, moment: int, *, ventilated: bool) -> None:
        """Temperature, consciousness, sedation, rhythm, pain, skin."""
        dice, signals, vitals = self._dice, self._signals, self._vitals
        prefix = self._prefix(moment)
        self._number(prefix, "temperature", signals.measure(vitals["temperature"], moment), 1)
        coma = min(15, max(3, round(signals.level(vitals["coma_scale"], moment) - (5.5 if ventilated else 0))))
        eye, verbal, motor = _split_coma(coma, ventilated)
        self._words(prefix, "eye", _EYES[eye], eye)
        self._words(prefix, "verbal", _TUBE if ventilated else _WORDS[verbal], verbal)
        self._words(prefix, "motor", _MOVES[motor], motor)
        self._words(prefix, "rhythm", _rhythm(self._writer, self._stay, signals.level(vitals["heart_rate"], moment)))
        sedation = dice.pick((-1, -2, -2, -3)) if ventilated else 0 if coma >= 14 else -1
        self._words(prefix, "rass", _SEDATION[sedation], sedation)
        if not ventilated:
            pain = min(10, max(0, round(signals.measure(vitals["pain"], moment))))
            self._words(prefix, "pain", _PAIN[pain], pain)
        if dice.chance(0.5):
            self._words(prefix, "alarms", "1", 1)
            activity = 1 if ventilated or dice.chance(0.5) else 2
            self._words(prefix, "braden", _ACTIVITIES[activity], activity)

    def glucose(self, moment: int) -> None:
        """Chart a finger stick, from the same physiology as the laboratory's glucose."""
        analyte = self._writer.catalog.analytes["glucose"]
        value = min(500.0, self._signals.measure(analyte, moment))
        self._number(self._prefix(moment), "glucose", value)

    def breathing(self, moment: int, *, ventilated: bool, progress: float) -> None:
        """Ventilator settings and readings, or the oxygen device."""
        dice = self._dice
        prefix = self._prefix(moment)
        if not ventilated:
            need = 97 - self._signals.level(self._vitals["oxygen_saturation"], moment)
            device, flow = (
                ("None", 0) if need < 0.7 else ("Nasal cannula", 2) if need < 3 else ("High flow nasal cannula", 40)
            )
            self._words(prefix, "device", device)
            if flow:
                self._number(prefix, "flow", flow if flow > 6 else dice.whole(1, 5))
            return
        ideal = 50 + 0.91 * (self._writer.subject.height_cm - 152.4) - (4.5 if self._writer.subject.sex == "F" else 0)
        weaning = progress > 0.75
        volume = round(ideal * dice.between(6, 7.2) / 10) * 10
        rate = dice.pick((14, 16, 18, 20))
        self._words(prefix, "device", "Endotracheal tube")
        self._words(prefix, "mode", "PSV/SBT" if weaning else "CMV/ASSIST/AutoFlow")
        self._number(prefix, "fraction", dice.pick((40, 40, 50)) if weaning else dice.pick((40, 50, 50, 60, 70)))
        self._number(prefix, "peep", 5 if weaning else dice.pick((5, 5, 8, 10)))
        seen = volume * dice.between(0.92, 1.1)
        total = rate + (dice.whole(0, 6) if weaning else dice.whole(0, 2))
        if not weaning:
            self._number(prefix, "volume_set", volume)
            self._number(prefix, "rate_set", rate)
            self._number(prefix, "plateau", dice.whole(15, 26))
        self._number(prefix, "volume_seen", seen)
        self._number(prefix, "rate_total", total)
        self._number(prefix, "minute_volume", seen * total / 1000, 1)
        self._number(prefix, "peak", dice.whole(12, 20) if weaning else dice.whole(18, 32))

    def admission(self, moment: int) -> None:
        """Height, weight and code status on arrival."""
        prefix = self._prefix(moment)
        self._number(prefix, "admission_weight", self._writer.subject.weight_kg, 1)
        if self._dice.chance(0.7):
            self._number(prefix, "height", self._writer.subject.height_cm)
        self._words(prefix, "code_status", "Full code" if self._stay.death is None else "DNR / DNI")

    def daily_weight(self, moment: int, day: int) -> None:
        """Weight drifts with fluid."""
        change = self._dice.normal(0.4 if day < 3 else -0.4, 0.6)
        self._number(self._prefix(moment), "weight", self._writer.subject.weight_kg + change, 1)


def _split_coma(total: int, ventilated: bool) -> tuple[int, int, int]:
    """Split a coma scale sum into eye, verbal and motor."""
    verbal = 1 if ventilated else max(1, 5 - max(0, 15 - total) * 2 // 5 - (1 if total < 15 else 0))
    left = total - verbal  # 2 to 10
    motor = round(left * 0.6)
    return left - motor, verbal, motor


def _rhythm(writer: SubjectWriter, stay: Encounter, rate: float) -> str:
    keys = {problem.condition.key for problem in stay.problems}
    if keys & {"atrial_fibrillation", "rapid_fibrillation"}:
        return "AF (Atrial Fibrillation)"
    return "ST (Sinus Tachycardia) " if rate > 100 else "SB (Sinus Bradycardia)" if rate < 58 else "SR (Sinus Rhythm)"


def write_charting(
    writer: SubjectWriter, stay: Encounter, stay_id: int, start: int, end: int, signals: Signals
) -> None:
    """Chart one ICU stay hour by hour; nothing is charted after death."""
    dice = writer.dice
    chart = BedsideChart(writer, stay, stay_id, signals)
    has_line = any(act.key == "arterial_line" for act in stay.acts)
    first_hour = start - start % HOUR + HOUR
    phase = dice.whole(0, 3)
    chart.admission(at_minute(start + dice.between(4, 30) * MINUTE))
    sugar = any("glucose" in problem.condition.labs for problem in stay.problems)
    for number, hour in enumerate(range(first_hour, end - 5 * MINUTE, HOUR)):
        moment = hour if dice.chance(0.8) else hour + dice.whole(1, 9) * MINUTE
        if moment >= end:
            break
        window = stay.ventilation
        ventilated = window is not None and window[0] <= moment < window[1]
        chart.hourly(moment, line=has_line and number < 72)
        if (number + phase) % 4 == 0:
            chart.assessment(moment, ventilated=ventilated)
            progress = (moment - window[0]) / (window[1] - window[0]) if window is not None and ventilated else 0.0
            chart.breathing(moment, ventilated=ventilated, progress=progress)
        if sugar and (number + phase) % 6 == 3:
            chart.glucose(moment)
        if hour % (24 * HOUR) == 5 * HOUR:
            chart.daily_weight(moment, number // 24)


# Lines, tubes, ventilation and bedside tests in intensive care: procedureevents and datetimeevents.


_SITES = {
    "gauge_20": (("Right Antecubital", "Left Metacarpal", "Left Antecubital"), "Peripheral"),
    "gauge_18": (("Right Antecubital", "Left Antecubital", "Right Cephalic Lower Arm"), "Peripheral"),
    "arterial_line": (("Right Radial", "Left Radial"), "Invasive Arterial"),
    "central_line": (("Right IJ", "Left IJ", "Right Subclavian"), "Invasive Venous"),
}
_DATES = {
    "arterial_line": ("arterial_inserted", "arterial_dressing"),
    "central_line": ("central_inserted", "central_dressing"),
    "gauge_20": ("gauge_20_inserted", ""),
    "gauge_18": ("gauge_18_inserted", ""),
}


class _Bedside:
    def __init__(self, writer: SubjectWriter, stay: Encounter, stay_id: int, start: int, end: int) -> None:
        self.writer, self.dice, self.stay_id, self.start, self.end = writer, writer.dice, stay_id, start, end
        self.head = f"{writer.subject.subject_id},{stay.hadm_id},{stay_id}"
        self.weight = number_text(writer.subject.weight_kg, 1)
        self.items = writer.catalog.items["procedureevents"]
        self.add, self.add_date = writer.add("procedureevents"), writer.add("datetimeevents")

    def run(self, key: str, begin: int, finish: int, *, cut: bool = False) -> None:
        """Chart a process with a duration, stored when it ended."""
        minutes = (finish - begin) // MINUTE
        self._row(
            key,
            begin,
            finish,
            value=str(minutes),
            unit="min",
            kind="ContinuousProcess",
            status="Stopped" if cut else "FinishedRunning",
        )
        if key in _DATES:
            self._dates(key, begin, finish)

    def task(self, key: str, moment: int) -> None:
        """Something done at once."""
        if self.start <= moment < self.end - MINUTE:
            self._row(key, moment, moment + MINUTE, value="1", unit="None", kind="Task", status="FinishedRunning")

    def _row(self, key: str, begin: int, finish: int, *, value: str, unit: str, kind: str, status: str) -> None:
        item, order = self.items[key], self.writer.numbers.infusion.take()
        sites, category = _SITES.get(key, (("",), ""))
        stored = finish + self.dice.whole(0, 45) * MINUTE
        running = kind == "ContinuousProcess"
        amounts = f"{value},1" if running else "1,0"
        self.add(
            f"{self.head},{shift_nurse(self.stay_id, begin)},{stamp(begin)},{stamp(finish)},{stamp(stored)},"
            f"{item['id']},{value},{unit},{self.dice.pick(sites)},{category},{order},{order},{item['group']},{kind},{self.weight},"
            f"{1 if running else 0},0,{status},{amounts}\n"
        )

    def _dates(self, key: str, begin: int, finish: int) -> None:
        items = self.writer.catalog.items["datetimeevents"]
        inserted, dressing = _DATES[key]
        at = begin + int(self.dice.between(1, 4) * HOUR)
        while at < finish:
            moment = at_minute(at)
            stored = stamp(moment + self.dice.whole(0, 40) * MINUTE)
            head = f"{self.head},{shift_nurse(self.stay_id, moment)},{stamp(moment)},{stored}"
            self.add_date(f"{head},{items[inserted]['id']},{day_stamp(begin)} 00:00:00,Date,0\n")
            if dressing and self.dice.chance(0.5):
                done = max(begin, moment - self.dice.whole(0, 30) * HOUR)
                self.add_date(f"{head},{items[dressing]['id']},{stamp(at_minute(done))},Date and Time,0\n")
            at += 12 * HOUR


def write_icu_procedures(writer: SubjectWriter, stay: Encounter, stay_id: int, start: int, end: int) -> None:
    """Write lines, ventilation and tasks of one ICU stay."""
    dice, bedside = writer.dice, _Bedside(writer, stay, stay_id, start, end)
    for key, share in (("gauge_20", 0.85), ("gauge_18", 0.5)):
        if dice.chance(share):
            finish = min(end, start + int(dice.between(1, 4) * DAY))
            bedside.run(key, at_minute(start + dice.between(0, 40) * MINUTE), at_minute(finish))
    for act in stay.acts:
        if act.key in ("arterial_line", "central_line") and start <= act.moment < end - 2 * HOUR:
            finish = min(end, act.moment + int(dice.between(1.5, 6) * DAY))
            bedside.run(act.key, act.moment, at_minute(finish))
        elif act.key == "intubation":
            bedside.task("intubation", act.moment)
        elif act.key == "dialysis" and start <= act.moment < end - 4 * HOUR:
            bedside.run("dialysis", act.moment, act.moment + 3 * HOUR + 30 * MINUTE)
    if stay.ventilation is not None:
        begin, finish = max(start, stay.ventilation[0]), min(end, stay.ventilation[1])
        if finish - begin > 30 * MINUTE:
            bedside.run("ventilation", begin, finish, cut=stay.death is not None)
            if stay.death is None:
                bedside.task("extubation", finish)
    tasks = (
        ("chest_xray", 0.8),
        ("electrocardiogram", 0.45),
        ("blood_cultured", 0.25),
        ("echo", 0.2),
        ("family", 0.35),
    )
    for key, share in tasks:
        if dice.chance(share):
            bedside.task(key, at_minute(start + dice.between(0.3, 12) * HOUR))
