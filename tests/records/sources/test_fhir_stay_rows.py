"""What a patient and an encounter become, cell by cell: every element that is taken over, each different."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from records.fhir_resources import Resource, encounter, reference, resource
from records.fhir_rows import ANN, OF_ANN, at, coded, only, read, when, words

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
                "person": "ann",
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
