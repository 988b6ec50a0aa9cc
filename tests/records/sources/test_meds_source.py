"""MEDS data sets as a source: files in any depth, order and type; clocks told by codes; splits; bad input named."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from effort import drawn, often
from wardround.audits import audit_leaks
from wardround.core import UserError
from wardround.records import IngestReport, IngestSettings, Store, ingest

NOON = datetime(2150, 3, 1, 12)
MIDNIGHT = datetime(2150, 3, 2)
BASE = {"subject_id": pa.int64(), "time": pa.timestamp("us"), "code": pa.string()}
TYPES: Mapping[str, Any] = {
    **BASE,
    "numeric_value": pa.float32(),
    "text_value": pa.large_string(),
    "unit": pa.string(),
    "event_time": pa.timestamp("us"),
    "available_at": pa.timestamp("us"),
    "available_time": pa.timestamp("us"),
    "visit_end": pa.timestamp("us"),
}
Rows = Sequence[Mapping[str, Any]]


def row(subject: int | None, time: datetime | None, code: str, **more: Any) -> dict[str, Any]:
    return {"subject_id": subject, "time": time, "code": code, **more}


def write(folder: Path, files: Mapping[str, Rows], types: Mapping[str, Any] | None = None) -> Path:
    """Write data files; each has the columns that its rows have."""
    for name, rows in files.items():
        names = list(dict.fromkeys([*BASE, *(key for each in rows for key in each)]))
        kinds = {**TYPES, **(types or {})}
        path = folder / "data" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema([(key, kinds[key]) for key in names])), path)
    return folder


def describe(folder: Path, codes: Mapping[str, str | None], parents: Mapping[str, list[str]] | None = None) -> None:
    (folder / "metadata").mkdir(exist_ok=True)
    table = {
        "code": pa.array(list(codes), pa.string()),
        "description": pa.array(list(codes.values()), pa.string()),
        "parent_codes": pa.array([(parents or {}).get(code, []) for code in codes], pa.list_(pa.string())),
    }
    pq.write_table(pa.table(table), folder / "metadata" / "codes.parquet")


def store_of(folder: Path, **settings: Any) -> tuple[Store, IngestReport]:
    report = ingest("meds", folder, folder / "store", settings=IngestSettings(**settings))
    return Store.open(folder / "store"), report


def known_since(store: Store, subject: int, code: str) -> datetime:
    """Return the moment from which a chart shows the only event of a code, to the second."""
    (at,) = [one for one in store.rows(subject, "events").to_pylist() if one["code"] == code]
    moment = max(at["_available"], at["_event"])
    assert code in {event.code for event in store.chart(subject, moment).events()}
    assert code not in {event.code for event in store.chart(subject, moment - timedelta(seconds=1)).events()}
    return moment


def test_files_in_any_depth_and_order_are_one_table(tmp_path: Path) -> None:
    """One subject lies in three files (a partitioned export), subjects are in no order, files differ in columns."""
    folder = write(
        tmp_path,
        {
            "0": [row(7, NOON, "A"), row(3, NOON, "B", numeric_value=1.5)],
            "train/deep/1": [row(7, NOON - timedelta(days=1), "C", unit="mg")],
            "held_out/0": [row(3, None, "GENDER//F"), row(7, NOON, "D", text_value="words")],
        },
    )
    store, report = store_of(folder)
    assert report.rows == {"events": 5}
    assert store.subjects.tolist() == [3, 7]
    seen = [(e.time, e.code, e.numeric_value, e.text_value, e.unit) for e in store.chart(7, NOON).events()]
    assert seen[0] == (NOON - timedelta(days=1), "C", None, None, "mg")
    assert sorted(seen[1:]) == [(NOON, "A", None, None, None), (NOON, "D", None, "words", None)]
    assert [(e.time, e.code) for e in store.chart(3, NOON).events()] == [(None, "GENDER//F"), (NOON, "B")]
    assert store.manifest["tables"]["events"]["file"] == "3 files data/**/*"
    assert {"event_time", "available_at"} <= set(report.missing_columns["events"])
    assert not {"numeric_value", "text_value", "unit"} & set(report.missing_columns["events"])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_types_that_writers_use(tmp_path: Path, unit: str) -> None:
    types = {
        "time": pa.timestamp(unit),
        "code": pa.dictionary(pa.int32(), pa.large_string()),
        "subject_id": pa.uint32(),
        "numeric_value": pa.float64(),
        "text_value": pa.string(),
    }
    rows = [row(1, NOON, "A", numeric_value=2.5, text_value=""), row(1, NOON, "B", numeric_value=float("nan"))]
    store, _ = store_of(write(tmp_path, {"0": rows}, types))
    events = {event.code: event for event in store.chart(1, NOON).events()}
    assert events["A"].time == NOON
    assert (events["A"].numeric_value, events["A"].text_value, events["B"].numeric_value) == (2.5, None, None)


def test_codes_are_kept_as_they_are_and_described_where_the_data_set_does(tmp_path: Path) -> None:
    folder = write(
        tmp_path, {"0": [row(1, NOON, "LAB//1//mg/dL"), row(1, NOON, "Weight (Lbs)"), row(1, NOON, "NEW//2")]}
    )
    describe(folder, {"LAB//1//mg/dL": "Creatinine", "Weight (Lbs)": None}, {"LAB//1//mg/dL": ["LOINC/1", "LOINC/2"]})
    store, _ = store_of(folder)
    later = NOON + timedelta(days=2)
    events = {event.code: (event.description, event.kind) for event in store.chart(1, later).events()}
    assert events == {
        "LAB//1//mg/dL": ("Creatinine", "lab"),
        "Weight (Lbs)": ("Weight (Lbs)", "weight (lbs)"),
        "NEW//2": ("NEW//2", "new"),
    }
    assert store.dictionary("codes").column("parent_codes").to_pylist() == ["LOINC/1\nLOINC/2", None]


@pytest.mark.parametrize(
    ("code", "time", "known"),
    [
        ("DIAGNOSIS//ICD//10//I10", NOON, NOON),
        ("MEDICATION//START//Aspirin", MIDNIGHT, MIDNIGHT),
        ("LAB//RESULT//50912//mg/dL", NOON, NOON),
        ("LAB//SPECIMEN_COLLECTED//50912//STAT", NOON, NOON),
        ("LAB//50912//mg/dL", NOON, NOON + timedelta(hours=6)),
        ("LABEL//1", NOON, NOON),
        ("Blood Pressure", MIDNIGHT, datetime(2150, 3, 2, 23, 59, 59)),
        ("Blood Pressure Standing (1 min)", MIDNIGHT, datetime(2150, 3, 2, 23, 59, 59)),
        ("BMI (kg/m2)", MIDNIGHT, datetime(2150, 3, 2, 23, 59, 59)),
        ("PROCEDURE//START//225752", MIDNIGHT, MIDNIGHT),
        ("HOSPITAL_DISCHARGE//HOME", MIDNIGHT, MIDNIGHT),
        ("HOSPITAL_DISCHARGE//DIED", MIDNIGHT, MIDNIGHT),
        ("DRG//APR//194//HEART FAILURE", NOON, NOON),
        ("MEDICATION//STOP//Aspirin", NOON, NOON + timedelta(hours=1)),
        ("MEDS_DEATH", MIDNIGHT, datetime(2150, 3, 2, 23, 59, 59)),
        ("MEDS_DEATH//hospital", MIDNIGHT, datetime(2150, 3, 2, 23, 59, 59)),
        ("MEDS_DEATH", NOON, NOON),
        ("MEDS_BIRTH", MIDNIGHT, MIDNIGHT),
    ],
)
def test_when_an_event_is_known(tmp_path: Path, code: str, time: datetime, known: datetime) -> None:
    store, _ = store_of(write(tmp_path, {"0": [row(1, time, code)]}), result_lag=timedelta(hours=6))
    assert known_since(store, 1, code) == known


def test_a_coded_procedure_waits_for_the_person_s_next_discharge(tmp_path: Path) -> None:
    day = timedelta(days=1)
    rows = [
        row(1, MIDNIGHT - 3 * day, "HOSPITAL_DISCHARGE//HOME"),
        row(1, MIDNIGHT, "PROCEDURE//ICD//9//3981"),
        row(1, NOON + 4 * day, "HOSPITAL_DISCHARGE//DIED"),
        row(1, NOON + 9 * day, "HOSPITAL_DISCHARGE//HOME"),
        row(2, MIDNIGHT, "PROCEDURE//ICD//10//0210"),
        row(2, NOON + day, "HOSPITAL_DISCHARGE//HOME"),
        row(3, MIDNIGHT, "PROCEDURE//ICD//10//0211"),
    ]
    store, report = store_of(write(tmp_path, {"0": rows}))
    assert known_since(store, 1, "PROCEDURE//ICD//9//3981") == NOON + 4 * day
    assert known_since(store, 2, "PROCEDURE//ICD//10//0210") == MIDNIGHT.replace(hour=23, minute=59, second=59)
    assert [event.code for event in store.chart(3, NOON + 900 * day).events()] == []
    assert report.never_visible == {"events": 1}


def _stay(died: bool) -> list[dict[str, Any]]:
    """A stay that ends in a death, its discharge at the midnight before as some are, or goes on for a week."""
    home = NOON + timedelta(days=9)
    rows = [
        row(1, NOON - timedelta(days=3), "HOSPITAL_ADMISSION//URGENT//X"),
        row(1, NOON - timedelta(days=2), "MEDICATION//START//Aspirin"),
        row(1, NOON - timedelta(days=1), "MEDICATION//STOP//Aspirin"),
        row(1, datetime(2150, 2, 27), "PROCEDURE//ICD//10//0210"),
        row(1, datetime(2150, 2, 27), "HCPCS//Hospital observation"),
    ]
    end = MIDNIGHT if died else home
    rows += [row(1, end, code) for code in ("DIAGNOSIS//ICD//10//I10", "DRG//APR//194//HEART FAILURE")]
    if not died:
        return [*rows, row(1, home, "HOSPITAL_DISCHARGE//HOME")]
    return [*rows, row(1, MIDNIGHT, "HOSPITAL_DISCHARGE//DIED"), row(1, MIDNIGHT + timedelta(hours=20), "MEDS_DEATH")]


@pytest.mark.parametrize("dated", [False, True], ids=["death with a time", "death with a day"])
def test_a_discharge_and_the_codes_at_it_wait_for_the_death(tmp_path: Path, dated: bool) -> None:
    rows = _stay(died=True)
    rows[-1]["time"] = MIDNIGHT if dated else rows[-1]["time"]
    store, _ = store_of(write(tmp_path, {"0": rows}))
    death = MIDNIGHT.replace(hour=23, minute=59, second=59) if dated else MIDNIGHT + timedelta(hours=20)
    for code in [each["code"] for each in rows[2:]]:
        assert known_since(store, 1, code) == death, code
    assert known_since(store, 1, "MEDICATION//START//Aspirin") == NOON - timedelta(days=2)


def test_nothing_before_the_death_tells_of_it(tmp_path: Path) -> None:
    """The outcome changed in the raw files: charts up to the death are the same."""
    died, lived = (store_of(write(tmp_path / str(died), {"0": _stay(died=died)}))[0] for died in (True, False))
    moments = [NOON - timedelta(days=3) + timedelta(hours=hours) for hours in range(79)]
    for moment in [*moments, MIDNIGHT + timedelta(hours=20) - timedelta(seconds=1)]:
        charts = [store.chart(1, moment).table("events").batch for store in (died, lived)]
        assert charts[0].equals(charts[1]), moment


def test_a_stop_after_the_stay_does_not_wait_for_the_next_one(tmp_path: Path) -> None:
    hour = timedelta(hours=1)
    rows = [
        row(1, NOON, "HOSPITAL_ADMISSION//URGENT//X"),
        row(1, NOON + 9 * hour, "HOSPITAL_DISCHARGE//HOME"),
        row(1, NOON + 12 * hour, "MEDICATION//STOP//Aspirin"),
        row(1, NOON + 900 * hour, "HOSPITAL_ADMISSION//URGENT//X"),
        row(1, NOON + 902 * hour, "MEDICATION//STOP//Heparin"),
        row(1, NOON + 909 * hour, "HOSPITAL_DISCHARGE//HOSPICE"),
    ]
    store, _ = store_of(write(tmp_path, {"0": rows}))
    assert known_since(store, 1, "MEDICATION//STOP//Aspirin") == NOON + 13 * hour
    assert known_since(store, 1, "MEDICATION//STOP//Heparin") == NOON + 909 * hour


def test_what_stands_at_the_moment_of_an_admission_belongs_to_its_stay(tmp_path: Path) -> None:
    """A data set that dates a stay's codes to its first moment would else show them in it."""
    rows = [
        row(1, NOON, "HOSPITAL_ADMISSION//URGENT//X"),
        row(1, NOON, "DIAGNOSIS//ICD//10//I21"),
        row(1, NOON, "MEDICATION//STOP//Aspirin"),
        row(1, NOON + timedelta(days=4), "HOSPITAL_DISCHARGE//HOME"),
    ]
    store, _ = store_of(write(tmp_path, {"0": rows}))
    assert known_since(store, 1, "DIAGNOSIS//ICD//10//I21") == NOON + timedelta(days=4)
    assert known_since(store, 1, "MEDICATION//STOP//Aspirin") == NOON + timedelta(days=4)


