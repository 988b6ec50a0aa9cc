"""What holds for the clocks of all FHIR resources: dates without an hour, published times, the clock on the wall."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path

from records.fhir_moments import LAB, STAY, TAKEN
from records.fhir_resources import (
    ANN_NUMBER,
    made,
    patient,
    resource,
    seen,
)


def test_death_and_the_text_of_a_note(tmp_path: Path) -> None:
    text = {"contentType": "text/plain", "data": base64.b64encode(b"Doing well.").decode()}
    note = resource("DocumentReference", "n", date="2150-01-02", content=[{"attachment": text}], status="superseded")
    store, _ = made(tmp_path, [patient(deceasedDateTime="2150-01-03"), note])
    assert seen(store, "patients", "2150-01-03T23:59:58")[0]["deceased_time"] is None
    assert seen(store, "patients", "2150-01-03T23:59:59")[0]["deceased_time"] == datetime(2150, 1, 3, 23, 59, 59)
    (row,) = seen(store, "documents", "2150-01-03T00:00:00")
    assert row["text"] == "Doing well."
    assert "superseded" not in row.values()


def test_a_value_that_is_a_time_may_lie_ahead(tmp_path: Path) -> None:
    due = resource("Observation", "o1", issued="2150-01-02T00:00:00", valueDateTime="2150-02-01T00:00:00")
    store, _ = made(tmp_path, [due])
    (row,) = seen(store, "observations", "2150-01-02T00:00:00")
    assert row["value_time"] == datetime(2150, 2, 1)
    assert store.spec.tables["observations"].planned == ("value_time",)


def test_the_published_policy_is_when_it_happened(tmp_path: Path) -> None:
    store, _ = made(tmp_path, [STAY, resource("Observation", "o1", **LAB, **TAKEN)])
    published = store.chart(ANN_NUMBER, datetime(2150, 1, 2, 6), policy="published")
    assert published.table("labs").num_rows == 1
    (stay,) = published.table("encounters").batch.to_pylist()
    assert stay["reason"] == "Sepsis"
    assert not {"end_time", "discharge_disposition", "length_hours", "status"} & set(stay)
    assert store.chart(ANN_NUMBER, datetime(2150, 1, 2, 6)).table("labs").num_rows == 0


def test_every_table_says_what_it_is() -> None:
    from wardround.records import load_source_spec

    spec = load_source_spec("fhir")
    for table in spec.tables.values():
        assert table.description, table.name
        assert table.kind, table.name
        assert set(table.default_columns) <= set(table.public_columns)
        assert table.published.time is not None or table.name == "patients"
    assert spec.flatten == "fhir"
