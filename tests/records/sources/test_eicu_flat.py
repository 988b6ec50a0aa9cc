"""eICU's raw files made flat: the three tables of patient cell by cell, offsets, and everything that is counted."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from records.eicu_tables import LATER_UNIT, PATIENT, SPEC, Row, write_eicu
from wardround.core import UserError
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.eicu import flatten_eicu
from wardround.records.sources.eicu.flattening import _age, _as_numbers, _raw_name, _times, _unit_stay

ADMITTED, UNIT = datetime(2014, 1, 1, 8), datetime(2014, 1, 1, 10)


def flat_of(folder: Path, tables: dict[str, list[Row]], *, text: dict[str, str] | None = None) -> FlatTables:
    raw = write_eicu(folder / "raw", tables)
    for name, content in (text or {}).items():
        (raw / name).write_text(content)
    flat = FlatTables(SPEC, folder / "flat", folder / "q.jsonl")
    flatten_eicu(sorted(raw.iterdir()), flat)
    flat.close()
    return flat


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a flat table, without the empty cells."""
    found = pq.read_table(folder / "flat" / f"{SPEC.tables[table].path}.parquet").to_pylist()
    return [{name: cell for name, cell in row.items() if cell is not None} for row in found]


def broken(folder: Path) -> list[tuple[str, int, str]]:
    lines = (folder / "q.jsonl").read_text().splitlines()
    return [(row["file"], row["line"], row["reason"]) for row in map(json.loads, lines)]


def test_patient_is_three_tables(tmp_path: Path) -> None:
    flat = flat_of(tmp_path, {"patient": [LATER_UNIT, PATIENT]})
    (person,), (stay,), units = (rows_of(tmp_path, name) for name in ("person", "hospital_stay", "patient"))
    assert person == {
        "subject_id": 10,
        "uniquepid": "002-1",
        "gender": "Female",
        "ethnicity": "Caucasian",
        "age_at_admission": 64,
        "invented_year": 2014,
    }
    assert stay == {
        "subject_id": 10,
        "patienthealthsystemstayid": 10,
        "hospitaladmittime": ADMITTED,
        "hospitaldischargetime": datetime(2014, 1, 6, 8),
        "hospitaldischargeyear": 2014,
        "stayovertime": datetime(2014, 1, 6, 8),
        "hospitalid": 7,
        "hospitaladmitsource": "Floor",
        "hospitaldischargelocation": "Home",
        "hospitaldischargestatus": "Alive",
    }
    assert [(unit["patientunitstayid"], unit["unitadmittime"], unit["unitdischargetime"]) for unit in units] == [
        (100, UNIT, datetime(2014, 1, 3, 10)),
        (101, datetime(2014, 1, 4, 8), datetime(2014, 1, 5, 8)),
    ]
    assert units[0]["admissionweight"] == 80.0
    assert units[0]["unittype"] == "MICU"
    assert {unit["subject_id"] for unit in units} == {10}
    assert flat.rows == {"person": 1, "hospital_stay": 1, "patient": 2, "hospital": 1}
    assert flat.records == 3


@pytest.mark.parametrize(
    ("changed", "over", "died"),
    [
        ({}, datetime(2014, 1, 6, 8), False),
        ({"hospitaldischargeoffset": 60}, datetime(2014, 1, 3, 10), False),
        ({"hospitaldischargeoffset": ""}, None, False),
        ({"hospitaldischargestatus": "Expired"}, datetime(2014, 1, 6, 8), True),
        ({"unitdischargestatus": "Expired", "hospitaldischargeoffset": ""}, datetime(2014, 1, 3, 10), True),
        ({"unitdischargeoffset": ""}, datetime(2014, 1, 6, 8), False),
        (
            {"unitdischargeoffset": "", "hospitaldischargeoffset": "", "unitdischargestatus": "Expired"},
            None,
            False,
        ),
    ],
)
def test_a_stay_is_over_at_the_last_of_its_ends(
    tmp_path: Path, changed: dict[str, Any], over: datetime | None, died: bool
) -> None:
    flat_of(tmp_path, {"patient": [{**PATIENT, **changed}]})
    (stay,) = rows_of(tmp_path, "hospital_stay")
    assert stay.get("stayovertime") == over
    assert stay.get("deathtime") == (over if died else None)


LAB = {"labid": 1, "labresultoffset": 30, "labresultrevisedoffset": 45, "labname": "sodium", "labresult": 140}


def test_offsets_are_times_from_the_rows_own_unit_stay(tmp_path: Path) -> None:
    labs = [LAB, {**LAB, "labid": 2, "patientunitstayid": 101, "labresultoffset": -10}]
    flat_of(tmp_path, {"patient": [PATIENT, LATER_UNIT], "lab": labs})
    first, second = rows_of(tmp_path, "lab")
    assert (first["labresulttime"], first["labresultrevisedtime"]) == (
        datetime(2014, 1, 1, 10, 30),
        datetime(2014, 1, 1, 10, 45),
    )
    assert second["labresulttime"] == datetime(2014, 1, 4, 7, 50)
    assert (first["subject_id"], first["patienthealthsystemstayid"]) == (10, 10)
    assert (first["recordopentime"], second["recordopentime"]) == (ADMITTED, datetime(2014, 1, 4, 8))