@pytest.mark.parametrize(
    ("later", "known"),
    [
        ([], None),
        ([(40, "HOSPITAL_DISCHARGE//HOME")], 40),
        ([(30, "HOSPITAL_ADMISSION//URGENT//Y")], None),
        ([(30, "HOSPITAL_ADMISSION//URGENT//Y"), (50, "HOSPITAL_DISCHARGE//HOME")], 50),
    ],
)
@pytest.mark.parametrize("code", ["MEDICATION//STOP//Aspirin", "DIAGNOSIS//ICD//10//I21"])
def test_a_stay_without_its_discharge_is_open(
    tmp_path: Path, code: str, later: list[tuple[int, str]], known: int | None
) -> None:
    """Cut at any hour a record has stays that have not ended: their stops and codes are not known, whatever comes."""
    hour = timedelta(hours=1)
    rows = [
        row(1, NOON - 90 * hour, "HOSPITAL_ADMISSION//URGENT//W"),
        row(1, NOON - 80 * hour, "HOSPITAL_DISCHARGE//HOME"),
        row(1, NOON - 70 * hour, f"{code}//between"),
        row(1, NOON, "HOSPITAL_ADMISSION//URGENT//X"),
        row(1, NOON + 3 * hour, code),
        *(row(1, NOON + at * hour, what) for at, what in later),
    ]
    store, report = store_of(write(tmp_path, {"0": rows}))
    shown = [event.code for event in store.chart(1, NOON + 900 * hour).events()]
    assert (code in shown) == (known is not None)
    assert report.never_visible == ({} if known is not None else {"events": 1})
    if known is not None:
        assert known_since(store, 1, code) == NOON + known * hour
    waits = 1 if code.startswith("MEDICATION") else 0
    assert known_since(store, 1, f"{code}//between") == NOON + (waits - 70) * hour


