"""What holds for the clocks of all FHIR resources: dates without an hour, published times, the clock on the wall."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path

import pytest

from records.fhir_moments import LAB, STAY, TAKEN, first_shown
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
    due = resource("Observation", "o1", issued="2150-01-02T00:00:00Z", valueDateTime="2150-02-01T00:00:00Z")
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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2150-03-08T01:30:00-05:00", "2150-03-08T03:10:00-04:00"),
        ("2150-10-31T00:50:00-04:00", "2150-11-01T02:10:00-05:00"),
    ],
    ids=["spring", "autumn"],
)
def test_the_wall_clock_orders_a_record_across_a_change_of_summer_time(tmp_path: Path, first: str, second: str) -> None:
    """Each is there from its own time on the wall, whatever its offset, and so the earlier instant is there first."""
    body = [resource("Observation", name, **LAB, issued=at) for name, at in (("o2", second), ("o1", first))]
    store, _ = made(tmp_path, [patient(), *body])
    for at, there in ((first, ["o1"]), (second, ["o1", "o2"])):
        assert [row["observation_id"] for row in seen(store, "labs", at[:19])] == there


def test_a_document_dated_in_utc_is_read_on_the_clock_of_its_period(tmp_path: Path) -> None:
    period = {"start": "2150-06-01T08:00:00+02:00", "end": "2150-06-01T18:00:00+02:00"}
    body = resource("DocumentReference", "d1", date="2150-06-01T17:00:00Z", context={"period": period})
    assert first_shown(tmp_path, "documents", body) == datetime(2150, 6, 1, 19)
