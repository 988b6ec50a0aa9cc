"""eICU: offsets made times, stays placed, each clock of the spec on rows made by hand, and the open sample."""

from __future__ import annotations

import csv
import gzip
import random
import tempfile
from collections.abc import Iterable, Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from effort import drawn, often
from records.eicu_tables import LATER_UNIT, PATIENT, SPEC, eicu_store, write_eicu
from wardround.audits import audit_leaks
from wardround.core import UserError
from wardround.records import Store, ingest
from wardround.records.sources.eicu import UnitStay, place_stays
from wardround.tasks.benchmarks.drawing import split_of

SECOND = timedelta(seconds=1)
OPENED, UNIT = datetime(2014, 1, 1, 8), datetime(2014, 1, 1, 10)
UNIT_END, HOSPITAL_END = datetime(2014, 1, 3, 10), datetime(2014, 1, 6, 8)


def _at(minutes: int) -> datetime:
    return UNIT + timedelta(minutes=minutes)


def _rows(store: Store, table: str, as_of: datetime) -> list[dict[str, Any]]:
    return list(store.chart(int(store.subjects[0]), as_of).table(table).batch.to_pylist())


def _known_from(store: Store, table: str, moment: datetime, column: str | None = None) -> None:
    """Assert that the table's only row, or its cell, is there from a moment on and not a second before."""
    before, after = _rows(store, table, moment - SECOND), _rows(store, table, moment)
    assert len(after) == 1
    if column is None:
        assert before == []
    else:
        assert len(before) == 1
        assert before[0][column] is None
        assert after[0][column] is not None


# ------------------------------------------------------------------------------------------------ placing stays


def _unit(number: int, hospital_stay: int, **facts: Any) -> UnitStay:
    shape = {"person": "p", "hospital_admit_time": time(8), "hospital_admit_offset": -60}
    return UnitStay(unit_stay=number, hospital_stay=hospital_stay, **{**shape, **facts})


def test_a_stay_begins_on_the_invented_day_and_its_units_keep_their_distances() -> None:
    units = [_unit(2, 10, hospital_admit_offset=-5000), _unit(1, 10, hospital_admit_offset=-135)]
    stay = place_stays(units)[10]
    assert stay.admitted == datetime(2014, 1, 1, 8)
    assert stay.unit_admissions == {1: datetime(2014, 1, 1, 10, 15), 2: datetime(2014, 1, 4, 19, 20)}
    assert list(stay.unit_admissions) == [1, 2], "in order of time"


def test_seconds_of_the_hospital_admission_are_none_of_the_units() -> None:
    stay = place_stays([_unit(1, 10, hospital_admit_time=time(19, 48, 44), hospital_admit_offset=-4)])[10]
    assert (stay.admitted.time(), stay.unit_admissions[1].time()) == (time(19, 48, 44), time(19, 52))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("ab"), st.integers(-9000, 300)), min_size=1, max_size=9),
    st.integers(0, 4),
)
def test_the_place_of_a_stay_depends_on_itself_alone(drawn: list[tuple[int, str, int]], one: int) -> None:
    units = [
        _unit(number, stay, person=person, hospital_admit_offset=offset)
        for number, (stay, person, offset) in enumerate(drawn)
    ]
    placed = place_stays(units)
    for unit in units:
        stay = placed[unit.hospital_stay]
        assert stay.admitted - stay.unit_admissions[unit.unit_stay] == timedelta(minutes=unit.hospital_admit_offset)
    alone = place_stays([unit for unit in units if unit.hospital_stay == one])
    assert alone == {number: stay for number, stay in placed.items() if number == one}


# ------------------------------------------------------------------------------------------------ the outcome changed


HIDDEN = {
    "hospitaldischargeyear": "2015",
    "hospitaldischargestatus": {"Alive": "Expired", "Expired": "Alive"},
    "unitdischargestatus": {"Alive": "Expired", "Expired": "Alive"},
    "hospitaldischargelocation": "Elsewhere",
    "unitdischargelocation": "Elsewhere",
    "dischargeweight": "41",
    "actualicumortality": "X",
    "actualhospitalmortality": "X",
    "actualhospitallos": "99",
    "drugordercancelled": "No",
    "activeupondischarge": "X",
}
"""Cells of raw files that nobody knows while somebody is still in the unit, and what to make of them."""
LONGER = ("hospitaldischargeoffset", "unitdischargeoffset")


