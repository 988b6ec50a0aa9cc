"""OMOP: whatever becomes of the patient, charts from before it are the same. Outcomes are changed in the raw files."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from effort import often
from records.omop_tables import PERSON, VISIT, omop_store
from wardround.records import Store

SECOND = timedelta(seconds=1)
Tables = dict[str, list[dict[str, Any]]]

# One person, as the conversion of MIMIC-IV writes a stay: the visit begins at ED registration, and every part of it,
# one without a length too, carries the number of the admission, its kind and the destination of the whole stay.
_ADMISSION = "1|22595853"
_DETAIL = {"visit_occurrence_id": 10, "discharge_to_source_value": "DIED", "discharge_to_concept_id": 4216643}


def _detail(number: int, kind: int, start: str, end: str, **cells: Any) -> dict[str, Any]:
    times = {
        f"visit_detail_{name}_datetime": f"2150-01-{moment}:00" for name, moment in (("start", start), ("end", end))
    }
    days = {f"visit_detail_{name}_date": f"2150-01-{moment[:2]}" for name, moment in (("start", start), ("end", end))}
    return {
        "visit_detail_id": number,
        "visit_detail_concept_id": kind,
        **times,
        **days,
        **_DETAIL,
        "visit_detail_source_value": _ADMISSION,
        **cells,
    }


STAY: Tables = {
    "person": [PERSON],
    "visit_occurrence": [
        {
            **VISIT,
            "visit_concept_id": 262,
            "visit_source_value": _ADMISSION,
            "visit_source_concept_id": 2000001807,
            "discharge_to_source_value": "DIED",
            "care_site_id": 4,
        }
    ],
    "visit_detail": [
        _detail(100, 8870, "02 08:00", "02 14:00"),
        _detail(101, 262, "02 08:00", "02 08:00"),
        _detail(102, 4160026, "02 14:00", "04 09:00"),
        _detail(103, 32037, "04 09:00", "06 12:30"),
    ],
    "death": [{"death_date": "2150-01-06", "death_datetime": "2150-01-06 00:01:00"}],
    "condition_occurrence": [
        {"condition_concept_id": 312327, "condition_start_date": "2150-01-02", "condition_type_concept_id": 32821}
        | {"visit_occurrence_id": 10, "condition_source_value": "with a visit"},
        {"condition_concept_id": 312327, "condition_start_date": "2150-01-02", "condition_type_concept_id": 32821}
        | {"visit_detail_id": 100, "condition_source_value": "with a part of one"},
    ],
    "drug_exposure": [
        {"drug_concept_id": 1112807, "drug_type_concept_id": 32838, "visit_occurrence_id": 10, "quantity": 1}
        | {"drug_exposure_start_date": "2150-01-02", "drug_exposure_start_datetime": "2150-01-02 15:00:00"}
        | {"drug_exposure_end_date": "2150-01-03", "drug_exposure_end_datetime": "2150-01-03 21:00:00"}
    ],
    "specimen": [
        {"specimen_concept_id": 0, "specimen_source_value": "blood", "specimen_date": "2150-01-02"}
        | {"specimen_source_id": '{"hadm_id":22595853,"microevent_id":7820}'}
    ],
}


def _died(tables: Tables) -> None:
    """As it is."""


def _went_home(tables: Tables) -> None:
    for row in (*tables["visit_occurrence"], *tables["visit_detail"]):
        row.update({"discharge_to_source_value": "HOME", "discharge_to_concept_id": 581476})
    del tables["death"]


def _stayed_longer(tables: Tables) -> None:
    _went_home(tables)
    tables["visit_occurrence"][0].update({"visit_end_date": "2150-01-20", "visit_end_datetime": "2150-01-20 10:00:00"})
    tables["visit_detail"][-1].update(
        {"visit_detail_end_date": "2150-01-20", "visit_detail_end_datetime": "2150-01-20 10:00:00"}
    )


def _other_kind(tables: Tables) -> None:
    tables["visit_occurrence"][0].update({"visit_concept_id": 581385, "visit_source_concept_id": 2000001805})
    tables["visit_detail"][1].update({"visit_detail_concept_id": 581385})


def _was_not_admitted(tables: Tables) -> None:
    """The conversion keeps no visit of the emergency department that did not end in an admission."""
    del tables["visit_occurrence"], tables["visit_detail"], tables["condition_occurrence"], tables["death"]
    tables["drug_exposure"] = []
    tables["specimen"][0]["specimen_source_id"] = '{"hadm_id":null,"microevent_id":7820}'


def _needed_no_intensive_care(tables: Tables) -> None:
    tables["visit_detail"].pop()
    tables["visit_detail"][-1].update(
        {"visit_detail_end_date": "2150-01-06", "visit_detail_end_datetime": "2150-01-06 12:30:00"}
    )


def _order_went_on(tables: Tables) -> None:
    tables["drug_exposure"][0].update(
        {"drug_exposure_end_date": "2150-01-05", "drug_exposure_end_datetime": "2150-01-05 07:00:00"}
    )


def _store(folder: Path, change: Callable[[Tables], None]) -> Store:
    tables = copy.deepcopy(STAY)
    change(tables)
    visits = {} if "visit_occurrence" in tables else {"visit_occurrence": [{**VISIT, "person_id": 2}]}
    return omop_store(folder, {**{name: rows for name, rows in tables.items() if rows}, **visits})


def _chart(store: Store, moment: str) -> dict[str, list[dict[str, Any]]]:
    """Return what a chart shows, empty cells and tables left out: a file without a row lacks columns."""
    chart = store.chart(1, datetime.fromisoformat(moment))
    shown = {}
    for name in store.table_names:
        rows = chart.table(name).batch.to_pylist()
        shown[name] = [{column: cell for column, cell in row.items() if cell is not None} for row in rows]
    return {name: rows for name, rows in shown.items() if rows}


def _differ(left: Store, right: Store, moment: str) -> list[str]:
    """Return the tables and events in which two charts differ."""
    ours, theirs = _chart(left, moment), _chart(right, moment)
    found = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    at = datetime.fromisoformat(moment)
    if list(map(str, left.chart(1, at).events())) != list(map(str, right.chart(1, at).events())):
        found.append("events")
    return found


@pytest.mark.parametrize(
    ("change", "until"),
    [
        (_went_home, "2150-01-06 12:29:59"),
        (_stayed_longer, "2150-01-06 12:29:59"),
        (_other_kind, "2150-01-06 12:29:59"),
        (_was_not_admitted, "2150-01-02 13:59:59"),
        (_needed_no_intensive_care, "2150-01-04 08:59:59"),
        (_order_went_on, "2150-01-06 12:29:59"),
    ],
)
def test_another_outcome_changes_nothing_before_it(
    tmp_path: Path, change: Callable[[Tables], None], until: str
) -> None:
    as_it_was, otherwise = _store(tmp_path / "a", _died), _store(tmp_path / "b", change)
    after = datetime.fromisoformat(until)
    hour = datetime(2150, 1, 2, 7, 59, 59)
    while hour <= after:
        assert _differ(as_it_was, otherwise, hour.isoformat()) == [], hour
        hour += timedelta(hours=often(3, 1))
    assert _differ(as_it_was, otherwise, (after + SECOND).isoformat()), "the change is seen at last"


def test_intensive_care_later_hides_no_visit_that_began_on_a_ward(tmp_path: Path) -> None:
    """Where parts of visits are kept for intensive care only, a hidden visit would foretell it."""
    tables = copy.deepcopy(STAY)
    tables["visit_detail"] = [_detail(103, 32037, "04 09:00", "06 12:30")]
    store = omop_store(tmp_path, tables)
    assert [row["visit_occurrence_id"] for row in _chart(store, "2150-01-02 08:00:00")["visit_occurrence"]] == [10]


def test_an_emergency_visit_shows_when_a_ward_follows_or_it_is_over(tmp_path: Path) -> None:
    admitted = _store(tmp_path / "a", _died)
    assert "visit_detail" not in _chart(admitted, "2150-01-02 13:59:59")
    assert [row["visit_detail_id"] for row in _chart(admitted, "2150-01-02 14:00:00")["visit_detail"]] == [
        100,
        101,
        102,
    ]
    discharged = copy.deepcopy(STAY)
    discharged["visit_detail"] = [_detail(100, 8870, "02 08:00", "02 14:00"), _detail(101, 0, "02 09:00", "02 10:00")]
    discharged["visit_occurrence"][0].update(
        {"visit_end_date": "2150-01-02", "visit_end_datetime": "2150-01-02 13:00:00"}
    )
    store = omop_store(tmp_path / "b", discharged)
    assert "visit_occurrence" not in _chart(store, "2150-01-02 13:59:59")
    assert len(_chart(store, "2150-01-02 14:00:00")["visit_detail"]) == 2


def test_a_destination_is_shown_once_the_last_part_has_ended_and_death_with_it(tmp_path: Path) -> None:
    store = _store(tmp_path, _died)
    before, after = _chart(store, "2150-01-06 12:29:59"), _chart(store, "2150-01-06 12:30:00")
    assert not [row for row in before["visit_detail"] if "discharged_to" in row]
    assert "death" not in before
    assert {"visit_end_date", "name", "code", "visit_source_value", "care_site_id"}.isdisjoint(
        before["visit_occurrence"][0]
    )
    assert "condition_occurrence" not in before
    assert {row["discharged_to"] for row in after["visit_detail"]} == {"DIED"}
    assert {row["condition_source_value"] for row in after["condition_occurrence"]} == {
        "with a visit",
        "with a part of one",
    }
    assert after["visit_occurrence"][0]["visit_source_value"] == _ADMISSION
    assert len(after["death"]) == 1


def test_a_death_that_no_part_of_a_visit_surrounds_is_known_at_its_time(tmp_path: Path) -> None:
    tables = copy.deepcopy(STAY)
    tables["death"][0].update({"death_date": "2150-02-01", "death_datetime": "2150-02-01 10:00:00"})
    store = omop_store(tmp_path / "a", tables)
    assert "death" not in _chart(store, "2150-02-01 09:59:59")
    assert "death" in _chart(store, "2150-02-01 10:00:00")
    tables["death"][0].update({"death_date": "2150-01-03", "death_datetime": "2150-01-03 10:00:00"})
    store = omop_store(tmp_path / "b", tables)  # parts end days later, which nobody knows yet: a day is waited for them
    assert "death" not in _chart(store, "2150-01-04 23:59:58")
    assert "death" in _chart(store, "2150-01-04 23:59:59")


def test_a_visit_on_whose_last_day_the_person_died_is_over_at_the_death(tmp_path: Path) -> None:
    tables: Tables = {"visit_occurrence": STAY["visit_occurrence"]}
    tables["death"] = [{"death_date": "2150-01-06", "death_datetime": "2150-01-06 23:08:00"}]
    store = omop_store(tmp_path, tables)
    assert "discharged_to" not in _chart(store, "2150-01-06 23:07:59")["visit_occurrence"][0]
    assert _chart(store, "2150-01-06 23:08:00")["visit_occurrence"][0]["discharged_to"] == "DIED"


def test_a_part_of_a_visit_is_named_after_its_place_and_never_after_the_admission(tmp_path: Path) -> None:
    store = _store(tmp_path, _died)
    rows = _chart(store, "2150-01-05 00:00:00")["visit_detail"]
    assert not [row for row in rows if _ADMISSION in (row.get("name"), row.get("code"))]
    assert not [row for row in rows[:2] if "visit_detail_source_value" in row or "visit_detail_concept_id" in row]
    events = store.chart(1, datetime(2150, 1, 5)).events()
    assert not [event for event in events if _ADMISSION in f"{event.code} {event.description}"]


def test_the_running_number_of_a_culture_is_never_shown(tmp_path: Path) -> None:
    assert "specimen_source_id" not in _chart(_store(tmp_path, _died), "2190-01-01")["specimen"][0]


@pytest.mark.parametrize(
    ("cells", "known"),
    [
        ({}, "2150-01-06 12:30:00"),
        ({"drug_type_concept_id": 0}, "2150-01-06 12:30:00"),
        ({"drug_type_concept_id": 32818}, "2150-01-03 21:00:00"),
        ({"visit_occurrence_id": ""}, "2150-01-03 21:00:00"),
        ({"visit_occurrence_id": "", "visit_detail_id": 103}, "2150-01-06 12:30:00"),
        (
            {"drug_exposure_end_datetime": "2150-01-09 08:00:00", "drug_exposure_end_date": "2150-01-09"},
            "2150-01-09 09:00:00",
        ),
    ],
)
def test_the_end_of_an_order_is_a_plan_until_the_visit_is_over(
    tmp_path: Path, cells: dict[str, Any], known: str
) -> None:
    tables = copy.deepcopy(STAY)
    tables["drug_exposure"][0].update(cells)
    store = omop_store(tmp_path, tables)
    at = datetime.fromisoformat(known)
    before, after = (_chart(store, moment.isoformat())["drug_exposure"][0] for moment in (at - SECOND, at))
    assert "drug_exposure_end_datetime" not in before
    assert "drug_exposure_end_datetime" in after


def test_a_procedure_charted_in_a_visit_does_not_foretell_it(tmp_path: Path) -> None:
    row = {"procedure_concept_id": 4336464, "procedure_date": "2149-03-03", "procedure_type_concept_id": 32833}
    store = omop_store(tmp_path, {"procedure_occurrence": [row | {"visit_occurrence_id": 10}]})
    assert "procedure_occurrence" not in _chart(store, "2150-01-02 07:59:59")
    assert "procedure_occurrence" in _chart(store, "2150-01-02 08:00:00")


@pytest.mark.parametrize(
    ("cells", "known"),
    [
        ({"visit_occurrence_id": 10}, "2150-01-06 12:30:00"),
        ({"visit_occurrence_id": "", "visit_detail_id": 103}, "2150-01-06 12:30:00"),
        ({"visit_occurrence_id": 10, "procedure_end_datetime": "2150-01-09 08:00:00"}, "2150-01-09 08:00:00"),
        ({}, "2150-01-06 12:30:00"),
        ({"procedure_datetime": "2150-02-03 09:00:00", "procedure_date": "2150-02-03"}, "2150-02-03 23:59:59"),
    ],
)
def test_how_long_a_ventilation_took_is_not_known_at_its_start(
    tmp_path: Path, cells: dict[str, Any], known: str
) -> None:
    """MIMIC-IV's conversion writes the minutes as the quantity, on the row of the start."""
    row = {"procedure_concept_id": 0, "procedure_source_value": "225792", "procedure_type_concept_id": 32833}
    row |= {"procedure_datetime": "2150-01-03 12:00:00", "procedure_date": "2150-01-03", "quantity": 7_140, **cells}
    store = omop_store(tmp_path, copy.deepcopy(STAY) | {"procedure_occurrence": [row]})
    at = datetime.fromisoformat(known)
    before, after = (_chart(store, moment.isoformat())["procedure_occurrence"] for moment in (at - SECOND, at))
    assert [each.get("quantity") for each in (*before, *after)] == [None, 7_140]


