"""Live equals batch: a source's files through ingest and through the stream, row by row, come to the same."""

from __future__ import annotations

import csv
import json
import random
import tempfile
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path

import pytest
from file_lines import differences, resource_lines, table_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_lines import lab, written, written_of

from effort import often
from wardround.cli import main
from wardround.clinical.bundles import batch_states, store_bundles
from wardround.core import UserError
from wardround.records import IngestSettings, Store, ingest, load_source_spec
from wardround.stream import FollowSettings, coded_responder, follow, write_replay
from wardround.stream.follow import states_of
from wardround.stream.source_rules import SourceRules
from wardround.synth import synthesize, time_zone_of, write_dialect

PATIENTS = often(1, 300)
RULES = """
schema = 1
name = "ward"
[[rule]]
id = "LACTATE"
category = "SEPSIS"
trigger = "lactate > 1.5 OR heart rate > 100 OR creatinine is high"
actions = ["order lactate", "start norepinephrine", "order creatinine"]
suspects = "shock"
[[rule]]
id = "LATER"
category = "SEPSIS"
trigger = "problem shock AND hours since stay > 6"
actions = ["order potassium"]
"""
SAME = {"late": 0, "refused": 0, "different bundles": 0, "different states": 0, "different steps": 0, "only live": 0}
OWN = """
[source]
name = "own"
[tables.stays]
path = "stays"
key = ["stay_id"]
subject = "person"
encounter = "stay_id"
event_time = "came"
available_at = "came"
label = "kind"
[tables.stays.columns]
person = "int"
stay_id = "text"
kind = "text"
came = "time"
planned_end = "time"
[tables.stays.late]
planned_end = "planned_end"
[tables.results]
path = "results"
key = ["result_id"]
subject = "person"
event_time = "taken"
available_at = "first(released, lag(taken, result_lag))"
label = "test"
value = "value"
unit = "unit"
version = "written"
amended = { status = "status", withdrawn = ["error"] }
[tables.results.columns]
person = "int"
result_id = "text"
taken = "time"
released = "time"
written = "time"
test = "text"
value = "float"
unit = "text"
status = "text"
[tables.orders]
path = "orders"
key = ["order_id"]
subject = "person"
event_time = "max(begins, known(stay_id, stays))"
available_at = "max(begins, known(stay_id, stays))"
label = "drug"
text = "dose"
[tables.orders.columns]
person = "int"
stay_id = "text"
order_id = "int"
begins = "time"
ends = "time"
drug = "text"
dose = "text"
[tables.orders.late]
ends = "first(ends, cell(stay_id, stays, planned_end))"
[roles.admission]
table = "stays"
start = "came"
ends = ["planned_end"]
id = "stay_id"
[[roles.lab]]
table = "results"
label = "test"
time = "taken"
value = "value"
unit = "unit"
[[roles.order]]
table = "orders"
label = "drug"
text = "dose"
time = "begins"
stop = "ends"
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "ward.toml"
    path.write_text(RULES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    synthesize(folder, patients=PATIENTS, seed=8, notes=False, decoys=False)
    return folder


@pytest.mark.parametrize("source", often(["mimiciv", "fhir"], ["mimiciv", "mimiciii", "eicu", "omop", "fhir", "meds"]))
def test_files_row_by_row_come_to_what_ingest_makes_of_them(
    source: str, hospital: Path, rules: Path, tmp_path: Path
) -> None:
    if source == "meds" and not often(0, 1):
        pytest.skip("each line of MEDS has all of its person read again: 25 CPU-seconds; WARDROUND_TEST_LONG=1")
    write_dialect(source, hospital, tmp_path / "raw")
    settings = IngestSettings(
        coding_lag=timedelta(hours=5), result_lag=timedelta(hours=7), time_zone=time_zone_of(source)
    )
    ingest(source, tmp_path / "raw", tmp_path / "store", settings=settings)
    lines = resource_lines(tmp_path / "raw") if source == "fhir" else table_lines(source, tmp_path / "raw")
    written(tmp_path / "lines", [text for _, text in lines])
    found = differences(Store.open(tmp_path / "store"), tmp_path / "lines", tmp_path / "out", rules)
    assert found.pop("bundles") > 10 * PATIENTS
    assert {key: found[key] for key in SAME} == SAME


def own_hospital(folder: Path, patients: int, seed: int) -> Path:
    """Files of a hospital of our own: planned ends, results without a release, versions, rows that are withdrawn."""
    dice = random.Random(seed)
    tables: dict[str, list[dict[str, object]]] = {"stays": [], "results": [], "orders": []}

    def moment(hours: float) -> str:
        return f"{datetime(2150, 1, 1) + timedelta(minutes=round(hours * 60)):%Y-%m-%d %H:%M:%S}"

    for person in range(1, patients + 1):
        begin = dice.uniform(0, 50)
        for visit in range(dice.choice((1, 2, 3))):
            stay, lasts = f"{person}-{visit}", dice.uniform(3, 90)
            end = moment(begin + lasts) if dice.random() < 0.8 else ""
            tables["stays"].append(
                {"person": person, "stay_id": stay, "kind": "ward", "came": moment(begin), "planned_end": end}
            )
            for number in range(dice.randrange(12)):
                taken = begin + dice.uniform(-4, lasts)
                released = moment(taken + dice.uniform(0, 5)) if dice.random() < 0.7 else ""
                row = {"person": person, "result_id": f"{stay}-{number}", "taken": moment(taken), "released": released}
                row |= {"test": dice.choice(("Lactate", "Creatinine", "Sodium")), "unit": "u"}
                late = taken + 6
                for version in range(dice.choice((1, 1, 1, 2, 3))):
                    status = "error" if version and dice.random() < 0.3 else "final"
                    value = round(dice.uniform(0.5, 9), 4)  # a version that says nothing new is none
                    tables["results"].append({**row, "written": moment(late), "value": value, "status": status})
                    late += dice.uniform(1, 9)
            for _ in range(dice.randrange(4)):
                begins = begin + dice.uniform(-2, lasts)
                ends = moment(begins + dice.uniform(1, 30)) if dice.random() < 0.6 else ""
                row = {"person": person, "stay_id": stay, "order_id": len(tables["orders"]), "begins": moment(begins)}
                tables["orders"].append({**row, "ends": ends, "drug": dice.choice(("Heparin", "Insulin")), "dose": "5"})
            begin += lasts + dice.uniform(1, 200)
    folder.mkdir()
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as target:
            writer = csv.DictWriter(target, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder


def own_lines(folder: Path) -> list[str]:
    """Rows in the order in which they come: a version when it is written, the rest with its first time."""
    found = []
    for name in ("stays", "results", "orders"):
        first: set[str] = set()
        with (folder / f"{name}.csv").open(encoding="utf-8") as source:
            rows = list(csv.DictReader(source))
        for row in rows:
            times = [row[each] for each in ("came", "taken", "begins") if row.get(each)]
            again = name == "results" and row["result_id"] in first
            first.add(row.get("result_id", ""))
            row = {key: value for key, value in row.items() if value}
            found.append((row["written"] if again else min(times), json.dumps({"table": name, "row": row})))
    return [text for _, text in sorted(found, key=lambda pair: pair[0])]


def test_an_own_hospital_row_by_row_comes_to_what_ingest_makes_of_it(rules: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
    raw = own_hospital(tmp_path / "raw", often(10, 300), seed=4)
    ingest(load_source_spec(tmp_path / "own.toml"), raw, tmp_path / "store")
    written(tmp_path / "lines", own_lines(raw))
    found = differences(Store.open(tmp_path / "store"), tmp_path / "lines", tmp_path / "out", rules)
    assert found.pop("bundles") > 100
    assert {key: found[key] for key in SAME} == SAME


def fhir_order(**more: object) -> str:
    order = {
        "resourceType": "MedicationRequest",
        "id": "r1",
        "status": "active",
        "intent": "order",
        "subject": {"reference": "Patient/p"},
        "medicationCodeableConcept": {"text": "Heparin"},
        "authoredOn": "2150-01-31T09:00:00Z",
        "dispenseRequest": {"validityPeriod": {"end": "2150-02-05T09:00:00Z"}},
    }
    return json.dumps(order | more)


def test_an_active_order_with_a_planned_end_runs(tmp_path: Path) -> None:
    """An active MedicationRequest of 31 January to 5 February is started, and stops when its time has come."""
    result = json.dumps(
        {
            "resourceType": "Observation",
            "id": "o1",
            "status": "final",
            "subject": {"reference": "Patient/p"},
            "category": [{"coding": [{"code": "laboratory"}]}],
            "code": {"text": "Lactate"},
            "effectiveDateTime": "2150-02-01T09:00:00Z",
            "issued": "2150-02-01T09:30:00Z",
            "valueQuantity": {"value": 1, "unit": "mmol/L"},
        }
    )
    folder = written(tmp_path / "in", [fhir_order(), result])
    settings = FollowSettings(once=True, finish=True, time_zone="UTC")
    follow(load_source_spec("fhir"), folder, tmp_path / "out", settings=settings)
    ((_, told),) = written_of(tmp_path / "out").items()
    found = [(json.loads(line)["hour"], json.loads(line)["running"]) for line in told]
    assert found == [("2150-01-31 09:00", 1), ("2150-02-01 09:00", 1), ("2150-02-05 10:00", 0)]


def test_a_planned_discharge_is_no_event_before_it_happens(tmp_path: Path) -> None:
    stay = {"subject_id": 7, "hadm_id": 1, "admittime": "2150-01-01 08:00:00", "dischtime": "2150-01-06 08:00:00"}
    lines = [json.dumps({"table": "admissions", "row": stay}), lab(7, "2150-01-01 09:00:00", 1.0, "a")]
    report = follow(load_source_spec("mimiciv"), written(tmp_path / "in", lines), tmp_path / "out",
                    settings=FollowSettings(once=True))  # fmt: skip
    assert report.bundles == 1
    told = json.loads(written_of(tmp_path / "out")[7][0])
    assert (told["hour"], told["events"]) == ("2150-01-01 08:00", 1)
    later = {**stay, "dischtime": "2150-01-03 10:00:00"}
    again = [json.dumps({"table": "admissions", "row": later}), lab(7, "2150-01-04 09:00:00", 1.0, "b")]
    follow(load_source_spec("mimiciv"), written(tmp_path / "in", [*lines, *again]), tmp_path / "out",
           settings=FollowSettings(once=True, finish=True))  # fmt: skip
    hours = [json.loads(line)["hour"][5:] for line in written_of(tmp_path / "out")[7]]
    assert hours == ["01-01 08:00", "01-01 09:00", "01-03 10:00", "01-04 09:00"]


@pytest.mark.parametrize("end", [{}, {"deathtime": "2150-01-03 10:00:00", "discharge_location": "DIED"}])
def test_nothing_is_predicted_after_the_end_of_the_stay(end: dict[str, str], rules: Path, tmp_path: Path) -> None:
    """Neither after a discharge nor after a death; a result that comes late is told, and another stay has its own."""
    stay = {"subject_id": 7, "hadm_id": 1, "admittime": "2150-01-01 08:00:00", "dischtime": "2150-01-03 10:00:00"}
    again = {"subject_id": 7, "hadm_id": 2, "admittime": "2150-02-01 08:00:00"}
    lines = [json.dumps({"table": "admissions", "row": {**stay, **end}})]
    lines += [lab(7, f"2150-01-{when}:30:00", 9.0, when) for when in ("01 09", "02 09", "03 10", "03 14")]
    if not end:
        lines += [json.dumps({"table": "admissions", "row": again}), lab(7, "2150-02-01 08:30:00", 9.0, "b")]
    follow(load_source_spec("mimiciv"), written(tmp_path / "in", lines), tmp_path / "out",
           settings=FollowSettings(once=True, finish=True), responder=coded_responder(rules))  # fmt: skip
    told = [json.loads(line) for line in written_of(tmp_path / "out")[7]]
    found = [(one["hour"][5:13], one["held"], bool(one["predicted"])) for one in told]
    before = [("01-01 08", [], False), ("01-01 09", ["LACTATE"], True), ("01-02 09", ["LACTATE", "LATER"], True)]
    after = [] if end else [("02-01 08", ["LACTATE"], True)]
    assert found == [*before, ("01-03 10", [], False), ("01-03 14", [], False), *after]


def test_a_row_that_was_said_and_is_changed_without_a_version_is_a_correction(tmp_path: Path) -> None:
    """And one that changes in its own hour never was otherwise."""
    (tmp_path / "own.toml").write_text(OWN.replace('version = "written"\n', "").replace("amended = ", "# "), "utf-8")
    spec = load_source_spec(tmp_path / "own.toml")
    row = {"person": 1, "result_id": "a", "taken": "2150-01-01 08:00:00", "released": "2150-01-01 08:10:00"}
    row |= {"test": "Lactate", "unit": "u"}
    clock = {"clock": "2150-01-01 09:30:00"}
    lines = [{"table": "results", "row": {**row, "value": value}} for value in (9.0, 8.0, 2.0)]
    text = [json.dumps(each) for each in (*lines[:2], clock, lines[2])]
    report = follow(
        spec, written(tmp_path / "in", text), tmp_path / "out", settings=FollowSettings(once=True, finish=True)
    )
    assert (report.bundles, report.silent) == (2, {})
    first, second = (json.loads(line) for line in written_of(tmp_path / "out")[1])
    assert (first["events"], first["amended"], second["events"], second["amended"]) == (1, False, 1, True)
    trend = states_of(spec, tmp_path / "out")[1].trend("Lactate")
    assert trend is not None
    assert [reading.value for reading in trend.readings] == [2.0]


def test_the_clocks_are_those_of_the_store(tmp_path: Path) -> None:
    """The lag of the settings, and the median that the store took: of a result without a release time."""
    raw = own_hospital(tmp_path / "raw", 3, seed=1)
    (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
    settings = IngestSettings(result_lag=timedelta(hours=3))
    ingest(load_source_spec(tmp_path / "own.toml"), raw, tmp_path / "store", settings=settings)
    store = Store.open(tmp_path / "store")
    rules = SourceRules.of_store(store)
    assert rules.settings.lags["result_lag"] == 3 * 3_600_000_000
    assert batch_states(next(iter(store_bundles(store))))


MORE = {
    'planned_end = "time"': 'planned_end = "time"\ndied = "time"',
    'planned_end = "planned_end"': 'planned_end = "planned_end"\ndied = "died"',
    'ends = ["planned_end"]': 'ends = ["planned_end", "died"]',
    'text = "dose"\n[tables.orders.columns]': (
        'text = "dose"\nversion = "written"\namended = { status = "status", withdrawn = ["error"] }\n'
        '[tables.orders.columns]\nwritten = "time"\nstatus = "text"'
    ),
}
DRAWN = f"""{reduce(lambda text, pair: text.replace(*pair), MORE.items(), OWN)}
[tables.moves]
path = "moves"
key = ["move_id", "moved"]
subject = "person"
event_time = "moved"
available_at = "moved"
label = "ward"
[tables.moves.columns]
person = "int"
move_id = "text"
moved = "time"
ward = "text"
[tables.diagnoses]
path = "diagnoses"
key = ["stay_id", "code"]
subject = "person"
event_time = "known(stay_id, stays)"
available_at = "cell(stay_id, stays, planned_end)"
label = "code"
[tables.diagnoses.columns]
person = "int"
stay_id = "text"
code = "text"
[[roles.transfer]]
table = "moves"
label = "ward"
time = "moved"
[[roles.diagnosis]]
table = "diagnoses"
label = "code"
"""
Rows = dict[str, list[dict[str, object]]]
COLUMNS = {
    "stays": ("person", "stay_id", "kind", "came", "planned_end", "died"),
    "results": ("person", "result_id", "taken", "released", "written", "test", "value", "unit", "status"),
    "orders": ("person", "stay_id", "order_id", "begins", "ends", "drug", "dose", "written", "status"),
    "moves": ("person", "move_id", "moved", "ward"),
    "diagnoses": ("person", "stay_id", "code"),
}


@st.composite
def people(draw: st.DrawFn) -> Rows:
    """Stays of some people: visits to the emergency department with and without a ward after them, readmissions,
    transfers, deaths, stays that go on; results that are late, corrected and withdrawn; orders with planned ends."""
    rows: Rows = {name: [] for name in COLUMNS}
    minutes = st.sampled_from([0, 1, 30, 59, 60, 61, 95, 240, 300, 719, 1_440, 2_000])

    def moment(minute: int) -> str:
        return f"{datetime(2150, 1, 1) + timedelta(minutes=minute):%Y-%m-%d %H:%M:%S}"

    for person in range(1, draw(st.integers(1, 3)) + 1):
        clock = draw(minutes)
        for visit in range(draw(st.integers(1, 4))):
            stay, lasts = f"{person}-{visit}", 1 + draw(minutes)
            kind = draw(st.sampled_from(["emergency", "ward"]))
            is_open = draw(st.integers(0, 9)) == 0
            end = "" if is_open else moment(clock + lasts)
            is_dead = not is_open and draw(st.integers(0, 4)) == 0
            row = {"person": person, "stay_id": stay, "kind": kind, "came": moment(clock), "planned_end": end}
            rows["stays"].append({**row, "died": end if is_dead else ""})
            for number in range(draw(st.integers(0, 2))):
                moved = moment(clock + draw(minutes) % lasts)
                ward = draw(st.sampled_from(["ICU", "Surgery"]))
                rows["moves"].append({"person": person, "move_id": f"{stay}-{number}", "moved": moved, "ward": ward})
            for number in range(draw(st.integers(0, 5))):
                taken = clock - 90 + draw(minutes)
                released = draw(st.none() | minutes)
                row = {"person": person, "result_id": f"{stay}-{number}", "taken": moment(taken), "unit": "u"}
                row |= {"released": "" if released is None else moment(taken + released)}
                row |= {"test": draw(st.sampled_from(["Lactate", "Creatinine", "Sodium"]))}
                later = taken + 360
                for version in range(draw(st.sampled_from([1, 1, 2, 3]))):
                    status = "error" if version and draw(st.booleans()) else "final"
                    value = draw(st.sampled_from([0.5, 1.0, 1.4, 1.6, 4.5, 9.0])) + version / 100
                    rows["results"].append({**row, "written": moment(later), "value": value, "status": status})
                    later += 1 + draw(minutes)
            for number in range(draw(st.integers(0, 3))):
                begins, order = clock - 60 + draw(minutes), 1_000 * person + 10 * visit + number
                drug = draw(st.sampled_from(["Heparin", "Insulin"]))
                row = {"person": person, "stay_id": stay, "order_id": order, "begins": moment(begins), "drug": drug}
                later = begins + 1
                for version in range(draw(st.sampled_from([1, 1, 2]))):
                    lasting = draw(st.none() | minutes)
                    row |= {"ends": "" if lasting is None else moment(begins + 1 + lasting), "dose": f"{5 + version}"}
                    status = "error" if version and draw(st.booleans()) else "active"
                    rows["orders"].append({**row, "written": moment(later), "status": status})
                    later += 1 + draw(minutes)
            for code in sorted(draw(st.sets(st.sampled_from(["I50", "N17", "A41"]), max_size=2))):
                rows["diagnoses"].append({"person": person, "stay_id": stay, "code": code})
            clock += lasts + (0 if kind == "emergency" and draw(st.booleans()) else draw(minutes))
            if is_dead:
                break
    return rows


def files_of(rows: Rows, folder: Path) -> Path:
    folder.mkdir()
    for name, columns in COLUMNS.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as target:
            writer = csv.DictWriter(target, fieldnames=columns)
            writer.writeheader()
            writer.writerows(rows[name])
    return folder


def drawn_lines(rows: Rows) -> list[str]:
    """Rows as lines, in the order in which they come; a diagnosis with its stay's first row."""
    found: list[tuple[str, int, str]] = []
    came = {row["stay_id"]: str(row["came"]) for row in rows["stays"]}
    for place, name in enumerate(COLUMNS):
        first: set[object] = set()
        for row in rows[name]:
            key = row.get("result_id", row.get("order_id"))
            again = key is not None and key in first
            first.add(key)
            times = [str(row[each]) for each in ("came", "taken", "begins", "moved") if row.get(each)]
            when = str(row["written"]) if again else min(times or [came[row["stay_id"]]])
            cells = {key: cell for key, cell in row.items() if cell != ""}
            found.append((when, place, json.dumps({"table": name, "row": cells})))
    return [text for _, _, text in sorted(found, key=lambda one: one[:2])]


