"""Where sources keep things: visits with dates only, hierarchies of codes, codes by pattern, lists of codes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from records.fhir_resources import encounter, made, patient
from records.omop_tables import PERSON, VISIT, write_omop
from tasks.benchmarks.ehrshot_hospital import LABELS, write_meds
from wardround.cli import main
from wardround.core import UserError, format_time, parse_time, to_microseconds
from wardround.records import RowRole, Store, ingest, load_source_spec
from wardround.records.specs.roles import CodedRows
from wardround.tasks.benchmarks import Benchmark, build_ehrshot
from wardround.tasks.benchmarks.ehrshot import load_concepts, load_places
from wardround.tasks.benchmarks.ehrshot.concepts import PREFIX_SYSTEMS, CodeMatcher, places_of
from wardround.tasks.benchmarks.ehrshot.record import NO_TIME, read_results
from wardround.tasks.benchmarks.encounters import read_spans


def labels(benchmark: Benchmark, task: str) -> Counter[tuple[int, str, str]]:
    return Counter((one.subject_id, format_time(one.prediction_time), one.target[0]) for one in benchmark.samples(task))


def visit(number: int, start: str, end: str, concept: int = 9201, time: bool = True) -> dict[str, object]:
    cells = VISIT | {"visit_occurrence_id": number, "visit_concept_id": concept}
    cells |= {"visit_start_date": start[:10], "visit_end_date": end[:10]}
    return cells | {"visit_start_datetime": start if time else "", "visit_end_datetime": end if time else ""}


@pytest.fixture
def omop(tmp_path: Path) -> Store:
    """One person: four visits, one in an emergency room only; a day in a place that calls itself an ICU."""
    visits = [
        visit(10, "2150-01-02 08:00:00", "2150-01-09 08:00:00", 262),
        visit(11, "2150-02-01", "2150-02-04", time=False),
        visit(12, "2150-02-10 08:00:00", "2150-02-12 08:00:00", 9203),
        visit(13, "2150-02-20 00:00:00", "2150-02-20 00:00:00"),
    ]
    detail = {
        "visit_detail_id": 1,
        "visit_occurrence_id": 10,
        "visit_detail_concept_id": 9201,
        "visit_detail_start_date": "2150-01-04",
        "visit_detail_start_datetime": "2150-01-04 10:00:00",
        "visit_detail_end_date": "2150-01-05",
        "visit_detail_end_datetime": "2150-01-05 10:00:00",
        "care_site_id": 5,
    }
    condition = {
        "condition_occurrence_id": 1,
        "condition_concept_id": 9000001,
        "condition_start_date": "2150-02-03",
        "visit_occurrence_id": 11,
    }
    measured = {"measurement_concept_id": 3023103, "visit_occurrence_id": 10, "unit_source_value": "mmol/L"}
    values = [("2150-01-03 10:00:00", 5.6, 8753), ("2150-01-03 11:00:00", 7.5, 8753), ("2150-01-03 12:00:00", 4, 0)]
    measurements = [
        measured
        | {"measurement_id": n, "measurement_date": moment[:10], "measurement_datetime": moment}
        | {"value_as_number": value, "unit_concept_id": unit, "unit_source_value": "" if not unit else "mmol/L"}
        for n, (moment, value, unit) in enumerate(values)
    ]
    raw = write_omop(
        tmp_path / "raw",
        {
            "person": [PERSON],
            "visit_occurrence": visits,
            "visit_detail": [detail],
            "condition_occurrence": [condition],
            "measurement": measurements,
        },
    )
    with (raw / "concept.csv").open("a") as target:
        target.write("9000001,A local kind of infarction,Condition,Local,Disorder,,MI-7\n")
        target.write("9000002,A step between,Condition,SNOMED,Disorder,S,99900001\n")
    pairs = [(312327, 312327), (312327, 9000002), (312327, 9000001), (9000002, 9000001)]
    lines = "".join(f"{ancestor},{descendant},0,1\n" for ancestor, descendant in pairs)
    header = "ancestor_concept_id,descendant_concept_id,min_levels_of_separation,max_levels_of_separation\n"
    (raw / "concept_ancestor.csv").write_text(header + lines)
    (raw / "care_site.csv").write_text("care_site_id,care_site_name\n5,Medical ICU North\n")
    ingest("omop", raw, tmp_path / "store")
    return Store.open(tmp_path / "store")


def test_omop_visits_with_times_and_with_dates(omop: Store, tmp_path: Path) -> None:
    tasks = ["guo_los", "guo_icu", "guo_readmission", "lab_hyperkalemia", "new_acutemi"]
    built = build_ehrshot(omop, tmp_path / "bench", tasks=tasks, per_task=0)
    assert labels(built, "guo_los") == {(1, "2150-01-02 23:59:59", "1"): 1, (1, "2150-02-01 23:59:59", "0"): 1}
    assert labels(built, "guo_icu") == {(1, "2150-01-02 23:59:59", "1"): 1, (1, "2150-02-01 23:59:59", "0"): 1}
    assert labels(built, "guo_readmission") == {(1, "2150-01-09 23:59:59", "1"): 1, (1, "2150-02-04 23:59:59", "1"): 1}
    assert built.manifest["drops"]["guo_readmission"]["ends_as_it_begins"] == 1
    assert labels(built, "lab_hyperkalemia") == {(1, "2150-01-03 09:59:00", "1"): 1, (1, "2150-01-03 10:59:00", "3"): 1}
    assert built.manifest["drops"]["lab_hyperkalemia"]["unknown_unit"] == 1


_ADMITTED = {"admitting_source_value": "EMERGENCY ROOM"}


def test_omop_kinds_of_visits_are_declared_in_or_out_and_counted(tmp_path: Path) -> None:
    visits = [
        visit(10, "2150-01-02 08:00:00", "2150-01-09 08:00:00", 8870) | _ADMITTED,
        visit(11, "2150-01-10 08:00:00", "2150-01-12 08:00:00", 581385) | _ADMITTED,
        visit(12, "2150-01-20 08:00:00", "2150-01-22 08:00:00", 8870),
        visit(13, "2150-03-20 08:00:00", "2150-03-22 08:00:00", 9203) | _ADMITTED,
        visit(14, "2150-04-20 08:00:00", "2150-04-22 08:00:00", 4711),
    ]
    ingest("omop", write_omop(tmp_path / "raw", {"person": [PERSON], "visit_occurrence": visits}), tmp_path / "store")
    built = build_ehrshot(Store.open(tmp_path / "store"), tmp_path / "bench", tasks=["guo_readmission"], per_task=0)
    assert built.manifest["stays"] == {
        "4711": {"undeclared": 1},
        "581385": {"stays": 1},
        "8870": {"stays": 1, "no stays": 1},
        "9203": {"no stays": 1},
    }
    assert labels(built, "guo_readmission") == {(1, "2150-01-09 23:59:59", "1"): 1, (1, "2150-01-12 23:59:59", "0"): 1}


def test_omop_intensive_care_is_known_by_the_names_of_its_places(tmp_path: Path) -> None:
    detail = {"visit_detail_id": 1, "visit_occurrence_id": 10, "visit_detail_concept_id": 4149943, "care_site_id": 5}
    detail |= {"visit_detail_start_date": "2150-01-04", "visit_detail_end_date": "2150-01-05"}
    stay = visit(10, "2150-01-02 08:00:00", "2150-01-09 08:00:00")
    tables = {"person": [PERSON], "visit_occurrence": [stay], "visit_detail": [detail]}
    raw = write_omop(tmp_path / "raw", tables)
    (raw / "care_site.csv").write_text("care_site_id,care_site_name\n5,Coronary Care Unit (CCU)\n")
    ingest("omop", raw, tmp_path / "store")
    built = build_ehrshot(Store.open(tmp_path / "store"), tmp_path / "bench", tasks=["guo_icu"], per_task=0)
    assert labels(built, "guo_icu") == {(1, "2150-01-02 23:59:59", "1"): 1}


def test_an_omop_stay_that_began_in_an_emergency_room_is_asked_about_when_it_is_known(tmp_path: Path) -> None:
    stay = visit(10, "2150-01-02 08:00:00", "2150-01-12 08:00:00", 262)
    rooms = [
        {"visit_detail_id": 1, "visit_occurrence_id": 10, "visit_detail_concept_id": 8870}
        | {"visit_detail_start_date": "2150-01-02", "visit_detail_start_datetime": "2150-01-02 08:00:00"}
        | {"visit_detail_end_date": "2150-01-03", "visit_detail_end_datetime": "2150-01-03 01:00:00"},
        {"visit_detail_id": 2, "visit_occurrence_id": 10, "visit_detail_concept_id": 4150070}
        | {"visit_detail_start_date": "2150-01-03", "visit_detail_start_datetime": "2150-01-03 01:00:00"}
        | {"visit_detail_end_date": "2150-01-12", "visit_detail_end_datetime": "2150-01-12 08:00:00"},
    ]
    tables = {"person": [PERSON], "visit_occurrence": [stay], "visit_detail": rooms}
    ingest("omop", write_omop(tmp_path / "raw", tables), tmp_path / "store")
    built = build_ehrshot(Store.open(tmp_path / "store"), tmp_path / "bench", tasks=["guo_los"], per_task=0)
    assert labels(built, "guo_los") == {(1, "2150-01-03 23:59:59", "1"): 1}


def test_without_a_vocabulary_the_tasks_say_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    condition = {"condition_concept_id": 312327, "condition_start_date": "2150-01-03", "condition_source_value": "I21"}
    stay = visit(10, "2150-01-02 08:00:00", "2150-01-12 08:00:00")
    tables = {"person": [PERSON], "visit_occurrence": [stay], "condition_occurrence": [condition]}
    ingest("omop", write_omop(tmp_path / "raw", tables, concepts=False), tmp_path / "store")
    command = [
        "bench",
        "build",
        "ehrshot",
        "--allow-missing",
        "--store",
        tmp_path / "store",
        "--out",
        tmp_path / "bench",
    ]
    assert main(list(map(str, command))) == 0
    said = [
        line for line in capsys.readouterr().out.splitlines() if "unavailable" in line and line[:4] in ("lab_", "new_")
    ]
    assert len(said) == 2
    assert "lab_thrombocytopenia are unavailable: the store has no table measurement" in said[0]
    assert "condition_occurrence.concept_code is empty in every row, as the vocabulary 'concept' is missing" in said[1]


def test_omop_descends_the_hierarchy_of_concepts(omop: Store, tmp_path: Path) -> None:
    built = build_ehrshot(omop, tmp_path / "bench", tasks=["new_acutemi"], per_task=0)
    assert labels(built, "new_acutemi") == {(1, "2150-01-09 23:59:59", "1"): 1}
    assert built.manifest["tasks"]["new_acutemi"]["code_rows"] == {"MI-7": 1}
    assert built.manifest["tasks"]["new_acutemi"]["codes_without_rows"] == ["57054005", "99900001"]


def test_meds_descends_parent_codes(tmp_path: Path) -> None:
    folder = write_meds(tmp_path / "meds", ehrshot=True)
    events = pq.read_table(folder / "data" / "0.parquet")
    names = ["LOCAL/hb" if code == "LOINC/718-7" else code for code in events.column("code").to_pylist()]
    place = events.column_names.index("code")
    pq.write_table(events.set_column(place, "code", pa.array(names)), folder / "data" / "0.parquet")
    parents = {"LOCAL/hb": ["LOINC/718-7", "OTHER/x"], "LOINC/718-7": ["LOINC/LP392452-1"]}
    codes = [{"code": code, "description": None, "parent_codes": parents.get(code, [])} for code in {*names, *parents}]
    shape = pq.read_schema(folder / "metadata" / "codes.parquet")
    pq.write_table(pa.Table.from_pylist(codes, shape), folder / "metadata" / "codes.parquet")
    ingest("meds", folder, tmp_path / "store")
    built = build_ehrshot(Store.open(tmp_path / "store"), tmp_path / "bench", tasks=["lab_anemia"], per_task=0)
    assert labels(built, "lab_anemia") == Counter(LABELS["lab_anemia"])
    assert built.manifest["tasks"]["lab_anemia"]["code_rows"] == {"LOCAL/hb": 7}


def stream(*rows: tuple[str, str | None, str | None]) -> tuple[CodedRows, np.ndarray]:  # type: ignore[type-arg]
    codes = pa.array([code for code, _, _ in rows])
    ends = pa.array([None if end is None else parse_time(end) for _, _, end in rows], pa.timestamp("us"))
    times = np.array([NO_TIME if time is None else to_microseconds(parse_time(time)) for _, time, _ in rows], np.int64)
    return CodedRows(batch=pa.RecordBatch.from_arrays([codes, ends], ["code", "end"])), times


def test_pairs_of_events_make_stays() -> None:
    rows, times = stream(
        ("HOSPITAL_DISCHARGE//HOME", "2149-12-01 10:00:00", None),  # of a stay that began before the record
        ("HOSPITAL_ADMISSION//URGENT", "2150-01-01 10:00:00", None),
        ("HOSPITAL_ADMISSION//URGENT", "2150-01-01 10:00:00", None),  # told twice
        ("HOSPITAL_DISCHARGE//HOME", "2150-01-02 10:00:00", None),
        ("HOSPITAL_ADMISSION//URGENT", "2150-02-01 10:00:00", None),  # never discharged
        ("HOSPITAL_ADMISSION//URGENT", "2150-03-01 10:00:00", None),
        ("HOSPITAL_DISCHARGE//HOME", "2150-03-05 10:00:00", None),
        ("HOSPITAL_ADMISSION//URGENT", None, None),
        ("Visit/IP", "2150-04-01 10:00:00", "2150-04-03 10:00:00"),  # tells its own end
        ("Visit/OP", "2150-05-01 10:00:00", "2150-05-01 11:00:00"),
    )
    spans = read_spans(load_places("meds").stays, times, rows)
    days = [to_microseconds(parse_time(f"2150-{text} 10:00:00")) for text in ("01-01", "02-01", "03-01", "04-01")]
    assert spans.starts.tolist() == days
    ends = [to_microseconds(parse_time(f"2150-{text} 10:00:00")) for text in ("01-02", "03-05", "04-03")]
    assert spans.ends.tolist() == [ends[0], NO_TIME, ends[1], ends[2]]
    assert spans.rows.tolist() == [1, 4, 5, 8]
    assert spans.stops.tolist() == [3, -1, 6, 8]


def matcher(place: RowRole, *tasks: str) -> CodeMatcher:
    return CodeMatcher(place=place, concepts=[load_concepts()[task] for task in tasks])


@pytest.mark.parametrize(
    ("code", "concept", "unit"),
    [
        ("LAB//51222//g/dL", 0, "g/dL"),
        ("LAB//RESULT//51222//g/dL", 0, "g/dL"),
        ("LAB//RESULT//51222//UNK", 0, "UNK"),
        ("LAB//SPECIMEN_COLLECTED//51222//ROUTINE", -1, None),
        ("LAB//220228//g/dl", -1, None),  # bedside charting copies the laboratory's result
        ("mimic-lab//50811", 0, None),
        ("LOINC/718-7", 0, None),
        ("LOINC/718", -1, None),
        ("LAB//50971//mEq/L", 1, "mEq/L"),
        ("LAB//512220//g/dL", -1, None),
    ],
)
def test_codes_of_meds_data_sets(code: str, concept: int, unit: str | None) -> None:
    found = matcher(load_places("meds").labs[0], "lab_anemia", "lab_hyperkalemia").meaning((code,))
    assert (found.concept, found.unit) == (concept, unit)


def test_a_value_without_end_has_no_class() -> None:
    """A MEDS value may be infinite; as a number it would be the most severe potassium or a normal haemoglobin."""
    values = pa.array([float("inf"), float("-inf"), float("nan"), 6.5], pa.float32())
    batch = pa.RecordBatch.from_pydict({"numeric_value": values, "unit": ["mEq/L"] * 4})
    dropped: Counter[str] = Counter()
    found = read_results(
        load_concepts()["lab_hyperkalemia"],
        load_places("meds").labs[0],
        batch,
        times=np.arange(4, dtype=np.int64),
        rows=np.arange(4, dtype=np.int64),
        coded_units=[None] * 4,
        dropped=dropped,
        units=Counter(),
    )
    assert (found.rows.tolist(), found.classes.tolist()) == ([3], [2])
    assert dropped["result_without_number"] == 3


@pytest.mark.parametrize(
    ("task", "text", "number", "unit", "severity"),
    [
        ("lab_hypoglycemia", "<3 mmol/L", 3.0, "mmol/L", 3),
        ("lab_hypoglycemia", "<=3 mmol/L", 3.0, "mmol/L", 2),
        ("lab_hypoglycemia", None, 3.0, "mmol/L", 2),
        ("lab_hyperkalemia", ">7 mmol/L", 7.0, "mmol/L", 3),
        ("lab_hyperkalemia", "7", 7.0, "mmol/L", 2),
        ("lab_hyponatremia", "> 135", 135.0, "mEq/L", 0),
        ("lab_anemia", "<7.0 g/dL", 7.0, "g/dL", 3),
    ],
)
def test_a_number_that_is_a_bound_is_not_the_value(
    task: str, text: str | None, number: float, unit: str, severity: int
) -> None:
    """FHIR's comparator: the number is 3, the value is less."""
    batch = pa.RecordBatch.from_pydict({"value": [number], "value_text": pa.array([text], pa.string()), "unit": [unit]})
    zero = np.zeros(1, np.int64)
    place = load_places("fhir").labs[0]
    found = read_results(
        load_concepts()[task],
        place,
        batch,
        times=zero,
        rows=zero,
        coded_units=[None],
        dropped=Counter(),
        units=Counter(),
    )
    assert found.classes.tolist() == [severity]


