"""Drug orders of a stay, and the pharmacy's view of them."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.synth.catalog import Drug
from wardround.synth.labs import Results
from wardround.synth.orders import end_order, place_order
from wardround.synth.output import number_text, quoted
from wardround.synth.person import DAY, HOUR, exclusive_classes, stamp
from wardround.synth.planning import Encounter
from wardround.synth.subject_writer import Order, SubjectWriter

# Drug treatment of a stay: its orders, their starts and ends; ``pharmacy`` and ``emar`` write the rows.
#
# Allergies replace or drop a drug; bleeding stops blood thinners; kidney injury and shock hold what would harm.


_BLEEDING = frozenset({"gi_bleed", "variceal_bleed", "hemorrhagic_stroke", "bleeding_secondary"})
_SHOCK = frozenset({"sepsis", "sepsis_secondary", "gi_bleed", "variceal_bleed", "ketoacidosis"})
_KIDNEY = frozenset({"kidney_injury", "kidney_injury_acute"})
_SWITCHED = frozenset({"heart_failure_acute"})


@dataclass(slots=True, kw_only=True)
class Course:
    """One drug given for a while. ``ending``: discharge, stopped, changed or expired."""

    drug: Drug
    dose: float
    order: Order
    linked: Order
    start: int
    stop: int
    ending: str
    pharmacy_id: int
    hadm_id: int


def allowed(writer: SubjectWriter, key: str) -> Drug | None:
    """Return the drug, what the allergic subject gets instead, or nothing."""
    drugs, allergies = writer.catalog.drugs, writer.subject.allergies
    seen: set[str] = set()
    while key and key not in seen:
        drug = drugs[key]
        if not drug.kinds & allergies:
            return drug
        seen.add(key)
        key = drug.instead
    return None


class _Chart:
    """Collects the courses of one stay, never the same product twice at once."""

    def __init__(self, writer: SubjectWriter, stay: Encounter) -> None:
        self.writer, self.stay = writer, stay
        self.courses: list[Course] = []
        self._busy: dict[str, int] = {}
        self.kinds: dict[str, int] = {}

    def running(self, kind: str, moment: int) -> bool:
        """Return whether a drug of this class is running at a moment."""
        return self.kinds.get(kind, 0) > moment

    def give(self, key: str, moment: int, days: float, dose: float | None = None) -> Course | None:
        """Order a drug at a moment, for that many days; 0 means until the end of the stay."""
        writer, stay, dice = self.writer, self.stay, self.writer.dice
        drug = allowed(writer, key)
        end = stay.discharge
        if drug is None or moment > end - 2 * HOUR or self._busy.get(drug.key, 0) > moment:
            return None
        exclusive = exclusive_classes(drug) if not drug.route.startswith("IV") else set()
        if any(self.running(kind, moment) for kind in exclusive):
            return None
        if drug.kinds & {"anticoagulant"} and self.running("anticoagulant", moment):
            return None
        moment = moment - moment % 60 + dice.whole(0, 59)
        order = place_order(writer, moment, "Medications", "", stay.hadm_id)
        start = ((moment + 10) // HOUR + 1) * HOUR
        dose = dice.pick(drug.dose) if dose is None else dose
        if drug.kind in ("once", "replacement"):
            return self._keep(drug, dose, order, linked=order, start=start, stop=start + HOUR, ending="expired")
        stop = int(start + days * DAY) if days else end
        stop -= stop % HOUR
        if stop >= end - 4 * HOUR:
            return self._keep(
                drug,
                dose,
                order,
                linked=self._renew(order, start, end),
                start=start,
                stop=end - end % HOUR,
                ending="discharge",
            )
        return self._end_early(drug, dose, order, start, stop)

    def _end_early(self, drug: Drug, dose: float, order: Order, start: int, stop: int) -> Course:
        dice, writer = self.writer.dice, self.writer
        others = [other for other in drug.dose if other != dose]
        if drug.kind == "scheduled" and others and stop - start > 30 * HOUR and dice.chance(0.3):
            middle = start + int((stop - start) * dice.between(0.25, 0.7))
            change = end_order(writer, order, middle, "Change")
            linked = change if dice.chance(0.5) else order
            turn = (middle // HOUR + 1) * HOUR
            self._keep(drug, dose, order, linked=linked, start=start, stop=turn, ending="changed")
            end_order(writer, change, stop - dice.whole(1, 50) * 60)
            return self._keep(drug, dice.pick(others), change, linked=change, start=turn, stop=stop, ending="stopped")
        last = self._renew(order, start, stop)
        end_order(writer, last, stop - dice.whole(1, 50) * 60)
        return self._keep(drug, dose, order, linked=last, start=start, stop=stop, ending="stopped")

    def _renew(self, order: Order, start: int, stop: int) -> Order:
        """Now and then an order is changed, not its product: the pharmacy row then carries the later order's id."""
        dice = self.writer.dice
        if stop - start < 20 * HOUR or not dice.chance(0.13):
            return order
        return end_order(self.writer, order, start + int((stop - start) * dice.between(0.15, 0.8)), "Change")

    def _keep(
        self, drug: Drug, dose: float, order: Order, *, linked: Order, start: int, stop: int, ending: str
    ) -> Course:
        course = Course(
            drug=drug,
            dose=dose,
            order=order,
            linked=linked,
            start=start,
            stop=max(stop, start),
            ending=ending,
            pharmacy_id=self.writer.numbers.pharmacy.take(),
            hadm_id=self.stay.hadm_id,
        )
        self.courses.append(course)
        self._busy[drug.key] = max(self._busy.get(drug.key, 0), course.stop)
        for kind in drug.kinds | exclusive_classes(drug):
            self.kinds[kind] = max(self.kinds.get(kind, 0), course.stop)
        return course