_ON_A_DAY_OF_THE_STAY = {
    "condition_occurrence": {"condition_start_date": "2150-01-03", "condition_type_concept_id": 32821},
    "procedure_occurrence": {"procedure_date": "2150-01-03", "procedure_type_concept_id": 32855},
    "device_exposure": {"device_exposure_start_date": "2150-01-03", "device_type_concept_id": 32855},
    "observation": {"observation_date": "2150-01-03", "observation_type_concept_id": 32855},
}


@pytest.mark.parametrize("table", _ON_A_DAY_OF_THE_STAY)
def test_a_bill_that_names_no_visit_waits_for_the_one_that_is_going_on(tmp_path: Path, table: str) -> None:
    """Another row of the person's, on a day outside any visit, is known at the end of its day."""
    row = _ON_A_DAY_OF_THE_STAY[table]
    day = next(name for name in row if name.endswith("_date"))
    rows = [row, {**row, day: "2149-12-24"}]
    store = omop_store(tmp_path, {table: rows}, coding_lag=timedelta(days=2))
    shown = {
        moment: len(_chart(store, moment).get(table, ()))
        for moment in ("2149-12-26 23:59:58", "2149-12-26 23:59:59", "2150-01-08 10:59:59", "2150-01-08 11:00:00")
    }
    assert list(shown.values()) == [0, 1, 1, 2]