def test_an_encounter_that_became_inpatient_is_a_stay(tmp_path: Path) -> None:
    history = [
        {"class": {"code": "EMER"}, "period": {"start": "2150-01-01T08:00:00Z", "end": "2150-01-01T12:00:00Z"}},
        {"class": {"code": "IMP"}, "period": {"start": "2150-01-01T12:00:00Z"}},
    ]
    changed = encounter("e1", "2150-01-01T08:00:00Z", "2150-01-09T08:00:00Z", classHistory=history)
    store, _ = made(tmp_path, [patient(), changed])
    benchmark = build_ehrshot(store, tmp_path / "bench", tasks=["guo_los"], per_task=0)
    assert [sample.target for sample in benchmark.all_samples] == [("1",)]


@pytest.mark.parametrize(
    ("code", "concept"),
    [
        ("DIAGNOSIS//ICD//10//I214", 0),
        ("DIAGNOSIS//ICD//9//41071", 0),
        ("DIAGNOSIS//ICD//9//I214", -1),
        ("DIAGNOSIS//ICD//10//I25110", -1),
        ("ICD10CM/I21.4", 0),
        ("SNOMED/57054005", 0),
        ("SNOMED/570540050", -1),
        ("icd-diagnosis//41071", 0),
        ("icd-diagnosis//I214", 0),
        ("PROCEDURE//ICD//9//4101", -1),
    ],
)
def test_diagnoses_of_meds_data_sets(code: str, concept: int) -> None:
    assert matcher(load_places("meds").diagnoses[0], "new_acutemi").meaning((code,)).concept == concept


