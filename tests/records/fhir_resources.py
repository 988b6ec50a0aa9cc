"""Hand-made FHIR resources of invented people, as an export would hold them, and stores made of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from wardround.records import Chart, IngestReport, IngestSettings, Store, ingest
from wardround.records.reading.source_files import subject_number

Resource = dict[str, Any]
ANN = "ann"
SAMPLES_ZONE = "America/New_York"
"""Where the open samples are from: MIMIC's and Synthea's people are of Boston."""
UTC = IngestSettings(time_zone="UTC")
"""For resources whose times say so."""
ANN_NUMBER = subject_number(ANN)


def resource(kind: str, key: str, **elements: Any) -> Resource:
    """Return a resource of Ann's; ``about`` None leaves the subject out."""
    subject = elements.pop("about", f"Patient/{ANN}")
    body: Resource = {"resourceType": kind, "id": key}
    if subject is not None and kind not in ("Patient", "Medication", "Location", "Organization"):
        body["patient" if kind in ("AllergyIntolerance", "Immunization") else "subject"] = {"reference": subject}
    return body | elements


def patient(key: str = ANN, **elements: Any) -> Resource:
    """Return a person born on 5 June 1950."""
    return resource("Patient", key, gender="female", birthDate="1950-06-05", **elements)


def encounter(key: str, start: str, end: str | None = None, **elements: Any) -> Resource:
    """Return an inpatient stay."""
    kind = {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP"}
    period = {"start": start} | ({"end": end} if end else {})
    elements.setdefault("status", "finished")
    return resource("Encounter", key, **{"class": kind, "period": period} | elements)


def code(value: str, display: str | None = None, system: str = "http://loinc.org") -> Resource:
    """Return a CodeableConcept."""
    return {"coding": [{"system": system, "code": value} | ({"display": display} if display else {})]}


def category(value: str) -> list[Resource]:
    """Return a category."""
    return [{"coding": [{"code": value}]}]


def reference(target: str) -> Resource:
    """Return a reference."""
    return {"reference": target}


def ndjson(path: Path, resources: Iterable[Resource | str]) -> Path:
    """Write a bulk export file; texts are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (each if isinstance(each, str) else json.dumps(each) for each in resources)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def bundle(path: Path, resources: Sequence[Resource], kind: str = "transaction", **full_urls: str) -> Path:
    """Write a bundle; ``full_urls`` gives the fullUrl of a resource by its id."""
    entries = [
        {"resource": body} | ({"fullUrl": full_urls[body["id"]]} if body.get("id") in full_urls else {})
        for body in resources
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"resourceType": "Bundle", "type": kind, "entry": entries}).encode()
    path.write_bytes(gzip.compress(text) if path.name.endswith(".gz") else text)
    return path


def made(
    folder: Path, resources: Iterable[Resource | str], settings: IngestSettings = UTC
) -> tuple[Store, IngestReport]:
    """Write one bulk file, ingest it, open the store."""
    ndjson(folder / "raw" / "export.ndjson", resources)
    report = ingest("fhir", folder / "raw", folder / "store", settings=settings)
    return Store.open(folder / "store"), report


def rows(store: Store, table: str, subject: int = ANN_NUMBER) -> list[Mapping[str, Any]]:
    """Return what the store holds of a table, clocks and withheld columns included."""
    return list(store.rows(subject, table).to_pylist())


def seen(store: Store, table: str, as_of: str, subject: int = ANN_NUMBER) -> list[Mapping[str, Any]]:
    """Return what a chart shows."""
    return list(store.chart(subject, datetime.fromisoformat(as_of)).table(table).batch.to_pylist())


def everything(chart: Chart) -> dict[str, list[Mapping[str, Any]]]:
    """Return every row that a chart shows."""
    return {name: chart.table(name).batch.to_pylist() for name in chart.table_names}