@pytest.mark.parametrize(("end", "known"), [("", None), ("2150-01-02", "2150-01-03 23:59:59")])
def test_a_bill_waits_for_ever_in_a_visit_without_an_end_and_not_after_one(
    tmp_path: Path, end: str, known: str | None
) -> None:
    visit = {**VISIT, "visit_end_date": end, "visit_end_datetime": ""}
    store = omop_store(
        tmp_path,
        {
            "visit_occurrence": [visit],
            "condition_occurrence": [_ON_A_DAY_OF_THE_STAY["condition_occurrence"]],
        },
    )
    late = _chart(store, known or "2190-01-01")
    assert ("condition_occurrence" in late) == (known is not None)
    assert "condition_occurrence" not in _chart(store, "2150-01-03 23:59:58")


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("device_exposure", {"device_exposure_start_date": "2149-03-03"}),
        ("observation", {"observation_date": "2149-03-03"}),
        ("condition_occurrence", {"condition_start_date": "2149-03-03", "condition_type_concept_id": 32840}),
    ],
)
def test_what_a_visit_recorded_with_an_earlier_date_does_not_foretell_it(
    tmp_path: Path, table: str, row: dict[str, Any]
) -> None:
    store = omop_store(tmp_path, {table: [row | {"visit_occurrence_id": 10}]})
    assert table not in _chart(store, "2150-01-02 07:59:59")
    assert table in _chart(store, "2150-01-02 08:00:00")


def test_what_grew_of_a_specimen_is_not_counted_before_a_culture_is_read(tmp_path: Path) -> None:
    """One draw is one row, whether nothing grew, two things did, or an isolate has a row of its own."""
    draw = {"specimen_concept_id": 0, "specimen_source_value": "blood", "specimen_date": "2150-01-02"}
    draw |= {"specimen_datetime": "2150-01-02 10:00:00"}
    grown = [{**draw, "quantity": 1}, {**draw, "quantity": 2}, {**draw, "specimen_source_value": "Isolate of blood"}]
    stores = [omop_store(tmp_path / str(len(rows)), {"specimen": rows}) for rows in ([{**draw, "quantity": 1}], grown)]
    for moment in ("2150-01-02 10:00:00", "2150-01-09 09:59:59"):
        first, other = (_chart(store, moment)["specimen"] for store in stores)
        assert [row["name"] for row in first] == ["blood"]
        assert first == other
    assert [len(_chart(store, "2150-01-09 10:00:00")["specimen"]) for store in stores] == [1, 3]
