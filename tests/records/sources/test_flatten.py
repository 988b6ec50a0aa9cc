"""The seam before ingest: raw files that are no tables are made flat, counted, restartable, and gone when done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.fhir_resources import ANN, ANN_NUMBER, ndjson, patient, resource, rows
from wardround.core import Progress, RecordError, UserError
from wardround.records import Store, ingest, load_source_spec
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.reading.source_files import SubjectKeys, subject_number
from wardround.records.sources import flatten


class Killed(BaseException):
    """Stands for the process going away."""


def _kill_at(label: str) -> object:
    def report(progress: Progress) -> None:
        if progress.label.startswith(label):
            raise Killed

    return report


def _export(folder: Path) -> Path:
    problem = resource("Condition", "c1", recordedDate="2020-01-01", code={"text": "Cough"})
    return ndjson(folder / "raw" / "all.ndjson.gz", [patient(), problem]).parent


def test_whole_numbers_stay_and_texts_get_a_number_that_never_changes() -> None:
    assert [subject_number(key) for key in ("7", "10007795", str(2**53 - 1))] == [7, 10007795, 2**53 - 1]
    assert subject_number("0a8eebfd-a352-522e-89f0-1d4a13abdebc") == 3_606_594_288_684_971
    assert subject_number("007") != 7
    assert subject_number(str(2**53)) < 2**53


@given(st.text(min_size=1, max_size=60))
def test_every_key_has_a_positive_number_that_json_and_floats_hold(key: str) -> None:
    number = subject_number(key)
    assert 0 < number < 2**53
    assert int(float(number)) == number


def test_two_keys_with_one_number_are_an_error() -> None:
    keys = SubjectKeys()
    number = keys.number("b")
    assert keys.number(" b ") == number
    with pytest.raises(RecordError, match="would have one number"):
        keys.number(str(number))
    assert len(keys) == 1


def test_the_original_id_stands_in_the_subjects_own_row(tmp_path: Path) -> None:
    ingest("fhir", _export(tmp_path), tmp_path / "store")
    store = Store.open(tmp_path / "store")
    assert store.subjects.tolist() == [ANN_NUMBER]
    assert rows(store, "patients")[0]["patient_id"] == ANN


def test_an_interrupted_flattening_starts_again_and_a_finished_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, store = _export(tmp_path), tmp_path / "store"
    with pytest.raises(Killed):
        ingest("fhir", raw, store, report=_kill_at("flatten"))  # type: ignore[arg-type]
    with pytest.raises(Killed):
        ingest("fhir", raw, store, report=_kill_at("read conditions"))  # type: ignore[arg-type]
    assert (store / "building" / "flat" / "conditions.parquet").exists()
    monkeypatch.setattr(flatten, "FLATTENERS", {"fhir": flatten.Flattener(function=_never, suffixes=(".gz",))})
    report = ingest("fhir", raw, store)
    assert report.resumed
    assert report.rows == {"patients": 1, "conditions": 1}
    assert not (store / "building").exists()
    again = ingest("fhir", raw, store)
    assert (again.rows, again.left_out) == (report.rows, report.left_out)


def _never(files: object, flat: FlatTables) -> None:
    raise AssertionError("flattened again")


def test_other_raw_files_are_other_input(tmp_path: Path) -> None:
    raw = _export(tmp_path)
    ingest("fhir", raw, tmp_path / "store")
    ndjson(raw / "more.ndjson", [patient("bob")])
    with pytest.raises(UserError, match="other input"):
        ingest("fhir", raw, tmp_path / "store")


def test_a_resumed_store_is_the_same_as_one_made_in_one_go(tmp_path: Path) -> None:
    raw = _export(tmp_path)
    ingest("fhir", raw, tmp_path / "once")
    with pytest.raises(Killed):
        ingest("fhir", raw, tmp_path / "twice", report=_kill_at("finish"))  # type: ignore[arg-type]
    ingest("fhir", raw, tmp_path / "twice")
    digests = [json.loads((tmp_path / name / "manifest.json").read_text())["digest"] for name in ("once", "twice")]
    assert digests[0] == digests[1]


def test_what_is_not_used_and_what_is_broken_is_said(tmp_path: Path) -> None:
    raw = ndjson(tmp_path / "raw" / "a.ndjson", [patient(), "{not json", resource("Claim", "x"), '{"id": "y"}']).parent
    (raw / "notes.jsonl").write_text("{}\n")
    (raw / "empty.ndjson").write_text("\n")
    (raw / "README.md").write_text("nothing")
    report = ingest("fhir", raw, tmp_path / "store")
    assert report.quarantined == {"raw_records": 2}
    assert report.left_out == {"Claim": 1}
    assert report.unknown_files == ("notes.jsonl", "empty.ndjson")
    lines = (tmp_path / "store" / "quarantine" / "raw_records.jsonl").read_text().splitlines()
    broken = [json.loads(line) for line in lines]
    assert [(row["file"], row["line"]) for row in broken] == [("a.ndjson", 2), ("a.ndjson", 4)]
    assert "not JSON" in broken[0]["reason"]
    assert "no resourceType" in broken[1]["reason"]
    assert broken[0]["raw"] == "{not json"


def test_a_folder_without_any_file_or_any_row_says_so(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(UserError, match=r"no file of source 'fhir' is there; expected names ending in \.ndjson"):
        ingest("fhir", tmp_path / "raw", tmp_path / "store")
    ndjson(tmp_path / "raw" / "a.ndjson", [resource("Claim", "1"), resource("Claim", "2")])
    with pytest.raises(UserError, match="no row was made of 'fhir': found Claim 2"):
        ingest("fhir", tmp_path / "raw", tmp_path / "store")
    with pytest.raises(UserError, match="no such folder"):
        ingest("fhir", tmp_path / "nowhere", tmp_path / "store")


def test_a_damaged_file_is_one_clear_line(tmp_path: Path) -> None:
    raw = _export(tmp_path)
    whole = (raw / "all.ndjson.gz").read_bytes()
    (raw / "all.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match=r"all\.ndjson\.gz: the file is truncated or damaged"):
        ingest("fhir", raw, tmp_path / "store")


def test_rows_come_one_by_one_or_as_tables(tmp_path: Path) -> None:
    spec = load_source_spec("fhir")
    flat = FlatTables(spec, tmp_path, tmp_path / "q.jsonl")
    flat.add("specimens", {"subject_id": 1, "specimen_id": "a"})
    flat.write("specimens", pa.table({"specimen_id": ["b"], "subject_id": pa.array([2], pa.int32())}))
    flat.add("specimens", {"subject_id": 3, "specimen_id": "c"})
    flat.close()
    table = pq.read_table(tmp_path / "specimens.parquet")
    assert table.column("specimen_id").to_pylist() == ["a", "b", "c"]
    assert table.column("subject_id").to_pylist() == [1, 2, 3]
    assert table.column_names == list(spec.tables["specimens"].columns)
    assert flat.rows == {"specimens": 3}
    with pytest.raises(RecordError, match="the spec has no column colour"):
        flat.add("specimens", {"colour": "red"})
    with pytest.raises(RecordError, match="the spec has no column colour"):
        flat.write("specimens", pa.table({"colour": ["red"]}))


def test_a_spec_may_not_name_a_flattener_that_is_not_there(tmp_path: Path) -> None:
    text = '[source]\nname = "x"\nflatten = "y"\n[tables.t]\npath = "t"\nsubject = "s"\nevent_time = "always"\n'
    (tmp_path / "x.toml").write_text(text + 'available_at = "always"\n[tables.t.columns]\ns = "int"\n')
    with pytest.raises(UserError, match="no flattener 'y'; known are"):
        ingest(load_source_spec(tmp_path / "x.toml"), tmp_path, tmp_path / "store")


@pytest.mark.parametrize(("source", "reads"), [("fhir", True), ("eicu", False), ("mimiciv", True)])
def test_a_time_zone_is_heeded_only_where_times_say_how_far_they_are_from_utc(source: str, reads: bool) -> None:
    if reads:
        flatten.must_read_offsets(load_source_spec(source))
        return
    with pytest.raises(UserError, match=f"source '{source}': its times have no UTC offsets; leave out --time-zone"):
        flatten.must_read_offsets(load_source_spec(source))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([resource("Claim", "1"), resource("Claim", "2"), "{no"], "found Claim 2; 1 records could not be read"),
        (["{no", "{no"], "2 records could not be read"),
        ([" "], "the files are empty"),
        ([resource(f"Kind{n}", str(n)) for n in range(6)], "found " + ", ".join(f"Kind{n} 1" for n in range(5))),
    ],
)
def test_where_nothing_becomes_a_row_it_is_said_what_was_there(tmp_path: Path, lines: list[Any], why: str) -> None:
    files = flatten.raw_files(load_source_spec("fhir"), ndjson(tmp_path / "raw" / "a.ndjson", lines).parent)
    with pytest.raises(UserError) as error:
        flatten.flatten(load_source_spec("fhir"), files, tmp_path / "flat", tmp_path / "q.jsonl")
    assert str(error.value) == f"{tmp_path / 'raw'}: no row was made of 'fhir': {why}"


def test_raw_files_are_those_of_the_sources_endings_and_others_are_told(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    (raw / "sub").mkdir(parents=True)
    for name in ("b.ndjson", "sub/A.JSON", "c.csv", "d.txt", "e.xml.gz"):
        (raw / name).write_text("x")
    (raw / "none.json").write_text("")
    files = flatten.raw_files(load_source_spec("fhir"), raw)
    assert [files.name(path) for path in files.raw] == ["b.ndjson", "sub/A.JSON"]
    assert (files.unknown, files.empty, files.tables) == (("c.csv", "e.xml.gz"), ("none.json",), {})


def test_a_flattening_begins_afresh_and_notes_what_came_of_it(tmp_path: Path) -> None:
    spec, flat = load_source_spec("fhir"), tmp_path / "flat"
    flat.mkdir()
    (flat / "left.parquet").write_text("of one that was cut off")
    (tmp_path / "q.jsonl").write_text("old\n")
    lines = [patient(), patient("bob"), patient(), "{no", resource("Claim", "1")]
    files = flatten.raw_files(spec, ndjson(tmp_path / "raw" / "a.ndjson", lines).parent)
    note = flatten.flatten(spec, files, flat, tmp_path / "q.jsonl")
    assert not (flat / "left.parquet").exists()
    assert len((tmp_path / "q.jsonl").read_text().splitlines()) == 1
    assert (note["rows"], note["records"], note["quarantined"]) == ({"patients": 2}, 5, 1)
    assert note["left_out"] == {"Patient given again": 1, "Claim": 1}
    assert list(note["quarantine_reasons"].values()) == [1]
    assert note["unused"] == []
    found = flatten.flat_files(spec, files, flat, {**note, "unused": ["x"]})
    assert (found.unknown, found.raw, found.folders[0]) == (("x",), files.raw, flat)


def test_flat_files_are_there_for_a_while(tmp_path: Path) -> None:
    raw = _export(tmp_path)
    with flatten.flattened(load_source_spec("fhir"), raw) as files:
        (path,) = files.tables["patients"]
        assert path.exists()
    assert not path.exists()