def test_a_data_set_cut_at_a_moment_shows_the_charts_of_the_whole_one(tmp_path: Path) -> None:
    """Two hundred people with stays that lie behind, go on, or never end. A discharge says HOME: DIED may stand before
    the death. Each has its admission: that a stay goes on whose beginning is not there no cut data set can tell."""
    draw = random.Random(5)
    between = [code for code in CODES if not code.startswith(("HOSPITAL", "MEDS_BIRTH"))]
    rows = []
    for subject in range(200):
        inside = False
        for hours in sorted(draw.sample(range(96), draw.randrange(2, 12))):
            code = draw.choice(between)
            if draw.random() < 0.3:
                inside = not inside
                code = "HOSPITAL_ADMISSION//URGENT//X" if inside else "HOSPITAL_DISCHARGE//HOME"
            rows.append(row(subject, NOON + timedelta(hours=hours), code))
    whole, _ = store_of(write(tmp_path / "whole", {"0": rows}))
    compared = 0
    for hours in (20, 45, 70):
        moment = NOON + timedelta(hours=hours)
        kept = [each for each in rows if each["time"] <= moment]
        part, _ = store_of(write(tmp_path / str(hours), {"0": kept}))
        for subject in part.subjects.tolist():
            charts = [store.chart(subject, moment).table("events").batch.to_pylist() for store in (whole, part)]
            assert charts[0] == charts[1], (subject, moment)
            compared += len(charts[0])
    assert compared > 700


