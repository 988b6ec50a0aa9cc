"""What orders, doses given, dispenses and statements become, cell by cell."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import Resource, reference, resource
from records.fhir_rows import IN_E1, OF_ANN, at, coded, only, read, when, words

NDC = "http://hl7.org/fhir/sid/ndc"
ASPIRIN = {
    "medicationCodeableConcept": coded("http://www.nlm.nih.gov/research/umls/rxnorm", "1191", "Aspirin", (NDC, "0009"))
}
ASPIRIN_CELLS = {
    "code_system": "RxNorm",
    "code": "1191",
    "medication": "Aspirin",
    "other_codes": "NDC//0009",
    "ndc": "0009",
}
DOSAGE = {
    "text": "one in the morning",
    "route": words("oral"),
    "timing": {
        "code": words("QAM"),
        "repeat": {"boundsPeriod": {"start": when(2), "end": when(6)}, "duration": 5, "durationUnit": "d"},
    },
    "asNeededCodeableConcept": words("for pain"),
    "doseAndRate": [{"doseQuantity": {"value": 100, "unit": "mg"}, "rateQuantity": {"value": 2, "unit": "ml/h"}}],
}
DOSAGE_CELLS = {
    "dose": 100.0,
    "dose_unit": "mg",
    "dosage_text": "one in the morning",
    "route": "oral",
    "frequency": "QAM; for pain",
}


def test_an_order(tmp_path: Path) -> None:
    body = resource(
        "MedicationRequest",
        "q1",
        **IN_E1,
        **ASPIRIN,
        dosageInstruction=[DOSAGE, {"text": "another"}],
        dispenseRequest={
            "validityPeriod": {"start": when(3), "end": when(7)},
            "quantity": {"value": 30, "unit": "tab"},
            "expectedSupplyDuration": {"value": 10, "unit": "days"},
            "numberOfRepeatsAllowed": 2,
        },
        authoredOn=when(1),
        status="active",
        meta={"lastUpdated": when(2)},
        intent="order",
        category=[words("inpatient"), words("ward")],
        priority="stat",
        reasonCode=[words("pain")],
        note=[{"text": "with food", "time": when(1)}],
    )
    row = {
        **OF_ANN,
        **ASPIRIN_CELLS,
        **DOSAGE_CELLS,
        "rate": "2 ml/h",
        "reason": "pain",
        "reason_condition": None,
        "reason_condition_id": None,
        "request_id": "q1",
        "authored_time": at(1),
        "start_time": at(3),
        "stop_time": at(7),
        "status": "active",
        "updated_time": at(2),
        "intent": "order",
        "category": "inpatient; ward",
        "priority": "stat",
        "quantity": "30 tab",
        "duration": "10 days",
        "refills": 2.0,
        "note": "with food",
    }
    assert only(body, tmp_path) == row
    del body["dispenseRequest"]
    bare = {"quantity": None, "duration": "5 d", "refills": None, "start_time": at(2), "stop_time": at(6)}
    assert only(body, tmp_path) == {**row, **bare}
    refused = only({**body, "doNotPerform": True}, tmp_path)
    assert (refused["medication"], refused.get("code"), refused["ndc"]) == ("not done: Aspirin", None, None)


@pytest.mark.parametrize(
    ("dosage", "cells"),
    [
        ({}, {"dose": None, "dose_unit": None, "rate": None, "frequency": None, "duration": None}),
        ({"timing": {"repeat": {"frequency": 2, "period": 1, "periodUnit": "d"}}}, {"frequency": "2 x per 1 d"}),
        ({"timing": {"repeat": {"period": 0.5, "periodUnit": "h"}}}, {"frequency": "1 x per 0.5 h"}),
        ({"timing": {"repeat": {"period": 1}}}, {"frequency": None}),
        ({"timing": {"repeat": {"frequency": 3}}}, {"frequency": None}),
        ({"asNeededBoolean": True}, {"frequency": "as needed"}),
        ({"asNeededBoolean": False}, {"frequency": None}),
        ({"timing": {"repeat": {"duration": 3}}}, {"duration": "3"}),
        ({"timing": {"repeat": {"boundsDuration": {"value": 2, "unit": "wk"}}}}, {"duration": "2 wk"}),
        (
            {"doseAndRate": [{"doseRange": {"low": {"value": 1}, "high": {"value": 2, "unit": "mg"}}}]},
            {"dosage_text": "1 - 2 mg", "dose": None},
        ),
        (
            {
                "doseAndRate": [
                    {"rateRatio": {"numerator": {"value": 5, "unit": "ml"}, "denominator": {"value": 1, "unit": "h"}}}
                ]
            },
            {"rate": "5 ml per 1 h"},
        ),
    ],
)
def test_a_dosage_in_words_and_numbers(tmp_path: Path, dosage: Resource, cells: dict[str, Any]) -> None:
    row = only(resource("MedicationRequest", "q1", **ASPIRIN, dosageInstruction=[dosage]), tmp_path)
    assert {name: row[name] for name in cells} == cells


def test_an_infusion_and_a_single_dose(tmp_path: Path) -> None:
    body = resource(
        "MedicationAdministration",
        "g1",
        context=reference("Encounter/e1"),
        **ASPIRIN,
        effectivePeriod={"start": when(1, 8), "end": when(1, 9)},
        request=reference("MedicationRequest/q1"),
        status="completed",
        meta={"lastUpdated": when(2)},
        category=words("inpatient"),
        dosage={
            "dose": {"value": 5, "code": "mg"},
            "rateQuantity": {"value": 3, "unit": "ml/h"},
            "route": words("iv"),
            "method": words("push"),
            "text": "slowly",
        },
        reasonCode=[words("pain")],
        note=[{"text": "well", "time": when(1, 8)}],
    )
    row = {
        **OF_ANN,
        **ASPIRIN_CELLS,
        "administration_id": "g1",
        "start_time": at(1, 8),
        "end_time": at(1, 9),
        "request_id": "q1",
        "status": "completed",
        "settled_from": "end",
        "updated_time": at(2),
        "category": "inpatient",
        "dose": 5.0,
        "dose_unit": "mg",
        "rate": "3 ml/h",
        "route": "iv",
        "method": "push",
        "dosage_text": "slowly",
        "reason": "pain",
        "note": "well",
    }
    assert only(body, tmp_path) == row
    del body["effectivePeriod"]
    single = only({**body, "effectiveDateTime": when(1, 8)}, tmp_path)
    assert single == {**row, "end_time": at(1, 8), "settled_from": "encounter"}


@pytest.mark.parametrize(
    ("elements", "start", "end", "settled", "medication"),
    [
        ({"effectivePeriod": {"start": when(1)}}, at(1), None, "end", "Aspirin"),
        ({"effectivePeriod": {"start": when(1)}, "status": "not-done"}, at(1), None, "end", "Aspirin"),
        ({"effectivePeriod": {"end": when(2)}}, at(2), at(2), "encounter", "Aspirin"),
        ({"effectiveDateTime": when(1), "status": "not-done"}, at(1), at(1), "encounter", "not done: Aspirin"),
    ],
)
def test_an_administration_that_lasts_is_settled_at_its_end(
    tmp_path: Path,
    elements: Resource,
    start: datetime,
    end: datetime | None,
    settled: str,
    medication: str,
) -> None:
    row = only(resource("MedicationAdministration", "g1", **ASPIRIN, **elements), tmp_path)
    found = (row["start_time"], row["end_time"], row["settled_from"], row["medication"])
    assert found == (start, end, settled, medication)


def test_a_dispense(tmp_path: Path) -> None:
    body = resource(
        "MedicationDispense",
        "h1",
        context=reference("Encounter/e1"),
        **ASPIRIN,
        dosageInstruction=[DOSAGE],
        whenHandedOver=when(3),
        whenPrepared=when(2),
        status="completed",
        meta={"lastUpdated": when(4)},
        authorizingPrescription=[reference("MedicationRequest/q1")],
        quantity={"value": 30, "unit": "tab"},
        daysSupply={"value": 10},
        note=[{"text": "ok", "time": when(2)}, {"text": "late", "time": when(3)}],
    )
    assert read(body, tmp_path)[0][0][1] == {
        **OF_ANN,
        **ASPIRIN_CELLS,
        **DOSAGE_CELLS,
        "dispense_id": "h1",
        "handed_over_time": at(3),
        "prepared_time": at(2),
        "known_from": "order",
        "updated_time": at(4),
        "request_id": "q1",
        "status": "completed",
        "quantity": "30 tab",
        "days_supply": 10.0,
        "note": "ok",
    }
    assert read({**body, "status": "preparation"}, tmp_path)[0][0][1]["known_from"] == "itself"


def test_a_statement(tmp_path: Path) -> None:
    body = resource(
        "MedicationStatement",
        "t1",
        context=reference("Encounter/e1"),
        **ASPIRIN,
        dosage=[DOSAGE],
        dateAsserted=when(5),
        effectivePeriod={"start": when(1), "end": when(4)},
        status="completed",
        meta={"lastUpdated": when(6)},
        category=words("outpatient"),
        reasonCode=[words("pain")],
        note=[{"text": "says she", "time": when(5)}],
    )
    row = {
        **OF_ANN,
        **ASPIRIN_CELLS,
        **DOSAGE_CELLS,
        "statement_id": "t1",
        "asserted_time": at(5),
        "start_time": at(1),
        "end_time": at(4),
        "status": "completed",
        "updated_time": at(6),
        "category": "outpatient",
        "reason": "pain",
        "note": "says she",
    }
    assert only(body, tmp_path) == row
    assert only({**body, "status": "not-taken"}, tmp_path)["medication"] == "not done: Aspirin"
    del body["dateAsserted"]
    assert read(body, tmp_path)[0][0][1]["note"] is None


@pytest.mark.parametrize(
    ("elements", "medication", "left_out"),
    [
        ({"medicationReference": reference("Medication/m1")}, "aspirin", {}),
        ({"medicationReference": {"reference": "Medication/m9", "display": "said"}}, "said", {}),
        (
            {"medicationReference": reference("Medication/m9")},
            None,
            {"name of a medication whose Medication is not in the export": 1},
        ),
        (
            {
                "medicationReference": reference("#b"),
                "contained": [{"id": "a", "code": words("x")}, {"id": "b", "code": words("inside")}],
            },
            "inside",
            {},
        ),
        ({"medicationCodeableConcept": words("first"), "medicationReference": reference("Medication/m1")}, "first", {}),
        ({}, None, {}),
    ],
)
def test_a_medicine_is_named_inline_contained_or_by_its_reference(
    tmp_path: Path, elements: Resource, medication: str | None, left_out: dict[str, int]
) -> None:
    rows, flat = read(resource("MedicationRequest", "q1", **elements), tmp_path)
    assert rows[0][1]["medication"] == medication
    assert dict(flat.left_out) == left_out


@pytest.mark.parametrize(
    ("updated", "shown"),
    [(when(5), at(5)), (when(1), at(1)), ("2150-02-28T23:59:59", None), (None, None)],
)
def test_an_update_before_the_resources_own_time_was_on_another_clock(
    tmp_path: Path, updated: str | None, shown: datetime | None
) -> None:
    meta = {"lastUpdated": updated} if updated else {}
    row = only(resource("MedicationRequest", "q1", **ASPIRIN, authoredOn=when(1), meta=meta), tmp_path)
    assert row["updated_time"] == shown
