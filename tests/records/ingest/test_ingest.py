"""Ingest: what comes in, what is set aside with its line, and what a kill, a damaged file or a full disk does."""

from __future__ import annotations

import errno
import gzip
import json
import random
import re
import shutil
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effort import drawn
from forking import commands
from records.kill_switch import Killed, kill_switch
from records.mimic_tables import write_folder
from records.small_source import FILES, SPEC, moment, small_spec, small_store, write_files
from wardround.core import Progress, RecordError, UserError
from wardround.records import IngestReport, IngestSettings, Store, ingest, load_source_spec
from wardround.records.reading.csv_blocks import BLOCK_BYTES, WIDEST_RECORD, CsvFile


def run(tmp_path: Path, changes: dict[str, str | None], **settings: object) -> IngestReport:
    """Ingest the small files with changes; None leaves a file out."""
    files = {name: text for name, text in {**FILES, **changes}.items() if text is not None}
    raw = write_files(tmp_path / "raw", files)
    made = IngestSettings(**settings)  # type: ignore[arg-type]
    return ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store", settings=made)


def quarantine(tmp_path: Path, table: str) -> list[tuple[int, str]]:
    path = tmp_path / "store" / "quarantine" / f"{table}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(row["file"] and row["raw"] for row in rows)
    return [(row["line"], row["reason"]) for row in rows]


def lab_rows(store: Store) -> list[dict[str, object]]:
    return [row for _, batch in store.scan("labs") for row in batch.to_pylist()]


def test_everything_is_counted(tmp_path: Path) -> None:
    report = run(tmp_path, {"hosp/extra.csv": "a\n1\n"})
    assert report.rows["labs"] == 5
    assert report.subjects == 2
    assert report.missing_tables == ()
    assert report.unknown_files == ("hosp/extra.csv",)
    assert report.never_visible == {"drugs": 1, "cultures": 1, "diagnoses": 1}
    assert report.quarantined == {}


def test_gzip_parquet_and_plain_files_give_the_same_store(tmp_path: Path) -> None:
    plain = small_store(tmp_path / "plain")
    packed = {f"{name}.gz": text for name, text in FILES.items()}
    raw = write_files(tmp_path / "packed", packed)
    ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store")
    assert Store.open(tmp_path / "store").digest == plain.digest
    (raw / "hosp" / "orders.csv.gz").unlink()
    rows = [line.split(",") for line in FILES["hosp/orders.csv"].splitlines()]
    columns = [list(column) for column in zip(*rows[1:], strict=True)]
    columns[0] = [int(cell) for cell in columns[0]]  # type: ignore[misc]
    pq.write_table(pa.table([pa.array(column) for column in columns], names=rows[0]), raw / "hosp" / "orders.parquet")
    ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "parquet")
    assert Store.open(tmp_path / "parquet").digest == plain.digest


def test_files_may_lie_without_their_module_folder_and_in_several_folders(tmp_path: Path) -> None:
    one = {name.rpartition("/")[2]: text for name, text in FILES.items() if "labs" not in name}
    two = {name: text for name, text in FILES.items() if "labs" in name}
    folders = [write_files(tmp_path / "one", one), write_files(tmp_path / "two", two)]
    report = ingest(small_spec(tmp_path / "spec"), folders, tmp_path / "store")
    assert report.missing_tables == ()
    assert report.rows["labs"] == 5


def test_missing_tables_and_columns_are_listed_and_do_not_appear(tmp_path: Path) -> None:
    labs = "\n".join(",".join(line.split(",")[:7]) for line in FILES["hosp/labs.csv"].splitlines()) + "\n"
    report = run(tmp_path, {"hosp/labs.csv": labs, "hosp/orders.csv": None, "hosp/d_labs.csv": None})
    assert report.missing_tables == ("d_labs", "orders")
    assert report.missing_columns == {"labs": ("valuenum", "unit")}
    chart = Store.open(tmp_path / "store").chart(1, moment("31 00:00"))
    assert "orders" not in chart.table_names
    assert {"valuenum", "unit", "label"}.isdisjoint(chart.table("labs").columns)
    assert chart.table("drugs").num_rows == 0


