"""Orders: one numbered sequence per subject, and all that are not drugs."""

from __future__ import annotations

from collections.abc import Iterable

from wardround.synth.output import quoted
from wardround.synth.person import HOUR, MINUTE, stamp
from wardround.synth.planning import Encounter
from wardround.synth.subject_writer import Order, SubjectWriter

# Provider order entry: every order of a subject in one numbered sequence, with what later ended it.


def place_order(
    writer: SubjectWriter,
    moment: int,
    kind: str,
    subtype: str,
    hadm_id: int | None,
    details: list[tuple[str, str]] | None = None,
) -> Order:
    """Enter a new order; without ``hadm_id`` it belongs to no stay in hospital."""
    order = Order(
        moment=moment, kind=kind, subtype=subtype, hadm_id=hadm_id, provider=writer.provider(), details=details or []
    )
    writer.orders.append(order)
    return order


def end_order(writer: SubjectWriter, order: Order, moment: int, transaction: str = "D/C") -> Order:
    """Enter the order that discontinues or changes another one."""
    ending = Order(
        moment=max(moment, order.moment + 60),
        kind=order.kind,
        subtype=order.subtype,
        transaction=transaction,
        hadm_id=order.hadm_id,
        provider=writer.provider(),
        ends=order,
    )
    order.ended_by = ending
    writer.orders.append(ending)
    return ending


def number_orders(writer: SubjectWriter) -> None:
    """Give every order its number in time order; some numbers are missing, as orders of other systems are."""
    writer.orders.sort(key=lambda order: order.moment)
    sequence = 0
    for order in writer.orders:
        sequence += 1 if writer.dice.chance(0.93) else writer.dice.whole(2, 5)
        order.sequence = sequence


def write_orders(writer: SubjectWriter) -> None:
    """Write poe and poe_detail; the sequence numbers must have been given."""
    subject = writer.subject.subject_id
    add, add_detail = writer.add("poe"), writer.add("poe_detail")
    for order in writer.orders:
        ends = f"{subject}-{order.ends.sequence}" if order.ends is not None else ""
        stay = order.hadm_id or ""
        ended_by = f"{subject}-{order.ended_by.sequence}" if order.ended_by is not None else ""
        add(
            f"{subject}-{order.sequence},{order.sequence},{subject},{stay},{stamp(order.moment)},{order.kind},"
            f"{order.subtype},{order.transaction},{ends},{ended_by},{order.provider},Inactive\n"
        )
        for name, value in order.details:
            add_detail(f"{subject}-{order.sequence},{order.sequence},{subject},{name},{quoted(value)}\n")


# Orders other than drugs: laboratory, imaging, admission, diet, monitoring, blood, consults, discharge.


_ADMIT_TO = {
    "MED": "Medicine", "CMED": "Cardiology", "SURG": "Surgery", "CSURG": "Surgery", "NMED": "Neuromed",
    "OMED": "Medicine", "ORTHO": "Surgery", "PSYCH": "Psychiatry",
}  # fmt: skip
_IMAGING = {
    "chest_xray": "General Xray", "hip_xray": "General Xray", "knee_xray": "General Xray", "foot_xray": "General Xray",
    "hand_xray": "General Xray", "spine_xray": "General Xray", "abdominal_ct": "CT Scan", "chest_ct": "CT Scan",
    "head_ct": "CT Scan", "head_mri": "MRI", "leg_ultrasound": "Noninvasive Vascular",
}  # fmt: skip


def imaging_subtype(exam: str) -> str:
    """Return the order subtype of an examination."""
    return _IMAGING.get(exam, "Ultrasound")


def order_tests(writer: SubjectWriter, stay: Encounter, draws: Iterable[int], cultures: Iterable[int]) -> None:
    """Enter the orders behind blood draws and cultures: before the draw, the night before for a morning one."""
    dice = writer.dice
    for moment in draws:
        hour = moment % (24 * HOUR) / HOUR
        ahead = dice.between(6, 13) * HOUR if 4 <= hour < 7.6 else dice.between(6, 45) * MINUTE
        if moment - ahead > stay.arrival:
            place_order(writer, int(moment - ahead), "Lab", "", stay.hadm_id)
    for moment in cultures:
        place_order(writer, max(stay.arrival, moment - int(dice.between(5, 40) * MINUTE)), "Lab", "", stay.hadm_id)


def order_in_emergency(writer: SubjectWriter, start: int, end: int, draw: int) -> None:
    """Enter the orders of an emergency visit that ends at home: no stay in hospital is theirs."""
    ordered = [
        (start + writer.dice.whole(5, 20) * MINUTE, "General Care", "Vitals/Monitoring"),
        (draw - writer.dice.whole(5, 15) * MINUTE, "Lab", ""),
        (start + writer.dice.whole(30, 110) * MINUTE, "Medications", ""),
    ]
    for moment, kind, subtype in ordered:
        if start < moment < end:
            place_order(writer, moment, kind, subtype, None)