@pytest.mark.parametrize("code", ["HOSPITAL_DISCHARGE//DIED", "DIAGNOSIS//ICD//10//I21", "DRG//HCFA//1"])
def test_how_a_stay_ended_is_not_known_from_the_start_where_it_has_no_time(tmp_path: Path, code: str) -> None:
    store, report = store_of(write(tmp_path, {"0": [row(1, None, "GENDER//F"), row(1, None, code)]}))
    assert [event.code for event in store.chart(1, NOON).events()] == ["GENDER//F"]
    assert report.never_visible == {"events": 1}


@pytest.mark.parametrize("code", ["SNOMED/419620001", "Condition Type/OMOP4822053"])
def test_a_death_by_another_name_is_not_known_in_the_first_second_of_its_day(tmp_path: Path, code: str) -> None:
    midnight = datetime(2150, 3, 2)
    store, _ = store_of(write(tmp_path, {"0": [row(1, midnight, code)]}))
    assert known_since(store, 1, code) == datetime(2150, 3, 2, 23, 59, 59)


def test_the_rate_of_an_infusion_waits_for_its_end(tmp_path: Path) -> None:
    hour = timedelta(hours=1)
    rows = [
        row(1, NOON, "INFUSION_START//221906", numeric_value=4.0),
        row(1, NOON + 2 * hour, "INFUSION_END//221906", numeric_value=8.0),
        row(1, NOON + 2 * hour, "INFUSION_START//221906", numeric_value=5.0),
        row(1, NOON, "INFUSION_START//225158", numeric_value=100.0, available_at=NOON + hour),
    ]
    store, _ = store_of(write(tmp_path, {"0": rows}))
    seen = {
        hours: [
            (e.code[-6:], e.numeric_value) for e in store.chart(1, NOON + hours * hour).events() if "START" in e.code
        ]
        for hours in (0, 1, 2, 900)
    }
    assert seen[0] == [("221906", None)]
    assert sorted(seen[1], key=str) == [("221906", None), ("225158", 100.0)]
    assert sorted(seen[2], key=str) == [("221906", 4.0), ("221906", None), ("225158", 100.0)]
    assert sorted(seen[900], key=str) == sorted(seen[2], key=str), "the second never ended"