def test_column_names_may_differ_in_case_and_unknown_ones_are_counted(tmp_path: Path) -> None:
    text = FILES["hosp/patients.csv"].replace("subject_id,gender", "SUBJECT_ID,Gender").replace("dod", "dod,Extra")
    text = text.replace("03-01", "03-01,x").replace("2150,\n", "2150,,y\n")
    report = run(tmp_path, {"hosp/patients.csv": text})
    assert report.unknown_columns == {"patients": ("extra",)}
    assert report.rows["patients"] == 2


def test_ids_written_as_floats_blank_lines_and_crlf(tmp_path: Path) -> None:
    labs = FILES["hosp/labs.csv"].replace("100,1,10,", "100,1.0,10.0,").replace("\n", "\r\n") + "\r\n\r\n"
    assert run(tmp_path, {"hosp/labs.csv": labs}).rows["labs"] == 5
    plain = small_store(tmp_path / "plain")
    assert lab_rows(Store.open(tmp_path / "store")) == lab_rows(plain)


def test_text_may_hold_line_breaks_quotes_and_any_script(tmp_path: Path) -> None:
    value = 'first line\nsecond, with ""quotes""\n\nТемпература 39°, 发热'
    labs = FILES["hosp/labs.csv"].replace("7.1,7.1", f'"{value}",7.1')
    run(tmp_path, {"hosp/labs.csv": labs})
    [row] = [row for row in lab_rows(Store.open(tmp_path / "store")) if row["lab_id"] == 100]
    assert row["value"] == value.replace('""', '"')


def test_broken_rows_are_set_aside_with_line_and_reason(tmp_path: Path) -> None:
    lines = FILES["hosp/labs.csv"].splitlines()
    lines[2] = lines[2].replace("101,", "one-oh-one,")
    lines[4] = "103,1"
    lines.append('105,1,,501,2150-01-01 07:00:00,,"not closed,1,')
    lines.append("106,,,501,2150-01-01 07:00:00,,1,1,")
    lines.append("107,1,,501,yesterday,,1,1,")
    lines.append("108,1,,501,2150-13-01 07:00:00,,1,1,")
    lines.append("109,1,,501,2150-01-01 07:00:00,2150-01-01 07:00:00,good,1,")
    report = run(tmp_path, {"hosp/labs.csv": "\n".join(lines) + "\n"})
    assert report.quarantined == {"labs": 6, "triage": 1}
    assert report.rows["labs"] == 4
    assert quarantine(tmp_path, "labs") == [
        (3, "lab_id: 'one-oh-one' is no int"),
        (5, "expected 9 cells, found 2"),
        (7, "a quote is not closed"),
        (8, "subject_id is missing"),
        (9, "charttime: 'yesterday' is no time"),
        (10, "charttime: '2150-13-01 07:00:00' is no time"),
    ]
    assert "labs:109" in {row["row_id"] for row in lab_rows(Store.open(tmp_path / "store"))}


def test_text_that_is_not_utf_8_is_set_aside(tmp_path: Path) -> None:
    raw = write_files(tmp_path / "raw", FILES)
    labs = raw / "hosp" / "labs.csv"
    labs.write_bytes(labs.read_bytes().replace(b"NEG", b"N\xe9G"))
    report = ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store")
    assert report.quarantined["labs"] == 1
    assert quarantine(tmp_path, "labs") == [(3, "not UTF-8 text")]


def test_masked_numbers_are_empty_and_counted(tmp_path: Path) -> None:
    run(tmp_path, {"hosp/labs.csv": FILES["hosp/labs.csv"].replace("6.5,6.5", "6.5,___")})
    store = Store.open(tmp_path / "store")
    assert store.manifest["tables"]["labs"]["masked_cells"] == 1
    assert {row["lab_id"]: row["valuenum"] for row in lab_rows(store)}[102] is None


BARE_DATES = FILES["hosp/orders.csv"].replace("2150-01-03 09:00:00", "2150-01-03").replace("10:00:00", "00:00:00")