def test_a_cell_may_hold_several_codes() -> None:
    found = matcher(load_places("eicu").diagnoses[0], "new_acutemi", "new_hypertension")
    assert found.meaning(("410.71, I21.4",)).concept == 0
    assert found.meaning(("780.6, I10",)).concept == 1
    assert found.meaning(("",)).concept == -1


def test_no_code_means_two_things_in_the_two_versions_of_icd() -> None:
    """What ``icd`` (a source that does not tell the version) rests on."""
    codes = {name: concept.codes for name, concept in load_concepts().items() if name.startswith("new_")}
    for one in codes.values():
        for other in codes.values():
            assert not any(a.startswith(b) or b.startswith(a) for a in one["icd9"] for b in other["icd10"])
    assert sorted(PREFIX_SYSTEMS) == ["icd10", "icd9"]


def test_a_source_that_cannot_tell_names_the_reason() -> None:
    places = load_places("eicu")
    assert "between two stays" in str(places.refuses("new_lupus"))
    assert "which of a person's stays came first" in str(places.refuses("guo_readmission"))
    assert places.refuses("guo_los") is None
    with pytest.raises(UserError, match="there are eicu, fhir, meds"):
        load_places("nowhere")


def test_a_source_without_stays_is_told_which_role_nothing_plays() -> None:
    meds = load_source_spec("meds")
    with pytest.raises(UserError, match=r"no table plays the role `admission` \(a stay in hospital"):
        places_of(replace(meds, roles=replace(meds.roles, admission=None)))


