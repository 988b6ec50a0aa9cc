"""OMOP: each clock of the spec on rows made by hand, both versions' names, and the open sample."""

from __future__ import annotations

import csv
import gzip
import random
import tempfile
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from effort import drawn, often
from records.omop_tables import PERSON, SPEC, VISIT, omop_store, write_omop
from wardround.audits import audit_leaks
from wardround.core import UserError
from wardround.records import IngestSettings, Store, TableSpec, ingest

SECOND = timedelta(seconds=1)


def _rows(store: Store, table: str, moment: str | datetime) -> list[dict[str, Any]]:
    as_of = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return list(store.chart(1, as_of).table(table).batch.to_pylist())


def _known_from(store: Store, table: str, moment: str, column: str | None = None) -> None:
    """Assert that the table's only row, or its cell, is there from a moment on and not a second before."""
    at = datetime.fromisoformat(moment)
    before, after = _rows(store, table, at - SECOND), _rows(store, table, at)
    assert len(after) == 1
    if column is None:
        assert before == []
    else:
        assert len(before) == 1
        assert before[0][column] is None
        assert after[0][column] is not None


@pytest.mark.parametrize(
    ("times", "known"),
    [
        ({"measurement_datetime": "2150-01-03 07:30:00"}, "2150-01-03 07:30:00"),
        ({"measurement_datetime": "2150-01-03 00:00:00"}, "2150-01-03 23:59:59"),
        ({"measurement_datetime": "2150-01-03T00:00:00"}, "2150-01-03 23:59:59"),
        ({"measurement_datetime": "2150-01-03T07:30:00"}, "2150-01-03 07:30:00"),
        ({"measurement_datetime": "2150-01-03"}, "2150-01-03 23:59:59"),
        ({"measurement_datetime": ""}, "2150-01-03 23:59:59"),
        ({"measurement_datetime": "2150-01-03 00:00:01"}, "2150-01-03 00:00:01"),
        ({}, "2150-01-03 23:59:59"),
    ],
)
def test_a_midnight_that_may_be_a_bare_date_is_the_end_of_its_day(
    tmp_path: Path, times: dict[str, str], known: str
) -> None:
    row = {"measurement_concept_id": 3027018, "measurement_date": "2150-01-03", "value_as_number": 80, **times}
    store = omop_store(tmp_path, {"measurement": [row]})
    _known_from(store, "measurement", known)
    assert _rows(store, "measurement", "2150-02-01")[0]["value_as_number"] == 80


@pytest.mark.parametrize(
    ("row", "known"),
    [
        ({"measurement_concept_id": 3027018}, "2150-01-03 09:00:00"),
        ({"measurement_concept_id": 3023103}, "2150-01-03 15:00:00"),
        ({"measurement_concept_id": 3023103, "measurement_type_concept_id": 44818701}, "2150-01-03 09:00:00"),
        ({"measurement_concept_id": 3023103, "measurement_type_concept_id": 32856}, "2150-01-03 15:00:00"),
        ({"measurement_concept_id": 0}, "2150-01-03 15:00:00"),
    ],
)
def test_what_is_no_vital_sign_waits_for_the_assumed_lag(tmp_path: Path, row: dict[str, int], known: str) -> None:
    when = {"measurement_date": "2150-01-03", "measurement_datetime": "2150-01-03 09:00:00", "value_as_number": 4}
    store = omop_store(tmp_path, {"measurement": [{**when, **row}]}, result_lag=timedelta(hours=6))
    _known_from(store, "measurement", known)
    assert "result_lag" in store.manifest["assumptions"][0]


@pytest.mark.parametrize(
    ("row", "known"),
    [
        ({}, "2150-01-06 09:00:00"),
        ({"value_as_concept_id": 9191}, "2150-01-06 09:00:00"),
        ({"value_source_value": "ESCHERICHIA COLI"}, "2150-01-06 09:00:00"),
        ({"value_as_number": 16, "value_source_value": "R"}, "2150-01-06 09:00:00"),
        ({"value_as_number": 16, "value_as_concept_id": 9191}, "2150-01-06 09:00:00"),
        ({"value_as_number": 16, "value_as_concept_id": 9191, "unit_concept_id": 8753}, "2150-01-03 15:00:00"),
        ({"value_as_number": 0, "value_as_concept_id": 0}, "2150-01-03 15:00:00"),
    ],
)
def test_what_may_be_a_culture_waits_until_one_is_read(tmp_path: Path, row: dict[str, Any], known: str) -> None:
    when = {"measurement_date": "2150-01-03", "measurement_datetime": "2150-01-03 09:00:00"}
    lags = {"result_lag": timedelta(hours=6), "culture_lag": timedelta(days=3)}
    store = omop_store(tmp_path, {"measurement": [{**when, "measurement_concept_id": 3023103, **row}]}, **lags)
    _known_from(store, "measurement", known)
    assert "culture_lag" in store.manifest["assumptions"][1]