def _is_withheld(writer: SubjectWriter, drug: Drug, present: set[str]) -> bool:
    """Return whether a home drug is withheld on admission."""
    kinds = drug.kinds
    if present & _BLEEDING and kinds & {"anticoagulant", "antiplatelet"}:
        return True
    if present & _SHOCK and kinds & {"antihypertensive", "diuretic", "nitrate"}:
        return True
    if present & _KIDNEY and kinds & {"ace_inhibitor", "arb", "diuretic", "metformin", "nsaid"}:
        return True
    if present & _SWITCHED and drug.key in ("furosemide", "torsemide"):
        return True
    return bool(kinds & {"metformin", "sulfonylurea", "bone"}) or writer.dice.chance(0.1)


def _give_home(writer: SubjectWriter, stay: Encounter, chart: _Chart, present: set[str]) -> None:
    for item in writer.subject.home_at(stay.admit):
        if item.drug.kind == "sliding" or _is_withheld(writer, item.drug, present):
            continue
        chart.give(item.drug.key, stay.admit + int(writer.dice.between(0.4, 4.5) * HOUR), 0, item.dose)


def _give_for_problems(writer: SubjectWriter, stay: Encounter, chart: _Chart) -> None:
    dice = writer.dice
    for problem in stay.problems:
        condition = problem.condition
        dropped: set[str] = set()
        for group in condition.get("one_of"):
            dropped |= set(group) - {dice.pick(group)}
        start = max(problem.onset, stay.arrival)
        for key, share, hours, days in condition.get("drugs"):
            wanted = 1.0 if any(key in group for group in condition.get("one_of")) else share
            if key not in dropped and dice.chance(wanted):
                chart.give(key, start + int(hours * dice.between(0.85, 1.5) * HOUR), days * dice.between(0.8, 1.2))
        if problem.role == "chronic":
            continue
        for place in stay.icu_places[:1]:
            for key, share, hours, days in condition.get("icu_drugs"):
                if "sedative" in writer.catalog.drugs[key].kinds:
                    _sedate(writer, stay, chart, key)
                elif dice.chance(min(0.97, share * problem.severity)):
                    moment = max(place.start, start) + int(hours * dice.between(0.5, 1.2) * HOUR)
                    left = (stay.icu_places[-1].end - moment) / DAY
                    if left > 0.12:
                        chart.give(key, moment, min(left - 0.05, days * dice.between(0.7, 1.4)))


