"""What a FHIR export adds to resources after they were written: dated parts, and statuses as they turned out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wardround.synth.dialects.source import HospitalTables, later

Resource = dict[str, Any]
TIME_ZONE = "-05:00"
"""Where the hospital is, whose clock is never changed: every time says so."""
_EVERY = 9
_LATER = {
    "Encounter": ("status", "cancelled"),
    "MedicationRequest": ("status", "entered-in-error"),
    "MedicationAdministration": ("status", "entered-in-error"),
    "Procedure": ("status", "entered-in-error"),
    "Observation": ("status", "entered-in-error"),
}
_NOTED = ("MedicationRequest", "Condition", "Observation", "Procedure", "MedicationAdministration")


def hindsight(resources: Iterable[Resource]) -> Iterator[Resource]:
    """Yield resources, some with a note written days later, a few with a status that was given when it was all over."""
    for place, resource in enumerate(resources):
        kind = resource["resourceType"]
        if kind in _NOTED and place % _EVERY == 2 and (start := _start(resource)):
            resource["note"] = [{"time": _moved(start, 3), "text": "Looked at again: stopped, the person was worse."}]
        if kind == "Encounter" and place % (2 * _EVERY) != 5:
            pass
        elif kind in _LATER and place % (4 * _EVERY) == 5:
            name, status = _LATER[kind]
            resource[name] = status
        elif kind == "Condition" and place % _EVERY == 5:
            resource["verificationStatus"] = _coded("condition-ver-status", "refuted")
        yield resource


def _start(resource: Resource) -> str | None:
    """Return when a resource begins, as it says itself."""
    period = resource.get("effectivePeriod") or resource.get("performedPeriod") or {}
    for at in (resource.get("authoredOn"), resource.get("effectiveDateTime"), resource.get("performedDateTime")):
        if at:
            return str(at)
    return period.get("start")


def _moved(at: str, days: float) -> str:
    text = later(at[:19].replace("T", " ") if len(at) > 10 else f"{at} 00:00:00", days=days)
    return f"{text[:10]}T{text[11:19]}{TIME_ZONE}"


def _at(text: str) -> str:
    return f"{text[:10]}T{text[11:19]}{TIME_ZONE}"


def _coded(system: str, code: str) -> Resource:
    return {"coding": [{"system": f"http://terminology.hl7.org/CodeSystem/{system}", "code": code}]}


def dated_additions(source: HospitalTables) -> Iterator[Resource]:
    """Yield, for some stays, a problem, allergy, specimen, vaccine, imaging study, document and infusion with parts
    that came later than the rest, or that never ended."""
    for place, (key, row) in enumerate(source.admissions.items()):
        if place % 3:
            continue
        start, after = row["admittime"], 2.5 + place % 4
        person = {"reference": f"Patient/{row['subject_id']}"}
        stay = {"encounter": {"reference": f"Encounter/{key}"}}
        noted = {"note": [{"time": _moved(start, after), "text": "Seen again."}]}
        yield {
            "resourceType": "AllergyIntolerance",
            "id": f"a{key}",
            "patient": person,
            "recordedDate": _at(start),
            "code": {"text": "Penicillin"},
            "verificationStatus": _coded("allergyintolerance-verification", "refuted" if place % 2 else "confirmed"),
            "reaction": [
                {"manifestation": [{"text": "rash"}]},
                {"onset": _moved(start, after), "manifestation": [{"text": "anaphylaxis"}], "severity": "severe"},
            ],
            **noted,
        }
        yield {
            "resourceType": "Condition",
            "id": f"problem{key}",
            "subject": person,
            "recordedDate": _at(start),
            "category": [_coded("condition-category", "problem-list-item")],
            "code": {"text": "Pulmonary embolism"},
            "verificationStatus": _coded("condition-ver-status", "refuted" if place % 2 else "confirmed"),
            **stay,
        }
        yield {
            "resourceType": "ImagingStudy",
            "id": f"x{key}",
            "subject": person,
            "status": "available",
            "started": _at(start),
            "series": [
                {"uid": f"1.{key}.1", "started": _at(start), "modality": {"code": "CR"}},
                {"uid": f"1.{key}.2", "started": _moved(start, after), "modality": {"code": "CT"}},
            ],
            **stay,
        }
        yield {
            "resourceType": "DocumentReference",
            "id": f"d{key}",
            "subject": person,
            "status": "current",
            "date": _at(start),
            "type": {"text": "Note"},
            "content": [
                {"attachment": {"title": "first", "creation": _at(start), "contentType": "text/plain"}},
                {"attachment": {"title": "addendum", "creation": _moved(start, after), "contentType": "text/plain"}},
            ],
        }
        yield {
            "resourceType": "Specimen",
            "id": f"sp{key}",
            "subject": person,
            "type": {"text": "Blood"},
            "collection": {"collectedDateTime": _at(start)},
            **noted,
        }
        yield {
            "resourceType": "Immunization",
            "id": f"im{key}",
            "patient": person,
            "status": "completed",
            "occurrenceDateTime": _at(start),
            "vaccineCode": {"text": "Influenza"},
            **noted,
        }
        yield {
            "resourceType": "MedicationAdministration",
            "id": f"run{key}",
            "subject": person,
            "context": {"reference": f"Encounter/{key}"},
            "status": "in-progress" if place % 2 else "completed",
            "medicationCodeableConcept": {"text": "Norepinephrine"},
            "effectivePeriod": {"start": _at(start)} | ({} if place % 2 else {"end": _moved(start, after)}),
            "dosage": {"rateQuantity": {"value": 3.5, "unit": "ug/min"}},
        }


def isolates(source: HospitalTables) -> Iterator[Resource]:
    """Yield of every stay a sample of what grew in another, dated like the draw, and its result, at the end."""
    for key, row in source.admissions.items():
        about = {"subject": {"reference": f"Patient/{row['subject_id']}"}}
        taken = {"collection": {"collectedDateTime": _at(row["admittime"])}}
        yield {"resourceType": "Specimen", "id": f"draw{key}", "type": {"text": "Sample"}, **about, **taken}
        origin = {"parent": [{"reference": f"Specimen/draw{key}"}]}
        yield {
            "resourceType": "Specimen",
            "id": f"isolate{key}",
            "type": {"text": "Isolate"},
            **about,
            **taken,
            **origin,
        }
        yield {
            "resourceType": "Observation",
            "id": f"grown{key}",
            "status": "final",
            "code": {"text": "Organism"},
            "effectiveDateTime": _at(row["admittime"]),
            "issued": _at(row["dischtime"]),
            "specimen": {"reference": f"Specimen/isolate{key}"},
            **about,
        }
