"""Rows of conditions, allergies, procedures, immunizations, specimens and imaging studies."""

from __future__ import annotations

from datetime import datetime

from wardround.records.sources.fhir.context import ResourceReading, Row, Rows, coded
from wardround.records.sources.fhir.files import Json
from wardround.records.sources.fhir.values import (
    codes_of,
    coding,
    concept,
    joined,
    label,
    labels,
    moment,
    part,
    parts,
    range_text,
    text,
    texts,
)

_CODED_AFTERWARDS = ("ICD9Proc", "ICD10PCS")


def condition(reading: ResourceReading) -> Rows:
    """Return one row. A condition that was refuted later stays a row: before that nobody knew."""
    body, about = reading.resource, reading.about()
    found, onset, abatement = concept(part(body, "code")), part(body, "onsetPeriod"), part(body, "abatementPeriod")
    of_encounter = bool(codes_of(body, "category") & {"encounter-diagnosis", "billing-diagnosis"})
    recorded, began = moment(body, "recordedDate"), moment(body, "onsetDateTime") or moment(onset, "start")
    yield (
        "conditions",
        about
        | coded(found, "condition")
        | {
            "condition_id": reading.key,
            "icd_version": found.icd_version,
            "category": labels(body, "category"),
            "known_from": "encounter" if of_encounter else "onset",
            "recorded_time": recorded,
            "onset_time": began,
            "onset_text": text(body, "onsetString")
            or _age(part(body, "onsetAge"))
            or range_text(part(body, "onsetRange")),
            "abatement_time": moment(body, "abatementDateTime") or moment(abatement, "end"),
            "clinical_status": label(body, "clinicalStatus"),
            "verification_status": label(body, "verificationStatus"),
            "updated_time": reading.updated(body.get("recordedDate"), body.get("onsetDateTime")),
            "severity": label(body, "severity"),
            "body_site": labels(body, "bodySite"),
            "note": reading.notes(recorded or (None if of_encounter else began)),
        },
    )


def _age(quantity: Json) -> str | None:
    from_words = text(quantity, "value")
    return f"age {from_words} {text(quantity, 'unit') or ''}".strip() if from_words else None


def allergy(reading: ResourceReading) -> Rows:
    """Return one row, with its reactions in words; one that was refuted later stays a row: before that nobody knew."""
    body, about = reading.resource, reading.about()
    recorded, began = moment(body, "recordedDate"), moment(body, "onsetDateTime")
    reactions = reading.parts_with("reaction", recorded or began)
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
            "recorded_time": recorded,
            "onset_time": began,
            "verification_status": label(body, "verificationStatus"),
            "updated_time": reading.updated(body.get("recordedDate"), body.get("onsetDateTime")),
            "last_occurrence": moment(body, "lastOccurrence"),
            "reaction": joined(labels(item, "manifestation") for item in reactions),
            "severity": joined(text(item, "severity") for item in reactions),
            "note": reading.notes(recorded or began),
        },
    )


def procedure(reading: ResourceReading) -> Rows:
    """Return one row."""
    body, about = reading.resource, reading.about()
    found, period = concept(part(body, "code")), part(body, "performedPeriod")
    at = moment(body, "performedDateTime")
    start = at or moment(period, "start")
    yield (
        "procedures",
        about
        | coded(found, "procedure", done=body.get("status") != "not-done" or lasting(start, at))
        | reason(reading, body)
        | {
            "procedure_id": reading.key,
            "icd_version": found.icd_version,
            "known_from": "encounter" if found.system in _CODED_AFTERWARDS else "performed",
            "start_time": start,
            "end_time": at or moment(period, "end"),
            "status": text(body, "status"),
            "settled_from": "end" if lasting(start, at) else "encounter",
            "updated_time": reading.updated(body.get("performedDateTime"), period.get("end")),
            "category": label(body, "category"),
            "body_site": labels(body, "bodySite"),
            "outcome": label(body, "outcome"),
            "complication": labels(body, "complication"),
            "note": reading.notes(start),
        },
    )


def lasting(start: datetime | None, at: datetime | None) -> bool:
    """Return whether a procedure lasted some time: that it was not completed may have been recorded at its end."""
    return start is not None and at is None


def reason(reading: ResourceReading, body: Json) -> Row:
    """Return why something was ordered or done: as a code, and as the condition to which it refers."""
    references = parts(body, "reasonReference")
    first = references[0] if references else {}
    return {
        "reason": labels(body, "reasonCode"),
        "reason_condition": text(first, "display"),
        "reason_condition_id": reading.id_of(first),
    }


def immunization(reading: ResourceReading) -> Rows:
    """Return one row."""
    body, about = reading.resource, reading.about()
    dose = next(iter(parts(body, "protocolApplied")), {})
    given, recorded = moment(body, "occurrenceDateTime"), moment(body, "recorded")
    yield (
        "immunizations",
        about
        | coded(concept(part(body, "vaccineCode")), "vaccine", done=body.get("status") != "not-done")
        | {
            "immunization_id": reading.key,
            "occurrence_time": given,
            "recorded_time": recorded,
            "updated_time": reading.updated(body.get("occurrenceDateTime"), body.get("recorded")),
            "occurrence_text": text(body, "occurrenceString"),
            "status": text(body, "status"),
            "dose_number": text(dose, "doseNumberPositiveInt") or text(dose, "doseNumberString"),
            "site": label(body, "site"),
            "route": label(body, "route"),
            "note": reading.notes(recorded or given),
        },
    )


def specimen(reading: ResourceReading) -> Rows:
    """Return one row."""
    body, about = reading.resource, reading.about()
    collection = part(body, "collection")
    collected = moment(collection, "collectedDateTime") or moment(part(collection, "collectedPeriod"), "end")
    received = moment(body, "receivedTime")
    yield (
        "specimens",
        about
        | coded(concept(part(body, "type")), "specimen")
        | {
            "specimen_id": reading.key,
            "parent_id": next((reading.id_of(each) for each in parts(body, "parent")), None),
            "collected_time": collected,
            "received_time": received,
            "body_site": label(collection, "bodySite"),
            "method": label(collection, "method"),
            "note": reading.notes(collected or received),
        },
    )


def imaging_study(reading: ResourceReading) -> Rows:
    """Return one row for the first series: the list of modalities of the study includes later series."""
    body, about = reading.resource, reading.about()
    started = moment(body, "started")
    series = reading.parts_with("series", started)
    of_series = [coding(part(item, "modality")) for item in series]
    modalities = of_series if parts(body, "series") else [coding(item) for item in parts(body, "modality")]
    first = next((each for each in modalities if each), concept({}))
    yield (
        "imaging_studies",
        about
        | coded(first, "modality")
        | {
            "study_id": reading.key,
            "started_time": started,
            "description": text(body, "description") or labels(body, "procedureCode"),
            "body_site": joined(coding(part(item, "bodySite")).label for item in series),
            "reason": labels(body, "reasonCode"),
            "note": reading.notes(started),
        },
    )
