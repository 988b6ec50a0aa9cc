"""MEDS out and in again: the validators of the standard pass; times <= t read what a chart showed at t."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import often
from records.test_clock_properties import MODEST, MOMENTS
from records.test_clock_properties import _store as generated_store
from wardround.core import UserError
from wardround.exports.meds import ExportSettings, export_meds
from wardround.exports.meds_events import EventCounts
from wardround.records import Chart, Store, ingest, load_source_spec

Seen = tuple[datetime | None, str, float | None, str | None, str | None]
END = datetime(2300, 1, 1)
NOT_ROWS = ("MEDS_BIRTH", "MEDS_DEATH", "GENDER//", "patients")
TAKEN_BACK = ("WITHDRAWN", "ANSWERED")


@pytest.fixture(scope="module")
def exported(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meds") / "known"
    export_meds(synthetic_store, folder, settings=ExportSettings(subjects_per_file=50, rows_at_once=40_000))
    return folder


@pytest.fixture(scope="module")
def again(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("meds") / "store"
    ingest("meds", exported, path)
    return Store.open(path)


def read(folder: Path) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted(folder.glob("data/**/*.parquet"))]


def seen(chart: Chart) -> Counter[Seen]:
    """Return the events of a chart that stand for rows; numbers as MEDS keeps them, in 32 bits."""
    return Counter(
        (
            event.time,
            event.code,
            None if event.numeric_value is None else float(np.float32(event.numeric_value)),
            event.text_value,
            event.unit,
        )
        for event in chart.events()
        if not event.code.startswith(NOT_ROWS)
    )


def moments(store: Store, subject: int, count: int, draw: random.Random) -> list[datetime]:
    """Return moments at, just before and just after times at which something became known."""
    known = {
        time
        for name in store.table_names
        for column in ("_available", "_event")
        for time in store.rows(subject, name).column(column).to_pylist()
    }
    times = sorted(time for time in known if datetime.min < time < datetime(9000, 1, 1))
    drawn = [draw.choice(times) for _ in range(count)] if times else []
    return [time + timedelta(seconds=draw.choice((-1, 0, 1))) for time in drawn]


def test_the_standards_own_validators_pass(exported: Path) -> None:
    meds = pytest.importorskip("meds", reason="needs meds, the standard's package")
    tables = read(exported)
    assert len(tables) == 3
    for table in tables:
        meds.DataSchema.validate(table)
    codes = pq.read_table(exported / "metadata" / "codes.parquet")
    meds.CodeMetadataSchema.validate(codes)
    meds.DatasetMetadataSchema.validate(json.loads((exported / "metadata" / "dataset.json").read_text()))
    used = {code for table in tables for code in table.column("code").to_pylist()}
    assert used == set(codes.column("code").to_pylist())
    named = codes.filter(pc.is_valid(codes.column("description"))).num_rows
    assert named > 0.9 * codes.num_rows


def test_each_subject_lies_in_one_file_in_one_piece_sorted_with_nulls_first(
    exported: Path, synthetic_store: Store
) -> None:
    files = read(exported)
    subjects = [table.column("subject_id").to_pylist() for table in files]
    assert [len(set(each)) for each in subjects] == [50, 50, 20]
    assert len({subject for each in subjects for subject in each}) == len(synthetic_store.subjects)
    for table in files:
        rows = list(zip(table.column("subject_id").to_pylist(), table.column("time").to_pylist(), strict=True))
        runs = [subject for place, (subject, _) in enumerate(rows) if place == 0 or rows[place - 1][0] != subject]
        assert len(runs) == len(set(runs))
        for (one, before), (other, after) in itertools.pairwise(rows):
            assert one != other or before is None or (after is not None and before <= after)


def test_a_chart_at_any_moment_is_the_same_after_the_way_out_and_in(synthetic_store: Store, again: Store) -> None:
    draw = random.Random(5)
    compared = 0
    for subject in draw.sample(synthetic_store.subjects.tolist(), often(15, 40)):
        for moment in [END, *moments(synthetic_store, subject, 4, draw)]:
            assert seen(again.chart(subject, moment)) == seen(synthetic_store.chart(subject, moment)), (subject, moment)
            compared += 1
    assert compared > often(40, 100)


def test_no_event_of_the_export_is_there_before_a_chart_shows_it(synthetic_store: Store, exported: Path) -> None:
    """Every exported row is on the chart as of the row's own time, with the same content."""
    draw = random.Random(6)
    table = pa.concat_tables(read(exported))
    every = [row for row in table.to_pylist() if not row["code"].startswith((*NOT_ROWS, *TAKEN_BACK))]
    of_each_kind = {row["code"].partition("//")[0]: row for row in every}
    rows = [*of_each_kind.values(), *draw.sample(every, often(40, 600))]
    later = [
        row
        for row in table.filter(pc.greater(table.column("revision"), 0)).to_pylist()
        if row["code"] not in TAKEN_BACK
    ]
    assert len(later) > 10
    for row in rows + draw.sample(later, min(len(later), often(20, 100))):
        shown = seen(synthetic_store.chart(row["subject_id"], row["time"] or datetime(1900, 1, 1)))
        wanted = (row["event_time"], row["code"], row["numeric_value"], row["text_value"], row["unit"])
        assert shown[wanted], row


