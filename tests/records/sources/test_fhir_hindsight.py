"""What a FHIR export says in hindsight changes no earlier chart: outcomes changed in raw files, charts compared."""

from __future__ import annotations

import base64
import copy
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
    patient,
    reference,
    resource,
    rows,
    seen,
)
from wardround.records import Store
from wardround.records.sources.fhir.context import DATED_PARTS
from wardround.records.sources.fhir.flattener import MAKERS

DAY, LATER = "2150-01-02T08:00:00", "2150-01-06T08:00:00"
SPAN = {"start": DAY, "end": "2150-01-04T08:00:00"}
STAY = encounter("e1", "2150-01-01T08:00:00", "2150-01-05T10:00:00")
IN_STAY = {"encounter": reference("Encounter/e1")}
MOMENTS = [datetime(2150, 1, 1, 9) + timedelta(hours=6 * step) for step in range(20)]
"""Until 2150-01-06 03:00."""


def _text(words: str) -> Resource:
    return {"contentType": "text/plain", "data": base64.b64encode(words.encode()).decode()}


WHOLES: Mapping[str, Resource] = {
    "Condition": {"recordedDate": DAY, **IN_STAY},
    "AllergyIntolerance": {"recordedDate": DAY},
    "Procedure": {"performedDateTime": DAY, **IN_STAY},
    "Immunization": {"occurrenceDateTime": DAY},
    "Specimen": {"collection": {"collectedDateTime": DAY}},
    "ImagingStudy": {"started": DAY, "modality": [{"code": "CT"}]},
    "Observation": {"effectiveDateTime": DAY, "issued": DAY},
    "DiagnosticReport": {"effectiveDateTime": DAY, "issued": DAY},
    "DocumentReference": {"date": DAY},
    "MedicationRequest": {"authoredOn": DAY, **IN_STAY},
    "MedicationAdministration": {"effectiveDateTime": DAY},
    "MedicationDispense": {"whenPrepared": DAY},
    "MedicationStatement": {"dateAsserted": DAY},
}
PARTS = {
    "note": lambda when: {"text": "Seen again", "time": when},
    "reaction": lambda when: {"manifestation": [{"text": "Seen again"}], "onset": when},
    "series": lambda when: {"modality": {"code": "CT"}, "description": "Seen again", "started": when},
    "presentedForm": lambda when: _text("Seen again") | {"creation": when},
    "content": lambda when: {"attachment": _text("Seen again") | {"creation": when}},
}
"""A part of each dated element; written by hand, so that a new element needs one here."""


def _shown(store: Store, as_of: datetime) -> dict[str, Any]:
    return {name: found for name, found in everything(store.chart(ANN_NUMBER, as_of)).items() if found}


def _same_until(one: Store, other: Store, end: datetime, moments: list[datetime] = MOMENTS) -> None:
    """Assert that charts are equal at every moment before ``end``, and at the last one before it."""
    for as_of in [moment for moment in moments if moment < end] + [end - timedelta(seconds=1)]:
        assert _shown(one, as_of) == _shown(other, as_of), as_of


def test_every_dated_element_is_tried_on_every_type_that_has_it() -> None:
    assert PARTS.keys() == DATED_PARTS.keys()
    assert {kind for part in DATED_PARTS.values() for kind in part.of} <= WHOLES.keys() <= MAKERS.keys()


@pytest.mark.parametrize(("kind", "element"), [(kind, name) for name, part in DATED_PARTS.items() for kind in part.of])
def test_a_part_with_a_time_of_its_own_is_there_from_that_time_on(tmp_path: Path, kind: str, element: str) -> None:
    early = PARTS[element](DAY)
    whole = resource(kind, "x1", **WHOLES[kind], **{element: [early]})
    added = copy.deepcopy(whole) | {element: [early, PARTS[element](LATER)]}
    without, _ = made(tmp_path / "without", [patient(), STAY, whole])
    store, report = made(tmp_path / "with", [patient(), STAY, added])
    _same_until(store, without, datetime(2150, 1, 6, 8))
    assert report.rows["additions"] == 1
    (row,) = seen(store, "additions", "2150-01-06T08:00:00")
    assert (row["resource_type"], row["resource_id"], row["element"]) == (kind, "x1", element)
    assert "Seen again" in row["text"]
    assert row["encounter_id"] == ("e1" if "encounter" in WHOLES[kind] else None)
    assert "additions" not in _shown(without, MOMENTS[-1])


def test_a_part_is_not_there_before_its_whole(tmp_path: Path) -> None:
    noted = {"note": [PARTS["note"]("2150-01-03T08:00:00"), {"text": "With it"}]}
    coded = category("encounter-diagnosis")
    store, _ = made(tmp_path, [patient(), STAY, resource("Condition", "c1", category=coded, **IN_STAY, **noted)])
    assert seen(store, "additions", "2150-01-05T09:59:59") == []
    assert seen(store, "additions", "2150-01-05T10:00:00")[0]["text"] == "Seen again"
    assert seen(store, "conditions", "2150-01-05T10:00:00")[0]["note"] == "With it"


