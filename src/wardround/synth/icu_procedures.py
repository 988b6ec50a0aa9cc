"""Lines, tubes, ventilation and bedside tests in intensive care: procedureevents and datetimeevents."""

from __future__ import annotations

from wardround.synth.clock import DAY, HOUR, MINUTE, at_minute, day_stamp, stamp
from wardround.synth.encounter import Encounter
from wardround.synth.icu_charting import shift_nurse
from wardround.synth.subject_writer import SubjectWriter
from wardround.synth.table_lines import number_text

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
        """A process with a duration: stored when it ended."""
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
