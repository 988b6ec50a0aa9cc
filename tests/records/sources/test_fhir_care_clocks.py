"""When FHIR's conditions, procedures, orders and everything else that is done is known."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from records.fhir_moments import IN_STAY, first_shown
from records.fhir_resources import (
    ANN_NUMBER,
    category,
    code,
    encounter,
    everything,
    made,
    patient,
    reference,
    resource,
    seen,
)

CODED = category("encounter-diagnosis")
LISTED = category("problem-list-item")


@pytest.mark.parametrize(
    ("elements", "first"),
    [
        ({"recordedDate": "2150-01-02T08:00:00", "onsetDateTime": "2149-01-01"}, datetime(2150, 1, 2, 8)),
        ({"recordedDate": "2150-01-02", "category": CODED}, datetime(2150, 1, 2, 23, 59, 59)),
        ({"category": CODED, **IN_STAY}, datetime(2150, 1, 5, 10)),
        ({"category": CODED, "onsetDateTime": "2150-01-01", **IN_STAY}, datetime(2150, 1, 5, 10)),
        ({"category": CODED, "encounter": reference("Encounter/lost")}, None),
        ({"category": LISTED, "onsetDateTime": "2150-01-01T09:00:00", **IN_STAY}, datetime(2150, 1, 1, 9)),
        ({"category": LISTED, **IN_STAY}, None),
        ({"recordedDate": "2150-01-01", "onsetDateTime": "2150-02"}, datetime(2150, 2, 28, 23, 59, 59)),
    ],
)
def test_conditions_are_known_when_recorded_coded_or_begun(
    tmp_path: Path, elements: dict[str, Any], first: datetime | None
) -> None:
    assert first_shown(tmp_path, "conditions", resource("Condition", "c1", code=code("1"), **elements)) == first


def test_coding_may_take_longer(tmp_path: Path) -> None:
    body = resource("Condition", "c1", code=code("1"), category=CODED, **IN_STAY)
    assert first_shown(tmp_path, "conditions", body, coding_lag=timedelta(days=10)) == datetime(2150, 1, 15, 10)


def test_that_a_condition_went_away_is_known_when_it_has(tmp_path: Path) -> None:
    status = {"coding": [{"code": "resolved"}]}
    body = resource(
        "Condition",
        "c1",
        code=code("1"),
        recordedDate="2150-01-01",
        abatementDateTime="2150-03-01",
        clinicalStatus=status,
    )
    store, _ = made(tmp_path, [body])
    (before,) = seen(store, "conditions", "2150-03-01T23:59:58")
    (after,) = seen(store, "conditions", "2150-03-01T23:59:59")
    assert before["abatement_time"] is before["clinical_status"] is None
    assert (after["abatement_time"], after["clinical_status"]) == (datetime(2150, 3, 1, 23, 59, 59), "resolved")


PCS = "http://hl7.org/fhir/sid/icd-10-pcs"
PERIOD = {"performedPeriod": {"start": "2150-01-02T08:00:00", "end": "2150-01-02T11:00:00"}}


@pytest.mark.parametrize(
    ("elements", "first"),
    [
        (PERIOD, datetime(2150, 1, 2, 8)),
        ({"performedDateTime": "2150-01-02"}, datetime(2150, 1, 2, 23, 59, 59)),
        ({"performedPeriod": {"start": "2150-01-02T08:00:00"}}, datetime(2150, 1, 2, 8)),
        ({"performedDateTime": "2150-01-02", "code": code("1", system=PCS), **IN_STAY}, datetime(2150, 1, 5, 10)),
        ({"performedDateTime": "2150-01-02", "code": code("1", system=PCS)}, None),
    ],
)
def test_procedures_are_known_from_their_start_and_billed_ones_after_the_stay(
    tmp_path: Path, elements: dict[str, Any], first: datetime | None
) -> None:
    assert first_shown(tmp_path, "procedures", resource("Procedure", "p1", **elements)) == first


def test_the_condition_that_a_procedure_was_for_is_named_once_it_is_known(tmp_path: Path) -> None:
    why = {"reference": "Condition/c1", "display": "Lymphoma"}
    store, _ = made(
        tmp_path,
        [
            resource("Condition", "c1", code=code("1"), recordedDate="2150-01-04T00:00:00"),
            resource("Procedure", "p1", reasonReference=[why], **PERIOD),
            resource("MedicationRequest", "m1", reasonReference=[why], authoredOn="2150-01-02T00:00:00"),
        ],
    )
    for table in ("procedures", "medication_requests"):
        before, after = (seen(store, table, f"2150-01-0{day}T00:00:00")[0] for day in (3, 4))
        assert before["reason_condition"] is before["reason_condition_id"] is None
        assert (after["reason_condition"], after["reason_condition_id"]) == ("Lymphoma", "c1")


def test_an_order_says_that_it_ended_an_hour_after_it_did(tmp_path: Path) -> None:
    validity = {"start": "2150-01-02T08:00:00", "end": "2150-01-03T08:00:00"}
    order = resource(
        "MedicationRequest",
        "m1",
        authoredOn="2150-01-02T07:00:00",
        status="stopped",
        dispenseRequest={"validityPeriod": validity},
    )
    store, _ = made(tmp_path, [order])
    assert seen(store, "medication_requests", "2150-01-02T06:59:59") == []
    (written,) = seen(store, "medication_requests", "2150-01-02T07:00:00")
    assert written["start_time"] == datetime(2150, 1, 2, 8)
    assert written["stop_time"] is written["status"] is None
    assert seen(store, "medication_requests", "2150-01-03T08:59:59")[0]["status"] is None
    assert seen(store, "medication_requests", "2150-01-03T09:00:00")[0]["status"] == "stopped"


@pytest.mark.parametrize(
    ("table", "body", "first"),
    [
        (
            "medication_administrations",
            resource("MedicationAdministration", "a", effectivePeriod={"start": "2150-01-02", "end": "2150-01-03"}),
            datetime(2150, 1, 2, 23, 59, 59),
        ),
        (
            "medication_administrations",
            resource("MedicationAdministration", "a", effectiveDateTime="2150-01-02T08:00:00"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "medication_dispenses",
            resource("MedicationDispense", "d", whenPrepared="2150-01-02", whenHandedOver="2150-01-03T08:00:00"),
            datetime(2150, 1, 2, 23, 59, 59),
        ),
        (
            "medication_dispenses",
            resource("MedicationDispense", "d", whenPrepared="2150-01"),
            datetime(2150, 1, 31, 23, 59, 59),
        ),
        (
            "medication_statements",
            resource("MedicationStatement", "s", dateAsserted="2150-01-02T08:00:00"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "medication_statements",
            resource("MedicationStatement", "s", effectivePeriod={"start": "2149", "end": "2150-01-02T08:00:00"}),
            datetime(2149, 12, 31, 23, 59, 59),
        ),
        (
            "immunizations",
            resource("Immunization", "i", occurrenceDateTime="2140-01-02", recorded="2150-01-02T08:00:00"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "immunizations",
            resource("Immunization", "i", occurrenceDateTime="2150-01-02T08:00:00"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "allergies",
            resource("AllergyIntolerance", "y", recordedDate="2150-01-02T08:00:00", onsetDateTime="2120"),
            datetime(2150, 1, 2, 8),
        ),
        ("allergies", resource("AllergyIntolerance", "y"), None),
        (
            "specimens",
            resource(
                "Specimen",
                "s",
                collection={"collectedDateTime": "2150-01-02T08:00:00"},
                receivedTime="2150-01-02T09:00:00",
            ),
            datetime(2150, 1, 2, 8),
        ),
        ("imaging_studies", resource("ImagingStudy", "g", started="2150-01-02T08:00:00"), datetime(2150, 1, 2, 8)),
        ("documents", resource("DocumentReference", "t", date="2150-01-02T08:00:00"), datetime(2150, 1, 2, 8)),
        (
            "documents",
            resource("DocumentReference", "t", date="2150-01-02", context={"period": {"end": "2150-01-04T08:00:00"}}),
            datetime(2150, 1, 4, 8),
        ),
    ],
)
def test_the_first_moment_of_every_other_sort(
    tmp_path: Path, table: str, body: dict[str, Any], first: datetime | None
) -> None:
    assert first_shown(tmp_path, table, body) == first


def test_a_dispense_without_a_time_is_known_once_its_encounter_is_over(tmp_path: Path) -> None:
    """At its order it would tell that it will be completed, and not cancelled."""
    stay = encounter("e1", "2150-01-01T08:00:00", "2150-01-05T10:00:00")
    order = resource("MedicationRequest", "m1", authoredOn="2150-01-02T08:00:00", encounter=reference("Encounter/e1"))
    named = {"authorizingPrescription": [reference("MedicationRequest/m1")], "context": reference("Encounter/e1")}
    stores = [
        made(tmp_path / status, [patient(), stay, order, resource("MedicationDispense", "d1", status=status, **named)])[
            0
        ]
        for status in ("completed", "cancelled")
    ]
    before = [everything(store.chart(ANN_NUMBER, datetime(2150, 1, 5, 9, 59))) for store in stores]
    assert before[0] == before[1]
    (row,) = seen(stores[0], "medication_dispenses", "2150-01-05T10:00:00")
    assert (row["request_id"], row["status"]) == ("m1", None)
