"""When FHIR says what of a stay: its end, its diagnoses, its classes one after the other, its places, its key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_moments import IN_STAY, STAY
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


@pytest.mark.parametrize("elements", [{}, {"recordedDate": "2150-01-02T09:00:00"}, None])
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
    coded = resource("Condition", "c1", code=code("1"), recordedDate="2150-03-01T09:00:00", **IN_STAY)
    store, _ = made(tmp_path, [patient(), STAY, coded])
    assert seen(store, "encounter_diagnoses", "2150-03-01T08:59:59") == []
    (listed,) = seen(store, "encounter_diagnoses", "2150-03-01T09:00:00")
    assert (listed["diagnosis"], listed["condition_id"]) == ("Lymphoma", "c1")


def test_a_stay_that_ends_in_death_has_not_ended_before_it(tmp_path: Path) -> None:
    coded = resource("Condition", "c1", code=code("1"), category=category("encounter-diagnosis"), **IN_STAY)
    store, _ = made(tmp_path, [patient(deceasedDateTime="2150-01-05T22:00:00"), STAY, coded])
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
    period = {"start": f"2150-01-{start}T08:00:00"} | ({"end": f"2150-01-{end}T08:00:00"} if end else {})
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
    span = "2150-01-01T08:00:00", "2150-01-08T08:00:00"
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


CONTACT = "2150-01-01T08:00:00", "2150-01-08T08:00:00"
LATE_FIRST = _classed("EMER", "01", "03") | {"period": {"start": "2150-01-01T08:05:00", "end": "2150-01-03T08:00:00"}}


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
    billed = encounter("e1", "2150-01-01T08:00:00", "2150-01-03T08:00:00", type=[code("19301", "Mastectomy")])
    store, _ = made(tmp_path, [patient(), billed])
    before = store.chart(ANN_NUMBER, datetime(2150, 1, 3, 7, 59))
    assert not [event for event in before.events() if "Mastectomy" in str(event)]
    assert seen(store, "encounters", "2150-01-03T08:00:00")[0]["type"] == "Mastectomy"


def test_places_are_there_from_their_own_start_but_not_before_the_stay(tmp_path: Path) -> None:
    names = [resource("Location", "l1", name="Ward 7", physicalType={"text": "Ward"})]
    periods = [
        {"start": "2150-01-01T06:00:00", "end": "2150-01-01T09:00:00"},
        {"start": "2150-01-02T06:00:00", "end": "2150-01-04T06:00:00"},
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
        "Observation", "o1", effectiveDateTime="2149-12-31T08:00:00", issued="2149-12-31T09:00:00", **IN_STAY
    )
    store, _ = made(tmp_path, [STAY, early])
    assert seen(store, "observations", "2149-12-31T09:00:00")[0]["encounter_id"] is None
    assert seen(store, "observations", "2150-01-01T08:00:00")[0]["encounter_id"] == "e1"