@pytest.mark.parametrize(
    ("row", "known"),
    [
        ({"condition_type_concept_id": 32840, "visit_occurrence_id": 10}, "2150-01-03 23:59:59"),
        ({"condition_type_concept_id": 32822, "visit_occurrence_id": 10}, "2150-01-03 23:59:59"),
        ({"condition_type_concept_id": 32817, "visit_occurrence_id": 10}, "2150-01-08 11:00:00"),
        ({"condition_type_concept_id": 32821, "visit_occurrence_id": 10}, "2150-01-08 11:00:00"),
        ({"condition_type_concept_id": "", "visit_occurrence_id": 10}, "2150-01-08 11:00:00"),
        ({"condition_type_concept_id": 32821, "visit_occurrence_id": ""}, "2150-01-08 11:00:00"),
        ({"condition_type_concept_id": 32821, "visit_occurrence_id": 0}, "2150-01-08 11:00:00"),
        (
            {"condition_type_concept_id": 32821, "visit_occurrence_id": 10, "condition_start_date": "2150-01-09"},
            "2150-01-11 23:59:59",
        ),
    ],
)
def test_a_diagnosis_coded_for_a_visit_waits_for_its_end(tmp_path: Path, row: dict[str, Any], known: str) -> None:
    condition = {"condition_concept_id": 312327, "condition_start_date": "2150-01-03", **row}
    store = omop_store(tmp_path, {"condition_occurrence": [condition]}, coding_lag=timedelta(days=2))
    _known_from(store, "condition_occurrence", known)


def test_a_diagnosis_of_a_visit_that_is_not_there_is_never_shown_and_counted(tmp_path: Path) -> None:
    row = {"condition_concept_id": 312327, "condition_start_date": "2150-01-03", "visit_occurrence_id": 99}
    raw = write_omop(tmp_path / "raw", {"person": [PERSON], "visit_occurrence": [VISIT], "condition_occurrence": [row]})
    report = ingest("omop", raw, tmp_path / "store")
    assert report.never_visible == {"condition_occurrence": 1}
    assert _rows(Store.open(tmp_path / "store"), "condition_occurrence", "2190-01-01") == []


@pytest.mark.parametrize(("kind", "known"), [(32817, "2150-01-03 10:00:00"), (32855, "2150-01-06 11:00:00")])
def test_an_act_is_known_when_done_unless_only_a_bill_tells_of_it(tmp_path: Path, kind: int, known: str) -> None:
    row = {"procedure_concept_id": 4336464, "procedure_date": "2150-01-03", "procedure_datetime": "2150-01-03 10:00:00"}
    row |= {"procedure_type_concept_id": kind, "visit_occurrence_id": 10}
    _known_from(omop_store(tmp_path, {"procedure_occurrence": [row]}), "procedure_occurrence", known)


def test_a_visit_shows_its_end_and_its_kind_when_it_is_over(tmp_path: Path) -> None:
    visit = {**VISIT, "discharged_to_concept_id": 8536, "provider_id": 5, "preceding_visit_occurrence_id": 9}
    store = omop_store(tmp_path / "a", {"visit_occurrence": [visit]})
    _known_from(store, "visit_occurrence", "2150-01-02 08:00:00")
    for column in ("visit_end_date", "visit_end_datetime", "discharged_to", "discharged_to_concept_id", "provider_id"):
        _known_from(store, "visit_occurrence", "2150-01-06 11:00:00", column)
    last = _rows(store, "visit_occurrence", "2150-01-06 11:00:00")[0]
    assert (last["name"], last["code"], last["preceding_visit_occurrence_id"]) == ("Inpatient Visit", "IP", None)
    for number, kind in enumerate((262, 9203, 9201, 581385)):
        store = omop_store(tmp_path / str(number), {"visit_occurrence": [{**VISIT, "visit_concept_id": kind}]})
        for column in ("name", "visit_concept_id", "visit_source_value"):
            _known_from(store, "visit_occurrence", "2150-01-06 11:00:00", column)