def _other_outcome(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Exchange death and survival, and let everybody stay 5,000 minutes longer."""
    changed = []
    for row in rows:
        cells = dict(row)
        for column in HIDDEN.keys() & row.keys():
            value = HIDDEN[column]
            cells[column] = value.get(row[column], "Expired") if isinstance(value, dict) else value
        cells |= {column: str(int(row[column]) + 5000) for column in LONGER if row.get(column)}
        changed.append(cells)
    return changed


def _read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as lines:
        return [row for row in csv.DictReader(lines) if any(row.values())]


def _charts(store: Store, units: Iterable[Mapping[str, Any]], minutes: int) -> dict[int, Any]:
    """The chart of every unit stay some minutes after its admission, cell by cell."""
    rows = [(subject, row) for subject, batch in store.scan("patient") for row in batch.to_pylist()]
    begun = {row["patientunitstayid"]: (subject, row["unitadmittime"]) for subject, row in rows}
    charts = {}
    for number in (int(unit["patientunitstayid"]) for unit in units):
        subject, admitted = begun[number]
        chart = store.chart(subject, admitted + timedelta(minutes=minutes))
        charts[number] = {name: chart.table(name).batch.to_pylist() for name in chart.table_names}
    return charts


def test_another_outcome_changes_nothing_that_is_visible_before_it(tmp_path: Path) -> None:
    """Three stays of one person in one year: an expired one, one that is not, and one with the outcome exchanged."""
    patients = [{**PATIENT, "patientunitstayid": 100 + n, "patienthealthsystemstayid": 10 + n} for n in range(3)]
    patients[1] |= {"hospitaldischargestatus": "Expired", "unitdischargestatus": "Expired"}
    drugs = [{"patientunitstayid": 100 + n, "drugorderoffset": n, "drugname": f"d{n}"} for n in range(3)]
    changed = _other_outcome([{key: str(cell) for key, cell in row.items()} for row in patients])
    stores = [
        eicu_store(tmp_path / name, {"patient": rows, "medication": drugs})
        for name, rows in (("one", patients), ("two", [patients[0], *changed[1:]]))
    ]
    charts = [_charts(store, patients, 60) for store in stores]
    assert charts[0] == charts[1]
    assert all(len(chart["medication"]) == 1 for chart in charts[0].values()), "no stay shows another"


def test_another_outcome_changes_nothing_in_the_open_sample(shared_data: Path, tmp_path: Path) -> None:
    """Everybody who outlived the hospital stay in a unit, or died in a year of several: 195 first unit stays."""
    sample = shared_data / "eicu-crd-demo-edge"
    if not sample.is_dir():
        pytest.skip("the sample of eICU's edges is not here")
    files = ("patient", "treatment", "apachepatientresult", "medication", "hospital")
    for name in files:
        rows = _read(sample / f"{name}.csv.gz")
        for folder, cells in (("one", rows), ("two", _other_outcome(rows))):
            (tmp_path / folder).mkdir(exist_ok=True)
            with (tmp_path / folder / f"{name}.csv").open("w", newline="") as target:
                writer = csv.DictWriter(target, list(rows[0]))
                writer.writeheader()
                writer.writerows(cells)
    firsts = {
        unit["patienthealthsystemstayid"]: unit
        for unit in sorted(_read(sample / "patient.csv.gz"), key=lambda unit: int(unit["hospitaladmitoffset"]))
    }.values()
    stores = []
    for name in ("one", "two"):
        ingest("eicu", tmp_path / name, tmp_path / name / "store")
        stores.append(Store.open(tmp_path / name / "store"))
    for minutes in (0, 60):
        still_in = [unit for unit in firsts if int(unit["unitdischargeoffset"]) > minutes]
        charts = [_charts(store, still_in, minutes) for store in stores]
        differing = [unit for unit in charts[0] if charts[0][unit] != charts[1][unit]]
        assert (len(charts[0]), differing) == (len(still_in), [])


def test_a_person_s_stays_are_records_of_their_own_and_of_one_person(tmp_path: Path) -> None:
    patients = [{**PATIENT, "patientunitstayid": 100 + n, "patienthealthsystemstayid": 10 + n} for n in range(40)]
    patients += [{**PATIENT, "patientunitstayid": 300, "patienthealthsystemstayid": 70, "uniquepid": "002-2"}]
    store = eicu_store(tmp_path, {"patient": patients})
    assert store.subjects.tolist() == [*range(10, 50), 70]
    assert len({store.person_of(subject) for subject in range(10, 50)}) == 1
    assert store.person_of(70) != store.person_of(10) == store.chart(10, UNIT).person
    assert {split_of(store.person_of(subject), 3, (0.4, 0.3, 0.3)) for subject in range(10, 50)} == {
        split_of(store.person_of(10), 3, (0.4, 0.3, 0.3))
    }


# ------------------------------------------------------------------------------------------------ stays outlasted


@pytest.mark.parametrize(
    ("statuses", "ends", "moment"),
    [
        (("Expired", "Expired"), (72, 331), _at(331)),
        (("Alive", "Expired"), (72, 331), _at(331)),
        (("Expired", "Alive"), (400, 331), _at(400)),
    ],
    ids=["both", "alive out of the unit", "dead in the unit alone"],
)
def test_an_outcome_waits_for_the_end_of_the_last_unit_stay(
    tmp_path: Path, statuses: tuple[str, str], ends: tuple[int, int], moment: datetime
) -> None:
    """Unit 441732 of the demo is discharged from the hospital after 72 minutes and from the unit after 331."""
    facts = dict(zip(("unitdischargestatus", "hospitaldischargestatus"), statuses, strict=True))
    facts |= dict(zip(("hospitaldischargeoffset", "unitdischargeoffset"), ends, strict=True))
    tables = {
        "patient": [{**PATIENT, **facts}],
        "medication": [{"drugorderoffset": 5, "drugname": "a", "drugordercancelled": "Yes"}],
    }
    store = eicu_store(tmp_path, tables)
    columns = ("time", "year", "status", "location")
    for column in (*(f"hospitaldischarge{name}" for name in columns), "deathtime"):
        _known_from(store, "hospital_stay", moment, column)
    _known_from(store, "medication", moment, "drugordercancelled")
    assert _rows(store, "hospital_stay", moment)[0]["deathtime"] == moment
    assert _rows(store, "hospital_stay", moment)[0]["hospitaldischargetime"] == _at(ends[0])


def test_a_stay_waits_for_the_last_of_several_units(tmp_path: Path) -> None:
    early = {"hospitaldischargeoffset": 5760, "unitdischargeoffset": 300}
    store = eicu_store(tmp_path, {"patient": [{**PATIENT, **early}, {**LATER_UNIT, "unitdischargeoffset": 5000}]})
    _known_from(store, "hospital_stay", datetime(2014, 1, 4, 8) + timedelta(minutes=5000), "hospitaldischargestatus")


def test_nothing_of_the_open_sample_comes_before_its_unit_has_ended(shared_data: Path, tmp_path: Path) -> None:
    """The stays that the issue names, and the 34 of its kind."""
    sample = shared_data / "eicu-crd-demo-edge"
    if not sample.is_dir():
        pytest.skip("the sample of eICU's edges is not here")
    report = ingest("eicu", sample, tmp_path / "store")
    assert not report.left_out
    assert {name: columns for name, columns in report.missing_columns.items() if columns} == {}
    store = Store.open(tmp_path / "store")
    outlast = 0
    raw = {int(row["patientunitstayid"]): row for row in _read(sample / "patient.csv.gz")}
    for subject in store.subjects.tolist():
        over = store.rows(subject, "hospital_stay").column("stayovertime").to_pylist()[0]
        for row in store.rows(subject, "patient").to_pylist():
            told = raw[row["patientunitstayid"]]
            assert f"{row['unitadmittime']:%H:%M:%S}" == told["unitadmittime24"]
            outlast += int(told["hospitaldischargeoffset"]) < int(told["unitdischargeoffset"])
            before = store.chart(subject, row["unitdischargetime"] - SECOND)
            assert {*before.table("hospital_stay").batch.column("hospitaldischargestatus").to_pylist()} <= {None}
            assert over >= row["unitdischargetime"]
    assert outlast == 34
    respiratory = [row for _, batch in store.scan("respiratorycare") for row in batch.to_pylist()]
    filled = [sum(row[name] is not None for row in respiratory) for name in ("setapneainsptime", "apneaparams")]
    assert filled == [6, 29]


# ------------------------------------------------------------------------------------------------ clocks

CLOCKS: list[tuple[str, dict[str, Any], int]] = [
    ("admissionDx", {"admitdxenteredoffset": 82, "admitdxpath": "a|b", "admitdxname": "b"}, 82),
    ("diagnosis", {"diagnosisoffset": 60, "diagnosisstring": "x"}, 60),
    ("diagnosis", {"diagnosisoffset": -600, "diagnosisstring": "x"}, -120),
    ("pastHistory", {"pasthistoryoffset": 5, "pasthistoryenteredoffset": 30, "pasthistorypath": "p"}, 30),
    ("pastHistory", {"pasthistoryoffset": 50, "pasthistoryenteredoffset": 30, "pasthistorypath": "p"}, 50),
    ("pastHistory", {"pasthistoryoffset": 5, "pasthistoryenteredoffset": "", "pasthistorypath": "p"}, 5),
    ("allergy", {"allergyoffset": 5, "allergyenteredoffset": 9, "allergyname": "penicillin"}, 9),
    ("treatment", {"treatmentoffset": 77, "treatmentstring": "x"}, 77),
    ("carePlanGeneral", {"cplitemoffset": 12, "cplgroup": "Activity"}, 12),
    ("physicalExam", {"physicalexamoffset": 14, "physicalexampath": "p", "physicalexamtext": "100"}, 14),
    ("note", {"noteoffset": 40, "noteenteredoffset": 55, "notepath": "p", "notetext": "t"}, 55),
    ("medication", {"drugorderoffset": 10, "drugstartoffset": 100, "drugname": "a"}, 10),
    ("admissionDrug", {"drugoffset": -9000, "drugenteredoffset": 33, "drugname": "a"}, 33),
    ("infusionDrug", {"infusionoffset": 20, "drugname": "a (mcg/min)", "drugrate": "5"}, 20),
    ("lab", {"labresultoffset": 30, "labresultrevisedoffset": 75, "labname": "BUN"}, 75),
    ("lab", {"labresultoffset": 30, "labresultrevisedoffset": 10, "labname": "BUN"}, 30),
    ("lab", {"labresultoffset": -500, "labresultrevisedoffset": -450, "labname": "BUN"}, -120),
    ("lab", {"labresultoffset": 30, "labresultrevisedoffset": "", "labname": "BUN"}, 30 + 24 * 60),
    ("customLab", {"labotheroffset": 30, "labothername": "x"}, 30 + 24 * 60),
    ("vitalPeriodic", {"observationoffset": 35, "heartrate": 80}, 35),
    ("vitalAperiodic", {"observationoffset": 36, "noninvasivemean": 80}, 36),
    (
        "nurseCharting",
        {"nursingchartoffset": 3, "nursingchartentryoffset": 8, "nursingchartcelltypevallabel": "GCS"},
        8,
    ),
    ("nurseAssessment", {"nurseassessoffset": 3, "nurseassessentryoffset": 9, "cellattributepath": "x"}, 9),
    ("nurseCare", {"nursecareoffset": 3, "nursecareentryoffset": 9, "cellattributepath": "x"}, 9),
    ("intakeOutput", {"intakeoutputoffset": 60, "intakeoutputentryoffset": 95, "cellpath": "x"}, 95),
    ("respiratoryCharting", {"respchartoffset": 6, "respchartentryoffset": 7, "respchartvaluelabel": "PEEP"}, 7),
    ("respiratoryCare", {"respcarestatusoffset": 6, "airwaytype": "Oral ETT"}, 6),
    ("apacheApsVar", {"heartrate": 120}, 1440),
    ("apachePatientResult", {"apacheversion": "IVa", "apachescore": 80}, 1440),
]


@pytest.mark.parametrize(("name", "row", "minutes"), CLOCKS)
def test_each_row_is_there_from_when_it_was_known(tmp_path: Path, name: str, row: dict[str, Any], minutes: int) -> None:
    _known_from(eicu_store(tmp_path, {name: [row]}), name.lower(), _at(minutes))


def test_every_table_has_a_clock_here() -> None:
    assert {name.lower() for name, _, _ in CLOCKS} | {"person", "hospital_stay", "patient", "microlab"} == {
        *SPEC.tables
    }


@pytest.mark.parametrize(
    ("name", "row", "column", "moment"),
    [
        ("diagnosis", {"diagnosisoffset": 60, "diagnosisstring": "x"}, "activeupondischarge", UNIT_END),
        ("treatment", {"treatmentoffset": 60, "treatmentstring": "x"}, "activeupondischarge", UNIT_END),
        ("medication", {"drugorderoffset": 10, "drugname": "a", "drugstopoffset": 500}, "drugstoptime", _at(500)),
        ("medication", {"drugorderoffset": 10, "drugname": "a"}, "drugordercancelled", HOSPITAL_END),
        ("respiratoryCare", {"respcarestatusoffset": 6, "ventstartoffset": 9}, "ventstarttime", _at(9)),
        ("respiratoryCare", {"respcarestatusoffset": 6, "ventendoffset": 900}, "ventendtime", _at(900)),
        ("apachePatientResult", {"actualhospitallos": 4.9}, "actualhospitallos", HOSPITAL_END),
        ("apachePatientResult", {"actualicumortality": "ALIVE"}, "actualicumortality", HOSPITAL_END),
        ("lab", {"labresultoffset": -60, "labresultrevisedoffset": -50, "labname": "K"}, "patientunitstayid", UNIT),
    ],
)
def test_each_late_cell_waits(tmp_path: Path, name: str, row: dict[str, Any], column: str, moment: datetime) -> None:
    filled = {"activeupondischarge": "True", "drugordercancelled": "Yes", **row}
    _known_from(eicu_store(tmp_path, {name: [filled]}), name.lower(), moment, column)


def test_an_offset_of_zero_that_stands_for_nothing_is_no_time(tmp_path: Path) -> None:
    drug = {"drugorderoffset": 10, "drugstartoffset": 0, "drugstopoffset": 0, "drugname": "a"}
    store = eicu_store(tmp_path, {"medication": [drug], "respiratoryCare": [{"respcarestatusoffset": 0}]})
    shown = _rows(store, "medication", HOSPITAL_END)[0]
    assert (shown["drugstarttime"], shown["drugstoptime"]) == (UNIT, None)
    _known_from(store, "respiratorycare", UNIT)


def test_stays_show_their_end_when_they_have_ended(tmp_path: Path) -> None:
    store = eicu_store(tmp_path, {})
    _known_from(store, "hospital_stay", OPENED)
    _known_from(store, "patient", UNIT)
    for column in ("hospitaldischargetime", "hospitaldischargestatus", "hospitaldischargelocation"):
        _known_from(store, "hospital_stay", HOSPITAL_END, column)
    for column in ("unitdischargetime", "unitdischargestatus", "unitdischargelocation", "dischargeweight"):
        _known_from(store, "patient", UNIT_END, column)
    for column in ("apacheadmissiondx", "admissionweight"):
        _known_from(store, "patient", _at(1440), column)
    stay = _rows(store, "hospital_stay", OPENED)[0]
    assert (stay["region"], stay["hospitaladmittime"]) == ("South", OPENED)
    person = _rows(store, "person", OPENED)[0]
    assert "uniquepid" not in person
    assert (person["gender"], person["age"], store.chart(int(store.subjects[0]), datetime(2016, 1, 1)).age) == (
        "Female",
        64,
        66,
    )
    assert next(store.scan("person", ["uniquepid"]))[1].to_pylist() == [{"uniquepid": "002-1"}]


@pytest.mark.parametrize(
    ("statuses", "moment"),
    [(("Alive", "Alive"), None), (("Alive", "Expired"), HOSPITAL_END), (("Expired", "Expired"), HOSPITAL_END)],
)
def test_who_died_is_known_at_the_end_of_the_stay_in_which_it_happened(
    tmp_path: Path, statuses: tuple[str, str], moment: datetime | None
) -> None:
    facts = dict(zip(("unitdischargestatus", "hospitaldischargestatus"), statuses, strict=True))
    store = eicu_store(tmp_path, {"patient": [{**PATIENT, **facts}]})
    if moment is None:
        assert _rows(store, "hospital_stay", datetime(2030, 1, 1))[0]["deathtime"] is None
    else:
        _known_from(store, "hospital_stay", moment, "deathtime")
        assert _rows(store, "hospital_stay", moment)[0]["deathtime"] == moment


def test_a_drug_without_a_name_is_called_by_its_number(tmp_path: Path) -> None:
    drugs = [{"drugorderoffset": minute, "drughiclseqno": "2812.0"} for minute in (1, 2)]
    store = eicu_store(tmp_path, {"medication": [{**drugs[0], "drugname": "WARFARIN"}, drugs[1]]})
    events = [event for event in store.chart(int(store.subjects[0]), UNIT_END).events() if event.table == "medication"]
    assert [event.code for event in events] == ["eicu-drug//WARFARIN", "eicu-drug//drughiclseqno 2812"]


def test_an_earlier_row_of_a_later_unit_stay_waits_for_that_stay(tmp_path: Path) -> None:
    labs = [
        {"patientunitstayid": unit, "labresultoffset": -30, "labresultrevisedoffset": -20, "labname": f"K{unit}"}
        for unit in (100, 101)
    ]
    store = eicu_store(tmp_path, {"patient": [PATIENT, LATER_UNIT], "lab": labs})
    later = datetime(2014, 1, 4, 8)
    assert [row["labname"] for row in _rows(store, "lab", later - SECOND)] == ["K100"]
    assert [row["labname"] for row in _rows(store, "lab", later)] == ["K100", "K101"]
    assert len(_rows(store, "hospital_stay", HOSPITAL_END)) == 1
    assert len(_rows(store, "patient", later - SECOND)) == 1


def test_a_culture_shows_only_that_it_was_taken_until_it_is_read(tmp_path: Path) -> None:
    rows = [
        {"culturetakenoffset": 30, "culturesite": "Blood", "organism": "E. coli", "antibiotic": drug}
        for drug in ("a", "b")
    ]
    store = eicu_store(tmp_path, {"microLab": rows}, culture_lag=timedelta(days=2))
    assert _rows(store, "microlab", _at(29)) == []
    waiting = _rows(store, "microlab", _at(30))
    assert [(row["culturesite"], row["organism"], row["antibiotic"]) for row in waiting] == [("Blood", None, None)]
    read = _rows(store, "microlab", _at(30) + timedelta(days=2))
    assert {row["antibiotic"] for row in read} == {"a", "b"}


@pytest.mark.parametrize(
    ("first", "organism"), [("", "E. coli"), ("pending", None)], ids=["nothing yet", "another word"]
)
def test_a_culture_exported_twice_under_one_key_is_on_earlier_charts_as_if_once(
    tmp_path: Path, first: str, organism: str | None
) -> None:
    """Pending and again final: both were set aside, so that the outcome took the culture off every chart."""
    row = {"microlabid": 9, "culturetakenoffset": 30, "culturesite": "Blood", "organism": first, "antibiotic": "a"}
    once = eicu_store(tmp_path / "once", {"microLab": [row]}, culture_lag=timedelta(days=2))
    twice = eicu_store(
        tmp_path / "twice", {"microLab": [row, {**row, "organism": "E. coli"}]}, culture_lag=timedelta(days=2)
    )
    read = _at(30) + timedelta(days=2)
    for at in (_at(29), _at(30), read - SECOND):
        assert _rows(once, "microlab", at) == _rows(twice, "microlab", at), at
    assert len(_rows(twice, "microlab", _at(30))) == 1
    assert [row["organism"] for row in _rows(twice, "microlab", read)] == [organism]
    assert twice.manifest["tables"]["microlab"]["quarantined"] == 1


def test_of_two_results_under_one_key_the_first_known_stays_and_the_other_is_counted(tmp_path: Path) -> None:
    rows = [
        {"labid": 5, "labname": "K", "labresult": value, "labresultoffset": 10, "labresultrevisedoffset": revised}
        for value, revised in ((6.5, 300), (4.1, 30))
    ]
    store = eicu_store(tmp_path, {"lab": rows})
    assert [row["labresult"] for at in (30, 300) for row in _rows(store, "lab", _at(at))] == [4.1, 4.1]
    assert store.manifest["tables"]["lab"]["quarantined"] == 1


def test_values_codes_and_units_of_events(tmp_path: Path) -> None:
    tables: dict[str, list[dict[str, Any]]] = {
        "lab": [
            {"labresultoffset": 1, "labresultrevisedoffset": 2, "labname": "BUN", "labresult": "31.0"}
            | {"labresulttext": "31", "labmeasurenamesystem": "mg/dL"}
        ],
        "physicalExam": [
            {"physicalexamoffset": 1, "physicalexampath": "p/HR", "physicalexamvalue": "HR", "physicalexamtext": text}
            for text in ("100", "regular")
        ],
    }
    store = eicu_store(tmp_path, tables)
    events = list(store.chart(int(store.subjects[0]), HOSPITAL_END).events())
    shown = {(e.code, e.description, e.kind, e.numeric_value, e.text_value, e.unit) for e in events}
    assert ("eicu-lab//BUN", "BUN", "lab", 31.0, "31", "mg/dL") in shown
    assert ("eicu-examination//p/HR", "HR", "physical examination", 100.0, "100", None) in shown
    assert ("eicu-examination//p/HR", "HR", "physical examination", None, "regular", None) in shown


def test_the_published_clock_is_that_of_the_event_and_shows_no_end(tmp_path: Path) -> None:
    lab = {"labresultoffset": 30, "labresultrevisedoffset": 75, "labname": "BUN"}
    store = eicu_store(tmp_path, {"lab": [lab]})
    subject = int(store.subjects[0])
    shown = [store.chart(subject, _at(minute), policy="published").table("lab").num_rows for minute in (29, 30)]
    assert shown == [0, 1]
    late = store.chart(subject, datetime(2020, 1, 1), policy="published")
    for table, column in (("patient", "unitdischargestatus"), ("hospital_stay", "hospitaldischargestatus")):
        assert column not in late.table(table).columns


def test_people_over_89_are_90(tmp_path: Path) -> None:
    store = eicu_store(tmp_path, {"patient": [{**PATIENT, "age": "> 89"}]})
    assert store.chart(int(store.subjects[0]), OPENED).age == 90


# ------------------------------------------------------------------------------------------------ bad input


def test_blank_lines_are_no_error_and_what_cannot_be_placed_is_counted(tmp_path: Path) -> None:
    labs = [{"labresultoffset": 1, "labresultrevisedoffset": 2, "labname": "K", "newcolumn": "x"}]
    labs += [{**labs[0], "patientunitstayid": 999}, {**labs[0], "labresultoffset": "soon"}]
    patients = [PATIENT, {**PATIENT, "patientunitstayid": 102, "hospitaladmittime24": "late"}, PATIENT]
    raw = write_eicu(tmp_path / "raw", {"patient": patients, "lab": labs})
    for name in ("patient", "lab", "hospital"):
        with (raw / f"{name}.csv").open("a") as lines:
            lines.write("\n\n\n")
    (raw / "apachePredVar.csv").write_text("patientunitstayid\n100\n")
    report = ingest("eicu", raw, tmp_path / "store")
    assert report.rows == {"person": 1, "hospital_stay": 1, "patient": 1, "lab": 1}
    assert report.quarantined == {"raw_records": 3}
    assert report.left_out == {"lab: rows of stays that are not in patient": 1, "lab: cells of column newcolumn": 1}
    assert report.unknown_files == ("apachePredVar.csv",)
    reasons = (tmp_path / "store" / "quarantine" / "raw_records.jsonl").read_text()
    assert "is no time of day" in reasons
    assert "stands there twice" in reasons
    assert "'soon' is no int" in reasons


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"lab": [{"labresultoffset": 1, "labname": "K"}]}, "patient.csv or patient.csv.gz is missing"),
        ({"patient": [{**PATIENT, "uniquepid": ""}]}, "no row has a person"),
        ({"patient": [{"uniquepid": "x"}]}, "'patient', no column patienthealthsystemstayid"),
        ({"patient": [PATIENT], "lab": [{"labname": "K"}]}, "'lab', no column labresultoffset"),
    ],
)
def test_a_folder_that_cannot_be_read_is_one_line(tmp_path: Path, tables: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        ingest("eicu", write_eicu(tmp_path / "raw", tables), tmp_path / "store")
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ the property


def _cell(kind: str, draw: random.Random) -> object:
    if draw.random() < 0.15:
        return ""
    return draw.choice(["a", "b"]) if kind == "text" else draw.randint(1, 3)


def _offset(draw: random.Random) -> object:
    return "" if draw.random() < 0.15 else draw.choice([-400, -120, -60, 0, 30, 1440, 2880, 4000, 7080, 9000])


def _tables(seed: int, most: int) -> dict[str, list[dict[str, Any]]]:
    draw = random.Random(seed)
    next_stay = {**PATIENT, "patientunitstayid": 103, "patienthealthsystemstayid": 11}
    tables: dict[str, list[dict[str, Any]]] = {"patient": [PATIENT, LATER_UNIT, next_stay]}
    for name, table in SPEC.tables.items():
        if name in ("person", "hospital_stay", "patient"):
            continue
        made = ("subject_id", "patienthealthsystemstayid", "recordopentime")
        columns = {column: kind for column, kind in table.columns.items() if column not in made}
        rows = []
        for _ in range(draw.randint(1, most)):
            cells = {
                f"{column.removesuffix('time')}offset" if kind == "time" else column: (
                    _offset(draw) if kind == "time" else _cell(kind, draw)
                )
                for column, kind in columns.items()
                if not column.endswith(("_number", "_text"))
            }
            rows.append({**cells, "patientunitstayid": draw.choice([100, 101, 103])})
        tables[name] = rows
    return tables


MOMENTS = [
    datetime(2014, 1, 1, 7, 59, 59) + timedelta(hours=3 * step, seconds=extra) for step in range(64) for extra in (0, 1)
]


@settings(
    max_examples=often(4, 100),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.integers(0, 2**32), st.integers(1, 5), st.sets(st.sampled_from(MOMENTS), min_size=1, max_size=4))
def test_a_chart_equals_that_of_a_store_without_the_future(seed: int, most: int, moments: set[datetime]) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = eicu_store(Path(name), _tables(seed, most))
        samples = [(subject, moment) for subject in store.subjects.tolist() for moment in moments]
        report = audit_leaks(store, samples, raw_folder=Path(name) / "raw")
    assert report.clean, report.as_text()
    assert report.unmatched_rows == 0


# ------------------------------------------------------------------------------------------------ the open sample


def test_the_open_sample(shared_data: Path, tmp_path: Path) -> None:
    sample = shared_data / "eicu-crd-demo-mini"
    report = ingest("eicu", sample, tmp_path / "store")
    for name in ("patient", "lab", "medication", "diagnosis", "treatment", "physicalExam", "admissionDx"):
        with gzip.open(sample / f"{name}.csv.gz", "rt") as lines:
            assert report.rows[name.lower()] == sum(1 for line in lines if line.strip()) - 1, name
    assert (report.rows["patient"], report.rows["hospital_stay"], report.rows["person"]) == (174, 144, 144)
    assert not report.quarantined
    assert not report.never_visible
    assert not report.left_out
    assert not report.unknown_files
    store = Store.open(tmp_path / "store")
    told = {int(row["patientunitstayid"]): row["unitadmittime24"] for row in _read(sample / "patient.csv.gz")}
    units = [row for _, batch in store.scan("patient") for row in batch.to_pylist()]
    assert {row["patientunitstayid"]: f"{row['unitadmittime']:%H:%M:%S}" for row in units} == told
    draw = random.Random(4)
    samples = []
    for subject in store.subjects.tolist():
        times = [time for time in store.rows(subject, "lab").column("_available").to_pylist() if time.year < 2100]
        times += store.rows(subject, "patient").column("unitdischargetime").to_pylist()
        samples.append((subject, draw.choice(times) - draw.choice([timedelta(0), SECOND])))
    leaks = audit_leaks(store, drawn(samples, 60), raw_folder=sample)
    assert leaks.clean, leaks.as_text()
    assert (leaks.rows, leaks.cells, leaks.differences, leaks.unmatched_rows) == (0, 0, 0, 0)