def test_a_recorded_time_of_knowledge_wins_and_is_not_handed_out(tmp_path: Path) -> None:
    rows = [
        row(1, NOON, "LAB//1//mg", available_at=NOON + timedelta(minutes=5)),
        row(1, NOON, "MEDS_DEATH", available_at=NOON + timedelta(days=9)),
        row(1, NOON, "X", available_at=None, event_time=NOON - timedelta(hours=1)),
        row(1, NOON, "EARLY", available_at=NOON - timedelta(days=5)),
    ]
    other = [row(2, NOON, "LAB//1//mg", available_time=NOON + timedelta(minutes=7))]
    store, _ = store_of(write(tmp_path, {"0": rows, "1": other}))
    assert known_since(store, 1, "LAB//1//mg") == NOON + timedelta(minutes=5)
    assert known_since(store, 1, "MEDS_DEATH") == NOON + timedelta(days=9)
    assert known_since(store, 1, "X") == NOON
    assert known_since(store, 1, "EARLY") == NOON, "nothing is shown before it happened"
    assert known_since(store, 2, "LAB//1//mg") == NOON + timedelta(minutes=7)
    table = store.chart(1, NOON + timedelta(days=20)).table("events")
    assert not {"available_at", "available_time"} & set(table.columns)


def test_a_death_without_a_time_is_on_no_chart_and_counted(tmp_path: Path) -> None:
    store, report = store_of(write(tmp_path, {"0": [row(1, None, "MEDS_DEATH"), row(1, None, "GENDER//M")]}))
    assert report.never_visible == {"events": 1}
    assert [event.code for event in store.chart(1, datetime(2999, 1, 1)).events()] == ["GENDER//M"]


def test_the_published_clock_is_the_standards_promise(tmp_path: Path) -> None:
    store, _ = store_of(write(tmp_path, {"0": [row(1, NOON, "LAB//1//mg")]}))
    assert [event.code for event in store.chart(1, NOON, policy="published").events()] == ["LAB//1//mg"]
    assert list(store.chart(1, NOON).events()) == []


