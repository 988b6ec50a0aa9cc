"""Rows of measurements, findings and documents: Observation, DiagnosticReport, DocumentReference."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from wardround.records.sources.fhir.context import ResourceReading, Row, Rows, coded
from wardround.records.sources.fhir.files import Json, once
from wardround.records.sources.fhir.values import (
    codes_of,
    concept,
    joined,
    label,
    labels,
    moment,
    number,
    part,
    parts,
    plain_texts,
    quantity_text,
    range_text,
    text,
    texts,
    unit_of,
)

_AT_THE_BEDSIDE = frozenset({"vital-signs", "exam", "social-history", "survey", "activity"})
"""Categories of what a person at the bedside writes down when it is seen: without a time of issue, known then; asked
only of observations that are no laboratory's."""
_DILUTION = "dilution-details"


def observation(reading: ResourceReading) -> Rows:
    """Return one row, one more per component, and one per member to which it refers."""
    body, about = reading.resource, reading.about()
    categories = codes_of(body, "category")
    table = _table(body, categories)
    effective, issued = _times(body)
    shared = about | {
        "effective_time": effective,
        "issued_time": issued,
        "updated_time": reading.updated(body.get("effectiveDateTime"), body.get("issued")),
        "known_from": "at once" if categories & _AT_THE_BEDSIDE else "result",
        "category": labels(body, "category"),
        "status": text(body, "status"),
        "specimen_id": reading.id_of(part(body, "specimen")),
        "derived_from": next((reading.id_of(item) for item in parts(body, "derivedFrom")), None),
    }
    members = parts(body, "hasMember")
    own = {"observation_id": reading.key, "method": label(body, "method"), "body_site": label(body, "bodySite")}
    if table == "microbiology":
        own["member_id"] = next((reading.id_of(item) for item in members), None)
    yield table, shared | own | _measured(body) | {"note": reading.notes(issued or effective)}
    for place, component in enumerate(parts(body, "component"), 1):
        place_in = {"observation_id": f"{reading.key}.{place}", "component_of": reading.key}
        yield table, shared | place_in | _measured(component)
    for place, item in enumerate(members):
        link = {"observation_id": reading.key, "place": place, "member_id": reading.id_of(item)}
        yield "observation_members", about | link | {"member": text(item, "display")}


def _times(body: Json) -> tuple[datetime | None, datetime | None]:
    """Return when something was measured and issued.

    A measurement over a period counts at its end; unless it was issued before, it has no time while the end is missing:
    a period that is still open must look like one that will end.
    """
    period = part(body, "effectivePeriod")
    start, end = moment(period, "start"), moment(period, "end")
    issued = moment(body, "issued")
    at = moment(body, "effectiveDateTime") or moment(body, "effectiveInstant")
    if at is None and issued is not None and (end is None or end > issued):
        at = start
    return at or end, issued


def _table(body: Json, categories: frozenset[str]) -> str:
    """Return the table: cultures and resistances, laboratory results, vital signs, everything else."""
    profiles, systems = _profiles(part(body, "meta")), _systems(part(body, "code"))
    if "-micro-susc" in profiles or "antibiotic" in systems:
        return "susceptibilities"
    if categories & {"MB", "microbiology"} or "-micro-" in profiles or "microbiology" in systems:
        return "microbiology"
    if "laboratory" in categories:
        return "labs"
    return "vital_signs" if "vital-signs" in categories else "observations"


@once
def _profiles(meta: Json) -> str:
    return " ".join(texts(meta, "profile"))


@once
def _systems(code: Json) -> str:
    return " ".join(system or "" for system, _ in concept(code).codes)


def _measured(body: Json) -> Row:
    """Return the cells of a value: of an observation, or of one component."""
    quantity = part(body, "valueQuantity")
    value = number(quantity, "value") if quantity else number(body, "valueInteger")
    words = None if _VALUE_TEXTS.isdisjoint(body) else joined(_value_texts(body))
    exact = quantity.get("comparator") is None
    low, high, range_text = _reference_range(parts(body, "referenceRange"))
    return {
        **coded(concept(part(body, "code")), "description"),
        "value": value,
        "value_text": words if words or exact else quantity_text(quantity),
        "unit": unit_of(quantity) if quantity else None,
        "value_time": moment(body, "valueDateTime") or moment(part(body, "valuePeriod"), "start"),
        "reference_low": low,
        "reference_high": high,
        "reference_text": range_text,
        "interpretation": labels(body, "interpretation"),
    }