def test_an_annotation_on_an_order_of_four_days_before(tmp_path: Path) -> None:
    """The case that was found: a note of 6 January on an order of 2 January was shown on the 3rd."""
    order = resource("MedicationRequest", "m1", authoredOn=DAY, note=[{"text": "caused renal failure", "time": LATER}])
    store, _ = made(tmp_path, [patient(), order])
    assert "renal" not in str(everything(store.chart(ANN_NUMBER, datetime(2150, 1, 6, 7, 59, 59))))
    assert "renal" in str(everything(store.chart(ANN_NUMBER, datetime(2150, 1, 6, 8))))


def _coded(value: str) -> Resource:
    return {"coding": [{"code": value}]}


INFUSION = {"effectivePeriod": SPAN, "dosage": {"dose": {"value": 5}}}
ORDERED = {"authoredOn": DAY, "dispenseRequest": {"validityPeriod": {"end": "2150-01-04T08:00:00"}}}


@pytest.mark.parametrize(
    ("kind", "elements", "so", "not_so", "table", "settled"),
    [
        ("Condition", WHOLES["Condition"], {"verificationStatus": _coded("confirmed")},
         {"verificationStatus": _coded("refuted")}, "conditions", datetime(2150, 1, 6, 8)),
        ("Condition", WHOLES["Condition"], {"verificationStatus": _coded("provisional")},
         {"verificationStatus": _coded("entered-in-error")}, "conditions", datetime(2150, 1, 6, 8)),
        ("AllergyIntolerance", WHOLES["AllergyIntolerance"], {"verificationStatus": _coded("confirmed")},
         {"verificationStatus": _coded("refuted")}, "allergies", datetime(2150, 1, 6, 8)),
        ("MedicationRequest", ORDERED, {"status": "completed"}, {"status": "entered-in-error"},
         "medication_requests", datetime(2150, 1, 6, 8)),
        ("MedicationAdministration", INFUSION, {"status": "completed"}, {"status": "entered-in-error"},
         "medication_administrations", datetime(2150, 1, 6, 8)),
        ("MedicationAdministration", INFUSION, {"status": "completed"}, {"status": "not-done"},
         "medication_administrations", datetime(2150, 1, 6, 8)),
        ("Procedure", {"performedPeriod": SPAN}, {"status": "completed"},
         {"status": "not-done"}, "procedures", datetime(2150, 1, 6, 8)),
        ("Observation", WHOLES["Observation"], {"status": "final"}, {"status": "entered-in-error"},
         "observations", datetime(2150, 1, 6, 8)),
        ("DiagnosticReport", WHOLES["DiagnosticReport"], {"status": "final"}, {"status": "cancelled"},
         "diagnostic_reports", datetime(2150, 1, 6, 8)),
        ("Immunization", WHOLES["Immunization"], {"status": "completed"}, {"status": "entered-in-error"},
         "immunizations", datetime(2150, 1, 6, 8)),
    ],
)  # fmt: skip
def test_what_was_taken_back_later_stays_on_earlier_charts(
    tmp_path: Path, kind: str, elements: Resource, so: Resource, not_so: Resource, table: str, settled: datetime
) -> None:
    updated = {"meta": {"lastUpdated": LATER}}
    store, _ = made(tmp_path / "not-so", [patient(), STAY, resource(kind, "x1", **elements, **not_so, **updated)])
    other, _ = made(tmp_path / "so", [patient(), STAY, resource(kind, "x1", **elements, **so, **updated)])
    _same_until(store, other, settled)
    assert len(seen(store, table, "2150-01-02T08:00:00")) == 1
    word = "verification_status" if "verificationStatus" in so else "status"
    (name,) = not_so
    said = not_so[name] if word == "status" else not_so[name]["coding"][0]["code"]
    withdrawn = said in ("entered-in-error", "cancelled")
    assert [row[word] for row in seen(store, table, str(settled))] == ([] if withdrawn else [said])
    assert len(seen(other, table, str(settled))) == 1


@pytest.mark.parametrize("status", ["amended", "corrected", "appended"])
def test_what_was_overwritten_is_not_known_as_it_is_before_its_last_update(tmp_path: Path, status: str) -> None:
    """What it was before nobody kept, so there is nothing to show until then."""
    body = {"issued": DAY, "effectiveDateTime": DAY, "valueInteger": 9, "status": status}
    store, _ = made(tmp_path, [patient(), resource("Observation", "o1", meta={"lastUpdated": LATER}, **body)])
    assert seen(store, "observations", "2150-01-06T07:59:59") == []
    assert [row["value"] for row in seen(store, "observations", "2150-01-06T08:00:00")] == [9.0]


