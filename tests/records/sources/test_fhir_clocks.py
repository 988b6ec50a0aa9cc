"""The clocks of FHIR, one rule at a time, on hand-made resources with hand-computed moments."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import (
    ANN_NUMBER,
    Resource,
    category,
    code,
    encounter,
    everything,
    made,
    ndjson,
    patient,
    reference,
    resource,
    rows,
    seen,
)
from wardround.records import IngestSettings, Store, ingest

STAY = encounter(
    "e1",
    "2150-01-01T08:00:00-05:00",
    "2150-01-05T10:00:00-05:00",
    type=[{"text": "Hospital stay"}],
    reasonCode=[{"text": "Sepsis"}],
    serviceType={"text": "Oncology"},
    hospitalization={"admitSource": {"text": "Home"}, "dischargeDisposition": {"text": "Died"}},
    priority={"text": "elective"},
    length={"value": 4, "code": "d"},
    diagnosis=[{"condition": {"reference": "Condition/c1", "display": "Lymphoma"}, "use": {"text": "billing"}}],
)
IN_STAY = {"encounter": reference("Encounter/e1")}
LAB = {"category": category("laboratory"), "code": code("1", "Sodium")}


def _first(tmp_path: Path, table: str, body: Mapping[str, Any], **settings: timedelta) -> datetime | None:
    """Return the first moment at which a chart shows the row of one resource; None if none does."""
    ndjson(tmp_path / "raw" / "a.ndjson", [patient(), STAY, dict(body)])
    ingest("fhir", tmp_path / "raw", tmp_path / "store", settings=IngestSettings(**settings))  # type: ignore[arg-type]
    store = Store.open(tmp_path / "store")
    (row,) = rows(store, table)
    first: datetime = max(row["_available"], row["_event"])
    if first.year > 9000:
        return None
    for as_of, there in ((first - timedelta(seconds=1), 0), (first, 1)):
        assert store.chart(ANN_NUMBER, as_of).table(table).num_rows == there
    return first


def test_an_encounter_is_there_from_its_start_and_says_its_end_at_its_end(tmp_path: Path) -> None:
    store, _ = made(tmp_path, [patient(), STAY])
    assert seen(store, "encounters", "2150-01-01T07:59:59") == []
    (early,) = seen(store, "encounters", "2150-01-05T09:59:59")
    (late,) = seen(store, "encounters", "2150-01-05T10:00:00")
    told = {"end_time", "discharge_disposition", "length_hours", "status", "reason", "service_type", "type"}
    told |= {"class", "class_code", "code_system", "admit_source", "priority"}
    assert {name for name in early if early[name] is None and late[name] is not None} == told
    assert (late["class"], late["admit_source"], late["priority"]) == ("inpatient", "Home", "elective")
    assert (late["discharge_disposition"], late["length_hours"]) == ("Died", 96.0)


@pytest.mark.parametrize("elements", [{}, {"recordedDate": "2150-01-02T09:00:00Z"}, None])
def test_a_list_of_diagnoses_is_known_at_the_end_if_its_conditions_are(
    tmp_path: Path, elements: Mapping[str, Any] | None
) -> None:
    """Of a condition that is not in the export, or has no date, nobody can say that it was named by then."""
    coded = [] if elements is None else [resource("Condition", "c1", code=code("1"), **elements, **IN_STAY)]
    store, _ = made(tmp_path, [patient(), STAY, *coded])
    assert seen(store, "encounter_diagnoses", "2150-01-05T09:59:59") == []
    listed = seen(store, "encounter_diagnoses", "2150-01-05T10:00:00")
    expected = [("Lymphoma", None, "c1")] if elements else []
    assert [(row["diagnosis"], row["rank"], row["condition_id"]) for row in listed] == expected
    assert len(rows(store, "encounter_diagnoses")) == 1


def test_a_list_of_diagnoses_does_not_tell_of_one_that_is_recorded_later(tmp_path: Path) -> None:
    coded = resource("Condition", "c1", code=code("1"), recordedDate="2150-03-01T09:00:00Z", **IN_STAY)
    store, _ = made(tmp_path, [patient(), STAY, coded])
    assert seen(store, "encounter_diagnoses", "2150-03-01T08:59:59") == []
    (listed,) = seen(store, "encounter_diagnoses", "2150-03-01T09:00:00")
    assert (listed["diagnosis"], listed["condition_id"]) == ("Lymphoma", "c1")


def test_a_stay_that_ends_in_death_has_not_ended_before_it(tmp_path: Path) -> None:
    coded = resource("Condition", "c1", code=code("1"), category=category("encounter-diagnosis"), **IN_STAY)
    store, _ = made(tmp_path, [patient(deceasedDateTime="2150-01-05T22:00:00Z"), STAY, coded])
    (before,) = seen(store, "encounters", "2150-01-05T21:59:59")
    (after,) = seen(store, "encounters", "2150-01-05T22:00:00")
    assert before["end_time"] is before["discharge_disposition"] is None
    assert (after["end_time"], after["discharge_disposition"]) == (datetime(2150, 1, 5, 10), "Died")
    assert "ended_by" not in after
    assert seen(store, "conditions", "2150-01-05T21:59:59") == []
    assert len(seen(store, "conditions", "2150-01-05T22:00:00")) == 1


def test_a_stay_that_has_not_ended_never_says_how_it_ended(tmp_path: Path) -> None:
    going_on = encounter(
        "e1", "2150-01-01", status="in-progress", hospitalization={"dischargeDisposition": {"text": "?"}}
    )
    store, _ = made(tmp_path, [going_on])
    (row,) = seen(store, "encounters", "9000-01-01T00:00:00")
    assert row["status"] is row["discharge_disposition"] is row["end_time"] is None


def _classed(kind: str, start: str, end: str | None = None) -> Resource:
    period = {"start": f"2150-01-{start}T08:00:00Z"} | ({"end": f"2150-01-{end}T08:00:00Z"} if end else {})
    return {"class": {"code": kind}, "period": period}


EMERGENCY, OBSERVED, ADMITTED = _classed("EMER", "01", "02"), _classed("OBSENC", "02", "03"), _classed("IMP", "03")


@pytest.mark.parametrize(
    "history", [[EMERGENCY, OBSERVED, ADMITTED], [ADMITTED, OBSERVED, EMERGENCY], [EMERGENCY, OBSERVED]]
)
@pytest.mark.parametrize("changes", [0, 1])
def test_a_class_that_will_change_looks_as_one_that_will_not(
    tmp_path: Path, history: list[Resource], changes: int
) -> None:
    """The history may or may not hold the present class. Before a change nothing tells that there will be one."""
    span = "2150-01-01T08:00:00Z", "2150-01-08T08:00:00Z"
    store, _ = made(tmp_path / "changes", [encounter("e1", *span, classHistory=history)])
    fewer = [{"class": {"code": "EMER"}}, {"class": {"code": "OBSENC"}, "classHistory": [EMERGENCY, OBSERVED]}][changes]
    other, _ = made(tmp_path / "fewer", [encounter("e1", *span, **fewer)])
    as_of = datetime(2150, 1, 2 + changes, 7, 59, 59)
    shown, expected = (everything(each.chart(ANN_NUMBER, as_of)) for each in (store, other))
    assert shown == expected
    assert seen(store, "encounters", "2150-01-08T07:59:59")[0]["class"] is None
    assert seen(store, "encounters", "2150-01-08T08:00:00")[0]["class"] == "emergency"
    for day, expected in (("02", ["observation"]), ("03", ["observation", "inpatient"])):
        later = seen(store, "encounter_classes", f"2150-01-{day}T08:00:00")
        assert [row["class"] for row in later] == expected
    assert later[1]["since"] == datetime(2150, 1, 3, 8)


CONTACT = "2150-01-01T08:00:00Z", "2150-01-08T08:00:00Z"
LATE_FIRST = _classed("EMER", "01", "03") | {"period": {"start": "2150-01-01T08:05:00Z", "end": "2150-01-03T08:00:00Z"}}


@pytest.mark.parametrize(
    "admitted",
    [
        {"class": {"code": "IMP"}},
        {"class": {"code": "IMP"}, "classHistory": [_classed("EMER", "01", "03")]},
        {"class": {"code": "IMP"}, "classHistory": [_classed("EMER", "01", "03"), ADMITTED]},
        {"class": {"code": "IMP"}, "classHistory": [LATE_FIRST, ADMITTED]},
        {"class": {"code": "AMB"}},
        {"class": {"code": "EMER"}, "classHistory": [_classed("EMER", "01")]},
        {"class": {"code": "EMER"}, "classHistory": [LATE_FIRST]},
    ],
    ids=[
        "overwritten",
        "with the former",
        "with both",
        "dated late",
        "elsewhere",
        "unchanged",
        "unchanged, dated late",
    ],
)
def test_nothing_tells_of_a_class_before_it_changes(tmp_path: Path, admitted: Resource) -> None:
    """Whether it will, was overwritten, or the server keeps a history: all look as a contact that just goes on."""
    store, _ = made(tmp_path / "one", [patient(), encounter("e1", *CONTACT, **admitted)])
    other, _ = made(tmp_path / "other", [patient(), encounter("e1", *CONTACT, **{"class": {"code": "EMER"}})])
    for as_of in (datetime(2150, 1, 1, 8), datetime(2150, 1, 3, 7, 59, 59)):
        shown, expected = (everything(each.chart(ANN_NUMBER, as_of)) for each in (store, other))
        assert shown == expected
    (row,) = seen(store, "encounters", "2150-01-08T08:00:00")
    assert (
        row["class"] is not None or seen(store, "encounter_classes", "2150-01-08T08:00:00")[0]["class"] == "emergency"
    )


def test_a_class_before_the_history_begins_is_not_made_up(tmp_path: Path) -> None:
    """The first entry, which may have been added with the second, waits for the end; the second is dated."""
    later = _classed("EMER", "02")
    store, _ = made(tmp_path, [encounter("e1", *CONTACT, classHistory=[later, ADMITTED])])
    (row,) = seen(store, "encounters", "2150-01-08T08:00:00")
    assert (row["class"], row["class_code"]) == (None, None)
    shown = {
        day: [row["class"] for row in seen(store, "encounter_classes", f"2150-01-{day}T08:00:00")]
        for day in ("02", "03", "08")
    }
    assert shown == {"02": [], "03": ["inpatient"], "08": ["emergency", "inpatient"]}


def test_what_kind_of_visit_it_was_may_have_been_coded_afterwards(tmp_path: Path) -> None:
    """MIMIC-IV on FHIR writes the billing codes of a stay into Encounter.type."""
    billed = encounter("e1", "2150-01-01T08:00:00Z", "2150-01-03T08:00:00Z", type=[code("19301", "Mastectomy")])
    store, _ = made(tmp_path, [patient(), billed])
    before = store.chart(ANN_NUMBER, datetime(2150, 1, 3, 7, 59))
    assert not [event for event in before.events() if "Mastectomy" in str(event)]
    assert seen(store, "encounters", "2150-01-03T08:00:00")[0]["type"] == "Mastectomy"


def test_places_are_there_from_their_own_start_but_not_before_the_stay(tmp_path: Path) -> None:
    names = [resource("Location", "l1", name="Ward 7", physicalType={"text": "Ward"})]
    periods = [
        {"start": "2150-01-01T06:00:00Z", "end": "2150-01-01T09:00:00Z"},
        {"start": "2150-01-02T06:00:00Z", "end": "2150-01-04T06:00:00Z"},
    ]
    places = [{"location": reference("Location/l1"), "period": period} for period in periods]
    places.append({"location": {"display": "No times"}})
    store, _ = made(tmp_path, [*names, {**STAY, "location": places}])
    assert seen(store, "encounter_locations", "2150-01-01T07:00:00") == []
    (emergency,) = seen(store, "encounter_locations", "2150-01-01T08:00:00")
    assert (emergency["location"], emergency["physical_type"], emergency["end_time"]) == ("Ward 7", "Ward", None)
    assert len(seen(store, "encounter_locations", "2150-01-02T05:59:59")) == 1
    assert [row["end_time"] for row in seen(store, "encounter_locations", "2150-01-02T06:00:00")] == [
        datetime(2150, 1, 1, 9),
        None,
    ]
    assert len(seen(store, "encounter_locations", "2150-01-05T10:00:00")) == 3


def test_the_key_of_an_encounter_is_late_in_rows_before_it(tmp_path: Path) -> None:
    early = resource(
        "Observation", "o1", effectiveDateTime="2149-12-31T08:00:00Z", issued="2149-12-31T09:00:00Z", **IN_STAY
    )
    store, _ = made(tmp_path, [STAY, early])
    assert seen(store, "observations", "2149-12-31T09:00:00")[0]["encounter_id"] is None
    assert seen(store, "observations", "2150-01-01T08:00:00")[0]["encounter_id"] == "e1"


CODED = category("encounter-diagnosis")
LISTED = category("problem-list-item")


@pytest.mark.parametrize(
    ("elements", "first"),
    [
        ({"recordedDate": "2150-01-02T08:00:00Z", "onsetDateTime": "2149-01-01"}, datetime(2150, 1, 2, 8)),
        ({"recordedDate": "2150-01-02", "category": CODED}, datetime(2150, 1, 2, 23, 59, 59)),
        ({"category": CODED, **IN_STAY}, datetime(2150, 1, 5, 10)),
        ({"category": CODED, "onsetDateTime": "2150-01-01", **IN_STAY}, datetime(2150, 1, 5, 10)),
        ({"category": CODED, "encounter": reference("Encounter/lost")}, None),
        ({"category": LISTED, "onsetDateTime": "2150-01-01T09:00:00Z", **IN_STAY}, datetime(2150, 1, 1, 9)),
        ({"category": LISTED, **IN_STAY}, None),
        ({"recordedDate": "2150-01-01", "onsetDateTime": "2150-02"}, datetime(2150, 2, 28, 23, 59, 59)),
    ],
)
def test_conditions_are_known_when_recorded_coded_or_begun(
    tmp_path: Path, elements: dict[str, Any], first: datetime | None
) -> None:
    assert _first(tmp_path, "conditions", resource("Condition", "c1", code=code("1"), **elements)) == first


def test_coding_may_take_longer(tmp_path: Path) -> None:
    body = resource("Condition", "c1", code=code("1"), category=CODED, **IN_STAY)
    assert _first(tmp_path, "conditions", body, coding_lag=timedelta(days=10)) == datetime(2150, 1, 15, 10)


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


TAKEN = {"effectiveDateTime": "2150-01-02T06:00:00Z"}


@pytest.mark.parametrize(
    ("table", "elements", "first"),
    [
        ("labs", {**LAB, **TAKEN, "issued": "2150-01-02T09:30:00.5Z"}, datetime(2150, 1, 2, 9, 30, 0, 500000)),
        ("labs", {**LAB, **TAKEN}, datetime(2150, 1, 3, 6)),
        ("labs", {**LAB, "issued": "2150-01-02T09:00:00Z"}, datetime(2150, 1, 2, 9)),
        ("labs", {**LAB, **TAKEN, "issued": "2150-01-01T09:00:00Z"}, datetime(2150, 1, 2, 6)),
        ("labs", LAB, None),
        ("vital_signs", {**TAKEN, "category": category("vital-signs")}, datetime(2150, 1, 2, 6)),
        ("observations", {**TAKEN, "category": category("survey")}, datetime(2150, 1, 2, 6)),
        ("observations", {**TAKEN, "category": category("imaging")}, datetime(2150, 1, 3, 6)),
        ("observations", TAKEN, datetime(2150, 1, 3, 6)),
        ("microbiology", {**TAKEN, "category": category("MB")}, datetime(2150, 1, 9, 6)),
        (
            "susceptibilities",
            {**TAKEN, "code": code("1", "OXACILLIN", "http://h.org/antibiotic")},
            datetime(2150, 1, 2, 6),
        ),
        (
            "observations",
            {
                "effectivePeriod": {"start": "2150-01-02T06:00:00Z", "end": "2150-01-02T18:00:00Z"},
                "category": category("exam"),
            },
            datetime(2150, 1, 2, 18),
        ),
    ],
)
def test_results_are_known_when_issued_and_else_after_the_lag_of_their_sort(
    tmp_path: Path, table: str, elements: dict[str, Any], first: datetime | None
) -> None:
    assert _first(tmp_path, table, resource("Observation", "o1", **elements)) == first


def test_an_assumed_lag_is_a_setting_and_is_said(tmp_path: Path) -> None:
    body = resource("Observation", "o1", **LAB, **TAKEN)
    assert _first(tmp_path, "labs", body, result_lag=timedelta(hours=2)) == datetime(2150, 1, 2, 8)
    said = Store.open(tmp_path / "store").manifest["assumptions"]
    assert any("results without a time of issue" in line and "2:00:00 (result_lag)" in line for line in said)


def _culture(susceptible_at: str) -> list[dict[str, Any]]:
    grown = {"category": category("MB"), **TAKEN}
    return [
        resource(
            "Observation", "test", code=code("t", "Blood culture"), hasMember=[reference("Observation/org")], **grown
        ),
        resource(
            "Observation",
            "org",
            code=code("o", "E. coli"),
            hasMember=[reference("Observation/susc")],
            derivedFrom=[reference("Observation/test")],
            **grown,
        ),
        resource(
            "Observation",
            "susc",
            code=code("a", "Oxacillin", "http://h.org/antibiotic"),
            effectiveDateTime=susceptible_at,
            derivedFrom=[reference("Observation/org")],
            valueCodeableConcept={"text": "Resistant"},
        ),
    ]


def test_an_organism_waits_for_what_it_resists_and_no_link_comes_before_both_its_ends(tmp_path: Path) -> None:
    store, _ = made(tmp_path, _culture("2150-01-12T00:00:00Z"))
    shown = {
        day: sorted(row["description"] for row in seen(store, "microbiology", f"2150-01-{day}T06:00:00"))
        for day in ("08", "09", "11", "12")
    }
    assert shown == {
        "08": [],
        "09": ["Blood culture"],
        "11": ["Blood culture"],
        "12": ["Blood culture", "E. coli"],
    }
    assert seen(store, "observation_members", "2150-01-11T06:00:00") == []
    links = seen(store, "observation_members", "2150-01-12T06:00:00")
    assert {(row["observation_id"], row["member_id"]) for row in links} == {("test", "org"), ("org", "susc")}
    assert "member_id" not in seen(store, "microbiology", "2150-01-12T06:00:00")[0]


def test_a_susceptibility_known_first_does_not_name_its_organism(tmp_path: Path) -> None:
    store, _ = made(tmp_path, _culture("2150-01-04T00:00:00Z"))
    (early,) = seen(store, "susceptibilities", "2150-01-04T00:00:00")
    assert (early["value_text"], early["derived_from"]) == ("Resistant", None)
    assert seen(store, "susceptibilities", "2150-01-09T06:00:00")[0]["derived_from"] == "org"


def test_reports_and_their_results(tmp_path: Path) -> None:
    panel = {"code": code("p", "Panel"), "conclusion": "Low sodium", **TAKEN}
    report = resource(
        "DiagnosticReport", "r1", issued="2150-01-02T08:00:00Z", result=[reference("Observation/o1")], **panel
    )
    result = resource("Observation", "o1", issued="2150-01-02T09:00:00Z", **LAB, **TAKEN)
    culture = resource("DiagnosticReport", "r2", category=category("MB"), **panel)
    plain = resource("DiagnosticReport", "r3", **panel)
    store, _ = made(tmp_path, [report, result, culture, plain])
    firsts = {row["report_id"]: row["_available"] for row in rows(store, "diagnostic_reports")}
    assert firsts == {"r1": datetime(2150, 1, 2, 8), "r2": datetime(2150, 1, 9, 6), "r3": datetime(2150, 1, 3, 6)}
    assert seen(store, "report_results", "2150-01-02T08:59:59") == []
    assert [row["observation_id"] for row in seen(store, "report_results", "2150-01-02T09:00:00")] == ["o1"]


PCS = "http://hl7.org/fhir/sid/icd-10-pcs"
PERIOD = {"performedPeriod": {"start": "2150-01-02T08:00:00Z", "end": "2150-01-02T11:00:00Z"}}


@pytest.mark.parametrize(
    ("elements", "first"),
    [
        (PERIOD, datetime(2150, 1, 2, 8)),
        ({"performedDateTime": "2150-01-02"}, datetime(2150, 1, 2, 23, 59, 59)),
        ({"performedPeriod": {"start": "2150-01-02T08:00:00Z"}}, datetime(2150, 1, 2, 8)),
        ({"performedDateTime": "2150-01-02", "code": code("1", system=PCS), **IN_STAY}, datetime(2150, 1, 5, 10)),
        ({"performedDateTime": "2150-01-02", "code": code("1", system=PCS)}, None),
    ],
)
def test_procedures_are_known_from_their_start_and_billed_ones_after_the_stay(
    tmp_path: Path, elements: dict[str, Any], first: datetime | None
) -> None:
    assert _first(tmp_path, "procedures", resource("Procedure", "p1", **elements)) == first


def test_the_condition_that_a_procedure_was_for_is_named_once_it_is_known(tmp_path: Path) -> None:
    why = {"reference": "Condition/c1", "display": "Lymphoma"}
    store, _ = made(
        tmp_path,
        [
            resource("Condition", "c1", code=code("1"), recordedDate="2150-01-04T00:00:00Z"),
            resource("Procedure", "p1", reasonReference=[why], **PERIOD),
            resource("MedicationRequest", "m1", reasonReference=[why], authoredOn="2150-01-02T00:00:00Z"),
        ],
    )
    for table in ("procedures", "medication_requests"):
        before, after = (seen(store, table, f"2150-01-0{day}T00:00:00")[0] for day in (3, 4))
        assert before["reason_condition"] is before["reason_condition_id"] is None
        assert (after["reason_condition"], after["reason_condition_id"]) == ("Lymphoma", "c1")


def test_an_order_says_that_it_ended_an_hour_after_it_did(tmp_path: Path) -> None:
    validity = {"start": "2150-01-02T08:00:00Z", "end": "2150-01-03T08:00:00Z"}
    order = resource(
        "MedicationRequest",
        "m1",
        authoredOn="2150-01-02T07:00:00Z",
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
            resource("MedicationAdministration", "a", effectiveDateTime="2150-01-02T08:00:00Z"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "medication_dispenses",
            resource("MedicationDispense", "d", whenPrepared="2150-01-02", whenHandedOver="2150-01-03T08:00:00Z"),
            datetime(2150, 1, 2, 23, 59, 59),
        ),
        (
            "medication_dispenses",
            resource("MedicationDispense", "d", whenPrepared="2150-01"),
            datetime(2150, 1, 31, 23, 59, 59),
        ),
        (
            "medication_statements",
            resource("MedicationStatement", "s", dateAsserted="2150-01-02T08:00:00Z"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "medication_statements",
            resource("MedicationStatement", "s", effectivePeriod={"start": "2149", "end": "2150-01-02T08:00:00Z"}),
            datetime(2149, 12, 31, 23, 59, 59),
        ),
        (
            "immunizations",
            resource("Immunization", "i", occurrenceDateTime="2140-01-02", recorded="2150-01-02T08:00:00Z"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "immunizations",
            resource("Immunization", "i", occurrenceDateTime="2150-01-02T08:00:00Z"),
            datetime(2150, 1, 2, 8),
        ),
        (
            "allergies",
            resource("AllergyIntolerance", "y", recordedDate="2150-01-02T08:00:00Z", onsetDateTime="2120"),
            datetime(2150, 1, 2, 8),
        ),
        ("allergies", resource("AllergyIntolerance", "y"), None),
        (
            "specimens",
            resource(
                "Specimen",
                "s",
                collection={"collectedDateTime": "2150-01-02T08:00:00Z"},
                receivedTime="2150-01-02T09:00:00Z",
            ),
            datetime(2150, 1, 2, 8),
        ),
        ("imaging_studies", resource("ImagingStudy", "g", started="2150-01-02T08:00:00Z"), datetime(2150, 1, 2, 8)),
        ("documents", resource("DocumentReference", "t", date="2150-01-02T08:00:00Z"), datetime(2150, 1, 2, 8)),
        (
            "documents",
            resource("DocumentReference", "t", date="2150-01-02", context={"period": {"end": "2150-01-04T08:00:00Z"}}),
            datetime(2150, 1, 4, 8),
        ),
    ],
)
def test_the_first_moment_of_every_other_sort(
    tmp_path: Path, table: str, body: dict[str, Any], first: datetime | None
) -> None:
    assert _first(tmp_path, table, body) == first


def test_a_dispense_without_a_time_is_known_once_its_encounter_is_over(tmp_path: Path) -> None:
    """At its order it would tell that it will be completed, and not cancelled."""
    stay = encounter("e1", "2150-01-01T08:00:00Z", "2150-01-05T10:00:00Z")
    order = resource("MedicationRequest", "m1", authoredOn="2150-01-02T08:00:00Z", encounter=reference("Encounter/e1"))
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
    ("taken", "issued", "known"),
    [
        ("2150-06-01T18:00:00+02:00", "2150-06-01T16:30:00Z", "2150-06-01T18:30:00"),
        ("2150-06-01T18:00:00+02:00", "2150-06-01T16:30:00.250+00:00", "2150-06-01T18:30:00.250"),
        ("2150-06-01T18:00:00-05:00", "2150-06-01T23:30:00Z", "2150-06-01T18:30:00"),
        ("2150-06-01T18:00:00+02:00", "2150-06-01T18:30:00+02:00", "2150-06-01T18:30:00"),
        ("2150-06-01T18:00:00Z", "2150-06-01T18:30:00Z", "2150-06-01T18:30:00"),
        ("2150-06-01", "2150-06-02T18:30:00Z", "2150-06-02T18:30:00"),
        ("2150-06-01T18:00:00+02:00", "9999-12-31T23:59:59Z", None),
    ],
)
def test_a_time_of_issue_in_utc_is_read_on_the_clock_of_the_specimen(
    tmp_path: Path, taken: str, issued: str, known: str | None
) -> None:
    """``issued`` is an instant, which servers write in UTC; read as the clock on the wall it would be hours early."""
    body = resource("Observation", "o1", **LAB, effectiveDateTime=taken, issued=issued)
    assert _first(tmp_path, "labs", body) == (known and datetime.fromisoformat(known))


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
    assert _first(tmp_path, "documents", body) == datetime(2150, 6, 1, 19)


@pytest.mark.parametrize(
    ("results", "known"),
    [
        ([], None),
        (["2150-01-04T09:00:00Z"], datetime(2150, 1, 4, 9)),
        (["2150-01-09T09:00:00Z", "2150-01-06T09:00:00Z"], datetime(2150, 1, 6, 9)),
    ],
    ids=["no result", "one", "two"],
)
def test_an_isolate_is_there_with_the_first_result_that_names_it(
    tmp_path: Path, results: list[str], known: datetime | None
) -> None:
    taken = {"collection": {"collectedDateTime": "2150-01-02T10:00:00Z"}}
    named = {"specimen": reference("Specimen/isolate"), "category": category("laboratory")}
    body = [
        patient(),
        resource("Specimen", "blood", type={"text": "Blood"}, **taken),
        resource("Specimen", "isolate", type={"text": "Isolate"}, parent=[reference("Specimen/blood")], **taken),
        *(
            resource("Observation", f"o{place}", issued=issued, code=code("1", "Organism"), status="final", **named)
            for place, issued in enumerate(results)
        ),
    ]
    store, _ = made(tmp_path, body)
    before = known - timedelta(seconds=1) if known else datetime(2190, 1, 1)
    assert [row["specimen_id"] for row in seen(store, "specimens", str(before))] == ["blood"]
    if known:
        assert len(seen(store, "specimens", str(known))) == 2
