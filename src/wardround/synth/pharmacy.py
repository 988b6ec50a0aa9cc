"""The pharmacy's view of a drug order: pharmacy and prescriptions rows."""

from __future__ import annotations

from wardround.synth.clock import DAY, HOUR, stamp
from wardround.synth.medication import Course
from wardround.synth.subject_writer import SubjectWriter
from wardround.synth.table_lines import number_text, quoted

DOSES_A_DAY = {
    "DAILY": 1, "Q24H": 1, "QHS": 1, "QPM": 1, "DAILY16": 1, "BID": 2, "Q12H": 2, "Q 12H": 2, "TID": 3, "Q8H": 3,
    "TID W/MEALS": 3, "QID": 4, "Q6H": 4,
}  # fmt: skip
"""Frequency -> doses a day; what is missing has no fixed number."""
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