@settings(max_examples=often(8, 300), deadline=None)
@given(rows=people())
def test_drawn_stays_row_by_row_come_to_what_ingest_makes_of_them(rows: Rows, rules: Path) -> None:
    with tempfile.TemporaryDirectory(dir=rules.parent) as name:
        folder = Path(name)
        (folder / "own.toml").write_text(DRAWN, encoding="utf-8")
        ingest(load_source_spec(folder / "own.toml"), files_of(rows, folder / "raw"), folder / "store")
        written(folder / "lines", drawn_lines(rows))
        found = differences(Store.open(folder / "store"), folder / "lines", folder / "out", rules)
    assert {key: found[key] for key in SAME} == SAME


def test_a_source_without_a_store_has_the_delays_that_its_spec_declares() -> None:
    rules = SourceRules.of_source(load_source_spec("mimiciv"))
    minute = 60_000_000
    assert rules.settings.medians == {
        "labevents.charttime.storetime": (65 * minute, 65 * minute),
        "outputevents.charttime.storetime": (17 * minute, 17 * minute),
    }


@pytest.mark.parametrize(
    ("source", "table", "cells", "is_so"),
    [
        ("meds", "events", {"code": "HOSPITAL_ADMISSION//EMERGENCY"}, True),
        ("meds", "events", {"code": "HOSPITAL_DISCHARGE//HOME"}, True),
        ("meds", "events", {"code": "MEDS_DEATH"}, True),
        ("meds", "events", {"code": "INFUSION_START//221906"}, True),
        ("meds", "events", {"code": "LAB//50813"}, False),
        ("meds", "events", {"code": "MEDS_BIRTH"}, False),
        ("meds", "events", {"code": "PRE_MEDS_DEATH"}, False),
        ("meds", "events", {}, False),
        ("omop", "visit_occurrence", {}, True),
        ("omop", "measurement", {}, False),
        ("mimiciv", "microbiologyevents", {}, True),
        ("mimiciv", "labevents", {}, False),
        ("mimiciv", "pharmacy", {}, True),  # when a prescription was entered
        ("mimiciv", "drgcodes", {}, False),
    ],
)
def test_rows_on_which_clocks_of_others_depend(source: str, table: str, cells: dict[str, str], is_so: bool) -> None:
    """Stays, infusions and what names an order are read with all of their patient's rows; a result alone."""
    assert SourceRules.of_source(load_source_spec(source)).concerns_others(table, cells) is is_so