@pytest.mark.parametrize(("kind", "days"), [(32838, 30), (38000177, 30), (32818, None), (0, None)])
def test_the_amount_of_a_drug_is_known_at_once_only_where_it_was_ordered(
    tmp_path: Path, kind: int, days: int | None
) -> None:
    row = {"drug_concept_id": 1112807, "drug_exposure_start_date": "2150-01-03", "drug_exposure_end_date": "2150-02-01"}
    row |= {"drug_type_concept_id": kind, "days_supply": 30, "quantity": 60, "stop_reason": "rash"}
    store = omop_store(tmp_path, {"drug_exposure": [row]})
    _known_from(store, "drug_exposure", "2150-01-03 23:59:59")
    shown = _rows(store, "drug_exposure", "2150-01-04")[0]
    assert (shown["days_supply"], shown["drug_exposure_end_date"], shown["stop_reason"]) == (days, None, None)
    _known_from(store, "drug_exposure", "2150-02-01 23:59:59", "stop_reason")
    assert _rows(store, "drug_exposure", "2150-02-02")[0]["quantity"] == 60


def test_a_discharge_summary_waits_for_the_discharge_and_a_progress_note_does_not(tmp_path: Path) -> None:
    note = {"note_date": "2150-01-04", "note_text": "text", "visit_occurrence_id": 10}
    for number, (column, kind, known) in enumerate(
        [
            ("note_type_concept_id", 44814637, "2150-01-06 11:00:00"),
            ("note_class_concept_id", 44814637, "2150-01-06 11:00:00"),
            ("note_title", "Discharge Summary", "2150-01-06 11:00:00"),
            ("note_source_value", "Discharge summary (addendum)", "2150-01-06 11:00:00"),
            ("note_title", "Discharge planning", "2150-01-04 23:59:59"),
            ("note_type_concept_id", 32831, "2150-01-04 23:59:59"),
        ]
    ):
        _known_from(omop_store(tmp_path / str(number), {"note": [{**note, column: kind}]}), "note", known)


def test_death_the_end_of_observation_and_what_is_only_a_state(tmp_path: Path) -> None:
    tables: dict[str, list[dict[str, Any]]] = {
        "death": [{"death_date": "2150-03-01", "death_datetime": "2150-03-01 00:00:00", "cause_concept_id": 312327}],
        "observation_period": [
            {"observation_period_start_date": "2140-01-01", "observation_period_end_date": "2150-03-01"}
        ],
        "person": [{**PERSON, "provider_id": 7, "person_source_value": "MRN"}],
        "specimen": [
            {"specimen_concept_id": 0, "specimen_source_value": "blood", "specimen_date": "2150-01-03"}
            | {"disease_status_source_value": "malignant"}
        ],
    }
    store = omop_store(tmp_path, tables)
    _known_from(store, "death", "2150-03-01 23:59:59")
    death = next(event for event in store.chart(1, datetime(2150, 3, 2)).events() if event.table == "death")
    assert (death.code, death.kind, death.text_value) == ("death", "death", "Acute myocardial infarction")
    period = _rows(store, "observation_period", "2190-01-01")[0]
    assert "observation_period_end_date" not in period
    person = _rows(store, "person", "2150-06-14")[0]
    assert not person.keys() & {"provider_id", "person_source_value", "year_of_birth", "birth_datetime"}
    assert (person["age"], person["gender"], store.chart(1, datetime(2150, 6, 15)).age) == (49, "FEMALE", 50)
    _known_from(store, "specimen", "2150-01-10 23:59:59", "disease_status")


@pytest.mark.parametrize(
    ("parts", "ages"),
    [
        ({"birth_datetime": "2100-09-01 00:00:00"}, (49, 50)),
        ({"birth_datetime": "", "month_of_birth": 9, "day_of_birth": 1}, (49, 50)),
        ({"month_of_birth": 9, "day_of_birth": ""}, (49, 50)),
        ({"month_of_birth": 9, "day_of_birth": 31}, (49, 50)),
        ({"month_of_birth": "", "day_of_birth": ""}, (50, 50)),
    ],
)
def test_age_from_whatever_is_known_of_the_birth(tmp_path: Path, parts: dict[str, Any], ages: tuple[int, int]) -> None:
    store = omop_store(tmp_path, {"person": [{**PERSON, **parts}]})
    assert (store.chart(1, datetime(2150, 8, 31)).age, store.chart(1, datetime(2150, 9, 1)).age) == ages


