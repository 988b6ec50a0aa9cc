"""Since when a chart shows the row of one FHIR resource, beside a stay that everything may belong to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from records.fhir_resources import (
    ANN_NUMBER,
    category,
    code,
    encounter,
    ndjson,
    patient,
    reference,
    rows,
)
from wardround.records import IngestSettings, Store, ingest

STAY = encounter(
    "e1",
    "2150-01-01T08:00:00",
    "2150-01-05T10:00:00",
    type=[{"text": "Hospital stay"}],
    reasonCode=[{"text": "Sepsis"}],
    serviceType={"text": "Oncology"},
    hospitalization={"admitSource": {"text": "Home"}, "dischargeDisposition": {"text": "Died"}},
    priority={"text": "elective"},
    length={"value": 4, "code": "d"},
    diagnosis=[{"condition": {"reference": "Condition/c1", "display": "Lymphoma"}, "use": {"text": "billing"}}],
)
IN_STAY = {"encounter": reference("Encounter/e1")}
LAB = {"category": category("laboratory"), "code": code("1", "Sodium")}
TAKEN = {"effectiveDateTime": "2150-01-02T06:00:00"}


def first_shown(tmp_path: Path, table: str, body: Mapping[str, Any], **settings: timedelta) -> datetime | None:
    """Return the first moment at which a chart shows the row of one resource; None if none does."""
    ndjson(tmp_path / "raw" / "a.ndjson", [patient(), STAY, dict(body)])
    ingest("fhir", tmp_path / "raw", tmp_path / "store", settings=IngestSettings(**settings))  # type: ignore[arg-type]
    store = Store.open(tmp_path / "store")
    (row,) = rows(store, table)
    first: datetime = max(row["_available"], row["_event"])
    if first.year > 9000:
        return None
    for as_of, there in ((first - timedelta(seconds=1), 0), (first, 1)):
        assert store.chart(ANN_NUMBER, as_of).table(table).num_rows == there
    return first