def test_a_replay_is_the_same_lines_in_files_of_any_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order in which they became known, a clock before every hour and at the head of every file."""
    (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
    ingest(load_source_spec(tmp_path / "own.toml"), own_hospital(tmp_path / "raw", 3, seed=2), tmp_path / "store")
    store = Store.open(tmp_path / "store")
    count = write_replay(store, tmp_path / "whole")
    assert write_replay(store, tmp_path / "parts", lines_per_file=20) == count
    files = [file.read_text(encoding="utf-8").splitlines() for file in sorted((tmp_path / "parts").iterdir())]
    assert [sum(not line.startswith('{"clock"') for line in file) for file in files[:-1]] == [20] * (len(files) - 1)
    assert len(files) == -(-count // 20)
    assert all(file[0].startswith('{"clock"') for file in files)
    (whole,) = (file.read_text(encoding="utf-8").splitlines() for file in (tmp_path / "whole").iterdir())
    rows = [line for line in whole if not line.startswith('{"clock"')]
    assert rows == [line for file in files for line in file if not line.startswith('{"clock"')]
    assert len(rows) == count
    clock, known = "", []
    for each in map(json.loads, whole):
        if "clock" in each:
            assert each["clock"] > clock
            clock = each["clock"]
            assert clock[14:] == "00:00"
        else:
            assert each["known"][:13] == clock[:13]
            known.append(each["known"][:13])
    assert known == sorted(known)
    with pytest.raises(UserError, match="not empty"):
        write_replay(store, tmp_path / "whole")
    words = ["stream", "replay", "--store", str(store.path), "--out"]
    assert main([*words, str(tmp_path / "told")]) == 0
    assert capsys.readouterr().out == f"{count:,} lines: {tmp_path / 'told'}\n"
    assert main([*words, str(tmp_path / "json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"lines": count, "folder": str(tmp_path / "json")}