def test_a_bare_date_in_a_time_column_is_the_end_of_its_day_only_if_the_spec_says_so(tmp_path: Path) -> None:
    report = run(tmp_path / "unsaid", {"hosp/orders.csv": BARE_DATES})
    assert report.quarantine_reasons["orders"] == {
        "ordertime is no time but a date, and the spec says no bare_dates": 1
    }
    spec = tmp_path / "said.toml"
    said = SPEC.replace('module = "hosp"', 'module = "hosp"\nfiles = { bare_dates = "end_of_day" }')
    spec.write_text(said, encoding="utf-8")
    raw = write_files(tmp_path / "raw", {**FILES, "hosp/orders.csv": BARE_DATES})
    ingest(load_source_spec(spec), raw, tmp_path / "store")
    table = Store.open(tmp_path / "store").rows(1, "orders").to_pydict()
    assert dict(zip(table["order_id"], table["ordertime"], strict=True)) == {
        "1-1": moment("01 09:00"),
        "1-2": moment("2150-01-03 23:59:59"),
        "1-3": moment("03 00:00"),
    }


def test_rows_given_twice_are_kept_once_and_counted(tmp_path: Path) -> None:
    """Every keyed table doubled: the store is that of the single files, row for row and id for id."""
    spec = small_spec(tmp_path / "spec")
    files = {name: f"{table.path}.csv" for name, table in spec.tables.items() if table.key}
    twice = {path: FILES[path] + FILES[path].partition("\n")[2] for path in files.values()}
    report = run(tmp_path / "twice", twice)
    once = run(tmp_path / "once", {})
    assert report.repeated_rows == {name: once.rows[name] for name in files}
    assert (report.rows, report.quarantined, once.repeated_rows) == (once.rows, once.quarantined, {})
    stores = [Store.open(tmp_path / each / "store") for each in ("twice", "once")]
    for subject in (1, 2):
        for name in spec.tables:
            assert stores[0].rows(subject, name) == stores[1].rows(subject, name)


@pytest.mark.parametrize("shards", [1, 3])
def test_rows_that_share_a_key_and_differ_are_set_aside_and_nothing_refers_to_them(tmp_path: Path, shards: int) -> None:
    """Which was known first cannot be said of rows that are never known."""
    admissions = FILES["hosp/admissions.csv"].replace("1,10,2150-01-01 08:00:00,", "1,10,,")
    admissions += "1,10,,2150-01-05 12:00:00,DIED\n"
    orders = FILES["hosp/orders.csv"].replace("1,1-2,2150-01-03 09:00:00,", "1,1-2,,")
    orders += "1,1-2,,1-9\n1,1-3,2150-01-03 10:00:00,1-9\n"
    changes = {"hosp/admissions.csv": admissions, "hosp/orders.csv": orders}
    report = run(tmp_path, changes, shards=shards)
    assert report.quarantined == {"admissions": 2, "orders": 2}
    assert report.repeated_rows == {"orders": 1}
    assert (report.rows["admissions"], report.rows["orders"]) == (2, 2)
    files = (tmp_path / "store" / "quarantine").iterdir()
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    reason = "another row has the same key and other content"
    assert sorted(line["reason"] for line in lines) == [f"{reason}: hadm_id 10"] * 2 + [f"{reason}: order_id 1-2"] * 2
    store = Store.open(tmp_path / "store")
    chart = store.chart(1, moment("31 00:00"))
    assert {row["hadm_id"] for row in chart.table("labs").batch.to_pylist()} == {None}
    assert chart.table("orders").batch.column("row_id").to_pylist() == ["orders:1-1", "orders:1-3"]
    assert chart.table("orders").batch.column("stopped_by").to_pylist() == [None, None]


LATER = [
    (
        "a final row beside the open one",
        "1,10,2150-01-01 08:00:00,,\n",
        "1,10,2150-01-01 08:00:00,2150-01-05 12:00:00,DIED\n",
    ),
    ("another admission time", "1,10,2150-01-01 08:00:00,,\n", "1,10,2150-01-04 08:00:00,2150-01-05 12:00:00,DIED\n"),
]


@pytest.mark.parametrize(("first", "later"), [each[1:] for each in LATER], ids=[each[0] for each in LATER])
@pytest.mark.parametrize("turned", [False, True])
def test_what_was_there_does_not_vanish_because_of_what_its_key_was_given_later(
    tmp_path: Path, first: str, later: str, turned: bool
) -> None:
    header = FILES["hosp/admissions.csv"].partition("\n")[0] + "\n"
    lines = [later, first] if turned else [first, later]
    report = run(tmp_path / "two", {"hosp/admissions.csv": header + "".join(lines)})
    run(tmp_path / "one", {"hosp/admissions.csv": header + first})
    assert report.quarantined["admissions"] == 1
    two, one = (Store.open(tmp_path / name / "store") for name in ("two", "one"))
    for day in ("01 08:00", "03 00:00", "05 11:00"):
        charts = [store.chart(1, moment(day)) for store in (two, one)]
        for name in charts[0].table_names:
            assert charts[0].table(name).batch.to_pylist() == charts[1].table(name).batch.to_pylist(), (day, name)