@pytest.mark.parametrize("status", ["cancelled", "entered-in-error"])
def test_an_encounter_that_was_cancelled_stays_and_says_so_at_its_end(tmp_path: Path, status: str) -> None:
    gone = encounter("e1", "2150-01-01T08:00:00", "2150-01-05T10:00:00", status=status)
    drawn = resource("Observation", "o1", effectiveDateTime=DAY, issued=DAY, **IN_STAY)
    store, _ = made(tmp_path / "gone", [patient(), gone, drawn])
    other, _ = made(tmp_path / "there", [patient(), STAY, drawn])
    _same_until(store, other, datetime(2150, 1, 5, 10))
    assert seen(store, "observations", "2150-01-02T08:00:00")[0]["encounter_id"] == "e1"
    assert seen(store, "encounters", "2150-01-05T10:00:00")[0]["status"] == status


def test_a_verdict_without_a_time_is_never_shown(tmp_path: Path) -> None:
    """An update before the resource's own times was on another clock: it dates nothing."""
    refuted = {"verificationStatus": _coded("refuted")}
    bodies = [
        resource("Condition", "c1", recordedDate=DAY, **refuted),
        resource("Condition", "c2", recordedDate=DAY, meta={"lastUpdated": "2023-01-01T00:00:00"}, **refuted),
    ]
    store, _ = made(tmp_path, [patient(), *bodies])
    assert [row["verification_status"] for row in seen(store, "conditions", "9000-01-01T00:00:00")] == [None, None]
    assert [row["verification_status"] for row in rows(store, "conditions")] == ["refuted", "refuted"]


@pytest.mark.parametrize(
    ("kind", "elements", "table"),
    [
        ("MedicationAdministration", {"effectiveDateTime": DAY, "context": IN_STAY["encounter"]},
         "medication_administrations"),
        ("Procedure", {"performedDateTime": DAY, **IN_STAY}, "procedures"),
        ("MedicationDispense", {"whenHandedOver": DAY, "context": IN_STAY["encounter"]}, "medication_dispenses"),
    ],
)  # fmt: skip
def test_that_an_act_was_a_mistake_is_not_known_at_the_act(
    tmp_path: Path, kind: str, elements: Resource, table: str
) -> None:
    """Without a last update: once the stay is over, and never where there is none."""
    stores = [
        made(tmp_path / status, [patient(), STAY, resource(kind, "x1", status=status, **elements)])[0]
        for status in ("completed", "entered-in-error")
    ]
    _same_until(stores[0], stores[1], datetime(2150, 1, 5, 10))
    said = [seen(store, table, "2150-01-05T10:00:00")[0]["status"] for store in stores]
    assert said == ["completed", "entered-in-error"]
    alone = {name: value for name, value in elements.items() if name not in ("context", "encounter")}
    store, _ = made(tmp_path / "alone", [patient(), resource(kind, "x1", status="entered-in-error", **alone)])
    assert seen(store, table, "9000-01-01T00:00:00")[0]["status"] is None


@pytest.mark.parametrize(
    ("kind", "elements", "trail"),
    [
        ("MedicationAdministration", INFUSION | {"status": "completed"}, ("effectivePeriod", "end")),
        ("Procedure", {"performedPeriod": SPAN, "outcome": {"text": "ok"}}, ("performedPeriod", "end")),
        ("MedicationStatement", {"effectivePeriod": SPAN}, ("effectivePeriod", "end")),
        ("MedicationRequest", ORDERED | {"status": "stopped"}, ("dispenseRequest", "validityPeriod", "end")),
        ("MedicationDispense", {"whenPrepared": DAY, "whenHandedOver": "2150-01-04T08:00:00"}, ("whenHandedOver",)),
        ("Observation", {"effectivePeriod": SPAN}, ("effectivePeriod", "end")),
        ("Observation", {"effectivePeriod": SPAN, "category": category("vital-signs")}, ("effectivePeriod", "end")),
        ("Observation", {"effectivePeriod": SPAN, "issued": "2150-01-03T08:00:00"}, ("effectivePeriod", "end")),
        ("DiagnosticReport", {"effectivePeriod": SPAN}, ("effectivePeriod", "end")),
        ("Condition", {"recordedDate": DAY, "abatementPeriod": SPAN}, ("abatementPeriod", "end")),
        ("DocumentReference", {"date": DAY, "context": {"period": SPAN}}, ("context", "period", "end")),
        ("Encounter", {"class": {"code": "IMP"}, "period": SPAN, "status": "finished"}, ("period", "end")),
    ],
)  # fmt: skip
def test_what_goes_on_looks_as_what_will_end(
    tmp_path: Path, kind: str, elements: Resource, trail: tuple[str, ...]
) -> None:
    """Without its end, which nobody knew yet, nothing before it differs: neither the row nor when it comes."""
    finished = resource(kind, "x1", **elements)
    going_on = copy.deepcopy(finished)
    inside: Any = going_on
    for name in trail[:-1]:
        inside = inside[name]
    del inside[trail[-1]]
    store, _ = made(tmp_path / "finished", [patient(), finished])
    other, _ = made(tmp_path / "going-on", [patient(), going_on])
    _same_until(store, other, datetime(2150, 1, 4, 8))


