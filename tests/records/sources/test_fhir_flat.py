"""FHIR made flat: data types, references, bundles, and what becomes which cell."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import (
    ANN_NUMBER,
    bundle,
    category,
    code,
    encounter,
    made,
    patient,
    reference,
    resource,
    rows,
    seen,
)
from wardround.core import RecordError
from wardround.records import Store, ingest
from wardround.records.sources.fhir import files
from wardround.records.sources.fhir.context import target
from wardround.records.sources.fhir.files import Found
from wardround.records.sources.fhir.values import Malformed, concept, day, moment, number, plain_texts, system_name


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2150-01-02T03:04:05", datetime(2150, 1, 2, 3, 4, 5)),
        ("2150-01-02T03:04:05.1234567", datetime(2150, 1, 2, 3, 4, 5, 123456)),
        ("2150-01-02T03:04", datetime(2150, 1, 2, 3, 4)),
        ("2150-01-02T00:00:00", datetime(2150, 1, 2)),
        ("2150-01-02", datetime(2150, 1, 2, 23, 59, 59)),
        ("2152-02", datetime(2152, 2, 29, 23, 59, 59)),
        ("2150", datetime(2150, 12, 31, 23, 59, 59)),
    ],
)
def test_times_are_the_clock_on_the_wall_and_days_their_last_second(written: str, read: datetime) -> None:
    assert moment({"at": written}, "at") == read


@pytest.mark.parametrize(
    "written", ["", "yesterday", "2150-13-01", "2150-02-30", "2150-01-02T25:00:00", "2150-01-02 03:04:05", 5, ["2150"],
                "2150-01-02T03:04:05+5", "2150-01-02T03:04:05+05:00", "2150-01-02T03:04:05 nonsense", "2150-1-2"],
)  # fmt: skip
def test_what_is_no_time_is_malformed(written: object) -> None:
    with pytest.raises(Malformed, match="at: cannot be read as a time"):
        moment({"at": written}, "at")


def test_days_of_birth_may_be_a_month_or_a_year() -> None:
    assert [day({"d": text}, "d") for text in ("1950-06-05", "1950-06", "1950")] == [
        date(1950, 6, 5),
        date(1950, 6, 30),
        date(1950, 12, 31),
    ]


def test_a_concept_has_the_code_the_user_chose_and_the_users_words() -> None:
    codings = [
        {"system": "http://snomed.info/sct", "code": "1", "display": "One"},
        {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": "I10", "userSelected": True},
    ]
    found = concept({"coding": codings, "text": "High pressure"})
    assert (found.system, found.code, found.label, found.others) == ("ICD10CM", "I10", "High pressure", "SNOMED//1")
    assert found.icd_version == 10
    assert concept({"coding": codings}).label == "One"
    assert concept({"coding": [{"code": "x"}]}).label == "x"
    assert not concept({})
    assert concept({"text": "only words"}).code is None


def test_code_systems_have_the_names_of_the_omop_vocabularies() -> None:
    urls = ["http://loinc.org", "http://loinc.org/", "urn:oid:2.16.840.1.113883.6.96", "https://h.org/cs/local-codes"]
    assert [system_name(url) for url in urls] == ["LOINC", "LOINC", "SNOMED", "local-codes"]


def test_numbers_may_be_written_as_texts_and_nothing_else_is_one() -> None:
    assert [number({"v": value}, "v") for value in (1, 2.5, "3.5")] == [1.0, 2.5, 3.5]
    for wrong in (True, "high", [1], {}, float("nan"), "inf", 10**400):
        with pytest.raises(Malformed, match="v: expected a number"):
            number({"v": wrong}, "v")


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("Patient/a", ("Patient", "a")),
        ("http://server.org/fhir/Patient/a", ("Patient", "a")),
        ("Patient/a/_history/3", ("Patient", "a")),
        ("urn:uuid:1", ("Encounter", "e1")),
        ("urn:uuid:2", (None, "2")),
        ("a", (None, "a")),
        ("Practitioner?identifier=x|1", None),
        ("", None),
    ],
)
def test_references_in_all_spellings(url: str, named: object) -> None:
    found = Found(file=Path("x"), line=1, full_urls={"urn:uuid:1": "Encounter/e1"})
    assert target(found, {"reference": url}) == named


def test_plain_text_is_decoded_and_other_attachments_are_named() -> None:
    data = base64.b64encode("Hésitant\r\nvoilà".encode()).decode()
    words, missing = plain_texts(
        [
            {"contentType": "text/plain; charset=utf-8", "data": data},
            {"contentType": "application/pdf", "data": data},
            {"contentType": "text/plain", "url": "Binary/1"},
        ]
    )
    assert words == "Hésitant\nvoilà"
    assert missing == ["attachment of type application/pdf", "attachment kept elsewhere (url)"]


def test_a_transaction_resolves_its_urns_and_gives_ids_to_what_has_none(tmp_path: Path) -> None:
    ann = patient()
    del ann["id"]
    stay = encounter("e1", "2150-01-01T08:00:00", "2150-01-02T08:00:00", subject=reference("urn:uuid:p"))
    problem = resource(
        "Condition",
        "c1",
        about="urn:uuid:p",
        encounter=reference("urn:uuid:e"),
        recordedDate="2150-01-01",
        code=code("1"),
    )
    entries = [
        {"fullUrl": "urn:uuid:p", "resource": ann},
        {"fullUrl": "urn:uuid:e", "resource": stay},
        {"fullUrl": "urn:uuid:c", "resource": problem},
        {"request": {"method": "DELETE", "url": "Condition/old"}},
        {"resource": None},
        {"fullUrl": "urn:uuid:x", "resource": "not a resource"},
    ]
    (tmp_path / "raw").mkdir()
    text = json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})
    (tmp_path / "raw" / "one.json").write_text(text)
    report = ingest("fhir", tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    (person,) = rows(store, "patients", int(store.subjects[0]))
    assert person["patient_id"] == "p"
    (found,) = rows(store, "conditions", int(store.subjects[0]))
    assert found["encounter_id"] == "e1"
    assert report.quarantined == {"raw_records": 1}


def test_bundles_bulk_files_and_single_resources_go_together(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    bundle(
        raw / "search.json.gz",
        [patient(), resource("Condition", "c1", recordedDate="2150", code=code("1"))],
        "searchset",
    )
    (raw / "one.JSON").write_text(json.dumps(resource("Condition", "c2", recordedDate="2150", code=code("2"))))
    lines = [
        resource("Condition", "c3", recordedDate="2150"),
        {"resourceType": "Bundle", "entry": [{"resource": patient("bob")}]},
    ]
    (raw / "mixed.ndjson").write_text("\ufeff" + "\n".join(map(json.dumps, lines)))
    report = ingest("fhir", raw, tmp_path / "store")
    assert report.rows == {"patients": 2, "conditions": 3}
    assert report.quarantined == {}


def test_a_bundle_too_large_to_read_whole_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(tmp_path / "raw" / "big.json", [patient()])
    (largest,) = (path.stat().st_size for path in (tmp_path / "raw").iterdir())
    monkeypatch.setattr(files, "LARGEST_BUNDLE", largest)
    bundle(tmp_path / "raw" / "larger.json", [patient("bobby")])
    (tmp_path / "raw" / "ann.ndjson").write_text(json.dumps(patient()))
    report = ingest("fhir", tmp_path / "raw", tmp_path / "store")
    assert (report.quarantined, report.subjects) == ({"raw_records": 1}, 1), "what fits exactly is read"
    assert "export it as NDJSON" in (tmp_path / "store" / "quarantine" / "raw_records.jsonl").read_text()


def test_a_truncated_bundle_is_one_clear_line(tmp_path: Path) -> None:
    path = bundle(tmp_path / "raw" / "b.json.gz", [patient()])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RecordError, match=r"b\.json\.gz: the file is truncated or damaged"):
        ingest("fhir", tmp_path / "raw", tmp_path / "store")


def test_broken_resources_are_set_aside_with_the_element_that_is_wrong(tmp_path: Path) -> None:
    broken = {
        "subject: missing": resource("Condition", "c1", about=None),
        "subject: the reference has no id": resource("Condition", "c2", about="Patient?name=x"),
        "recordedDate: cannot be read as a time: 'soon'": resource("Condition", "c3", recordedDate="soon"),
        "code: expected an object": resource("Condition", "c4", code="I10"),
        "coding: expected objects": resource("Condition", "c5", code={"coding": ["I10"]}),
        "id: missing": resource("Condition", ""),
        "value: expected a number": resource("Observation", "o", valueQuantity={"value": "high"}),
        "not base64": resource(
            "DocumentReference", "d", content=[{"attachment": {"contentType": "text/plain", "data": "a"}}]
        ),
    }
    store, report = made(tmp_path, [patient(), *broken.values()])
    lines = (tmp_path / "store" / "quarantine" / "raw_records.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [row["line"] for row in found] == list(range(2, 2 + len(broken)))
    for row, reason in zip(found, broken, strict=True):
        assert reason in row["reason"]
    assert report.rows == {"patients": 1}
    assert len(store.subjects) == 1


def test_what_is_about_nobody_or_never_so_is_counted(tmp_path: Path) -> None:
    refuted = {"coding": [{"code": "refuted"}]}
    _, report = made(
        tmp_path,
        [
            patient(),
            patient(),
            patient("bob", deceasedBoolean=True),
            resource("Observation", "o1", about="Device/7"),
            resource("Observation", "o2", status="entered-in-error"),
            resource("Condition", "c1", verificationStatus=refuted),
            resource("AllergyIntolerance", "a1", verificationStatus=refuted),
            resource("CarePlan", "p1"),
            resource("Condition", "c2", about="Patient/eve", recordedDate="2150"),
            encounter("e1", "2150-01-01", status="planned"),
            encounter("e2", "2150-01-01", location=[{"status": "planned", "location": {"display": "Ward"}}]),
            resource("Organization", "g1", name="A hospital"),
            resource("MedicationRequest", "m1", medicationReference=reference("Medication/none")),
        ],
    )
    assert report.left_out == {
        "Patient given again": 1,
        "Patient known to be dead without a date": 1,
        "Observation of a Device": 1,
        "CarePlan": 1,
        "subjects without a Patient in the export": 1,
        "Encounter planned": 1,
        "location of an Encounter planned": 1,
        "name of a medication whose Medication is not in the export": 1,
    }
    undated = {"medication_requests": 1, "observations": 1, "conditions": 1, "allergies": 1}
    assert report.never_visible == undated


def test_resources_given_twice_are_kept_once_and_counted(tmp_path: Path) -> None:
    pressures = [
        {"code": code("1"), "valueQuantity": {"value": 120}},
        {"code": code("2"), "valueQuantity": {"value": 80}},
    ]
    places = [{"location": {"display": "Ward"}, "period": {"start": "2150-01-01T09:00:00"}}] * 2
    listed = [{"condition": reference("Condition/c1"), "rank": 1}]
    bodies = [
        encounter("e1", "2150-01-01T08:00:00", "2150-01-02", location=places, diagnosis=listed),
        resource("Condition", "c1", recordedDate="2150-01-01", code=code("1")),
        resource(
            "Observation",
            "o1",
            issued="2150-01-01T08:00:00",
            component=pressures,
            hasMember=[reference("Observation/o2")],
        ),
        resource("Observation", "o2", issued="2150-01-01T08:00:00"),
        resource("DiagnosticReport", "r1", issued="2150-01-01T08:00:00", result=[reference("Observation/o1")]),
    ]
    again = [{**body, "meta": {"lastUpdated": "2150-02-01T00:00:00"}} for body in bodies]
    store, report = made(tmp_path / "twice", [patient(), *bodies, *again])
    once, expected = made(tmp_path / "once", [patient(), *bodies])
    assert (report.rows, report.quarantined) == (expected.rows, {})
    assert report.repeated_rows == {name: count for name, count in expected.rows.items() if name != "patients"}
    assert expected.rows["encounter_locations"] == 2
    for table in expected.rows:
        assert rows(store, table) == rows(once, table)
        assert not rows(store, table) or "place" not in rows(store, table)[0]


def test_two_resources_of_one_id_that_differ_are_one_without_what_they_contradict_each_other_in(tmp_path: Path) -> None:
    first = resource("Observation", "o1", issued="2150-01-01T08:00:00", code=code("1"), valueInteger=1)
    store, report = made(tmp_path, [patient(), first, {**first, "valueInteger": 2}])
    assert report.quarantined == {"observations": 1}
    [row] = rows(store, "observations")
    assert (row["code"], row["value"]) == ("1", None)


@pytest.mark.parametrize("order", [1, -1])
def test_of_versions_of_which_one_says_no_time_the_others_hold_from_theirs(tmp_path: Path, order: int) -> None:
    """Which of them was written first nobody knows: what they disagree in is shown from the update that says it."""
    undated = resource("Condition", "c1", code=code("I10"), recordedDate="2150-01-01T08:00:00")
    dated = [
        {**undated, "code": code("I11"), "meta": {"lastUpdated": "2150-01-03T08:00:00"}},
        {
            **undated,
            "code": code("I11"),
            "verificationStatus": {"coding": [{"code": "entered-in-error"}]},
            "meta": {"lastUpdated": "2150-01-05T08:00:00"},
        },
    ]
    store, report = made(tmp_path, [patient(), *[undated, *dated][::order]])
    assert report.quarantined == {}
    moments = ["2150-01-01T07:59:59", "2150-01-01T08:00:00", "2150-01-03T07:59:59", "2150-01-03T08:00:00"]
    found = [[row["code"] for row in seen(store, "conditions", at)] for at in (*moments, "2150-01-05T08:00:00")]
    assert found == [[], [None], [None], ["I11"], []]


def _measured(tmp_path: Path, **value: Any) -> dict[str, Any]:
    store, _ = made(tmp_path, [resource("Observation", "o", code=code("1"), issued="2150-01-01T00:00:00", **value)])
    return dict(rows(store, "observations")[0])


@pytest.mark.parametrize(
    ("element", "value", "text", "unit"),
    [
        ({"valueQuantity": {"value": 7.1, "unit": "mg/dL", "code": "x"}}, 7.1, None, "mg/dL"),
        ({"valueQuantity": {"value": 16, "comparator": ">=", "code": "mg/L"}}, 16.0, ">=16 mg/L", "mg/L"),
        ({"valueInteger": 3}, 3.0, None, None),
        ({"valueString": " cloudy "}, None, "cloudy", None),
        ({"valueBoolean": False}, None, "false", None),
        ({"valueCodeableConcept": {"coding": [{"code": "R", "display": "Resistant"}]}}, None, "Resistant", None),
        ({"valueRange": {"low": {"value": 5}, "high": {"value": 10, "unit": "/HPF"}}}, None, "5 - 10 /HPF", None),
        ({"valueRatio": {"numerator": {"value": 1}, "denominator": {"value": 128}}}, None, "1 : 128", None),
        ({"dataAbsentReason": {"text": "refused"}}, None, "no value: refused", None),
        ({"valueSampledData": {"origin": {"value": 1}, "period": 1, "dimensions": 1}}, None, "a recorded curve", None),
    ],
)
def test_values_of_every_type(
    tmp_path: Path, element: dict[str, Any], value: float | None, text: str | None, unit: str | None
) -> None:
    row = _measured(tmp_path, **element)
    assert (row["value"], row["value_text"], row["unit"]) == (value, text, unit)


def test_reference_ranges_are_numbers_where_there_is_one_and_words_where_there_are_more(tmp_path: Path) -> None:
    one = [{"low": {"value": 3.5}, "high": {"value": 5.1}, "text": "adults"}]
    row = _measured(
        tmp_path / "one", referenceRange=one, interpretation=[{"coding": [{"code": "H", "display": "High"}]}]
    )
    assert (row["reference_low"], row["reference_high"], row["reference_text"]) == (3.5, 5.1, "adults")
    assert row["interpretation"] == "High"
    row = _measured(tmp_path / "two", referenceRange=[*one, {"high": {"value": 9}}])
    assert (row["reference_low"], row["reference_text"]) == (None, "adults; <= 9")


def test_components_are_rows_of_their_own_that_name_the_whole(tmp_path: Path) -> None:
    pressures = [
        {"code": code("8480-6", "Systolic"), "valueQuantity": {"value": 120, "unit": "mmHg"}},
        {"code": code("8462-4", "Diastolic"), "valueQuantity": {"value": 80, "unit": "mmHg"}},
    ]
    body = resource(
        "Observation",
        "bp",
        code=code("85354-9", "Blood pressure"),
        category=category("vital-signs"),
        effectiveDateTime="2150-01-01T08:00:00",
        component=pressures,
    )
    store, _ = made(tmp_path, [body])
    found = {row["observation_id"]: row for row in rows(store, "vital_signs")}
    assert {key: (row["description"], row["value"], row["component_of"]) for key, row in found.items()} == {
        "bp": ("Blood pressure", None, None),
        "bp.1": ("Systolic", 120.0, "bp"),
        "bp.2": ("Diastolic", 80.0, "bp"),
    }
    assert {row["effective_time"] for row in found.values()} == {datetime(2150, 1, 1, 8)}


@pytest.mark.parametrize(
    ("elements", "table"),
    [
        ({"category": category("laboratory")}, "labs"),
        ({"category": category("vital-signs")}, "vital_signs"),
        ({"category": category("survey")}, "observations"),
        ({}, "observations"),
        ({"category": [*category("laboratory"), *category("MB")]}, "microbiology"),
        ({"code": code("1", "E. COLI", "http://h.org/microbiology-organism")}, "microbiology"),
    ],
)
def test_observations_go_to_the_table_of_their_sort(tmp_path: Path, elements: dict[str, Any], table: str) -> None:
    _, report = made(tmp_path, [resource("Observation", "o", effectiveDateTime="2150-01-01", **elements)])
    assert report.rows == {table: 1}


def test_medications_are_named_by_reference_contained_or_inline(tmp_path: Path) -> None:
    rxnorm = "http://www.nlm.nih.gov/research/umls/rxnorm"
    saline = resource("Medication", "m2", code=code("9", "Saline", rxnorm))
    mix = resource(
        "Medication",
        "m3",
        ingredient=[{"itemReference": reference("Medication/m2")}, {"itemReference": reference("Medication/m1")}],
    )
    bare = resource("Medication", "m1", code=code("0071", system="http://hl7.org/fhir/sid/ndc"))
    bare["identifier"] = [
        {"system": "http://h.org/drug-name", "value": "Heparin"},
        {"system": "http://h.org/form", "value": "HEP5"},
    ]
    inside = resource("Medication", "m", code=code("7", "Aspirin", rxnorm))
    told = {
        "by reference": {"medicationReference": reference("Medication/m2")},
        "named by an identifier": {"medicationReference": reference("Medication/m1")},
        "mixture": {"medicationReference": reference("Medication/m3")},
        "contained": {"medicationReference": reference("#m"), "contained": [inside]},
        "inline": {"medicationCodeableConcept": code("8", "Digoxin", rxnorm)},
        "code known elsewhere": {"medicationCodeableConcept": code("HEP5", system="http://h.org/form")},
        "words only": {"medicationReference": {"display": "Something white"}},
        "forbidden": {"medicationCodeableConcept": code("7", "Aspirin", rxnorm), "doNotPerform": True},
    }
    requests = [resource("MedicationRequest", key, authoredOn="2150-01-01", **body) for key, body in told.items()]
    store, report = made(tmp_path, [patient(), *requests, mix, saline, bare])
    found = {
        row["request_id"]: (row["code_system"], row["code"], row["medication"])
        for row in rows(store, "medication_requests")
    }
    assert found == {
        "by reference": ("RxNorm", "9", "Saline"),
        "named by an identifier": ("NDC", "0071", "Heparin"),
        "mixture": (None, None, "Saline + Heparin"),
        "contained": ("RxNorm", "7", "Aspirin"),
        "inline": ("RxNorm", "8", "Digoxin"),
        "code known elsewhere": ("form", "HEP5", "Heparin"),
        "words only": (None, None, "Something white"),
        "forbidden": (None, None, "not done: Aspirin"),
    }
    assert report.left_out == {}


def test_what_was_not_done_has_no_code_that_could_be_counted(tmp_path: Path) -> None:
    store, _ = made(
        tmp_path,
        [
            resource("Procedure", "p", status="not-done", code=code("1", "Biopsy"), performedDateTime="2150-01-01"),
            resource(
                "Immunization", "i", status="not-done", vaccineCode=code("2", "Flu"), occurrenceDateTime="2150-01-01"
            ),
        ],
    )
    for table, name in (("procedures", "procedure"), ("immunizations", "vaccine")):
        (row,) = rows(store, table)
        assert row["code"] is None
        assert row[name].startswith("not done: ")


def test_dosages_in_words_and_numbers(tmp_path: Path) -> None:
    repeat = {"frequency": 2, "period": 1, "periodUnit": "d", "boundsDuration": {"value": 5, "unit": "d"}}
    rate = {"numerator": {"value": 1, "unit": "mL"}, "denominator": {"value": 1, "unit": "h"}}
    dosage = {
        "text": "with food",
        "timing": {"repeat": repeat},
        "asNeededBoolean": True,
        "route": {"text": "oral"},
        "doseAndRate": [{"doseQuantity": {"value": 5, "unit": "mg"}, "rateRatio": rate}],
    }
    store, _ = made(tmp_path, [resource("MedicationRequest", "m", authoredOn="2150-01-01", dosageInstruction=[dosage])])
    (row,) = rows(store, "medication_requests")
    cells = ("dose", "dose_unit", "rate", "dosage_text", "route", "frequency", "duration")
    assert [row[name] for name in cells] == [
        5.0, "mg", "1 mL per 1 h", "with food", "oral", "2 x per 1 d; as needed", "5 d",
    ]  # fmt: skip


def test_people_have_no_names_or_addresses(tmp_path: Path) -> None:
    core = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
    race = [{"url": "ombCategory", "valueCoding": {"display": "White"}}, {"url": "text", "valueString": "Mixed"}]
    numbers = [{"value": "1"}, {"value": "MRN7", "type": {"coding": [{"code": "MR"}]}}]
    body = patient(
        name=[{"family": "Secret"}],
        address=[{"city": "Hidden"}],
        telecom=[{"value": "555"}],
        identifier=numbers,
        extension=[{"url": f"{core}race", "extension": race}, {"url": f"{core}birthsex", "valueCode": "F"}],
        communication=[{"language": {"text": "French"}}],
        maritalStatus={"text": "Married"},
    )
    store, _ = made(tmp_path, [body])
    (row,) = rows(store, "patients")
    assert "Secret" not in str(row) + str(store.spec.tables["patients"].columns)
    assert (row["identifier"], row["race"], row["birth_sex"], row["language"]) == ("MRN7", "Mixed", "F", "French")
    assert store.chart(ANN_NUMBER, datetime(2020, 6, 4)).age == 69
    assert store.chart(ANN_NUMBER, datetime(2020, 6, 5)).age == 70