def _sedate(writer: SubjectWriter, stay: Encounter, chart: _Chart, key: str) -> None:
    """Sedatives run while a ventilator does, and only then."""
    if stay.ventilation is not None and writer.dice.chance(0.85):
        start, end = stay.ventilation
        days = (end - start) / DAY - 0.06
        if days > 0.1:
            chart.give(key, start + int(writer.dice.between(5, 25)) * 60, days)


def _give_comfort(writer: SubjectWriter, stay: Encounter, chart: _Chart, present: set[str]) -> None:
    """Give what nearly everybody gets: prevention of clots, pain and bowel orders, flushes."""
    dice, admit = writer.dice, stay.admit
    bleeding = bool(present & _BLEEDING)

    def soon() -> int:
        return admit + int(dice.between(0.5, 5) * HOUR)

    if not bleeding and not chart.running("anticoagulant", admit + 8 * HOUR) and dice.chance(0.72):
        chart.give("heparin_sc" if present & _KIDNEY or dice.chance(0.7) else "enoxaparin_prophylaxis", soon(), 0)
    liver = "cirrhosis" in present
    for key, share in (("acetaminophen", 0.15 if liver else 0.75), ("docusate", 0.45), ("senna", 0.4)):
        if dice.chance(share):
            chart.give(key, soon(), 0)
    for key, share in (("saline_flush", 0.9), ("ondansetron", 0.3), ("melatonin", 0.12)):
        if dice.chance(share):
            chart.give(key, soon(), 0)
    if stay.icu_places and not chart.running("ppi", admit + 8 * HOUR) and dice.chance(0.5):
        chart.give("famotidine", stay.icu_places[0].start + HOUR, 2.5)
    if dice.chance(0.04) and stay.discharge - admit > 2 * DAY and not stay.death:
        chart.give("influenza_vaccine", stay.discharge - 26 * HOUR, 0)


def _give_replacements(writer: SubjectWriter, stay: Encounter, chart: _Chart, results: Results) -> None:
    """Replace low potassium or magnesium once the result was read."""
    for moment, values in results:
        seen = moment + int(writer.dice.between(1.6, 4) * HOUR)
        if not stay.admit < seen < stay.discharge - 3 * HOUR:
            continue
        if values.get("potassium", 4) < 3.5 and writer.dice.chance(0.85):
            chart.give("potassium_chloride_iv" if stay.in_icu(seen) else "potassium_chloride", seen, 0, 40)
        if values.get("magnesium", 2) < 1.6 and writer.dice.chance(0.75):
            chart.give("magnesium_sulfate", seen + 600, 0)


def plan_drugs(writer: SubjectWriter, stay: Encounter, results: Results) -> list[Course]:
    """Order every drug of a stay; ``results`` are the laboratory values that may call for one."""
    chart = _Chart(writer, stay)
    present = {problem.condition.key for problem in stay.problems}
    _give_for_problems(writer, stay, chart)
    _give_home(writer, stay, chart, present)
    _give_comfort(writer, stay, chart, present)
    _give_replacements(writer, stay, chart, results)
    return sorted(chart.courses, key=lambda course: (course.order.moment, course.pharmacy_id))


# The pharmacy's view of a drug order: pharmacy and prescriptions rows.