def test_an_event_that_takes_another_back_has_its_row_and_comes_after_it(exported: Path) -> None:
    rows = defaultdict(list)
    for row in pa.concat_tables(read(exported)).to_pylist():
        rows[row["telling_of"]].append(row)
    told_once = {row["code"].split("//")[0] for row in rows.pop(None)}
    assert told_once == {"MEDS_BIRTH", "MEDS_DEATH", "GENDER"}
    taken_back = [several for several in rows.values() if several[-1]["code"] in TAKEN_BACK]
    assert len(taken_back) > 20
    for several in rows.values():
        assert {row["row_id"] for row in several} == {several[0]["telling_of"]}
        assert [row["revision"] for row in several] == list(range(len(several)))
        assert not any(row["code"] in TAKEN_BACK for row in several[:-1])


def test_deaths_are_not_told_before_the_chart_tells_them(synthetic_store: Store, exported: Path) -> None:
    table = pa.concat_tables(read(exported))
    deaths = [row for row in table.to_pylist() if row["code"] == "MEDS_DEATH"]
    assert len(deaths) > 5
    assert len({row["subject_id"] for row in deaths}) == len(deaths)
    for row in deaths:
        before = synthetic_store.chart(row["subject_id"], row["time"] - timedelta(seconds=1))
        after = synthetic_store.chart(row["subject_id"], row["time"])
        assert not _dead(before)
        assert _dead(after)


def _dead(chart: Chart) -> bool:
    cells = chart.table("patients").batch.column("dod").to_pylist()
    cells += chart.table("admissions").batch.column("deathtime").to_pylist()
    return any(cell is not None for cell in cells)


def test_births_give_the_age_that_the_chart_has(synthetic_store: Store, exported: Path) -> None:
    table = pa.concat_tables(read(exported))
    births = {row["subject_id"]: row["time"] for row in table.to_pylist() if row["code"] == "MEDS_BIRTH"}
    assert len(births) == len(synthetic_store.subjects)
    moment = datetime(2190, 12, 31)
    for subject, born in births.items():
        age = synthetic_store.chart(subject, moment).age
        assert age is None or age == min(90, moment.year - born.year)


def test_the_happened_at_form_has_every_row_once_at_its_own_time(synthetic_store: Store, tmp_path: Path) -> None:
    report = export_meds(synthetic_store, tmp_path / "plain", settings=ExportSettings(time="event"))
    assert report.counts.later == 0
    table = pa.concat_tables(read(tmp_path / "plain"))
    rows = [row for row in table.to_pylist() if not row["code"].startswith(NOT_ROWS)]
    assert all(row["time"] == row["event_time"] for row in rows)
    expected: Counter[Seen] = Counter()
    for subject in synthetic_store.subjects.tolist():
        expected.update(seen(synthetic_store.chart(subject, END)))
    found = Counter(
        (row["event_time"], row["code"], row["numeric_value"], row["text_value"], row["unit"]) for row in rows
    )
    assert found == expected