def test_an_infusion_is_there_from_its_start_and_its_dose_from_its_end(tmp_path: Path) -> None:
    infusion = resource(
        "MedicationAdministration", "a1", **INFUSION, status="completed", medicationCodeableConcept=code("1", "Heparin")
    )
    store, _ = made(tmp_path, [patient(), infusion])
    assert seen(store, "medication_administrations", "2150-01-02T07:59:59") == []
    (running,) = seen(store, "medication_administrations", "2150-01-04T07:59:59")
    (over,) = seen(store, "medication_administrations", "2150-01-04T08:00:00")
    assert (running["medication"], running["dose"], running["end_time"], running["status"]) == (
        "Heparin",
        None,
        None,
        None,
    )
    assert (over["dose"], over["end_time"], over["status"]) == (5.0, datetime(2150, 1, 4, 8), "completed")


def test_a_dispense_that_may_still_come_does_not_stand_at_its_order(tmp_path: Path) -> None:
    order = resource("MedicationRequest", "m1", authoredOn=DAY)
    named = {"authorizingPrescription": [reference("MedicationRequest/m1")], "status": "preparation"}
    store, report = made(tmp_path, [patient(), order, resource("MedicationDispense", "d1", **named)])
    assert seen(store, "medication_dispenses", "9000-01-01T00:00:00") == []
    assert report.never_visible == {"medication_dispenses": 1}


def test_an_identifier_that_holds_later_is_not_there_from_the_start(tmp_path: Path) -> None:
    numbers = [{"value": "7", "use": "usual", "period": {"start": LATER}}, {"value": "5"}]
    stay = encounter("e1", "2150-01-01T08:00:00", identifier=numbers)
    store, _ = made(tmp_path, [patient(identifier=numbers), stay])
    for table in ("patients", "encounters"):
        assert rows(store, table)[0]["identifier"] == "5"


@pytest.mark.parametrize(
    ("kind", "first", "later"),
    [
        (
            "Observation",
            {"issued": DAY, "valueInteger": 1, "status": "preliminary"},
            {"issued": LATER, "valueInteger": 9, "status": "amended"},
        ),
        ("MedicationRequest", {"authoredOn": DAY, "status": "active"}, {"authoredOn": DAY, "status": "stopped"}),
        (
            "Encounter",
            {"status": "in-progress", "period": {"start": DAY}, "class": {"code": "EMER"}},
            {"status": "finished", "period": {"start": DAY, "end": LATER}, "class": {"code": "IMP"}},
        ),
    ],
)
def test_a_later_version_of_a_resource_removes_nothing_from_earlier_charts(
    tmp_path: Path, kind: str, first: Resource, later: Resource
) -> None:
    """A bulk export with history holds every version of a resource."""
    versions = [
        resource(kind, "r1", meta={"lastUpdated": time}, **body) for time, body in ((DAY, first), (LATER, later))
    ]
    one, _ = made(tmp_path / "one", [patient(), versions[0]])
    two, report = made(tmp_path / "two", [patient(), *versions])
    assert sum(report.quarantined.values()) == (1 if kind == "Encounter" else 0)
    charts = [everything(store.chart(ANN_NUMBER, datetime(2150, 1, 5))) for store in (one, two)]
    assert charts[0] == charts[1]
    assert any(row for name, row in charts[0].items() if name != "patients")


def test_of_versions_a_chart_shows_the_one_known_at_its_moment(tmp_path: Path) -> None:
    told = [(DAY, 1, "preliminary"), (LATER, 9, "amended"), ("2150-01-08T08:00:00", 9, "entered-in-error")]
    versions = [
        resource("Observation", "r1", meta={"lastUpdated": time}, issued=DAY, valueInteger=value, status=status)
        for time, value, status in reversed(told)
    ]
    store, _ = made(tmp_path, [patient(), *versions])
    moments = ["2150-01-06T07:59:59", "2150-01-06T08:00:00", "2150-01-08T07:59:59", "2150-01-08T08:00:00"]
    assert [[row["value"] for row in seen(store, "observations", each)] for each in moments] == [
        [1.0],
        [9.0],
        [9.0],
        [],
    ]