DOSES_A_DAY = {
    "DAILY": 1, "Q24H": 1, "QHS": 1, "QPM": 1, "DAILY16": 1, "BID": 2, "Q12H": 2, "Q 12H": 2, "TID": 3, "Q8H": 3,
    "TID W/MEALS": 3, "QID": 4, "Q6H": 4,
}  # fmt: skip
"""Frequency -> doses a day; a missing frequency has no fixed number."""
_SCHEDULES = {"DAILY": "08", "QHS": "22", "QPM": "20", "DAILY16": "16", "BID": '"08, 20"', "TID": '"08, 14, 20"'}
_STATUS = {
    "discharge": "Discontinued via patient discharge",
    "stopped": "Discontinued",
    "changed": "Inactive (Due to a change order)",
    "expired": "Expired",
}


def _cells(writer: SubjectWriter, course: Course) -> str:
    """Return pharmacy cells from route to fill_quantity."""
    drug, dice = course.drug, writer.dice
    daily = DOSES_A_DAY.get(drug.freq, 1 if drug.kind == "once" else "")
    infusion = "C" if drug.kind == "infusion" else "B" if drug.base and dice.chance(0.3) else ""
    sliding = ("Y" if drug.kind == "sliding" else "N") if "insulin" in drug.kinds else ""
    once = drug.kind in ("once", "replacement")
    duration, interval = ("1", "Doses") if once else ("", "Ongoing")
    shelf, unit = ("36", "Hours") if drug.route.startswith("IV") else ("365", "Days")
    expires = course.start + (36 * HOUR if unit == "Hours" else 365 * DAY)
    stock = "Omnicell" if drug.form in ("TAB", "CAP", "SYR", "VIAL") else dice.pick(("Omnicell", "IV MED", "LET CALL"))
    schedule = _SCHEDULES.get(drug.freq, "") if drug.kind == "scheduled" else ""
    return (
        f"{drug.route},{drug.freq},{schedule},{infusion},{sliding},,,,{daily},{duration},{interval},{shelf},{unit},"
        f"{stamp(expires)},{stock},"
    )


def write_pharmacy(writer: SubjectWriter, courses: list[Course]) -> None:
    """Write pharmacy and prescriptions rows; orders must be numbered."""
    subject, dice = writer.subject.subject_id, writer.dice
    add, prescribe = writer.add("pharmacy"), writer.add("prescriptions")
    for course in courses:
        drug, order = course.drug, course.linked
        start, stop = stamp(course.start), stamp(course.stop)
        entered = course.order.moment + dice.whole(0, 9)
        verified = stamp(entered + int(dice.skewed(700, 1.0))) if dice.chance(0.93) else ""
        head = f"{subject},{course.hadm_id},{course.pharmacy_id},{subject}-{order.sequence}"
        process = (
            "IV Large Volume" if drug.kind in ("infusion", "fluid") else "IV Piggyback" if drug.base else "Unit Dose"
        )
        add(
            f"{head},{start},{stop},{drug.name},{process},{_STATUS[course.ending]},{stamp(entered)},{verified},"
            f"{_cells(writer, course)}\n"
        )
        dose = number_text(course.dose, 3)
        if drug.kind == "sliding":
            dose = "0"
        units = number_text(course.dose / drug.per, 2) if drug.kind not in ("infusion", "sliding") else "1"
        daily = DOSES_A_DAY.get(drug.freq, 1 if drug.kind == "once" else "")
        tail = f"{daily},{drug.route}\n"
        order_cells = f"{order.sequence},{order.provider},{start},{stop}"
        prescribe(
            f"{head},{order_cells},MAIN,{drug.name},{drug.code},{drug.gsn},{drug.ndc},{drug.strength},,{dose},"
            f"{drug.unit},{units},{drug.form},{tail}"
        )
        if drug.base:
            volume = 250 if "250" in drug.base else 100 if drug.form == "VIAL" else 50
            prescribe(
                f"{head},{order_cells},BASE,{drug.base},{quoted('BAG' + str(volume))},,0,{volume} mL Bag,,{volume},mL,"
                f"1,BAG,{tail}"
            )
