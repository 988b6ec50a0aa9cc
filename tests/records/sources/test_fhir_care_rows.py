"""What conditions, allergies, procedures, vaccines, specimens and studies become, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import Resource, reference, resource
from records.fhir_rows import ANN, IN_E1, OF_ANN, at, coded, only, read, when, words


def test_a_condition(tmp_path: Path) -> None:
    body = resource(
        "Condition",
        "c1",
        **IN_E1,
        code=coded("http://hl7.org/fhir/sid/icd-10-cm", "I10", "Hypertension", ("http://snomed.info/sct", "38341003")),
        category=[{"coding": [{"code": "encounter-diagnosis"}]}, words("other")],
        recordedDate=when(3, 1),
        onsetDateTime=when(1),
        abatementDateTime=when(8),
        clinicalStatus=words("active"),
        verificationStatus=words("confirmed"),
        meta={"lastUpdated": when(7)},
        severity=words("mild"),
        bodySite=[words("left arm")],
        note=[{"text": "seen"}, {"text": "again", "time": when(5)}],
    )
    rows, _ = read(body, tmp_path)
    assert rows == [
        (
            "conditions",
            {
                **OF_ANN,
                "code_system": "ICD10CM",
                "code": "I10",
                "condition": "Hypertension",
                "other_codes": "SNOMED//38341003",
                "condition_id": "c1",
                "icd_version": 10,
                "category": "encounter-diagnosis; other",
                "known_from": "encounter",
                "recorded_time": at(3, 1),
                "onset_time": at(1),
                "onset_text": None,
                "abatement_time": at(8),
                "clinical_status": "active",
                "verification_status": "confirmed",
                "updated_time": at(7),
                "severity": "mild",
                "body_site": "left arm",
                "note": "seen",
            },
        ),
        (
            "additions",
            {
                **OF_ANN,
                "resource_type": "Condition",
                "resource_id": "c1",
                "element": "note",
                "place": 1,
                "added_time": at(5),
                "text": "again",
            },
        ),
    ]


@pytest.mark.parametrize(
    ("elements", "cells"),
    [
        ({"onsetPeriod": {"start": when(2), "end": when(4)}}, {"onset_time": at(2), "onset_text": None}),
        ({"onsetString": "as a child"}, {"onset_text": "as a child", "onset_time": None}),
        ({"onsetAge": {"value": 12, "unit": "years"}}, {"onset_text": "age 12 years"}),
        ({"onsetAge": {"value": 12}}, {"onset_text": "age 12"}),
        ({"onsetAge": {"unit": "years"}}, {"onset_text": None}),
        ({"onsetRange": {"low": {"value": 3}}}, {"onset_text": ">= 3"}),
        ({"abatementPeriod": {"start": when(2), "end": when(4)}}, {"abatement_time": at(4)}),
        ({"category": [words("problem-list-item")]}, {"known_from": "onset"}),
        ({"category": [{"coding": [{"code": "billing-diagnosis"}]}]}, {"known_from": "encounter"}),
        ({"code": coded("http://hl7.org/fhir/sid/icd-9-cm", "401", "HTN")}, {"icd_version": 9, "code": "401"}),
        ({"onsetDateTime": when(3), "note": [{"text": "n", "time": when(3)}]}, {"note": "n"}),
        ({"onsetDateTime": when(3), "note": [{"text": "n", "time": when(4)}]}, {"note": None}),
    ],
)
def test_what_else_a_condition_may_say(tmp_path: Path, elements: Resource, cells: dict[str, Any]) -> None:
    row = read(resource("Condition", "c1", **elements), tmp_path)[0][0][1]
    assert {name: row[name] for name in cells} == cells


PENICILLIN = coded("s", "p", "Penicillin")


def test_an_allergy_and_its_reactions(tmp_path: Path) -> None:
    body = resource(
        "AllergyIntolerance",
        "a1",
        **IN_E1,
        type="allergy",
        category=["food", "medication"],
        criticality="high",
        recordedDate=when(3),
        onsetDateTime=when(1),
        verificationStatus=words("confirmed"),
        meta={"lastUpdated": when(4)},
        lastOccurrence=when(2),
        reaction=[
            {
                "substance": coded("s", "p", "Penicillin"),
                "manifestation": [words("rash"), words("itch")],
                "severity": "mild",
            },
            {"manifestation": [words("cough")], "severity": "severe"},
            {"manifestation": [words("shock")], "severity": "severe", "description": "ICU", "onset": when(6)},
        ],
        note=[{"text": "told by the son"}],
    )
    rows, _ = read(body, tmp_path)
    assert rows[0] == (
        "allergies",
        {
            **OF_ANN,
            "code_system": "s",
            "code": "p",
            "allergy": "Penicillin",
            "other_codes": None,
            "allergy_id": "a1",
            "type": "allergy",
            "category": "food; medication",
            "criticality": "high",
            "recorded_time": at(3),
            "onset_time": at(1),
            "verification_status": "confirmed",
            "updated_time": at(4),
            "last_occurrence": at(2),
            "reaction": "rash; itch; cough",
            "severity": "mild; severe",
            "note": "told by the son",
        },
    )
    (added,) = [row for table, row in rows if table == "additions"]
    assert (added["element"], added["place"], added["added_time"]) == ("reaction", 2, at(6))
    assert added["text"] == "shock; severe; ICU"


def test_a_procedure(tmp_path: Path) -> None:
    body = resource(
        "Procedure",
        "p1",
        **IN_E1,
        code=coded("http://hl7.org/fhir/sid/icd-10-pcs", "0DTJ4ZZ", "Appendectomy"),
        performedPeriod={"start": when(1, 8), "end": when(1, 9)},
        status="completed",
        meta={"lastUpdated": when(4)},
        category=words("surgery"),
        bodySite=[words("appendix")],
        outcome=words("good"),
        complication=[words("bleeding"), words("fever")],
        reasonCode=[words("pain")],
        reasonReference=[{"reference": "Condition/c1", "display": "Appendicitis"}, reference("Condition/c2")],
        note=[{"text": "long"}, {"text": "late", "time": when(2)}],
    )
    rows, _ = read(body, tmp_path)
    assert [table for table, _ in rows] == ["procedures", "additions"]
    assert rows[0][1] == {
        **OF_ANN,
        "code_system": "ICD10PCS",
        "code": "0DTJ4ZZ",
        "procedure": "Appendectomy",
        "other_codes": None,
        "reason": "pain",
        "reason_condition": "Appendicitis",
        "reason_condition_id": "c1",
        "procedure_id": "p1",
        "icd_version": 10,
        "known_from": "encounter",
        "start_time": at(1, 8),
        "end_time": at(1, 9),
        "status": "completed",
        "settled_from": "end",
        "updated_time": at(4),
        "category": "surgery",
        "body_site": "appendix",
        "outcome": "good",
        "complication": "bleeding; fever",
        "note": "long",
    }


@pytest.mark.parametrize(
    ("elements", "cells"),
    [
        (
            {"performedDateTime": when(2)},
            {"start_time": at(2), "end_time": at(2), "settled_from": "encounter", "code": "1"},
        ),
        (
            {"performedDateTime": when(2), "status": "not-done"},
            {"procedure": "not done: Bath", "code": None, "status": "not-done"},
        ),
        (
            {"performedPeriod": {"start": when(2)}, "status": "not-done"},
            {"procedure": "Bath", "code": "1", "settled_from": "end", "end_time": None},
        ),
        ({"status": "not-done"}, {"procedure": "not done: Bath", "settled_from": "encounter"}),
        ({"code": {}, "status": "not-done"}, {"procedure": "not done"}),
        ({}, {"known_from": "performed", "icd_version": None, "reason_condition_id": None, "start_time": None}),
    ],
)
def test_a_procedure_that_was_not_done_has_no_code(tmp_path: Path, elements: Resource, cells: dict[str, Any]) -> None:
    row = only(resource("Procedure", "p1", **{"code": coded("s", "1", "Bath"), **elements}), tmp_path)
    assert {name: row.get(name) for name in cells} == cells


def test_an_immunization(tmp_path: Path) -> None:
    body = resource(
        "Immunization",
        "i1",
        **IN_E1,
        vaccineCode=coded("http://hl7.org/fhir/sid/cvx", "140", "Influenza"),
        occurrenceDateTime=when(1),
        recorded=when(2),
        meta={"lastUpdated": when(3)},
        status="completed",
        protocolApplied=[{"doseNumberPositiveInt": 2}, {"doseNumberPositiveInt": 3}],
        site=words("arm"),
        route=words("im"),
        note=[{"text": "ok", "time": when(2)}],
    )
    assert only(body, tmp_path) == {
        **OF_ANN,
        "code_system": "CVX",
        "code": "140",
        "vaccine": "Influenza",
        "other_codes": None,
        "immunization_id": "i1",
        "occurrence_time": at(1),
        "recorded_time": at(2),
        "updated_time": at(3),
        "occurrence_text": None,
        "status": "completed",
        "dose_number": "2",
        "site": "arm",
        "route": "im",
        "note": "ok",
    }
    other = resource("Immunization", "i2", vaccineCode=words("X"), status="not-done", occurrenceString="once")
    other["protocolApplied"] = [{"doseNumberString": "booster"}]
    row = only(other, tmp_path)
    assert (row["vaccine"], row["occurrence_text"], row["dose_number"]) == ("not done: X", "once", "booster")


def test_a_specimen(tmp_path: Path) -> None:
    body = resource(
        "Specimen",
        "s1",
        type=coded("s", "BLD", "Blood"),
        parent=[reference("Specimen/s0")],
        receivedTime=when(2),
        collection={
            "collectedPeriod": {"start": when(1), "end": when(1, 1)},
            "bodySite": words("arm"),
            "method": words("puncture"),
        },
        note=[{"text": "hard", "time": when(1, 1)}],
    )
    row = {
        **ANN,
        "encounter_id": None,
        "code_system": "s",
        "code": "BLD",
        "specimen": "Blood",
        "other_codes": None,
        "specimen_id": "s1",
        "parent_id": "s0",
        "collected_time": at(1, 1),
        "received_time": at(2),
        "body_site": "arm",
        "method": "puncture",
        "note": "hard",
    }
    assert only(body, tmp_path) == row
    body["collection"] = {"collectedDateTime": when(1, 2)}
    assert only(body, tmp_path)["collected_time"] == at(1, 2)


def test_an_imaging_study_is_of_the_series_it_began_with(tmp_path: Path) -> None:
    body = resource(
        "ImagingStudy",
        "x1",
        **IN_E1,
        started=when(1),
        modality=[{"code": "CT"}, {"code": "MR"}],
        series=[
            {"modality": {"code": "CT", "system": "s"}, "bodySite": {"display": "Chest"}},
            {"modality": {"code": "MR"}, "bodySite": {"display": "Head"}, "description": "late", "started": when(2)},
        ],
        procedureCode=[words("CT of the chest")],
        reasonCode=[words("fall")],
        note=[{"text": "clear"}],
    )
    rows, _ = read(body, tmp_path)
    assert rows[0][1] == {
        **OF_ANN,
        "code_system": "s",
        "code": "CT",
        "modality": "CT",
        "other_codes": None,
        "study_id": "x1",
        "started_time": at(1),
        "description": "CT of the chest",
        "body_site": "Chest",
        "reason": "fall",
        "note": "clear",
    }
    assert [(row["element"], row["text"]) for _, row in rows[1:]] == [("series", "MR; Head; late")]
    del body["series"]
    assert read({**body, "description": "own"}, tmp_path)[0][0][1]["description"] == "own"
    assert read(body, tmp_path)[0][0][1]["code"] == "CT"
