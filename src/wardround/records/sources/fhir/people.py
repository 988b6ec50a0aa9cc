"""Rows of people and their encounters: Patient, Encounter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from wardround.records.sources.fhir.context import ResourceReading, Row, Rows
from wardround.records.sources.fhir.files import Json
from wardround.records.sources.fhir.values import (
    CodedConcept,
    coding,
    concept,
    day,
    label,
    labels,
    moment,
    number,
    part,
    parts,
    text,
)

_US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
_CLASSES = {
    "AMB": "ambulatory",
    "EMER": "emergency",
    "FLD": "field",
    "HH": "home health",
    "IMP": "inpatient",
    "ACUTE": "inpatient acute",
    "NONAC": "inpatient non-acute",
    "OBSENC": "observation",
    "PRENC": "pre-admission",
    "SS": "short stay",
    "VR": "virtual",
}
"""The meaning of codes of HL7's v3-ActCode, if the record does not give it."""
_DEATHS = frozenset({"exp", "expired", "died", "dead", "dead/expired", "death", "20", "40", "41", "42"})
"""Ways of leaving that are death, as HL7, UB-04 and MIMIC write them."""
_HOURS = {"min": 1 / 60, "h": 1.0, "d": 24.0, "wk": 168.0, "s": 1 / 3600}


def patient(reading: ResourceReading) -> Rows:
    """Return one row. Names, addresses and telephone numbers are left out."""
    body = reading.resource
    if body.get("deceasedBoolean") and not body.get("deceasedDateTime"):
        reading.flat.leave_out("Patient known to be dead without a date")
    languages = [label(item, "language") for item in parts(body, "communication")]
    yield (
        "patients",
        {
            "subject_id": reading.flat.subjects.number(reading.key),
            "patient_id": reading.key,
            "person": reading.names.person(reading.key),
            "identifier": _identifier(body),
            "gender": text(body, "gender"),
            "birth_date": day(body, "birthDate"),
            "deceased_time": moment(body, "deceasedDateTime"),
            "race": _us_core(body, "race"),
            "ethnicity": _us_core(body, "ethnicity"),
            "birth_sex": _us_core(body, "birthsex"),
            "marital_status": label(body, "maritalStatus"),
            "language": next((each for each in languages if each), None),
        },
    )


def _identifier(body: Json, since: datetime | None = None) -> str | None:
    """Return the medical record number, else the usual or first identifier. One that is valid from some time on is not
    used before it; ``since`` is the resource's own time."""
    found = [item for item in parts(body, "identifier") if _holds(item, since)]
    kinds = [{code for _, code in concept(part(item, "type")).codes} for item in found]
    order = sorted(range(len(found)), key=lambda place: ("MR" not in kinds[place], found[place].get("use") != "usual"))
    return next((value for place in order if (value := text(found[place], "value"))), None)


def _holds(identifier: Json, since: datetime | None) -> bool:
    start = moment(part(identifier, "period"), "start")
    return start is None or (since is not None and start <= since)


def _us_core(body: Json, name: str) -> str | None:
    for extension in parts(body, "extension"):
        if extension.get("url") == f"{_US_CORE}{name}":
            inner = {part.get("url"): part for part in parts(extension, "extension")}
            words = text(inner.get("text", {}), "valueString")
            category = next((coding(part(item, "valueCoding")).label for item in inner.values()), None)
            return words or category or text(extension, "valueCode")
    return None


