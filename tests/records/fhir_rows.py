"""The rows that one FHIR resource becomes, as its maker writes them, and short words to write resources in."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from records.fhir_resources import ANN_NUMBER, Resource, reference
from wardround.records import load_source_spec
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir.context import Names, ResourceReading
from wardround.records.sources.fhir.files import Found
from wardround.records.sources.fhir.flattener import MAKERS
from wardround.records.sources.fhir.values import CodedConcept

ANN = {"subject_id": ANN_NUMBER}
OF_ANN = {**ANN, "encounter_id": "e1"}
IN_E1 = {"encounter": reference("Encounter/e1")}
NAMES = Names(
    medications={"m1": CodedConcept(system="NDC", code="00093", label="aspirin", codes=(("NDC", "00093"),))},
    places={"l1": ("Ward 7", "Ward"), "l2": ("Room 2", None)},
    organizations={"o1": "St. Elsewhere"},
)


def words(text: str) -> Resource:
    return {"text": text}


def coded(system: str, code: str, display: str, *more: tuple[str, str]) -> Resource:
    others = [{"system": system, "code": code} for system, code in more]
    return {"coding": [{"system": system, "code": code, "display": display}, *others]}


def read(
    body: Resource, folder: Path, full_urls: dict[str, str] | None = None
) -> tuple[list[tuple[str, dict[str, Any]]], FlatTables]:
    """The rows of a resource as its maker writes them, and what was counted on the way."""
    spec = load_source_spec("fhir")
    flat = FlatTables(spec, folder / "flat", folder / "quarantine.jsonl")
    found = Found(file=folder / "x.ndjson", line=1, resource=body, full_urls=full_urls or {})
    reading = ResourceReading(found=found, names=NAMES, flat=flat)
    rows = [*MAKERS[body["resourceType"]](reading), *reading.added()]
    for table, row in rows:
        assert set(row) <= set(spec.tables[table].read_columns)
    return rows, flat


def only(body: Resource, folder: Path) -> dict[str, Any]:
    ((_, row),) = read(body, folder)[0]
    return row


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2150, 3, day, hour, minute)


def when(day: int, hour: int = 0, minute: int = 0) -> str:
    return at(day, hour, minute).isoformat()
