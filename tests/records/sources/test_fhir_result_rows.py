"""What results, documents and medicines become, cell by cell, and how their values, doses and names are said."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import Resource, reference, resource
from records.sources.test_fhir_rows import ANN, IN_E1, OF_ANN, at, coded, only, read, when, words
from wardround.records.sources.fhir.context import NobodysResource
from wardround.records.sources.fhir.values import Malformed

LOINC = "http://loinc.org"


def observed(**elements: Any) -> Resource:
    return resource("Observation", "o1", **{"code": coded(LOINC, "1-8", "Sodium"), **elements})


def test_a_laboratory_result(tmp_path: Path) -> None:
    body = observed(
        **IN_E1,
        category=[{"coding": [{"code": "laboratory"}]}],
        effectiveDateTime=when(1, 8),
        issued=when(1, 10),
        meta={"lastUpdated": when(2)},
        status="final",
        specimen=reference("Specimen/s1"),
        derivedFrom=[reference("Observation/o0"), reference("Observation/o9")],
        method=words("ISE"),
        bodySite=words("vein"),
        valueQuantity={"value": 140, "unit": "mmol/L", "code": "x"},
        referenceRange=[{"low": {"value": 135}, "high": {"value": 145.5}, "text": "adults"}],
        interpretation=[words("N")],
        note=[{"text": "ok", "time": when(1, 10)}, {"text": "late", "time": when(1, 11)}],
        hasMember=[{"reference": "Observation/o2", "display": "two"}, reference("Observation/o3")],
        component=[{"code": words("first"), "valueInteger": 3}, {"code": words("second"), "valueString": "x"}],
    )
    shared = {
        **OF_ANN,
        "effective_time": at(1, 8),
        "issued_time": at(1, 10),
        "updated_time": at(2),
        "known_from": "result",
        "category": "laboratory",
        "status": "final",
        "specimen_id": "s1",
        "derived_from": "o0",
    }
    names = "code_system code other_codes value value_text unit value_time"
    ranges = "reference_low reference_high reference_text interpretation"
    nothing: dict[str, Any] = dict.fromkeys([*names.split(), *ranges.split()])
    rows, _ = read(body, tmp_path)
    assert rows[:5] == [
        (
            "labs",
            {
                **shared,
                "observation_id": "o1",
                "method": "ISE",
                "body_site": "vein",
                "code_system": "LOINC",
                "code": "1-8",
                "description": "Sodium",
                "other_codes": None,
                "value": 140.0,
                "value_text": None,
                "unit": "mmol/L",
                "value_time": None,
                "reference_low": 135.0,
                "reference_high": 145.5,
                "reference_text": "adults",
                "interpretation": "N",
                "note": "ok",
            },
        ),
        (
            "labs",
            {**shared, **nothing, "observation_id": "o1.1", "component_of": "o1", "description": "first", "value": 3.0},
        ),
        (
            "labs",
            {
                **shared,
                **nothing,
                "observation_id": "o1.2",
                "component_of": "o1",
                "description": "second",
                "value_text": "x",
            },
        ),
        ("observation_members", {**OF_ANN, "observation_id": "o1", "place": 0, "member_id": "o2", "member": "two"}),
        ("observation_members", {**OF_ANN, "observation_id": "o1", "place": 1, "member_id": "o3", "member": None}),
    ]
    assert [(table, row["text"], row["place"]) for table, row in rows[5:]] == [("additions", "late", 1)]


@pytest.mark.parametrize(
    ("elements", "cells"),
    [
        ({"valueQuantity": {"value": 5, "comparator": "<", "unit": "g"}}, {"value": 5.0, "value_text": "<5 g"}),
        ({"valueQuantity": {"value": 5, "code": "mg"}}, {"value_text": None, "unit": "mg"}),
        ({"valueQuantity": {"comparator": "<"}}, {"value": None, "value_text": None}),
        ({"valueInteger": 4}, {"value": 4.0, "unit": None}),
        ({"valueCodeableConcept": words("positive")}, {"value_text": "positive", "value": None}),
        ({"valueString": " grey ", "valueBoolean": True}, {"value_text": "grey; true"}),
        ({"valueTime": "10:30"}, {"value_text": "10:30"}),
        ({"valueRange": {"low": {"value": 1}, "high": {"value": 2, "unit": "m"}}}, {"value_text": "1 - 2 m"}),
        ({"valueRange": {"high": {"value": 2}}}, {"value_text": "<= 2"}),
        (
            {"valueRatio": {"numerator": {"value": 1}, "denominator": {"value": 128}}},
            {"value_text": "1 : 128"},
        ),
        ({"valueDateTime": when(4)}, {"value_time": at(4), "value_text": "date 2150-03-04 00:00:00"}),
        ({"valuePeriod": {"start": when(5), "end": when(6)}}, {"value_time": at(5)}),
        ({"valueSampledData": {"data": "1 2"}}, {"value_text": "a recorded curve"}),
        ({"dataAbsentReason": words("refused")}, {"value_text": "no value: refused"}),
        (
            {"extension": [{"url": "http://x/dilution-details", "valueQuantity": {"value": 8}}, {"url": "other"}]},
            {"value_text": "dilution 8"},
        ),
        ({"extension": [{"url": "http://x/dilution-details"}]}, {"value_text": "dilution"}),
        (
            {"referenceRange": [{"low": {"value": 1}}, {"text": "women 2 - 3"}, {"high": {"value": 9}}]},
            {"reference_low": None, "reference_high": None, "reference_text": ">= 1; women 2 - 3; <= 9"},
        ),
        ({"referenceRange": []}, {"reference_low": None, "reference_text": None}),
        ({"referenceRange": [{"high": {"value": 0.4}}]}, {"reference_low": None, "reference_high": 0.4}),
    ],
)
def test_a_value_is_a_number_or_words(tmp_path: Path, elements: Resource, cells: dict[str, Any]) -> None:
    row = only(observed(**elements), tmp_path)
    assert {name: row[name] for name in cells} == cells


@pytest.mark.parametrize(
    ("elements", "effective", "issued"),
    [
        ({"effectiveDateTime": when(1), "issued": when(2)}, at(1), at(2)),
        ({"effectiveInstant": when(1)}, at(1), None),
        ({"effectivePeriod": {"start": when(1), "end": when(3)}}, at(3), None),
        ({"effectivePeriod": {"start": when(1)}}, None, None),
        ({"effectivePeriod": {"start": when(1)}, "issued": when(2)}, at(1), at(2)),
        ({"effectivePeriod": {"start": when(1), "end": when(3)}, "issued": when(2)}, at(1), at(2)),
        ({"effectivePeriod": {"start": when(1), "end": when(2)}, "issued": when(2)}, at(2), at(2)),
        ({"effectivePeriod": {"start": when(1), "end": when(2)}, "issued": when(3)}, at(2), at(3)),
        ({}, None, None),
    ],
)
def test_when_a_result_was_measured_and_issued(
    tmp_path: Path, elements: Resource, effective: datetime | None, issued: datetime | None
) -> None:
    for kind in ("Observation", "DiagnosticReport"):
        row = only(resource(kind, "o1", code=words("x"), **elements), tmp_path)
        assert (row["effective_time"], row["issued_time"]) == (effective, issued)


@pytest.mark.parametrize(
    ("category", "known_from"),
    [(name, "at once") for name in ("vital-signs", "exam", "social-history", "survey", "activity")]
    + [("laboratory", "result"), ("imaging", "result")],
)
def test_what_is_seen_at_the_bedside_is_known_at_once(tmp_path: Path, category: str, known_from: str) -> None:
    assert only(observed(category=[{"coding": [{"code": category}]}]), tmp_path)["known_from"] == known_from


@pytest.mark.parametrize(
    ("elements", "table", "member"),
    [
        ({"meta": {"profile": ["http://x/mimic-observation-micro-susc"]}}, "susceptibilities", None),
        ({"code": coded("http://x/mimic-antibiotic", "1", "a")}, "susceptibilities", None),
        ({"meta": {"profile": ["http://x/mimic-observation-micro-org"]}}, "microbiology", "o7"),
        ({"category": [{"coding": [{"code": "MB"}]}]}, "microbiology", "o7"),
        ({"code": coded("http://x/mimic-microbiology-test", "1", "a")}, "microbiology", "o7"),
        ({"category": [{"coding": [{"code": "vital-signs"}]}]}, "vital_signs", None),
        ({"category": [{"coding": [{"code": "laboratory"}, {"code": "vital-signs"}]}]}, "labs", None),
        ({}, "observations", None),
    ],
)
def test_only_a_culture_names_its_first_member_itself(
    tmp_path: Path, elements: Resource, table: str, member: str | None
) -> None:
    rows, _ = read(observed(hasMember=[reference("Observation/o7"), reference("Observation/o8")], **elements), tmp_path)
    assert rows[0][0] == table
    assert rows[0][1].get("member_id") == member
    assert [row["member_id"] for name, row in rows if name == "observation_members"] == ["o7", "o8"]


def attached(text: str, **elements: Any) -> Resource:
    return {"contentType": "text/plain", "data": base64.b64encode(text.encode()).decode(), **elements}


def test_a_report_and_its_results(tmp_path: Path) -> None:
    body = resource(
        "DiagnosticReport",
        "r1",
        **IN_E1,
        code=coded(LOINC, "58410-2", "Blood count"),
        effectiveDateTime=when(1),
        issued=when(2),
        meta={"lastUpdated": when(3)},
        category=[{"coding": [{"code": "LAB"}]}],
        status="final",
        conclusion="normal",
        conclusionCode=[words("N"), words("normal")],
        presentedForm=[
            attached("one\r\ntwo"),
            {"contentType": "application/pdf"},
            attached("later", creation=when(4)),
        ],
        result=[{"reference": "Observation/o1", "display": "Hb"}, reference("Observation/o2")],
    )
    rows, flat = read(body, tmp_path)
    assert rows[0] == (
        "diagnostic_reports",
        {
            **OF_ANN,
            "code_system": "LOINC",
            "code": "58410-2",
            "description": "Blood count",
            "other_codes": None,
            "report_id": "r1",
            "effective_time": at(1),
            "issued_time": at(2),
            "updated_time": at(3),
            "known_from": "result",
            "category": "LAB",
            "status": "final",
            "conclusion": "normal; N; normal",
            "text": "one\ntwo",
        },
    )
    assert rows[1:3] == [
        ("report_results", {**OF_ANN, "report_id": "r1", "place": 0, "observation_id": "o1", "result": "Hb"}),
        ("report_results", {**OF_ANN, "report_id": "r1", "place": 1, "observation_id": "o2", "result": None}),
    ]
    assert [(row["element"], row["place"], row["text"]) for _, row in rows[3:]] == [("presentedForm", 2, "later")]
    assert dict(flat.left_out) == {"text of DiagnosticReport: attachment of type application/pdf": 1}
    culture = resource("DiagnosticReport", "r2", category=[{"coding": [{"code": "MB"}]}])
    assert only(culture, tmp_path)["known_from"] == "culture"


def test_a_document(tmp_path: Path) -> None:
    body = resource(
        "DocumentReference",
        "d1",
        context={"encounter": [reference("Encounter/e1")], "period": {"start": when(1), "end": when(5)}},
        type=coded(LOINC, "18842-5", "Discharge summary"),
        date=when(4),
        category=[words("notes")],
        author=[{"display": "Dr. A"}, {"display": "Dr. B"}],
        description="a note",
        content=[
            {"attachment": attached("gone home")},
            {"attachment": {"contentType": "text/html; charset=x", "data": "eA=="}},
            {"attachment": attached("addendum", creation=when(6))},
        ],
    )
    rows, flat = read(body, tmp_path)
    assert rows[0] == (
        "documents",
        {
            **OF_ANN,
            "code_system": "LOINC",
            "code": "18842-5",
            "document": "Discharge summary",
            "other_codes": None,
            "document_id": "d1",
            "date_time": at(4),
            "period_end": at(5),
            "category": "notes",
            "author": "Dr. A; Dr. B",
            "description": "a note",
            "text": "gone home",
        },
    )
    assert [(row["text"], row["added_time"]) for _, row in rows[1:]] == [("addendum", at(6))]
    assert dict(flat.left_out) == {"text of DocumentReference: attachment of type text/html": 1}


@pytest.mark.parametrize(
    ("period", "date", "text"),
    [
        ({"start": when(1)}, None, None),
        ({}, at(4), "x"),
        ({"start": when(1), "end": when(5)}, at(4), "x"),
        ({"end": when(5)}, at(4), "x"),
    ],
)
def test_a_document_on_a_time_that_goes_on_has_no_date_and_no_text_yet(
    tmp_path: Path, period: Resource, date: datetime | None, text: str | None
) -> None:
    body = resource("DocumentReference", "d1", date=when(4), context={"period": period})
    body["content"] = [{"attachment": attached("x", creation=when(2))}]
    row = read(body, tmp_path)[0][0][1]
    assert (row["date_time"], row["text"]) == (date, text)


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
    ("subject", "number"),
    [
        (reference("Patient/ann"), ANN["subject_id"]),
        (reference("urn:uuid:ann"), ANN["subject_id"]),
        (reference("http://x/fhir/Patient/ann/_history/3"), ANN["subject_id"]),
        (reference("Patient/ann|2"), ANN["subject_id"]),
    ],
)
def test_a_resource_is_its_subjects_in_every_spelling(tmp_path: Path, subject: Resource, number: int) -> None:
    body = resource("Specimen", "s1", about=None, subject=subject)
    assert only(body, tmp_path)["subject_id"] == number
    bundle = {"urn:uuid:7": "Patient/ann"}
    named = resource("Specimen", "s1", about=None, subject=reference("urn:uuid:7"))
    assert read(named, tmp_path, bundle)[0][0][1]["subject_id"] == number


@pytest.mark.parametrize(
    ("subject", "why"),
    [(None, "subject: missing"), (reference("Patient?x=1"), "names nobody"), ({"display": "A"}, "names nobody")],
)
def test_a_resource_of_nobody_is_malformed(tmp_path: Path, subject: Resource | None, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read(resource("Specimen", "s1", about=None, **({"subject": subject} if subject else {})), tmp_path)


def test_a_resource_of_a_group_is_nobodys(tmp_path: Path) -> None:
    with pytest.raises(NobodysResource):
        read(resource("Specimen", "s1", about="Group/1"), tmp_path)


@pytest.mark.parametrize("key", [None, "", 7])
def test_a_resource_without_an_id_is_malformed(tmp_path: Path, key: object) -> None:
    body = resource("Specimen", "s1")
    body["id"] = key
    with pytest.raises(Malformed, match="id: missing"):
        read(body, tmp_path)


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