_STAYS = """
[source]
name = "own"
[tables.stays]
path = "stays"
key = ["stay_id"]
subject = "person"
encounter = "stay_id"
event_time = "came"
available_at = "came"
columns = { person = "int", stay_id = "int", came = "time", left = "time" }
late = { left = "left" }
[roles.admission]
table = "stays"
start = "came"
ends = ["left"]
id = "stay_id"
"""
_LABORATORY = """
[tables.near]
path = "near"
key = ["row"]
subject = "person"
event_time = "taken"
available_at = "taken"
columns = { person = "int", row = "int", taken = "time", code = "text", value = "float", unit = "text" }
[[roles.lab]]
table = "near"
label = "code"
time = "taken"
value = "value"
unit = "unit"
code = "code"
system = "loinc"
"""
OWN = _STAYS + _LABORATORY + _LABORATORY.replace("near", "sent")
"""A hospital with a laboratory at the bedside and one that samples are sent to."""


@pytest.mark.parametrize("rows", [{"near": "718-7"}, {"sent": "718-7"}, {"near": "718-7", "sent": "718-7"}, {}])
def test_a_concept_that_one_of_two_laboratories_measures_is_asked_about(rows: dict[str, str], tmp_path: Path) -> None:
    """The other one has sodium; where both have nothing but sodium, the task says so of both."""
    (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
    (tmp_path / "raw").mkdir()
    stay = "person,stay_id,came,left\n1,1,2150-01-01 08:00:00,2150-01-05 08:00:00\n"
    (tmp_path / "raw" / "stays.csv").write_text(stay, encoding="utf-8")
    for place, name in enumerate(("near", "sent")):
        codes = ("2951-2", rows.get(name, "2951-2"))
        lines = (f"1,{n},2150-01-02 1{place}:0{n}:00,{code},6.5,g/dL\n" for n, code in enumerate(codes))
        text = "person,row,taken,code,value,unit\n" + "".join(lines)
        (tmp_path / "raw" / f"{name}.csv").write_text(text, encoding="utf-8")
    ingest(load_source_spec(tmp_path / "own.toml"), tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    if not rows:
        with pytest.raises(UserError, match=r"no code of 'hemoglobin in blood' .*\(near\.code, sent\.code\)"):
            build_ehrshot(store, tmp_path / "bench", tasks=["lab_anemia"], per_task=0)
        return
    built = build_ehrshot(store, tmp_path / "bench", tasks=["lab_anemia"], per_task=0)
    hours = {"near": "10", "sent": "11"}
    assert labels(built, "lab_anemia") == {(1, f"2150-01-02 {hours[name]}:00:00", "3"): 1 for name in rows}
