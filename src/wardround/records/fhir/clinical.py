"""Rows of what people have and what was done: conditions, allergies, procedures, immunizations, specimens, imaging."""

from __future__ import annotations

from wardround.records.fhir.context import Reading, Row, Rows, coded
from wardround.records.fhir.files import Json
from wardround.records.fhir.people import is_refuted
from wardround.records.fhir.values import (
    codes_of,
    coding,
    concept,
    joined,
    label,
    labels,
    moment,
    notes,
    part,
    parts,
    range_text,
    text,
    texts,
)

_CODED_AFTERWARDS = ("ICD9Proc", "ICD10PCS")


def condition(reading: Reading) -> Rows:
    """One row; a condition that was found not to be so is none."""
    body, about = reading.resource, reading.about()
    if is_refuted(concept(part(body, "verificationStatus"))):
        reading.flat.leave_out("Condition refuted or entered in error")
        return
    found, onset, abatement = concept(part(body, "code")), part(body, "onsetPeriod"), part(body, "abatementPeriod")
    categories = codes_of(body, "category")
    yield (
        "conditions",
        about
        | coded(found, "condition")
        | {
            "condition_id": reading.key,
            "icd_version": found.icd_version,
            "category": labels(body, "category"),
            "known_from": "encounter" if categories & {"encounter-diagnosis", "billing-diagnosis"} else "onset",
            "recorded_time": moment(body, "recordedDate"),
            "onset_time": moment(body, "onsetDateTime") or moment(onset, "start"),
            "onset_text": text(body, "onsetString")
            or _age(part(body, "onsetAge"))
            or range_text(part(body, "onsetRange")),
            "abatement_time": moment(body, "abatementDateTime")
            or moment(abatement, "end")
            or moment(abatement, "start"),
            "clinical_status": label(body, "clinicalStatus"),
            "verification_status": label(body, "verificationStatus"),
            "severity": label(body, "severity"),
            "body_site": labels(body, "bodySite"),
            "note": notes(body),
        },
    )


def _age(quantity: Json) -> str | None:
    from_words = text(quantity, "value")
    return f"age {from_words} {text(quantity, 'unit') or ''}".strip() if from_words else None


def allergy(reading: Reading) -> Rows:
    """One row, its reactions in words."""
    body, about = reading.resource, reading.about()
    if is_refuted(concept(part(body, "verificationStatus"))):
        reading.flat.leave_out("AllergyIntolerance refuted or entered in error")
        return
    reactions = parts(body, "reaction")
    found = concept(part(body, "code")) or concept(next((part(item, "substance") for item in reactions), {}))
    yield (
        "allergies",
        about
        | coded(found, "allergy")
        | {
            "allergy_id": reading.key,
            "type": text(body, "type"),
            "category": joined(texts(body, "category")),
            "criticality": text(body, "criticality"),
            "recorded_time": moment(body, "recordedDate"),
            "onset_time": moment(body, "onsetDateTime"),
            "last_occurrence": moment(body, "lastOccurrence"),
            "reaction": joined(labels(item, "manifestation") for item in reactions),
            "severity": joined(text(item, "severity") for item in reactions),
            "note": notes(body),
        },
    )


def procedure(reading: Reading) -> Rows:
    """One row."""
    body, about = reading.resource, reading.about()
    found, period = concept(part(body, "code")), part(body, "performedPeriod")
    at = moment(body, "performedDateTime")
    yield (
        "procedures",
        about
        | coded(found, "procedure", done=body.get("status") != "not-done")
        | reason(reading, body)
        | {
            "procedure_id": reading.key,
            "icd_version": found.icd_version,
            "known_from": "encounter" if found.system in _CODED_AFTERWARDS else "performed",
            "start_time": at or moment(period, "start"),
            "end_time": at or moment(period, "end"),
            "status": text(body, "status"),
            "category": label(body, "category"),
            "body_site": labels(body, "bodySite"),
            "outcome": label(body, "outcome"),
            "complication": labels(body, "complication"),
            "note": notes(body),
        },
    )


def reason(reading: Reading, body: Json) -> Row:
    """Return why something was ordered or done: as a code, and as the condition it names."""
    references = parts(body, "reasonReference")
    first = references[0] if references else {}
    return {
        "reason": labels(body, "reasonCode"),
        "reason_condition": text(first, "display"),
        "reason_condition_id": reading.id_of(first),
    }


def immunization(reading: Reading) -> Rows:
    """One row."""
    body, about = reading.resource, reading.about()
    dose = next(iter(parts(body, "protocolApplied")), {})
    yield (
        "immunizations",
        about
        | coded(concept(part(body, "vaccineCode")), "vaccine", done=body.get("status") != "not-done")
        | {
            "immunization_id": reading.key,
            "occurrence_time": moment(body, "occurrenceDateTime"),
            "recorded_time": moment(body, "recorded"),
            "occurrence_text": text(body, "occurrenceString"),
            "status": text(body, "status"),
            "dose_number": text(dose, "doseNumberPositiveInt") or text(dose, "doseNumberString"),
            "site": label(body, "site"),
            "route": label(body, "route"),
            "note": notes(body),
        },
    )


def specimen(reading: Reading) -> Rows:
    """One row."""
    body, about = reading.resource, reading.about()
    collection = part(body, "collection")
    collected = moment(collection, "collectedDateTime") or moment(part(collection, "collectedPeriod"), "end")
    yield (
        "specimens",
        about
        | coded(concept(part(body, "type")), "specimen")
        | {
            "specimen_id": reading.key,
            "collected_time": collected,
            "received_time": moment(body, "receivedTime"),
            "body_site": label(collection, "bodySite"),
            "method": label(collection, "method"),
            "note": notes(body),
        },
    )


def imaging_study(reading: Reading) -> Rows:
    """One row."""
    body, about = reading.resource, reading.about()
    series = parts(body, "series")
    modalities = [coding(item) for item in parts(body, "modality")] or [
        coding(part(item, "modality")) for item in series
    ]
    first = next((each for each in modalities if each), concept({}))
    yield (
        "imaging_studies",
        about
        | coded(first, "modality")
        | {
            "study_id": reading.key,
            "started_time": moment(body, "started"),
            "description": text(body, "description") or labels(body, "procedureCode"),
            "body_site": joined(coding(part(item, "bodySite")).label for item in series),
            "reason": labels(body, "reasonCode"),
        },
    )
