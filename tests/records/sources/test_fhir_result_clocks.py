"""When FHIR's results are known: issued, or after the lag of their sort; what they grew and what names them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from records.fhir_moments import LAB, TAKEN, first_shown
from records.fhir_resources import (
    category,
    code,
    made,
    patient,
    reference,
    resource,
    rows,
    seen,
)
from wardround.records import Store


@pytest.mark.parametrize(
    ("table", "elements", "first"),
    [
        ("labs", {**LAB, **TAKEN, "issued": "2150-01-02T09:30:00.5"}, datetime(2150, 1, 2, 9, 30, 0, 500000)),
        ("labs", {**LAB, **TAKEN}, datetime(2150, 1, 3, 6)),
        ("labs", {**LAB, "issued": "2150-01-02T09:00:00"}, datetime(2150, 1, 2, 9)),
        ("labs", {**LAB, **TAKEN, "issued": "2150-01-01T09:00:00"}, datetime(2150, 1, 2, 6)),
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
                "effectivePeriod": {"start": "2150-01-02T06:00:00", "end": "2150-01-02T18:00:00"},
                "category": category("exam"),
            },
            datetime(2150, 1, 2, 18),
        ),
    ],
)
def test_results_are_known_when_issued_and_else_after_the_lag_of_their_sort(
    tmp_path: Path, table: str, elements: dict[str, Any], first: datetime | None
) -> None:
    assert first_shown(tmp_path, table, resource("Observation", "o1", **elements)) == first


def test_an_assumed_lag_is_a_setting_and_is_said(tmp_path: Path) -> None:
    body = resource("Observation", "o1", **LAB, **TAKEN)
    assert first_shown(tmp_path, "labs", body, result_lag=timedelta(hours=2)) == datetime(2150, 1, 2, 8)
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
    store, _ = made(tmp_path, _culture("2150-01-12T00:00:00"))
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
    store, _ = made(tmp_path, _culture("2150-01-04T00:00:00"))
    (early,) = seen(store, "susceptibilities", "2150-01-04T00:00:00")
    assert (early["value_text"], early["derived_from"]) == ("Resistant", None)
    assert seen(store, "susceptibilities", "2150-01-09T06:00:00")[0]["derived_from"] == "org"


def test_reports_and_their_results(tmp_path: Path) -> None:
    panel = {"code": code("p", "Panel"), "conclusion": "Low sodium", **TAKEN}
    report = resource(
        "DiagnosticReport", "r1", issued="2150-01-02T08:00:00", result=[reference("Observation/o1")], **panel
    )
    result = resource("Observation", "o1", issued="2150-01-02T09:00:00", **LAB, **TAKEN)
    culture = resource("DiagnosticReport", "r2", category=category("MB"), **panel)
    plain = resource("DiagnosticReport", "r3", **panel)
    store, _ = made(tmp_path, [report, result, culture, plain])
    firsts = {row["report_id"]: row["_available"] for row in rows(store, "diagnostic_reports")}
    assert firsts == {"r1": datetime(2150, 1, 2, 8), "r2": datetime(2150, 1, 9, 6), "r3": datetime(2150, 1, 3, 6)}
    assert seen(store, "report_results", "2150-01-02T08:59:59") == []
    assert [row["observation_id"] for row in seen(store, "report_results", "2150-01-02T09:00:00")] == ["o1"]


@pytest.mark.parametrize(
    ("results", "known"),
    [
        ([], None),
        (["2150-01-04T09:00:00"], datetime(2150, 1, 4, 9)),
        (["2150-01-09T09:00:00", "2150-01-06T09:00:00"], datetime(2150, 1, 6, 9)),
    ],
    ids=["no result", "one", "two"],
)
def test_an_isolate_is_there_with_the_first_result_that_names_it(
    tmp_path: Path, results: list[str], known: datetime | None
) -> None:
    taken = {"collection": {"collectedDateTime": "2150-01-02T10:00:00"}}
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