def test_a_finished_row_beside_an_open_one_says_how_it_ended(tmp_path: Path) -> None:
    header = FILES["hosp/admissions.csv"].partition("\n")[0] + "\n"
    run(tmp_path, {"hosp/admissions.csv": header + LATER[0][1] + LATER[0][2]})
    rows = Store.open(tmp_path / "store").chart(1, moment("05 12:00")).table("admissions").batch.to_pylist()
    assert [row["discharge_location"] for row in rows] == ["DIED"]


def test_a_parent_of_which_no_row_is_left_is_as_one_that_is_not_there(tmp_path: Path) -> None:
    header, *lines = re.sub(r",2150-\d\d-\d\d \d\d:00:00,", ",,", FILES["hosp/admissions.csv"], count=0).splitlines()
    text = "\n".join([header, *lines, *(f"{line}x" for line in lines)]) + "\n"
    report = run(tmp_path, {"hosp/admissions.csv": text})
    assert report.quarantined == {"admissions": 6}
    assert {row["hadm_id"] for row in lab_rows(Store.open(tmp_path / "store"))} == {10, 11, 20, None}
    chart = Store.open(tmp_path / "store").chart(1, moment("31 00:00"))
    assert {row["hadm_id"] for row in chart.table("labs").batch.to_pylist()} == {None}


def test_a_chart_does_not_hang_on_the_order_of_a_file(tmp_path: Path) -> None:
    """A database writes a row that is filled in later anew, at the end: of two equal orders one would move."""
    turned = {name: _turned(text) for name, text in FILES.items()}
    here, there = small_store(tmp_path / "here"), small_store(tmp_path / "there", turned)
    for subject in here.subjects.tolist():
        for name in here.table_names:
            assert here.rows(subject, name).equals(there.rows(subject, name)), name


def _turned(text: str) -> str:
    header, *lines = text.splitlines()
    return "\n".join([header, *reversed(lines)]) + "\n"


def test_a_key_that_is_only_checked_is_in_no_store(tmp_path: Path) -> None:
    """``unique`` names the file's own key where row ids must not hold it; without the column nothing is checked."""
    text = SPEC.replace('path = "hosp/drugs"', 'path = "hosp/drugs"\nunique = ["drug_id"]')
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "small.toml").write_text(text)
    lines = FILES["hosp/drugs.csv"].splitlines()
    numbered = [
        f"{lines[0]},drug_id",
        f"{lines[1]},7",
        f"{lines[1]},8",
        f"{lines[1]},7",
        f"{lines[3]},9",
        f"{lines[3].replace('Heparin', 'Warfarin')},9",
    ]
    for name, drugs in (("with", numbered), ("without", [lines[0], lines[1], lines[1]])):
        raw = write_files(tmp_path / name, {**FILES, "hosp/drugs.csv": "\n".join(drugs) + "\n"})
        report = ingest(load_source_spec(tmp_path / "spec"), raw, tmp_path / f"{name}-store")
        store = Store.open(tmp_path / f"{name}-store")
        assert report.rows["drugs"] == (3 if name == "with" else 2)  # of 9 it is not said which drug it was
        assert report.quarantined == ({"drugs": 1} if name == "with" else {})
        assert report.repeated_rows == ({"drugs": 1} if name == "with" else {})
        assert report.missing_columns == {}
        assert "drug_id" not in store.rows(1, "drugs").schema.names


def test_rows_whose_subject_comes_from_a_parent(tmp_path: Path) -> None:
    report = run(tmp_path, {"ed/triage.csv": FILES["ed/triage.csv"] + "999,lost\n"})
    assert report.rows["triage"] == 1
    assert report.quarantined == {"triage": 1}
    chart = Store.open(tmp_path / "store").chart(1, moment("01 07:30"))
    assert chart.table("triage").columns == ("row_id", "lab_id", "complaint")
    assert chart.table("triage").num_rows == 1