def test_a_folder_with_something_in_it_is_refused(synthetic_store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        export_meds(synthetic_store, tmp_path)
    assert (tmp_path / "file").read_text() == "mine"


@MODEST
@given(st.integers(0, 2**32), st.integers(1, 6), st.sets(st.sampled_from(MOMENTS), min_size=1, max_size=6))
def test_any_hospital_reads_the_same_through_meds(seed: int, most: int, drawn: set[datetime]) -> None:
    """At any moment a chart is that of the store made of the export, and its new events were new on the chart."""
    with tempfile.TemporaryDirectory() as name:
        store = generated_store(Path(name), seed, most)
        export_meds(store, Path(name) / "meds")
        ingest("meds", Path(name) / "meds", Path(name) / "again")
        again = Store.open(Path(name) / "again")
        for subject in store.subjects.tolist():
            rows = again.rows(subject, "events") if subject in again.subjects else None
            for moment in drawn if rows is not None else ():
                assert seen(store.chart(subject, moment)) == seen(again.chart(subject, moment))
            for row in [] if rows is None else rows.to_pylist():
                if row["time"] is None or row["code"].startswith(NOT_ROWS):
                    continue
                shown = seen(store.chart(subject, row["time"]))
                wanted = (row["event_time"], row["code"], row["numeric_value"], row["text_value"], row["unit"])
                assert shown[wanted], row


WARD = """
[source]
name = "ward"
title = "A ward"
sensitivity = "synthetic"
[tables.problems]
path = "problems"
id_columns = ["person", "at"]
subject = "person"
code = "icd"
label = "words"
event_time = "at"
available_at = "at"
columns = { person = "int", at = "time", icd = "text", words = "text" }
[tables.problems.group]
system = "ccs-diagnoses"
code = "icd"
fixed_version = 10
[tables.visits]
path = "visits"
id_columns = ["person", "at"]
subject = "person"
event_time = "at"
available_at = "at"
columns = { person = "int", at = "time" }
"""


def test_a_code_is_described_by_its_usual_words_and_has_the_group_of_its_own(tmp_path: Path) -> None:
    """Two people; of one code nobody knows the group, of another two names are as usual."""
    said = [
        ("E119", "a sugar disease"), ("E119", "type 2 diabetes"), ("I10", "pressure"), ("XX1", "house rule"),
        ("E119", "type 2 diabetes"), ("XX1", "house rule"), ("J449", "lung"), ("J449", "COPD"),
    ]  # fmt: skip
    (tmp_path / "raw").mkdir()
    lines = [f"{1 + place % 2},2150-01-01 0{place}:00,{code},{words}" for place, (code, words) in enumerate(said)]
    (tmp_path / "raw" / "problems.csv").write_text("\n".join(["person,at,icd,words", *lines]) + "\n")
    (tmp_path / "raw" / "visits.csv").write_text("person,at\n1,2150-01-01 09:00\n2,\n")
    (tmp_path / "ward.toml").write_text(WARD)
    ingest(load_source_spec(tmp_path / "ward.toml"), tmp_path / "raw", tmp_path / "store")
    report = export_meds(Store.open(tmp_path / "store"), tmp_path / "meds")
    assert report.counts == EventCounts(events=9, never_visible=1), "a visit without a time"
    codes = pq.read_table(tmp_path / "meds" / "metadata" / "codes.parquet").to_pylist()
    assert {row["code"]: (row["description"], row["parent_codes"]) for row in codes} == {
        "problems//E119": ("type 2 diabetes", ["ccs-diagnoses//Diabetes mellitus without complication"]),
        "problems//I10": ("pressure", ["ccs-diagnoses//Essential hypertension"]),
        "problems//J449": ("COPD", ["ccs-diagnoses//Chronic obstructive pulmonary disease and bronchiectasis"]),
        "problems//XX1": ("house rule", []),
        "visits": (None, []),
    }


CULTURES = """
[source]
name = "ward"
title = "A ward"
sensitivity = "synthetic"
[tables.cultures]
path = "cultures"
key = ["id"]
subject = "person"
code = "test"
text = "result"
event_time = "drawn"
available_at = "told"
version = "told"
amended = { status = "status", withdrawn = ["error"] }
columns = { id = "int", person = "int", drawn = "time", told = "time", test = "text", result = "text", status = "text" }
[tables.cultures.pending]
group = ["person", "drawn", "test"]
columns = ["person", "drawn", "test"]
at = "drawn"
until = "told"
"""


def test_a_culture_is_asked_for_answered_and_its_result_withdrawn(tmp_path: Path) -> None:
    rows = [
        "1,1,2150-01-01 08:00,2150-01-02 08:00,blood,none,final",
        "1,1,2150-01-01 08:00,2150-01-03 08:00,blood,none,error",
        "2,1,2150-01-01 09:00,2150-01-02 09:00,urine,coli,final",
    ]
    (tmp_path / "raw").mkdir()
    lines = ["id,person,drawn,told,test,result,status", *rows]
    (tmp_path / "raw" / "cultures.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "ward.toml").write_text(CULTURES)
    ingest(load_source_spec(tmp_path / "ward.toml"), tmp_path / "raw", tmp_path / "store")
    export_meds(Store.open(tmp_path / "store"), tmp_path / "meds")
    (told,) = read(tmp_path / "meds")
    found = {(row["time"], row["code"], row["text_value"], row["revision"]) for row in told.to_pylist()}
    assert found == {
        (datetime(2150, 1, 1, 8), "cultures//blood", None, 0),
        (datetime(2150, 1, 1, 9), "cultures//urine", None, 0),
        (datetime(2150, 1, 2, 8), "cultures//blood", "none", 0),
        (datetime(2150, 1, 2, 8), "ANSWERED", None, 1),
        (datetime(2150, 1, 2, 9), "cultures//urine", "coli", 0),
        (datetime(2150, 1, 2, 9), "ANSWERED", None, 1),
        (datetime(2150, 1, 3, 8), "WITHDRAWN", None, 1),
    }
    whose = {row["code"]: row["row_id"] for row in told.to_pylist()}
    assert whose["WITHDRAWN"] == "cultures:1"


def test_splits_are_folders_and_a_file_that_the_standard_takes(synthetic_store: Store, tmp_path: Path) -> None:
    meds = pytest.importorskip("meds", reason="needs meds, the standard's package")
    subjects = synthetic_store.subjects.tolist()
    splits = {subject: "train" if place % 3 else "held_out" for place, subject in enumerate(subjects[:-2])}
    report = export_meds(synthetic_store, tmp_path / "out", settings=ExportSettings(splits=splits, time="event"))
    table = pq.read_table(tmp_path / "out" / "metadata" / "subject_splits.parquet")
    meds.SubjectSplitSchema.validate(table)
    assert dict(zip(*table.to_pydict().values(), strict=True)) == splits
    for name in ("train", "held_out", "no_split"):
        found = set(pq.read_table(tmp_path / "out" / "data" / name / "0.parquet").column("subject_id").to_pylist())
        assert found == {subject for subject in subjects if splits.get(subject, "no_split") == name}
    assert report.without_split == 2


def test_a_folder_gets_its_name_when_its_files_are_whole(
    synthetic_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, rows = Path.rename, list[int]()

    def renamed(folder: Path, name: Path) -> Path:
        rows.extend(pq.read_metadata(file).num_rows for file in folder.glob("data/**/*.parquet"))
        return rename(folder, name)

    monkeypatch.setattr(Path, "rename", renamed)
    report = export_meds(synthetic_store, tmp_path / "out", settings=ExportSettings(subjects_per_file=50))
    assert (len(rows), sum(rows)) == (report.files, report.counts.events)


def test_an_export_that_was_cut_off_leaves_no_folder_and_the_next_one_starts_afresh(
    synthetic_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("wardround.exports.meds.write_metadata", cut_off)
        with pytest.raises(KeyboardInterrupt):
            export_meds(synthetic_store, tmp_path / "out", settings=ExportSettings(subjects_per_file=10))
    assert not (tmp_path / "out").exists()
    report = export_meds(synthetic_store, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    (table,) = read(tmp_path / "out")
    assert report.files == 1
    again = table.filter(pc.greater(table.column("revision"), 0)).column("code").to_pylist()
    assert report.counts.later == sum(code not in TAKEN_BACK for code in again) > 0
