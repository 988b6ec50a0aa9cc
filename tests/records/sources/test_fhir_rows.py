"""What each type of resource becomes, cell by cell: every element that is taken over, each different."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import ANN_NUMBER, Resource, encounter, reference, resource
from wardround.records import load_source_spec
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir.context import ResourceReading
from wardround.records.sources.fhir.files import Found
from wardround.records.sources.fhir.flattener import MAKERS
from wardround.records.sources.fhir.references import Names
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


US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"


def test_a_patient(tmp_path: Path) -> None:
    body = resource(
        "Patient",
        "ann",
        identifier=[
            {"value": "first"},
            {"value": "usual", "use": "usual"},
            {"value": "mrn", "type": {"coding": [{"code": "MR"}]}},
        ],
        gender="female",
        birthDate="1950-06-05",
        deceasedDateTime=when(9, 8),
        deceasedBoolean=True,
        maritalStatus=words("Married"),
        communication=[{}, {"language": words("German")}, {"language": words("French")}],
        name=[{"family": "secret"}],
        extension=[
            {"url": f"{US_CORE}race", "extension": [{"url": "text", "valueString": "White"}]},
            {
                "url": f"{US_CORE}ethnicity",
                "extension": [{"url": "ombCategory", "valueCoding": {"code": "2186-5", "display": "Not Hispanic"}}],
            },
            {"url": f"{US_CORE}birthsex", "valueCode": "F"},
        ],
    )
    rows, flat = read(body, tmp_path)
    assert rows == [
        (
            "patients",
            {
                **ANN,
                "patient_id": "ann",
                "identifier": "mrn",
                "gender": "female",
                "birth_date": date(1950, 6, 5),
                "deceased_time": at(9, 8),
                "race": "White",
                "ethnicity": "Not Hispanic",
                "birth_sex": "F",
                "marital_status": "Married",
                "language": "German",
            },
        )
    ]
    assert not flat.left_out


@pytest.mark.parametrize(
    ("identifiers", "chosen"),
    [
        ([], None),
        ([{"value": "a"}, {"value": "b"}], "a"),
        ([{"value": "a"}, {"value": "b", "use": "usual"}], "b"),
        ([{"use": "usual"}, {"value": "b"}], "b"),
        ([{"value": "a", "use": "usual"}, {"value": "b", "type": {"coding": [{"code": "MR"}]}}], "b"),
        ([{"value": "a", "period": {"start": "2150-03-01"}}, {"value": "b"}], "b"),
        ([{"value": "a", "period": {"start": "2150-03-01"}}], None),
    ],
)
def test_a_patients_identifier_is_the_record_number_then_the_usual_then_the_first(
    tmp_path: Path, identifiers: list[Resource], chosen: str | None
) -> None:
    assert only(resource("Patient", "ann", identifier=identifiers), tmp_path)["identifier"] == chosen


def test_a_death_without_a_date_is_counted(tmp_path: Path) -> None:
    rows, flat = read(resource("Patient", "ann", deceasedBoolean=True), tmp_path)
    assert rows[0][1]["deceased_time"] is None
    assert dict(flat.left_out) == {"Patient known to be dead without a date": 1}
    assert not read(resource("Patient", "ann", deceasedBoolean=False), tmp_path)[1].left_out


def test_an_encounter_with_its_places_and_diagnoses(tmp_path: Path) -> None:
    body = encounter(
        "e1",
        when(1, 8),
        when(5, 9),
        identifier=[{"value": "visit"}, {"value": "later", "use": "usual", "period": {"start": when(1, 9)}}],
        type=[words("Medical"), words("Long")],
        priority=words("urgent"),
        serviceType=words("cardiology"),
        reasonCode=[words("chest pain")],
        hospitalization={"admitSource": words("ED"), "dischargeDisposition": coded("x", "20", "Gone")},
        length={"value": 2, "code": "d"},
        meta={"lastUpdated": when(6)},
        serviceProvider=reference("Organization/o1"),
        partOf=reference("Encounter/e0"),
        location=[
            {"location": reference("Location/l1"), "period": {"start": when(1, 8), "end": when(2)}},
            {"location": reference("Location/l9"), "status": "planned"},
            {
                "location": {"reference": "Location/l2", "display": "Bed 3"},
                "physicalType": words("bed"),
                "period": {"start": when(2)},
            },
        ],
        diagnosis=[
            {"condition": reference("Condition/c1"), "rank": 2, "use": words("admission")},
            {"condition": {"reference": "Condition/c2", "display": "Gout"}},
        ],
    )
    rows, flat = read(body, tmp_path)
    assert rows == [
        (
            "encounters",
            {
                **OF_ANN,
                "code_system": "v3-ActCode",
                "class_code": "IMP",
                "class": "inpatient",
                "class_now_code": "IMP",
                "identifier": "visit",
                "start_time": at(1, 8),
                "end_time": at(5, 9),
                "type": "Medical; Long",
                "priority": "urgent",
                "service_type": "cardiology",
                "reason": "chest pain",
                "admit_source": "ED",
                "discharge_disposition": "Gone",
                "ended_by": "death",
                "length_hours": 48.0,
                "status": "finished",
                "updated_time": at(6),
                "provider": "St. Elsewhere",
                "part_of": "e0",
            },
        ),
        (
            "encounter_locations",
            {
                **OF_ANN,
                "place": 0,
                "location_id": "l1",
                "location": "Ward 7",
                "physical_type": "Ward",
                "start_time": at(1, 8),
                "end_time": at(2),
            },
        ),
        (
            "encounter_locations",
            {
                **OF_ANN,
                "place": 2,
                "location_id": "l2",
                "location": "Bed 3",
                "physical_type": "bed",
                "start_time": at(2),
                "end_time": None,
            },
        ),
        (
            "encounter_diagnoses",
            {**OF_ANN, "place": 0, "condition_id": "c1", "diagnosis": None, "rank": 2, "use": "admission"},
        ),
        (
            "encounter_diagnoses",
            {**OF_ANN, "place": 1, "condition_id": "c2", "diagnosis": "Gout", "rank": None, "use": None},
        ),
    ]
    assert dict(flat.left_out) == {"location of an Encounter planned": 1}


@pytest.mark.parametrize(
    ("disposition", "ended_by"),
    [
        (words("Expired"), "death"),
        (coded("x", "home", "Home"), None),
        (coded("x", "41", "Hospice"), "death"),
        ({}, None),
    ],
)
def test_a_way_of_leaving_is_death_by_its_word_or_any_of_its_codes(
    tmp_path: Path, disposition: Resource, ended_by: str | None
) -> None:
    body = encounter("e1", when(1), hospitalization={"dischargeDisposition": disposition})
    assert only(body, tmp_path)["ended_by"] == ended_by


@pytest.mark.parametrize(
    ("length", "hours"),
    [
        ({"value": 90, "unit": "min"}, 1.5),
        ({"value": 3, "code": "h"}, 3.0),
        ({"value": 1, "code": "wk"}, 168.0),
        ({"value": 7200, "code": "s"}, 2.0),
        ({"value": 1, "code": "a"}, None),
        ({"value": 1}, None),
        ({"code": "h"}, None),
    ],
)
def test_the_length_of_a_stay_is_in_hours(tmp_path: Path, length: Resource, hours: float | None) -> None:
    found = only(encounter("e1", when(1), length=length), tmp_path)["length_hours"]
    assert found == pytest.approx(hours) if hours is not None else found is None


def test_a_planned_encounter_is_none_and_is_counted(tmp_path: Path) -> None:
    rows, flat = read(encounter("e1", when(1), status="planned"), tmp_path)
    assert rows == []
    assert dict(flat.left_out) == {"Encounter planned": 1}


def a_class(code: str, start: int | None = None, end: int | None = None, display: str | None = None) -> Resource:
    days = {"start": start, "end": end}
    span = {name: when(day) for name, day in days.items() if day is not None}
    return {"class": {"code": code} | ({"display": display} if display else {}), "period": span}


@pytest.mark.parametrize(
    ("now", "history", "first", "last", "later"),
    [
        ("IMP", [], "IMP", "IMP", []),
        ("IMP", [a_class("EMER", 1, 2), a_class("IMP", 2)], "EMER", "IMP", [(2, "IMP", "change")]),
        ("IMP", [a_class("IMP", 2), a_class("EMER", 1, 2)], "EMER", "IMP", [(2, "IMP", "change")]),
        ("IMP", [a_class("EMER", 1, 3)], "EMER", "IMP", [(3, "IMP", "change")]),
        ("IMP", [a_class("EMER", 1)], "EMER", "IMP", [(9, "IMP", "change")]),
        ("EMER", [a_class("EMER", 1, 3)], "EMER", "EMER", []),
        ("IMP", [a_class("EMER"), a_class("IMP", 4)], "EMER", "IMP", [(4, "IMP", "change")]),
        ("IMP", [a_class("EMER", 1), a_class("EMER", 2), a_class("IMP", 4)], "EMER", "IMP", [(4, "IMP", "change")]),
        (
            "SS",
            [a_class("OBSENC", 3, 4), a_class("IMP", 4, 5)],
            None,
            "SS",
            [(3, "OBSENC", "end"), (4, "IMP", "change"), (5, "SS", "change")],
        ),
    ],
)
def test_the_classes_of_a_stay_one_after_the_other(
    tmp_path: Path, now: str, history: list[Resource], first: str | None, last: str, later: list[tuple[int, str, str]]
) -> None:
    body = encounter("e1", when(1), when(9), classHistory=history, **{"class": {"code": now}})
    rows, _ = read(body, tmp_path)
    assert (rows[0][1].get("class_code"), rows[0][1]["class_now_code"]) == (first, last)
    found = [(row["place"], row["since"], row["class_code"], row["known_from"]) for _, row in rows[1:]]
    assert found == [(place, at(day), kind, known) for place, (day, kind, known) in enumerate(later)]
    assert {row["encounter_id"] for _, row in rows} == {"e1"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ({"code": "EMER"}, "emergency"),
        ({"code": "EMER", "display": "Notfall"}, "Notfall"),
        ({"code": "XYZ"}, "XYZ"),
        ({"display": "odd"}, "odd"),
    ],
)
def test_a_class_is_named_as_the_record_says_and_else_as_hl7_does(tmp_path: Path, kind: Resource, name: str) -> None:
    assert only(encounter("e1", when(1), **{"class": kind}), tmp_path)["class"] == name


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