def test_rows_of_unknown_stays_are_counted_and_leave_the_others(tmp_path: Path) -> None:
    labs = [{**LAB, "labid": n, "patientunitstayid": unit} for n, unit in enumerate((1, 100, 999, 100))]
    flat = flat_of(tmp_path, {"patient": [PATIENT], "lab": labs})
    assert [row["labid"] for row in rows_of(tmp_path, "lab")] == [1, 3]
    assert flat.left_out["lab: rows of stays that are not in patient"] == 2


def test_cells_of_undeclared_columns_and_files_are_counted(tmp_path: Path) -> None:
    labs = [{**LAB, "colour": "red"}, {**LAB, "labid": 2, "colour": ""}]
    flat = flat_of(
        tmp_path,
        {"patient": [{**PATIENT, "hair": "grey"}], "lab": labs},
        text={"unheard.csv": "a\n1\n", "person.csv": "a\n1\n"},
    )
    assert flat.left_out["lab: cells of column colour"] == 1
    assert flat.left_out["patient: cells of column hair"] == 1
    assert sorted(path.name for path in flat.unused_files) == ["person.csv", "unheard.csv"]


def test_without_a_patient_there_is_no_time(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"patient\.csv or patient\.csv\.gz is missing"):
        flat_of(tmp_path, {"lab": [LAB]})
    with pytest.raises(UserError, match=r"patient\.csv: no row has a person, a hospital stay and an admission"):
        flat_of(tmp_path / "b", {"patient": [{**PATIENT, "hospitaladmittime24": "late"}]})


def test_patients_that_cannot_be_placed_or_stand_there_twice_are_set_aside(tmp_path: Path) -> None:
    rows = [
        PATIENT,
        {**PATIENT, "gender": "Male"},
        {**PATIENT, "patientunitstayid": 7, "uniquepid": ""},
        {**PATIENT, "patientunitstayid": 8, "hospitaladmittime24": "25:00:00"},
        {**PATIENT, "patientunitstayid": "x"},
    ]
    flat = flat_of(tmp_path, {"patient": rows})
    assert rows_of(tmp_path, "person")[0]["gender"] == "Female"
    assert flat.quarantined == 4
    assert sorted(reason for _, _, reason in broken(tmp_path)) == [
        "hospitaladmittime24: '25:00:00' is no time of day",
        "patientunitstayid stands there twice",
        "patientunitstayid: 'x' is no int",
        "uniquepid is missing",
    ]
    assert {(file, line) for file, line, reason in broken(tmp_path) if "no int" in reason} == {("patient.csv", 6)}


def test_a_unit_stay_is_read_from_what_places_it() -> None:
    row = {**PATIENT, "uniquepid": " 002-1 ", "hospitaladmittime24": "08:05:09"}
    unit = _unit_stay(row)
    assert not isinstance(unit, str)
    assert (unit.unit_stay, unit.hospital_stay, unit.person, unit.hospital_admit_offset) == (100, 10, "002-1", -120)
    assert unit.hospital_admit_time.isoformat() == "08:05:09"
    assert _unit_stay({**row, "hospitaladmitoffset": None}) == "hospitaladmitoffset is missing"


@pytest.mark.parametrize(
    ("text", "age"), [("64", 64), (" 7 ", 7), ("> 89", 90), (">89", 90), ("", None), (None, None), ("old", None)]
)
def test_an_age_is_a_number_and_over_89_is_90(text: str | None, age: int | None) -> None:
    assert _age(text) == age


@pytest.mark.parametrize(
    ("column", "kind", "raw"),
    [
        ("labresulttime", "time", "labresultoffset"),
        ("setapneainsptime", "int", "setapneainsptime"),
        ("cellattributevalue_number", "float", "cellattributevalue"),
        ("wardid_text", "text", "wardid"),
        ("labname", "text", "labname"),
    ],
)
def test_which_raw_column_a_column_is_made_of(column: str, kind: Any, raw: str) -> None:
    assert _raw_name(column, kind) == raw


def test_an_offset_beyond_a_century_or_a_zero_that_stands_for_nothing_is_no_time() -> None:
    century = 60 * 24 * 366 * 100
    offsets = pa.array([0, 5, None, century, century + 1, -century, -century - 1])
    admissions = pa.array([0] * 7, pa.int64()).to_numpy()
    assert [one is not None for one in _times(offsets, "labresultoffset", admissions).to_pylist()] == [
        True, True, False, True, False, True, False,
    ]  # fmt: skip
    for column in ("drugstopoffset", "ventstartoffset", "ventendoffset", "priorventstartoffset", "priorventendoffset"):
        assert _times(offsets, column, admissions).to_pylist()[0] is None
    assert _times(pa.array([2]), "x", admissions[:1]).cast(pa.int64()).to_pylist() == [120_000_000]


def test_only_plain_numbers_are_numbers() -> None:
    texts = pa.array(["1", " -2.5 ", "+3.", "4e5", "", None, "> 5", "6 mg"])
    assert _as_numbers(texts).to_pylist() == [1.0, -2.5, 3.0, None, None, None, None, None]
