"""What results, reports and documents become, cell by cell."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import Resource, reference, resource
from records.fhir_rows import IN_E1, OF_ANN, at, coded, only, read, when, words

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