def test_a_visit_is_named_only_once_it_has_begun(tmp_path: Path) -> None:
    row = {"measurement_concept_id": 3027018, "measurement_date": "2150-01-01", "value_as_number": 80}
    store = omop_store(tmp_path, {"measurement": [{**row, "visit_occurrence_id": 10}]})
    _known_from(store, "measurement", "2150-01-02 08:00:00", "visit_occurrence_id")


def test_codes_have_their_vocabulary_and_unmapped_rows_the_words_of_the_source(tmp_path: Path) -> None:
    when = {"measurement_date": "2150-01-03"}
    rows = [
        {"measurement_concept_id": 3023103, "value_as_number": "4.1", "unit_concept_id": 8753, **when},
        {"measurement_concept_id": 3023103, "value_as_concept_id": 9191, "value_source_value": "pos", **when},
        {"measurement_concept_id": 0, "measurement_source_value": "K-POC", "unit_concept_id": 0, **when}
        | {"value_as_number": "4.2", "unit_source_value": "mval", "value_as_concept_id": 0},
    ]
    store = omop_store(tmp_path, {"measurement": rows})
    events = [event for event in store.chart(1, datetime(2150, 2, 1)).events() if event.table == "measurement"]
    shown = {(e.code, e.description, e.numeric_value, e.text_value, e.unit) for e in events}
    assert shown == {
        ("LOINC//2823-3", "Potassium in Serum", 4.1, None, "mmol/L"),
        ("LOINC//2823-3", "Potassium in Serum", None, "Positive", None),
        ("source//K-POC", "K-POC", 4.2, None, "mval"),
    }
    visit = next(event for event in store.chart(1, datetime(2150, 2, 1)).events() if event.table == "visit_occurrence")
    assert (visit.code, visit.description, visit.kind) == ("Visit//IP", "Inpatient Visit", "encounter")
    kept = next(batch for _, batch in store.scan("measurement", ["concept_code", "vocabulary_id"]))
    assert {("2823-3", "LOINC"), (None, None)} == {tuple(row.values()) for row in kept.to_pylist()}
    assert 0 not in store.dictionary("concept").column("concept_id").to_pylist()


def test_version_5_3_reads_with_its_own_names_in_upper_case(tmp_path: Path) -> None:
    visit: dict[str, Any] = {**VISIT, "admitting_source_concept_id": 8536, "discharge_to_concept_id": 0}
    detail: dict[str, Any] = {"visit_detail_id": 100, "visit_detail_concept_id": 9201, "visit_occurrence_id": 10}
    detail |= {"visit_detail_start_date": "2150-01-03", "visit_detail_end_date": "2150-01-05"}
    detail |= {"visit_detail_parent_id": 101, "discharge_to_source_value": "ward", "admitting_source_value": "er"}
    tables: dict[str, Any] = {"person": [PERSON], "visit_detail": [detail]}
    tables["visit_occurrence"] = [{**visit, "discharge_to_source_value": "home"}]
    raw = write_omop(tmp_path / "raw", tables, upper=True)
    report = ingest("omop", raw, tmp_path / "store")
    assert report.rows == {"person": 1, "visit_occurrence": 1, "visit_detail": 1}
    store = Store.open(tmp_path / "store")
    for table, moment, to in (
        ("visit_occurrence", "2150-01-06 11:00:00", "home"),
        ("visit_detail", "2150-01-06 11:00:00", "ward"),
    ):
        _known_from(store, table, moment, "discharged_to")
        assert _rows(store, table, moment)[0]["discharged_to"] == to
    assert _rows(store, "visit_occurrence", "2150-01-03")[0]["admitted_from"] == "Home"
    assert _rows(store, "visit_detail", "2160-01-01")[0]["visit_detail_parent_id"] is None


def test_the_published_clock_is_the_start_of_each_event(tmp_path: Path) -> None:
    tables: dict[str, list[dict[str, Any]]] = {
        "condition_occurrence": [{"condition_concept_id": 312327, "condition_start_date": "2150-01-03"}],
        "measurement": [{"measurement_concept_id": 3023103, "measurement_date": "2150-01-03"}],
    }
    tables["condition_occurrence"][0]["visit_occurrence_id"] = "10"
    store = omop_store(tmp_path, tables)
    for table in tables:
        at = store.chart(1, datetime(2150, 1, 3, 23, 59, 59), policy="published")
        before = store.chart(1, datetime(2150, 1, 3, 23, 59, 58), policy="published")
        assert (before.table(table).num_rows, at.table(table).num_rows) == (0, 1)
    ended = store.chart(1, datetime(2160, 1, 1), policy="published")
    assert not {"visit_end_date", "visit_end_datetime", "discharged_to"} & {*ended.table("visit_occurrence").columns}
    assert "condition_end_date" not in ended.table("condition_occurrence").columns