@pytest.mark.parametrize(
    ("measured", "expected"), [(True, ["10 08:00", "10 08:00", "10 21:00"]), (False, ["10 08:00"] * 3)]
)
def test_a_median_is_declared_or_measured_of_other_people(tmp_path: Path, measured: bool, expected: list[str]) -> None:
    """Measured: later delays of the person's own move nothing earlier, another's do. Declared: none do."""
    known = []
    for who in (0, 1, 2):
        late = "".join(
            f"{200 + day},{who},,503,2150-03-{day:02} 09:00:00,2150-03-{day:02} 23:00:00,1,1,\n" for day in range(1, 9)
        )
        files = {"hosp/labs.csv": FILES["hosp/labs.csv"] + (late if who else "")}
        run(tmp_path / f"{who}", files, measure_medians=measured)
        store = Store.open(tmp_path / f"{who}" / "store")
        known.append({row["lab_id"]: row["_available"] for row in lab_rows(store)}[102])
    assert known == [moment(text) for text in expected]


def test_files_that_never_say_when_a_row_was_stored_have_no_usual_delay(tmp_path: Path) -> None:
    """The declared hour is of files that do: here a result drawn at 8:00 waits for the result lag, a day."""
    known = {}
    for name, columns in (("column", {"storetime": ""}), ("none", {})):
        people = [{"subject_id": 7, "gender": "F", "anchor_age": 60, "anchor_year": 2150}]
        raw = write_folder(tmp_path / name, {"patients": people})
        lab = {"labevent_id": "1", "subject_id": "7", "itemid": "1", "charttime": "2150-03-10 08:00:00", **columns}
        (raw / "hosp" / "labevents.csv").write_text(f"{','.join(lab)}\n{','.join(lab.values())}\n")
        ingest("mimiciv", raw, tmp_path / f"{name}-store")
        known[name] = Store.open(tmp_path / f"{name}-store").rows(7, "labevents").column("_available").to_pylist()
    assert known == {"column": [datetime(2150, 3, 10, 9, 5)], "none": [datetime(2150, 3, 11, 8)]}


def test_a_given_median_wins_over_the_data(tmp_path: Path) -> None:
    run(tmp_path, {}, median_delays={"labs.charttime.storetime": (None, timedelta(hours=5))})
    store = Store.open(tmp_path / "store")
    assert store.manifest["median_delay_seconds"]["labs.charttime.storetime"] == [None, 18000.0]
    assert {row["lab_id"]: row["_available"] for row in lab_rows(store)}[102] == moment("10 12:00")