def test_assumptions_are_told(tmp_path: Path) -> None:
    _, report = store_of(write(tmp_path, {"0": [row(1, NOON, "A")]}), result_lag=timedelta(hours=3))
    assert len(report.assumptions) == 1
    assert "3:00:00" in report.assumptions[0]


def test_splits_are_kept(tmp_path: Path) -> None:
    folder = write(tmp_path, {"train/0": [row(1, NOON, "A")], "held_out/0": [row(2, NOON, "A")]})
    (folder / "metadata").mkdir()
    table = pa.table({"subject_id": [2, 1], "split": ["held_out", "train"]})
    pq.write_table(table, folder / "metadata" / "subject_splits.parquet")
    assert store_of(folder)[0].splits() == {1: "train", 2: "held_out"}


def test_a_subject_in_two_splits_is_in_none(tmp_path: Path) -> None:
    """Whichever won, what is learnt from the one would be asked in the other."""
    folder = write(tmp_path, {"0": [row(1, NOON, "A"), row(2, NOON, "A")]})
    (folder / "metadata").mkdir()
    table = pa.table({"subject_id": [1, 2, 1, 2], "split": ["train", "tuning", "held_out", "tuning"]})
    pq.write_table(table, folder / "metadata" / "subject_splits.parquet")
    with pytest.raises(UserError, match="subject 1 is in the splits held_out and train"):
        store_of(folder)[0].splits()


def test_a_data_set_without_splits_has_none(tmp_path: Path) -> None:
    store, report = store_of(write(tmp_path, {"0": [row(1, NOON, "A")]}))
    assert store.splits() == {}
    assert report.missing_tables == ("codes", "subject_splits")


def test_columns_that_nobody_can_date_are_counted_and_left_out(tmp_path: Path) -> None:
    """The end of a visit on its first event would foretell it."""
    store, report = store_of(write(tmp_path, {"0": [row(1, NOON, "VISIT", visit_end=NOON + timedelta(days=9))]}))
    assert report.unknown_columns == {"events": ("visit_end",)}
    assert "visit_end" not in store.chart(1, datetime(2999, 1, 1)).table("events").columns


def test_a_row_without_a_subject_is_set_aside_with_its_file_and_row(tmp_path: Path) -> None:
    folder = write(tmp_path, {"train/0": [row(1, NOON, "A")], "tuning/0": [row(1, NOON, "B"), row(None, NOON, "C")]})
    store, report = store_of(folder)
    assert report.quarantined == {"events": 1}
    (line,) = (folder / "store" / "quarantine" / "events.jsonl").read_text().splitlines()
    broken = json.loads(line)
    assert (broken["file"], broken["line"]) == ("data/tuning/0.parquet", 2)
    assert "subject_id" in broken["reason"]
    assert len(list(store.chart(1, NOON).events())) == 2


def test_row_ids_do_not_depend_on_how_files_are_cut(tmp_path: Path) -> None:
    rows = [row(1, NOON + timedelta(hours=n), f"C{n % 3}", numeric_value=float(n)) for n in range(9)]
    one, _ = store_of(write(tmp_path / "one", {"0": rows}))
    many, _ = store_of(write(tmp_path / "many", {"b/1": rows[5:], "a": rows[:5]}))
    assert one.rows(1, "events").column("row_id").to_pylist() == many.rows(1, "events").column("row_id").to_pylist()


def test_the_audit_finds_nothing_and_finds_what_is_planted(tmp_path: Path) -> None:
    rows = [row(1, NOON + timedelta(hours=n), f"LAB//{n}//mg", numeric_value=n / 3) for n in range(30)]
    rows += [row(1, MIDNIGHT, "Blood Pressure", text_value="120/80"), row(1, None, "GENDER//F")]
    folder = write(tmp_path, {"x/0": rows[::2], "y/1": [row(2, NOON, "A"), *rows[1::2]]})
    describe(folder, {f"LAB//{n}//mg": f"test {n}" for n in range(30)})
    store, _ = store_of(folder)
    samples = [(1, NOON + timedelta(hours=hours)) for hours in (0, 5, 12, 24, 30, 50)]
    assert audit_leaks(store, samples, raw_folder=folder).clean
    report = audit_leaks(store, samples, raw_folder=folder, policy="published")
    assert report.rows > 0, "labs at the time they were taken"


