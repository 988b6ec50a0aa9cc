"""Flat files being written: when rows are held, what is counted, what is told, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import Progress, RecordError
from wardround.records import load_source_spec
from wardround.records.reading import flat_tables
from wardround.records.reading.flat_tables import FlatTables


def flat_in(folder: Path, report: Any = None) -> FlatTables:
    return FlatTables(load_source_spec("fhir"), folder, folder / "q.jsonl", *([report] if report else []))


def specimen(number: int, **more: object) -> dict[str, object]:
    return {"subject_id": number, "specimen_id": str(number), **more}


def test_a_new_one_has_counted_nothing(tmp_path: Path) -> None:
    flat = flat_in(tmp_path)
    assert (flat.quarantined, flat.records, flat.rows, flat.unused_files) == (0, 0, {}, [])
    assert (dict(flat.reasons), dict(flat.left_out)) == ({}, {})


def test_rows_are_held_until_there_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_tables, "_ROWS", 3)
    flat = flat_in(tmp_path)
    counts = []
    for number in range(7):
        flat.add("specimens", specimen(number))
        counts.append(flat.rows.get("specimens", 0))
    assert counts == [0, 0, 3, 3, 3, 6, 6]
    flat.close()
    assert flat.rows == {"specimens": 7}
    assert pq.read_table(tmp_path / "specimens.parquet").column("subject_id").to_pylist() == list(range(7))


def test_long_texts_are_held_up_to_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_tables, "_LONG", 5)
    monkeypatch.setattr(flat_tables, "_TEXT_BYTES", 12)
    flat = flat_in(tmp_path)
    counts = []
    for text in ("12345", "123456", "12345", "123456", "1" * 11, "12"):
        flat.add("specimens", {"subject_id": 1, "specimen_id": text})
        counts.append(flat.rows.get("specimens", 0))
    assert counts == [0, 0, 0, 4, 4, 4]


def test_a_declared_table_is_there_without_a_row_and_another_is_not(tmp_path: Path) -> None:
    flat = flat_in(tmp_path)
    flat.declare(["specimens"])
    flat.close()
    table = pq.read_table(tmp_path / "specimens.parquet")
    assert table.num_rows == 0
    assert table.column_names == list(load_source_spec("fhir").tables["specimens"].read_columns)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["specimens.parquet"]
    assert flat.rows == {}


def test_columns_not_given_are_null_and_of_their_type(tmp_path: Path) -> None:
    flat = flat_in(tmp_path)
    flat.write("specimens", pa.table({"subject_id": pa.array([5], pa.int16())}))
    flat.add("specimens", specimen(6))
    flat.close()
    table = pq.read_table(tmp_path / "specimens.parquet")
    assert table.column("specimen_id").to_pylist() == [None, "6"]
    assert table.schema.field("subject_id").type == pa.int64()


@pytest.mark.parametrize("cell", ["x", 2**70])
def test_a_cell_of_another_type_is_an_error_that_names_its_column(tmp_path: Path, cell: object) -> None:
    flat = flat_in(tmp_path)
    flat.add("specimens", {"subject_id": cell})
    with pytest.raises(RecordError, match=r"specimens\.subject_id: a flattened cell is not int64"):
        flat.close()


def test_unknown_columns_are_named_in_order(tmp_path: Path) -> None:
    flat = flat_in(tmp_path)
    with pytest.raises(RecordError, match=r"^specimens: the spec has no column a, z$"):
        flat.add("specimens", {"z": 1, "a": 1, "subject_id": 1})
    with pytest.raises(RecordError, match=r"^specimens: the spec has no column a, z$"):
        flat.write("specimens", pa.table({"z": [1], "a": [1], "subject_id": [1]}))


def test_records_set_aside_are_counted_and_kept_with_their_place(tmp_path: Path) -> None:
    flat = flat_in(tmp_path)
    for line in (3, 9):
        flat.set_aside(file=tmp_path / "in" / "a.ndjson", line=line, reason="not JSON", raw="x" * 2_500)
    assert (flat.quarantined, dict(flat.reasons)) == (2, {"not JSON": 2})
    rows = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [(row["file"], row["line"], len(row["raw"])) for row in rows] == [
        ("a.ndjson", 3, 2_000),
        ("a.ndjson", 9, 2_000),
    ]


def test_what_is_left_out_is_counted_by_its_words(tmp_path: Path) -> None:
    flat = flat_in(tmp_path)
    flat.leave_out("Claim")
    flat.leave_out("Claim", 3)
    flat.leave_out("Media")
    assert dict(flat.left_out) == {"Claim": 4, "Media": 1}


def test_progress_is_told_at_each_file_and_every_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_tables, "_REPORT_EVERY", 3)
    told: list[Progress] = []
    flat = flat_in(tmp_path, told.append)
    first, second = tmp_path / "a.ndjson", tmp_path / "b.ndjson"
    for _ in range(5):
        flat.read(first)
    flat.read(second, 2)
    flat.read(second)
    assert [(progress.label, progress.done) for progress in told] == [
        ("flatten a.ndjson", 1),
        ("flatten a.ndjson", 4),
        ("flatten b.ndjson", 7),
    ]
    assert {progress.unit for progress in told} == {"records"}
    assert flat.records == 8