def test_a_source_without_its_vocabulary_still_reads(tmp_path: Path) -> None:
    row = {"measurement_concept_id": 3023103, "measurement_date": "2150-01-03", "measurement_source_value": "K"}
    raw = write_omop(tmp_path / "raw", {"person": [PERSON], "measurement": [row]}, concepts=False)
    report = ingest("omop", raw, tmp_path / "store")
    assert "concept" in report.missing_tables
    events = list(Store.open(tmp_path / "store").chart(1, datetime(2150, 2, 1)).events())
    assert [event.code for event in events] == ["person", "source//K"]


def test_a_vocabulary_as_it_is_shipped_is_tab_separated_and_its_quotes_mean_nothing(tmp_path: Path) -> None:
    row = {"measurement_concept_id": 3023103, "measurement_date": "2150-01-03"}
    other = {"measurement_concept_id": 4, "measurement_date": "2150-01-03", "measurement_source_value": "four"}
    raw = write_omop(tmp_path / "raw", {"person": [PERSON], "measurement": [row, other]}, concepts=False)
    header = "concept_id\tconcept_name\tdomain_id\tvocabulary_id\tconcept_class_id\tconcept_code\tvalid_start_date"
    lines = [
        header,
        '3023103\tPotassium, 5" tube\tMeasurement\tLOINC\tLab Test\t2823-3\t19700101',
        "broken\tName\tMeasurement\tLOINC\tLab Test\t1-1\t19700101",
        "4\tshort",
        '8507\t"MALE\tGender\tGender\tGender\tM\t19700101',
    ]
    (raw / "CONCEPT.csv").write_text("\r\n".join(lines) + "\r\n")
    (raw / "CONCEPT_ANCESTOR.csv").write_text("ancestor_concept_id\tdescendant_concept_id\n1\t3023103\n")
    ingest("omop", raw, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    concepts = store.dictionary("concept").select(["concept_id", "concept_name", "concept_code"]).to_pylist()
    assert [tuple(concept.values()) for concept in concepts] == [
        (3023103, 'Potassium, 5" tube', "2823-3"),
        (8507, '"MALE', "M"),
    ]
    assert store.dictionary("concept_ancestor").to_pylist() == [
        {"ancestor_concept_id": 1, "descendant_concept_id": 3023103}
    ]
    assert len((tmp_path / "store" / "quarantine" / "concept.jsonl").read_text().splitlines()) == 2
    events = {event.code for event in store.chart(1, datetime(2150, 2, 1)).events()}
    assert {"LOINC//2823-3", "source//four"} <= events
    assert audit_leaks(store, [(1, datetime(2150, 1, 5))], raw_folder=raw).clean


@pytest.mark.parametrize("column", ["measurement_date", "person_id", "measurement_concept_id"])
def test_a_file_without_a_column_it_must_have_is_one_line(tmp_path: Path, column: str) -> None:
    header = [name for name in ("person_id", "measurement_concept_id", "measurement_date") if name != column]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "measurement.csv").write_text(",".join(header) + "\n")
    with pytest.raises(UserError, match=f"'measurement', no column {column}") as caught:
        ingest("omop", tmp_path / "raw", tmp_path / "store")
    assert "\n" not in str(caught.value)


def test_a_cell_that_is_no_date_costs_its_row_and_is_counted(tmp_path: Path) -> None:
    row: dict[str, Any] = {"measurement_concept_id": 3023103, "measurement_date": "2150-01-03"}
    tables = {"person": [PERSON], "measurement": [row, {**row, "measurement_date": "last week"}]}
    report = ingest("omop", write_omop(tmp_path / "raw", tables), tmp_path / "store")
    assert (report.rows["measurement"], report.quarantined) == (1, {"measurement": 1})


# ------------------------------------------------------------------------------------------------ the property