HOURS = st.integers(0, 96).map(lambda hours: datetime(2150, 3, 1) + timedelta(hours=hours))
CODES = [
    "HOSPITAL_ADMISSION//URGENT//X",
    "HOSPITAL_DISCHARGE//DIED",
    "HOSPITAL_DISCHARGE//HOME",
    "DIAGNOSIS//ICD//10//I10",
    "PROCEDURE//ICD//10//0210",
    "MEDICATION//STOP//Aspirin",
    "INFUSION_START//1",
    "INFUSION_END//1",
    "LAB//1//mg",
    "LAB//RESULT//1//mg",
    "MEDS_DEATH",
    "MEDS_BIRTH",
    "HCPCS//x",
    "BMI (kg/m2)",
    "DRUG//2",
    "GENDER//F",
]
DRAWN_ROWS = st.lists(
    st.fixed_dictionaries(
        {"subject_id": st.integers(1, 3), "time": st.none() | HOURS, "code": st.sampled_from(CODES)},
        optional={
            "numeric_value": st.none() | st.floats(-9, 9, width=32) | st.just(float("nan")),
            "text_value": st.sampled_from([None, "", "a", 'with "quotes", commas', "two\nlines"]),
            "available_at": st.none() | HOURS,
            "event_time": st.none() | HOURS,
        },
    ),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=often(10, 250),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@example(
    files=[
        [row(2, datetime(2150, 3, 1, 23), "HCPCS//x")],
        [row(2, datetime(2150, 3, 2, 3), "HOSPITAL_DISCHARGE//DIED", event_time=datetime(2150, 3, 3, 17))],
    ],
    moments={datetime(2150, 3, 3, 11), datetime(2150, 3, 4, 18)},
)
@given(files=st.lists(DRAWN_ROWS, min_size=1, max_size=3), moments=st.sets(HOURS, min_size=1, max_size=3))
def test_a_chart_equals_that_of_a_data_set_without_the_future(files: list[Rows], moments: set[datetime]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name), {f"part/{number}": rows for number, rows in enumerate(files)})
        store, _ = store_of(folder)
        samples = [(subject, moment) for subject in store.subjects.tolist() for moment in moments]
        report = audit_leaks(store, samples, raw_folder=folder)
    assert (report.rows, report.cells, report.differences, report.unmatched_rows) == (0, 0, 0, 0), report.as_text()


def test_bad_input_gives_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"expected files like data/\*\*/\*\.parquet"):
        ingest("meds", tmp_path / "empty", tmp_path / "store")
    folder = write(tmp_path / "odd", {"0": [row(1, NOON, "A")]})
    pq.write_table(pa.table({"patient_id": [1], "time": [NOON], "code": ["A"]}), folder / "data" / "1.parquet")
    with pytest.raises(UserError, match=r"1\.parquet: wrong schema for 'events', no column subject_id"):
        ingest("meds", folder, tmp_path / "store")
    bare = write(tmp_path / "bare", {})
    (bare / "data").mkdir(parents=True)
    pq.write_table(pa.table({"subject_id": [1], "when": [NOON], "code": ["A"]}), bare / "data" / "0.parquet")
    with pytest.raises(UserError, match="no column time"):
        ingest("meds", bare, tmp_path / "other")


def test_the_open_demo_reads_whole_and_leaks_nothing(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "mimic-iv-demo-meds" / "meds"
    if not folder.is_dir():
        pytest.skip("the MEDS demo is not here")
    report = ingest("meds", folder, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in folder.glob("data/**/*.parquet"))
    assert (report.rows["events"], report.subjects, report.quarantined) == (rows, 100, {})
    assert sorted(set(store.splits().values())) == ["held_out", "train", "tuning"]
    subjects = drawn(store.subjects.tolist()[::9], 2)
    times = {s: store.rows(s, "events").column("time").drop_null().to_pylist() for s in subjects}
    samples = [(subject, at[len(at) * share // 4]) for subject, at in times.items() for share in (1, 3)]
    audit = audit_leaks(store, samples, raw_folder=folder)
    assert (audit.rows, audit.cells, audit.differences, audit.unmatched_rows) == (0, 0, 0, 0), audit.as_text()
