"""Rows of medications: ordered, dispensed, administered, and reported by patients."""

from __future__ import annotations

from datetime import datetime

from wardround.records.sources.fhir.clinical import lasting, reason
from wardround.records.sources.fhir.context import ResourceReading, Row, Rows, coded
from wardround.records.sources.fhir.files import Json, once
from wardround.records.sources.fhir.values import (
    joined,
    label,
    labels,
    moment,
    number,
    part,
    parts,
    plain,
    quantity_text,
    range_text,
    text,
    unit_of,
)


def request(reading: ResourceReading) -> Rows:
    """Return one row."""
    body, about = reading.resource, reading.about()
    dosage = next(iter(parts(body, "dosageInstruction")), {})
    supply = part(body, "dispenseRequest")
    validity, bounds = part(supply, "validityPeriod"), part(_repeat(dosage), "boundsPeriod")
    authored = moment(body, "authoredOn")
    yield (
        "medication_requests",
        about
        | _drug(reading, done=body.get("doNotPerform") is not True)
        | _dosage(dosage)
        | reason(reading, body)
        | {
            "request_id": reading.key,
            "authored_time": authored,
            "start_time": moment(validity, "start") or moment(bounds, "start"),
            "stop_time": moment(validity, "end") or moment(bounds, "end"),
            "status": text(body, "status"),
            "updated_time": reading.updated(body.get("authoredOn")),
            "intent": text(body, "intent"),
            "category": labels(body, "category"),
            "priority": text(body, "priority"),
            "quantity": quantity_text(part(supply, "quantity")),
            "duration": quantity_text(part(supply, "expectedSupplyDuration")) or _duration(dosage),
            "refills": number(supply, "numberOfRepeatsAllowed"),
            "note": reading.notes(authored),
        },
    )


def administration(reading: ResourceReading) -> Rows:
    """Return one row. An infusion has a start and may have an end; a single time is that of a dose, all known then."""
    body, about = reading.resource, reading.about()
    at, period = moment(body, "effectiveDateTime"), part(body, "effectivePeriod")
    start, end = at or moment(period, "start"), moment(period, "end")
    lasted = lasting(start, at)
    yield (
        "medication_administrations",
        about
        | _drug(reading, done=body.get("status") != "not-done" or lasted)
        | _given(part(body, "dosage"))
        | {
            "administration_id": reading.key,
            "start_time": start or end,
            "end_time": end if lasted else end or start,
            "request_id": reading.id_of(part(body, "request")),
            "status": text(body, "status"),
            "settled_from": "end" if lasted else "encounter",
            "updated_time": reading.updated(body.get("effectiveDateTime"), period.get("end")),
            "category": label(body, "category"),
            "reason": labels(body, "reasonCode"),
            "note": reading.notes(start or end),
        },
    )


@once
def _given(dosage: Json) -> Row:
    dose, rate = part(dosage, "dose"), part(dosage, "rateQuantity")
    return {
        "dose": number(dose, "value"),
        "dose_unit": unit_of(dose),
        "rate": quantity_text(rate) or _ratio(part(dosage, "rateRatio")),
        "route": label(dosage, "route"),
        "method": label(dosage, "method"),
        "dosage_text": text(dosage, "text"),
    }


def dispense(reading: ResourceReading) -> Rows:
    """Return one row. A completed one without a time has the time of its order."""
    body, about = reading.resource, reading.about()
    dosage = next(iter(parts(body, "dosageInstruction")), {})
    cells = _dosage(dosage)
    handed_over, prepared = moment(body, "whenHandedOver"), moment(body, "whenPrepared")
    yield (
        "medication_dispenses",
        about
        | _drug(reading)
        | {name: cells[name] for name in ("dose", "dose_unit", "dosage_text", "route", "frequency")}
        | {
            "dispense_id": reading.key,
            "handed_over_time": handed_over,
            "prepared_time": prepared,
            "known_from": "order" if body.get("status") == "completed" else "itself",
            "updated_time": reading.updated(body.get("whenPrepared"), body.get("whenHandedOver")),
            "request_id": next((reading.id_of(item) for item in parts(body, "authorizingPrescription")), None),
            "status": text(body, "status"),
            "quantity": quantity_text(part(body, "quantity")),
            "days_supply": number(part(body, "daysSupply"), "value"),
            "note": reading.notes(prepared or handed_over),
        },
    )


def statement(reading: ResourceReading) -> Rows:
    """Return one row."""
    body, about = reading.resource, reading.about()
    start, end = _effective(body)
    cells = _dosage(next(iter(parts(body, "dosage")), {}))
    asserted = moment(body, "dateAsserted")
    yield (
        "medication_statements",
        about
        | _drug(reading, done=body.get("status") != "not-taken")
        | {name: cells[name] for name in ("dose", "dose_unit", "dosage_text", "route", "frequency")}
        | {
            "statement_id": reading.key,
            "asserted_time": asserted,
            "start_time": start,
            "end_time": end,
            "status": text(body, "status"),
            "updated_time": reading.updated(body.get("dateAsserted"), part(body, "effectivePeriod").get("end")),
            "category": label(body, "category"),
            "reason": labels(body, "reasonCode"),
            "note": reading.notes(asserted or start or end),
        },
    )


def _effective(body: Json) -> tuple[datetime | None, datetime | None]:
    at, period = moment(body, "effectiveDateTime"), part(body, "effectivePeriod")
    return at or moment(period, "start"), moment(period, "end")


def _drug(reading: ResourceReading, *, done: bool = True) -> Row:
    found = reading.medication()
    cells = coded(found, "medication", done=done)
    return cells | {"ndc": found.code_in("NDC") if done else None}


@once
def _dosage(dosage: Json) -> Row:
    amount = next(iter(parts(dosage, "doseAndRate")), {})
    dose = part(amount, "doseQuantity")
    return {
        "dose": number(dose, "value"),
        "dose_unit": unit_of(dose),
        "rate": quantity_text(part(amount, "rateQuantity")) or _ratio(part(amount, "rateRatio")),
        "dosage_text": text(dosage, "text") or range_text(part(amount, "doseRange")),
        "route": label(dosage, "route"),
        "frequency": _frequency(dosage),
    }


def _repeat(dosage: Json) -> Json:
    return part(part(dosage, "timing"), "repeat")


@once
def _frequency(dosage: Json) -> str | None:
    repeat = _repeat(dosage)
    count, period, unit = number(repeat, "frequency"), number(repeat, "period"), text(repeat, "periodUnit")
    every = None
    if period is not None and unit:
        every = f"{plain(count or 1)} x per {plain(period)} {unit}"
    as_needed = "as needed" if dosage.get("asNeededBoolean") is True else label(dosage, "asNeededCodeableConcept")
    return joined([label(part(dosage, "timing"), "code") or every, as_needed])


@once
def _duration(dosage: Json) -> str | None:
    repeat = _repeat(dosage)
    length = number(repeat, "duration")
    if length is not None:
        return f"{plain(length)} {text(repeat, 'durationUnit') or ''}".strip()
    return quantity_text(part(repeat, "boundsDuration"))


@once
def _ratio(ratio: Json) -> str | None:
    if not ratio:
        return None
    return f"{quantity_text(part(ratio, 'numerator'))} per {quantity_text(part(ratio, 'denominator'))}"