_VALUE_TEXTS = frozenset(
    {
        *("valueCodeableConcept", "valueString", "valueBoolean", "valueTime", "valueRange", "valueRatio"),
        *("valueDateTime", "valueSampledData", "extension", "dataAbsentReason"),
    }
)


def _value_texts(body: Json) -> Iterator[str | None]:
    yield label(body, "valueCodeableConcept")
    for name in ("valueString", "valueBoolean", "valueTime"):
        yield text(body, name)
    yield range_text(part(body, "valueRange"))
    ratio = part(body, "valueRatio")
    if ratio:
        yield f"{quantity_text(part(ratio, 'numerator'))} : {quantity_text(part(ratio, 'denominator'))}"
    when = moment(body, "valueDateTime")
    if when is not None:
        yield f"date {when}"
    if part(body, "valueSampledData"):
        yield "a recorded curve"
    for extension in parts(body, "extension"):
        if str(extension.get("url")).endswith(_DILUTION):
            yield f"dilution {quantity_text(part(extension, 'valueQuantity')) or ''}".strip()
    missing = label(body, "dataAbsentReason")
    if missing:
        yield f"no value: {missing}"


@once
def _reference_range(ranges: list[Json]) -> tuple[float | None, float | None, str | None]:
    if not ranges:
        return None, None, None
    if len(ranges) != 1:  # several hold for different people: shown in words only
        return None, None, joined(text(item, "text") or range_text(item) for item in ranges)
    low, high = (number(part(ranges[0], name), "value") for name in ("low", "high"))
    return low, high, text(ranges[0], "text")


def report(reading: ResourceReading) -> Rows:
    """Return one row, and one for every observation to which it refers."""
    body, about = reading.resource, reading.about()
    effective, issued = _times(body)
    words, missing = plain_texts(reading.parts_with("presentedForm", issued or effective))
    for why in missing:
        reading.flat.leave_out(f"text of DiagnosticReport: {why}")
    culture = "MB" in codes_of(body, "category")
    yield (
        "diagnostic_reports",
        about
        | coded(concept(part(body, "code")), "description")
        | {
            "report_id": reading.key,
            "effective_time": effective,
            "issued_time": issued,
            "updated_time": reading.updated(body.get("effectiveDateTime"), body.get("issued")),
            "known_from": "culture" if culture else "result",
            "category": labels(body, "category"),
            "status": text(body, "status"),
            "conclusion": joined([text(body, "conclusion"), labels(body, "conclusionCode")]),
            "text": words,
        },
    )
    for place, item in enumerate(parts(body, "result")):
        link = {"report_id": reading.key, "place": place, "observation_id": reading.id_of(item)}
        yield "report_results", about | link | {"result": text(item, "display")}


def document(reading: ResourceReading) -> Rows:
    """Return one row with the text if it is plain text; none while the period that it describes is still open."""
    body, about = reading.resource, reading.about()
    period = part(part(body, "context"), "period")
    date, end = moment(body, "date"), moment(period, "end")
    over = end is not None or period.get("start") is None
    whole = max((time for time in (date, end) if time is not None), default=None) if over else None
    words, missing = plain_texts(part(item, "attachment") for item in reading.parts_with("content", whole))
    for why in missing:
        reading.flat.leave_out(f"text of DocumentReference: {why}")
    yield (
        "documents",
        about
        | coded(concept(part(body, "type")), "document")
        | {
            "document_id": reading.key,
            "date_time": date if over else None,
            "period_end": end,
            "category": labels(body, "category"),
            "author": joined(text(item, "display") for item in parts(body, "author")),
            "description": text(body, "description"),
            "text": words,
        },
    )