START = datetime(2150, 1, 1)
MOMENTS = [START + timedelta(hours=6 * step, seconds=extra) for step in range(24) for extra in (0, 1)]
POOLS: dict[str, list[object]] = {
    "person_id": [1],
    "visit_occurrence_id": [10, 11, 12, 0, ""],
    "preceding_visit_occurrence_id": [10, 11, ""],
    "visit_detail_id": [100, 101, ""],
    "parent_visit_detail_id": [100, ""],
    "preceding_visit_detail_id": [101, ""],
    "visit_concept_id": [9201, 9203, 262],
    "visit_detail_concept_id": [9201, 262, 8870, 32037],
    "condition_type_concept_id": [32840, 32817, 32821, 0],
    "procedure_type_concept_id": [32817, 32810],
    "device_type_concept_id": [32817, 32810],
    "observation_type_concept_id": [32817, 32810, 32856],
    "drug_type_concept_id": [32838, 32818],
    "measurement_type_concept_id": [32817, 44818701],
    "measurement_concept_id": [3023103, 3027018, 0],
    "note_type_concept_id": [44814637, 32831],
    "year_of_birth": [2100],
}


def _cell(kind: str, draw: random.Random) -> object:
    if draw.random() < 0.2:
        return ""
    if kind in ("time", "date"):
        moment = draw.choice(MOMENTS)
        return moment.date() if kind == "date" else moment
    return draw.choice(["a", "b"]) if kind == "text" else draw.randint(0, 3)


def _row(table: TableSpec, draw: random.Random) -> dict[str, Any]:
    row = {
        name: draw.choice(POOLS[name]) if name in POOLS else _cell(kind, draw) for name, kind in table.columns.items()
    }
    return row | {"person_id": 1}


def _tables(seed: int, most: int) -> dict[str, list[dict[str, Any]]]:
    draw = random.Random(seed)
    tables = {}
    for name, table in SPEC.tables.items():
        rows = [_row(table, draw) for _ in range(draw.randint(0, most))]
        rows = [row for row in rows if all(row[column] != "" for column in table.key)]
        tables[name] = list({tuple(row[c] for c in table.key): row for row in rows}.values()) if table.key else rows
    return {name: rows for name, rows in tables.items() if rows} | {"person": [PERSON]}


@settings(
    max_examples=often(3, 100),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@example(21051, 3, {MOMENTS[38], MOMENTS[12], MOMENTS[9], MOMENTS[39]})
@given(st.integers(0, 2**32), st.integers(1, 5), st.sets(st.sampled_from(MOMENTS), min_size=1, max_size=4))
def test_a_chart_equals_that_of_a_store_without_the_future(seed: int, most: int, moments: set[datetime]) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = omop_store(Path(name), _tables(seed, most))
        report = audit_leaks(store, [(1, moment) for moment in moments], raw_folder=Path(name) / "raw")
    assert report.clean, report.as_text()
    assert report.unmatched_rows == 0


# ------------------------------------------------------------------------------------------------ the open sample


def _raw_counts(folder: Path) -> dict[str, int]:
    counts = {}
    for name in SPEC.tables:
        with gzip.open(folder / f"{name.upper()}.csv.gz", "rt", newline="") as lines:
            counts[name] = sum(1 for _ in csv.reader(lines)) - 1
    return counts


def test_the_open_sample_as_csv_and_as_parquet(shared_data: Path, tmp_path: Path) -> None:
    sample = shared_data / "omop-synthea27nj-5.4"
    stores = []
    for form in ("csv", "parquet"):
        report = ingest("omop", sample / form, tmp_path / form, settings=IngestSettings(shards=2))
        assert dict(report.rows) == _raw_counts(sample / "csv")
        assert not report.quarantined
        assert not report.never_visible
        stores.append(Store.open(tmp_path / form))
    draw = random.Random(4)
    subjects = [int(subject) for subject in stores[0].subjects]
    moments = []
    for subject in subjects:
        starts = stores[0].rows(subject, "visit_occurrence").column("visit_start_date").to_pylist()
        day = draw.choice([start for start in starts if isinstance(start, date)])
        moments.append((subject, datetime(day.year, day.month, day.day, 23, 59, 59)))
    for subject, moment in moments:
        ours, theirs = (list(store.chart(subject, moment).events()) for store in stores)
        same = [(e.time, e.code, e.description, e.numeric_value, e.unit) for e in ours]
        assert sorted(map(repr, same)) == sorted(
            repr((e.time, e.code, e.description, e.numeric_value, e.unit)) for e in theirs
        )
    for store, form in zip(stores, ("csv", "parquet"), strict=True):
        leaks = audit_leaks(store, drawn(moments, 9), raw_folder=sample / form)
        assert leaks.clean, leaks.as_text()
        assert (leaks.rows, leaks.cells, leaks.differences, leaks.unmatched_rows) == (0, 0, 0, 0)