class TestMistakes:
    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no such folder"):
            ingest(small_spec(tmp_path / "spec"), tmp_path / "nowhere", tmp_path / "store")

    def test_a_folder_without_any_table(self, tmp_path: Path) -> None:
        write_files(tmp_path / "raw", {"notes.txt": "x"})
        with pytest.raises(UserError, match=r"no table of source 'small'.*hosp/patients.csv.gz"):
            ingest(small_spec(tmp_path / "spec"), tmp_path / "raw", tmp_path / "store")

    def test_a_wrong_schema_names_file_and_column(self, tmp_path: Path) -> None:
        text = FILES["hosp/labs.csv"].replace("lab_id,subject_id", "labid,subject_id")
        with pytest.raises(UserError, match=r"labs.csv: wrong schema for 'labs', no column lab_id; is it labid"):
            run(tmp_path, {"hosp/labs.csv": text})

    @pytest.mark.parametrize("name", ["hosp/labs.csv", "hosp/labs.csv.gz"])
    def test_an_empty_file_is_said_and_ends_nothing(self, tmp_path: Path, name: str) -> None:
        raw = write_files(tmp_path / "raw", {key: text for key, text in FILES.items() if key != "hosp/labs.csv"})
        write_files(raw, {name: ""})
        report = ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store")
        assert report.empty_files == (name,)
        assert "labs" in report.missing_tables
        assert report.rows["admissions"] == 3
        # What hangs on the empty table is set aside and counted.
        assert report.quarantine_reasons == {"triage": {"no row of labs has this lab_id": 1}}

    def test_a_header_alone_is_said(self, tmp_path: Path) -> None:
        header = FILES["hosp/labs.csv"].splitlines()[0] + "\n"
        report = run(tmp_path, {"hosp/labs.csv": header})
        assert report.only_headers == ("labs",)
        assert (report.rows["labs"], report.empty_files) == (0, ())
        assert run(tmp_path / "whole", {}).only_headers == ()

    def test_nothing_but_empty_files(self, tmp_path: Path) -> None:
        write_files(tmp_path / "raw", {"hosp/labs.csv": "", "hosp/patients.csv": ""})
        with pytest.raises(UserError, match=r"expected files like .* \(empty: labs.csv, patients.csv\)"):
            ingest(small_spec(tmp_path / "spec"), tmp_path / "raw", tmp_path / "store")

    def test_the_folder_above_the_one_with_the_files(self, tmp_path: Path) -> None:
        write_files(tmp_path / "raw" / "files" / "small" / "1.0", FILES)
        report = ingest(small_spec(tmp_path / "spec"), tmp_path / "raw", tmp_path / "store")
        assert report.rows["labs"] == 5
        assert report.missing_tables == ()

    def test_a_table_that_others_need(self, tmp_path: Path) -> None:
        raw = write_files(tmp_path / "raw", {key: text for key, text in FILES.items() if "admissions" not in key})
        report = ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store")
        assert {name: dict(lost.rows) for name, lost in report.needed_tables.items()} == {
            "admissions": {"diagnoses": 4}
        }
        assert run(tmp_path / "whole", {}).needed_tables == {}

    def test_a_module_that_is_left_out_is_not_missed(self, shared_data: Path, tmp_path: Path) -> None:
        report = ingest("mimiciv", shared_data / "mimic-iv-ed-demo-2.2-rebuilt", tmp_path / "store")
        assert "admissions" in report.missing_tables
        assert report.needed_tables == {}

    def test_bytes_that_are_no_text_are_counted_with_their_reason_in_dictionaries_too(self, tmp_path: Path) -> None:
        raw = write_files(tmp_path / "raw", FILES)
        lines = [f"{number},caf\xe9 {number}" for number in range(600, 671)]
        (raw / "hosp" / "d_labs.csv").write_bytes(
            "\n".join(["itemid,label", "501,Glucose", *lines, ""]).encode("latin-1")
        )
        report = ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store")
        assert report.quarantined == {"d_labs": 71}
        assert report.quarantine_reasons == {"d_labs": {"not UTF-8 text": 71}}
        assert report.dictionary_rows == {"d_labs": 1}

    def test_reasons_are_counted_without_the_cells_they_quote(self, tmp_path: Path) -> None:
        lines = (
            FILES["hosp/labs.csv"].replace("102,1,,501", "102,1,,glucose").replace("101,1,10,502", "101,1,10,ketone")
        )
        report = run(tmp_path, {"hosp/labs.csv": lines + "1,2,3\n"})
        assert report.quarantined == {"labs": 3, "triage": 1}
        assert report.quarantine_reasons["labs"] == {"itemid is no int": 2, "expected 9 cells, found 3": 1}

    def test_a_header_without_an_end_is_one_line_and_read_no_further(self, tmp_path: Path) -> None:
        raw = write_files(tmp_path / "raw", FILES)
        (raw / "hosp" / "labs.csv").write_bytes(b"lab_id" * (1 << 20))
        with pytest.raises(RecordError, match=r"labs.csv: the header line has no end within 1 MB"):
            ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store")

    def test_a_record_that_is_too_long_is_set_aside_and_the_rest_is_read(self, tmp_path: Path) -> None:
        header, first, *rest = FILES["hosp/labs.csv"].splitlines()
        wide = f"105,1,10,501,2150-01-01 07:00:00,,{'x' * (WIDEST_RECORD + 9_000_000)},,"
        report = run(tmp_path, {"hosp/labs.csv": "\n".join([header, first, wide, *rest, ""])})
        assert report.rows["labs"] == 5
        assert report.quarantine_reasons["labs"] == {"longer than 16 MB": 1}
        set_aside = (tmp_path / "store" / "quarantine" / "labs.jsonl").read_text()
        assert json.loads(set_aside)["line"] == 3
        assert len(set_aside) < 5_000

    @pytest.mark.parametrize("keep", [0.999, 0.5, 0.01])
    def test_a_truncated_gzip_is_named(self, tmp_path: Path, keep: float) -> None:
        lines = [FILES["hosp/labs.csv"].splitlines()[0]]
        lines += [f"{n},1,,501,2150-01-01 07:00:00,,{random.Random(n).random()},1,mg" for n in range(5000)]
        data = gzip.compress("\n".join(lines).encode())
        raw = write_files(tmp_path / "raw", {name: text for name, text in FILES.items() if name != "hosp/labs.csv"})
        (raw / "hosp" / "labs.csv.gz").write_bytes(data[: int(len(data) * keep)])
        with pytest.raises(RecordError, match=r"labs.csv.gz: the file is truncated or damaged"):
            ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store")
        with pytest.raises(UserError, match="interrupted"):
            Store.open(tmp_path / "store")
        (raw / "hosp" / "labs.csv.gz").write_bytes(data)
        assert ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store").rows["labs"] == 5000

    def test_a_full_disk(self, tmp_path: Path) -> None:
        def full(progress: Progress) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        raw = write_files(tmp_path / "raw", FILES)
        with pytest.raises(UserError, match="the disk is full"):
            ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store", report=full)
        assert ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "store").resumed

    def test_another_folder_is_not_overwritten(self, tmp_path: Path) -> None:
        write_files(tmp_path / "store", {"thesis.txt": "x"})
        with pytest.raises(UserError, match="not empty"):
            run(tmp_path, {})
        assert (tmp_path / "store" / "thesis.txt").exists()

    def test_a_finished_store_only_reports_the_same_input(self, tmp_path: Path) -> None:
        first = run(tmp_path, {})
        again = ingest(small_spec(tmp_path / "spec"), tmp_path / "raw", tmp_path / "store")
        assert (again.rows, again.subjects) == (first.rows, first.subjects)
        with pytest.raises(UserError, match="made from other input"):
            run(tmp_path, {"hosp/labs.csv": FILES["hosp/labs.csv"] + "105,1,,501,2150-01-01 07:00:00,,1,1,\n"})