def _admission_orders(writer: SubjectWriter, stay: Encounter) -> list[Order]:
    dice, hadm = writer.dice, stay.hadm_id
    moment = stay.admit + dice.whole(60, 1500)
    service = stay.principal.condition.get("service", "MED")
    short = stay.discharge - stay.admit < 44 * HOUR
    category = "Place in observation" if short and dice.chance(0.6) else "Admit to inpatient"
    details = [("Admit category", category), ("Admit to", _ADMIT_TO.get(service, "Medicine"))]
    place_order(writer, moment, "ADT orders", "Admit", hadm, details)
    old = stay.age > 80 and dice.chance(0.3)
    status = "Do not resuscitate (DNR/DNI)" if old else "Resuscitate (Full code)"
    standing = [
        place_order(writer, moment, "General Care", "Vitals/Monitoring", hadm),
        place_order(writer, moment, "General Care", "Activity", hadm),
        place_order(writer, moment, "IV therapy", "IV access", hadm),
        place_order(writer, moment, "General Care", "Code status", hadm, [("Code status", status)]),
        place_order(writer, moment, "Nutrition", "Diet Order", hadm),
    ]
    if dice.chance(0.6):
        standing.append(place_order(writer, moment, "General Care", "Therapeutic devices/DVT/Prophylaxis", hadm))
    if service == "CMED" or stay.icu_places or dice.chance(0.25):
        standing.append(place_order(writer, moment, "Cardiology", "Telemetry", hadm))
    if any("oxygen_saturation" in problem.condition.vitals for problem in stay.problems):
        standing.append(place_order(writer, moment, "Respiratory", "Oxygen Therapy", hadm))
    return standing


def _course_orders(writer: SubjectWriter, stay: Encounter) -> list[Order]:
    dice, hadm, standing = writer.dice, stay.hadm_id, []
    for act in stay.acts:
        before = max(stay.arrival, act.moment - int(dice.between(0.4, 3) * HOUR))
        if act.key == "transfusion":
            place_order(writer, before, "Blood Bank", "Red Cell Product Order", hadm)
            place_order(writer, max(stay.arrival, before - 900), "Blood Bank", "Blood tests", hadm)
        elif act.row.get("surgery"):
            place_order(writer, before, "Nutrition", "NPO/Diet for Procedure", hadm)
            place_order(writer, act.moment + 3 * HOUR, "ADT orders", "Postop", hadm)
        elif act.key == "intubation":
            standing.append(place_order(writer, act.moment + 300, "Respiratory", "Mechanical Ventilation", hadm))
        elif act.key == "dialysis":
            place_order(writer, before, "Hemodialysis", "Hemodialysis", hadm)
        elif "endoscopy" in act.key or "colonoscopy" in act.key:
            place_order(writer, before, "Consults", "Gastroenterology", hadm)
    if stay.ventilation is not None and stay.death is None:
        place_order(writer, stay.ventilation[1] - 20 * MINUTE, "Respiratory", "Extubate", hadm)
    for place in stay.places[1:]:
        if place.event == "transfer" and place.kind not in ("recovery", "lounge"):
            to = "ICU" if place.is_icu else _ADMIT_TO.get(stay.principal.condition.get("service", "MED"), "Medicine")
            moment = place.start - int(dice.between(0.3, 3) * HOUR)
            place_order(writer, max(stay.arrival, moment), "ADT orders", "Transfer", hadm, [("Transfer to", to)])
    if stay.icu_places or any(act.row.get("surgery") for act in stay.acts):
        start = stay.icu_places[0].start if stay.icu_places else stay.admit + 2 * HOUR
        tube = [("Tubes & Drains type", "Indwelling urinary catheter (IUC) - Foley")]
        standing.append(place_order(writer, start + 600, "General Care", "Tubes/Drains", hadm, tube))
    if stay.age > 68 and stay.discharge - stay.admit > 60 * HOUR and dice.chance(0.6):
        day = stay.admit + int(dice.between(20, 50) * HOUR)
        when = [("Consult Status", "Accepted"), ("Level of Urgency", "Routine (within 24 hours)")]
        place_order(writer, day, "Consults", "Physical Therapy", hadm, when if dice.chance(0.3) else None)
    return standing


def write_care_orders(writer: SubjectWriter, stay: Encounter) -> None:
    """Enter the general orders of a stay and what ends them."""
    dice, hadm = writer.dice, stay.hadm_id
    for order in [*_admission_orders(writer, stay), *_course_orders(writer, stay)]:
        later = int(dice.between(0.2, 0.8) * (stay.discharge - order.moment)) + order.moment
        if dice.chance(0.3) and later - order.moment > 4 * HOUR:
            end_order(writer, order, later, "D/C" if dice.chance(0.45) else "Change")
    if stay.death is None:
        out = stay.discharge - int(dice.between(1.2, 4.5) * HOUR)
        planned = [("Discharge Planning", "Finalized"), ("Discharge When", "Discharge Now")]
        place_order(writer, max(stay.admit + HOUR, out), "ADT orders", "Discharge", hadm, planned)
