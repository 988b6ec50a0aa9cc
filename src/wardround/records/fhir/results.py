"""Rows of what was measured, found and written: Observation, DiagnosticReport, DocumentReference."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from wardround.records.fhir.context import Reading, Row, Rows, coded
from wardround.records.fhir.files import Json
from wardround.records.fhir.values import (
    codes_of,
    concept,
    instant,
    joined,
    label,
    labels,
    moment,
    notes,
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


def observation(reading: Reading) -> Rows:
    """One row, one more for every component, and one for every member it names."""
    body, about = reading.resource, reading.about()
    categories = codes_of(body, "category")
    table = _table(body, categories)
    period = part(body, "effectivePeriod")
    shared = about | {
        "effective_time": moment(body, "effectiveDateTime")
        or moment(body, "effectiveInstant")
        or moment(period, "end")
        or moment(period, "start"),
        "issued_time": _issued(body),
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
    yield table, shared | own | _measured(body) | {"note": notes(body)}
    for place, component in enumerate(parts(body, "component"), 1):
        place_in = {"observation_id": f"{reading.key}.{place}", "component_of": reading.key}
        yield table, shared | place_in | _measured(component)
    for place, item in enumerate(members):
        link = {"observation_id": reading.key, "place": place, "member_id": reading.id_of(item)}
        yield "observation_members", about | link | {"member": text(item, "display")}


def _issued(body: Json) -> datetime | None:
    period = part(body, "effectivePeriod")
    return instant(body, "issued", body.get("effectiveDateTime"), period.get("end"), period.get("start"))


def _table(body: Json, categories: set[str]) -> str:
    """Choose the table: cultures and what their organisms resist, laboratory results, vital signs, everything else."""
    profiles = " ".join(texts(part(body, "meta"), "profile"))
    systems = " ".join(system or "" for system, _ in concept(part(body, "code")).codes)
    if "-micro-susc" in profiles or "antibiotic" in systems:
        return "susceptibilities"
    if categories & {"MB", "microbiology"} or "-micro-" in profiles or "microbiology" in systems:
        return "microbiology"
    if "laboratory" in categories:
        return "labs"
    return "vital_signs" if "vital-signs" in categories else "observations"


def _measured(body: Json) -> Row:
    """Return the cells of a value: of an observation, or of one component."""
    quantity = part(body, "valueQuantity")
    value = number(quantity, "value") if quantity else number(body, "valueInteger")
    words = joined(_value_texts(body))
    exact = quantity.get("comparator") is None
    low, high, said = _reference_range(body)
    return {
        **coded(concept(part(body, "code")), "description"),
        "value": value,
        "value_text": words if words or exact else quantity_text(quantity),
        "unit": unit_of(quantity) if quantity else None,
        "value_time": moment(body, "valueDateTime") or moment(part(body, "valuePeriod"), "start"),
        "reference_low": low,
        "reference_high": high,
        "reference_text": said,
        "interpretation": labels(body, "interpretation"),
    }


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


def _reference_range(body: Json) -> tuple[float | None, float | None, str | None]:
    ranges = parts(body, "referenceRange")
    if len(ranges) != 1:  # several hold for different people: shown in words only
        return None, None, joined(text(item, "text") or range_text(item) for item in ranges)
    low, high = (number(part(ranges[0], name), "value") for name in ("low", "high"))
    return low, high, text(ranges[0], "text")


def report(reading: Reading) -> Rows:
    """One row, and one for every observation it names."""
    body, about = reading.resource, reading.about()
    period = part(body, "effectivePeriod")
    words, missing = plain_texts(parts(body, "presentedForm"))
    for why in missing:
        reading.flat.leave_out(f"text of DiagnosticReport: {why}")
    culture = "MB" in codes_of(body, "category")
    yield (
        "diagnostic_reports",
        about
        | coded(concept(part(body, "code")), "description")
        | {
            "report_id": reading.key,
            "effective_time": moment(body, "effectiveDateTime") or moment(period, "end") or moment(period, "start"),
            "issued_time": _issued(body),
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


def document(reading: Reading) -> Rows:
    """One row with the text, where it is plain text."""
    body, about = reading.resource, reading.about()
    period = part(part(body, "context"), "period")
    words, missing = plain_texts(part(item, "attachment") for item in parts(body, "content"))
    for why in missing:
        reading.flat.leave_out(f"text of DocumentReference: {why}")
    yield (
        "documents",
        about
        | coded(concept(part(body, "type")), "document")
        | {
            "document_id": reading.key,
            "date_time": instant(body, "date", period.get("end"), period.get("start")),
            "period_end": moment(period, "end"),
            "category": labels(body, "category"),
            "author": joined(text(item, "display") for item in parts(body, "author")),
            "description": text(body, "description"),
            "text": words,
        },
    )