def _large_files(folder: Path, subjects: int) -> Path:
    draw = random.Random(3)
    labs = [FILES["hosp/labs.csv"].splitlines()[0]]
    order = [subject for subject in range(1, subjects + 1) for _ in range(60)]
    draw.shuffle(order)
    for number, subject in enumerate(order):
        time_text = (
            f"21{draw.randrange(50, 60)}-0{draw.randrange(1, 9)}-1{draw.randrange(9)} 0{draw.randrange(9)}:00:00"
        )
        labs.append(f"{number},{subject},,{draw.randrange(500, 505)},{time_text},{time_text},{number},{number},mg/dL")
    people = ["subject_id,gender,anchor_age,anchor_year,dod"]
    people += [f"{subject},F,60,2150," for subject in range(1, subjects + 1)]
    files = {"hosp/labs.csv": "\n".join(labs) + "\n", "hosp/patients.csv": "\n".join(people) + "\n"}
    return write_files(folder, files)


_WORK = """
import os, signal, sys
from pathlib import Path
from wardround.records import IngestSettings, ingest, load_source_spec
spec, raw, store, last = sys.argv[1:]
steps = 0
def kill_at_last(progress):
    global steps
    steps += 1
    if steps == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
ingest(load_source_spec(Path(spec)), Path(raw), Path(store), settings=IngestSettings(shards=4), report=kill_at_last)
"""


def test_a_killed_ingest_continues_and_ends_in_the_same_store(tmp_path: Path) -> None:
    raw = _large_files(tmp_path / "raw", 400)
    spec = small_spec(tmp_path / "spec")
    steps: list[Progress] = []
    settings = IngestSettings(shards=4)
    ingest(spec, raw, tmp_path / "whole", settings=settings, report=steps.append)
    whole = Store.open(tmp_path / "whole")
    assert len(whole.subjects) == 400
    for last in drawn(range(1, len(steps) + 1), 3):
        store = tmp_path / f"killed-{last}"
        killed = commands().start_program(_WORK, [str(tmp_path / "spec"), str(raw), str(store), str(last)])
        assert commands().status(killed) == -signal.SIGKILL
        with pytest.raises(UserError, match="interrupted"):
            Store.open(store)
        assert ingest(spec, raw, store, settings=settings).resumed
        assert Store.open(store).digest == whole.digest
        assert not (store / "building").exists()