def encounter(reading: ResourceReading) -> Rows:
    """Return one row, and one per change of class, location and diagnosis; none for a planned encounter. A cancelled
    one stays: before the cancellation nobody knew."""
    body, about = reading.resource, reading.about()
    if body.get("status") == "planned":
        reading.flat.leave_out("Encounter planned")
        return
    classes = _classes(body)
    period, stay = part(body, "period"), part(body, "hospitalization")
    left = concept(part(stay, "dischargeDisposition"))
    ways = {word.lower() for word in (left.label, *(code for _, code in left.codes)) if word}
    row = (
        about
        | (_class(classes.first) if classes.first else {})
        | {
            "class_now_code": classes.last_code,
            "encounter_id": reading.key,
            "identifier": _identifier(body, moment(period, "start")),
            "start_time": moment(period, "start"),
            "end_time": moment(period, "end"),
            "type": labels(body, "type"),
            "priority": label(body, "priority"),
            "service_type": label(body, "serviceType"),
            "reason": labels(body, "reasonCode"),
            "admit_source": label(stay, "admitSource"),
            "discharge_disposition": left.label,
            "ended_by": "death" if ways & _DEATHS else None,
            "length_hours": _hours(part(body, "length")),
            "status": text(body, "status"),
            "updated_time": reading.updated(period.get("start"), period.get("end")),
            "provider": reading.organization(part(body, "serviceProvider")),
            "part_of": reading.id_of(part(body, "partOf")),
        }
    )
    yield "encounters", row
    for place, (since, kind) in enumerate(classes.later):
        known_from = "change" if place or classes.first else "end"
        here = {"encounter_id": reading.key, "place": place, "since": since, "known_from": known_from}
        yield "encounter_classes", about | here | _class(kind)
    for place, item in enumerate(parts(body, "location")):
        if item.get("status") in ("planned", "reserved"):
            reading.flat.leave_out(f"location of an Encounter {item['status']}")
            continue
        here = {"encounter_id": reading.key, "place": place}
        yield "encounter_locations", about | here | _location(reading, item)
    # A place in the list only distinguishes copies of the resource: as a rank, gaps would reveal a later one.
    for place, item in enumerate(parts(body, "diagnosis")):
        yield (
            "encounter_diagnoses",
            about
            | {
                "encounter_id": reading.key,
                "place": place,
                "condition_id": reading.id_of(part(item, "condition")),
                "diagnosis": text(part(item, "condition"), "display"),
                "rank": _rank(item),
                "use": label(item, "use"),
            },
        )


def _rank(item: Json) -> int | None:
    rank = number(item, "rank")
    return None if rank is None else int(rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Classes:
    """The class of an encounter when it began (None if unknown), and its later classes with their times."""

    first: CodedConcept | None
    later: tuple[tuple[datetime, CodedConcept], ...]
    last_code: str | None


def _classes(body: Json) -> _Classes:
    """Read the history of an encounter's class. It may end with the present class or with the one before it; if it
    begins after the encounter, the first class is unknown."""
    now, period = coding(part(body, "class")), part(body, "period")
    history = [(part(item, "period"), coding(part(item, "class"))) for item in parts(body, "classHistory")]
    history.sort(key=lambda each: moment(each[0], "start") or datetime.min)
    if not history:
        return _Classes(first=now, later=(), last_code=now.code)
    changes = [(moment(span, "start"), kind) for span, kind in history]
    if now and now.code != changes[-1][1].code:
        changes.append((moment(history[-1][0], "end") or moment(period, "end"), now))
    start = moment(period, "start")
    known = changes[0][0] is None or start is None or changes[0][0] <= start
    first = changes[0][1] if known else None
    later: list[tuple[datetime, CodedConcept]] = []
    for since, kind in changes[1:] if known else changes:
        before = later[-1][1] if later else first
        if since is not None and (before is None or before.code != kind.code):
            later.append((since, kind))
    return _Classes(first=first, later=tuple(later), last_code=changes[-1][1].code)


def _class(kind: CodedConcept) -> Row:
    return {"code_system": kind.system, "class_code": kind.code, "class": _class_name(kind)}


def _class_name(kind: CodedConcept) -> str | None:
    return _CLASSES.get(kind.code or "", kind.label) if kind.label == kind.code else kind.label


def _location(reading: ResourceReading, item: Json) -> Row:
    name, kind = reading.place(part(item, "location"))
    period = part(item, "period")
    return {
        "location_id": reading.id_of(part(item, "location")),
        "location": name,
        "physical_type": label(item, "physicalType") or kind,
        "start_time": moment(period, "start"),
        "end_time": moment(period, "end"),
    }


def _hours(length: Json) -> float | None:
    value = number(length, "value")
    factor = _HOURS.get(text(length, "code") or text(length, "unit") or "")
    return None if value is None or factor is None else value * factor