def test_several_processes_make_the_same_store(tmp_path: Path) -> None:
    raw = _large_files(tmp_path / "raw", 300)
    spec = small_spec(tmp_path / "spec")
    ingest(spec, raw, tmp_path / "one", settings=IngestSettings(shards=3))
    ingest(spec, raw, tmp_path / "two", settings=IngestSettings(shards=3, workers=2))
    assert Store.open(tmp_path / "two").digest == Store.open(tmp_path / "one").digest


def test_a_second_ingest_into_the_same_folder_is_refused_while_one_runs(tmp_path: Path) -> None:
    raw, spec = write_files(tmp_path / "raw", FILES), small_spec(tmp_path / "spec")
    refused: list[str] = []

    def again(progress: Progress) -> None:
        with pytest.raises(UserError, match="another ingest") as caught:
            ingest(spec, raw, tmp_path / "store")
        refused.append(str(caught.value))

    ingest(spec, raw, tmp_path / "store", report=again)
    assert refused


def test_blocks_end_between_records_and_know_their_lines(tmp_path: Path) -> None:
    text = "id,note\n" + "".join(f'{number},"line\n{"x" * 5000}\nend"\n' for number in range(2500))
    path = write_files(tmp_path, {"notes.csv.gz": text}) / "notes.csv.gz"
    blocks = list(CsvFile(path).blocks())
    assert len(text) > 2 * BLOCK_BYTES
    assert len(blocks) > 2
    assert b"".join(block.data for block in blocks).decode() == text.partition("\n")[2]
    assert all(bytes(block.data).endswith(b'end"\n') for block in blocks)
    assert [block.first_line for block in blocks[:2]] == [2, 2 + bytes(blocks[0].data).count(b"\n")]


def test_an_ingest_killed_at_any_step_continues_and_leaves_no_raw_rows(tmp_path: Path) -> None:
    raw, spec = write_files(tmp_path / "raw", FILES), small_spec(tmp_path / "spec")
    settings = IngestSettings(shards=2)
    switch = kill_switch()
    switch.folder, switch.left = tmp_path / "whole", 10_000
    ingest(spec, raw, tmp_path / "whole", settings=settings)
    steps, switch.left = 10_000 - switch.left, -1
    digest = Store.open(tmp_path / "whole").digest
    assert steps > 100, "the switch has to see the steps"
    for step in (*range(6), *drawn(range(6, steps - 12), 6), *range(steps - 12, steps)):
        store = tmp_path / f"killed-{step}"
        switch.folder, switch.left = store, step
        with pytest.raises(Killed):
            ingest(spec, raw, store, settings=settings)
        switch.left = -1
        if (store / "manifest.json").exists():
            assert not [path for name in ("buckets", "flat") for path in (store / "building" / name).rglob("*")]
            assert Store.open(store).digest == digest
        ingest(spec, raw, store, settings=settings)
        assert Store.open(store).digest == digest
        assert not (store / "building").exists()
        shutil.rmtree(store)


def test_a_dictionary_that_is_read_again_after_a_kill_has_its_broken_rows_once(tmp_path: Path) -> None:
    raw = write_files(tmp_path / "raw", {**FILES, "hosp/d_labs.csv": FILES["hosp/d_labs.csv"] + "x,Ketones\n"})
    spec, switch = small_spec(tmp_path / "spec"), kill_switch()
    ingest(spec, raw, tmp_path / "store")
    whole = quarantine(tmp_path, "d_labs")
    assert [reason for _, reason in whole] == ["itemid: 'x' is no int"]
    again = 0
    for step in range(60):
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        switch.folder, switch.left = tmp_path / "store", step
        with pytest.raises(Killed):
            ingest(spec, raw, tmp_path / "store")
        switch.left = -1
        if (tmp_path / "store" / "quarantine" / "d_labs.jsonl").exists():
            again += 1
            ingest(spec, raw, tmp_path / "store")
            assert quarantine(tmp_path, "d_labs") == whole
        if again == 3:  # before the dictionary was written, and before it was noted
            break
    assert again == 3


def test_a_killed_start_does_not_take_a_folder_that_is_not_its_own(tmp_path: Path) -> None:
    write_files(tmp_path / "store", {"building/thesis.txt": "x"})
    with pytest.raises(UserError, match="not empty"):
        run(tmp_path, {})
    assert (tmp_path / "store" / "building" / "thesis.txt").exists()
