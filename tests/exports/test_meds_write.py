"""MEDS on disk: which subject lies in which file, what codes and labels look like, and what a data set says."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import Progress, UserError
from wardround.exports.meds import (
    DATA_SCHEMA,
    SPLITS_SCHEMA,
    DataFiles,
    ExportSettings,
    _by_split,
    export_meds,
    write_labels,
    write_metadata,
)
from wardround.records import Store

STANDARD = "subject_id:int64! time:timestamp[us] code:string! numeric_value:float text_value:large_string"
OURS = "unit:string event_time:timestamp[us] available_at:timestamp[us] revision:int16! row_id:string telling_of:string"


def schema_in_words(schema: Any) -> str:
    return " ".join(f"{field.name}:{field.type}{'' if field.nullable else '!'}" for field in schema)


def rows_of(subjects: list[int]) -> pa.Table:
    cells: dict[str, Any] = {name: [None] * len(subjects) for name in DATA_SCHEMA.names}
    cells |= {"subject_id": subjects, "code": ["c"] * len(subjects), "revision": list(range(len(subjects)))}
    return pa.table({field.name: pa.array(cells[field.name], field.type) for field in DATA_SCHEMA})


def files_of(folder: Path, batches: list[tuple[str, list[int]]], most: int) -> dict[str, list[int]]:
    files = DataFiles(folder=folder, subjects_per_file=most)
    for split, subjects in batches:
        files.add(rows_of(subjects), split)
    files.close()
    paths = sorted((folder / "data").rglob("*.parquet")) if batches else []
    assert files.count == len(paths)
    return {
        path.relative_to(folder / "data").as_posix(): pq.read_table(path).column("subject_id").to_pylist()
        for path in paths
    }


def test_the_schemas_are_the_standards_and_then_ours() -> None:
    assert schema_in_words(DATA_SCHEMA) == f"{STANDARD} {OURS}"
    assert schema_in_words(SPLITS_SCHEMA) == "subject_id:int64! split:string!"


@pytest.mark.parametrize(
    ("batches", "most", "files"),
    [
        ([("", [1, 1, 2, 3, 3])], 2, {"0.parquet": [1, 1, 2], "1.parquet": [3, 3]}),
        ([("", [1, 2]), ("", [3, 4])], 2, {"0.parquet": [1, 2], "1.parquet": [3, 4]}),
        ([("", [1]), ("", [2, 3])], 2, {"0.parquet": [1, 2], "1.parquet": [3]}),
        ([("", [1, 2, 3])], 9, {"0.parquet": [1, 2, 3]}),
        ([("", [1, 2, 3])], 1, {"0.parquet": [1], "1.parquet": [2], "2.parquet": [3]}),
        ([("a", [1, 2]), ("b", [3]), ("a", [4])], 2, {"a/0.parquet": [1, 2], "a/1.parquet": [4], "b/0.parquet": [3]}),
        ([("", [])], 2, {}),
        ([("", [1, 2]), ("", [])], 2, {"0.parquet": [1, 2]}),
    ],
)
def test_a_file_holds_so_many_subjects_and_no_subject_lies_in_two(
    tmp_path: Path, batches: list[tuple[str, list[int]]], most: int, files: dict[str, list[int]]
) -> None:
    assert files_of(tmp_path, batches, most) == files


def test_rows_lie_in_the_order_they_came_in(tmp_path: Path) -> None:
    files = DataFiles(folder=tmp_path, subjects_per_file=2)
    files.add(rows_of([1, 1, 2, 3]), "")
    files.close()
    found = [pq.read_table(tmp_path / "data" / f"{n}.parquet").column("revision").to_pylist() for n in (0, 1)]
    assert found == [[0, 1, 2], [3]]


def test_codes_lie_in_order_with_their_words_and_parents(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    write_metadata(folder, [("b", None, []), ("a", "words", ["p", "q"])], {}, {"dataset_name": "ü"})
    table = pq.read_table(folder / "metadata" / "codes.parquet")
    assert table.to_pylist() == [
        {"code": "a", "description": "words", "parent_codes": ["p", "q"]},
        {"code": "b", "description": None, "parent_codes": []},
    ]
    assert not table.schema.field("code").nullable
    assert not (folder / "metadata" / "subject_splits.parquet").exists()
    assert json.loads((folder / "metadata" / "dataset.json").read_text(encoding="utf-8")) == {"dataset_name": "ü"}
    write_metadata(folder, [], {9: "test", 3: "train"}, {})
    assert pq.read_table(folder / "metadata" / "codes.parquet").num_rows == 0
    splits = pq.read_table(folder / "metadata" / "subject_splits.parquet")
    assert splits.schema.equals(SPLITS_SCHEMA)
    assert splits.to_pylist() == [{"subject_id": 3, "split": "train"}, {"subject_id": 9, "split": "test"}]


def test_labels_lie_by_subject_and_time_with_what_was_predicted_beside(tmp_path: Path) -> None:
    early, late = datetime(2150, 1, 1), datetime(2150, 1, 2)
    path = tmp_path / "new" / "labels.parquet"
    write_labels(
        path,
        [2, 1, 1],
        [early, late, early],
        {"boolean_value": [True, False, True]},
        {"probability": (pa.float64(), [0.25, None, 0.5])},
    )
    table = pq.read_table(path)
    expected = "subject_id:int64! prediction_time:timestamp[us]! boolean_value:bool! probability:double"
    assert schema_in_words(table.schema) == expected
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (1, early, True, 0.5),
        (1, late, False, None),
        (2, early, True, 0.25),
    ]


@pytest.mark.parametrize(
    ("name", "cell", "kind"),
    [
        ("integer_value", 3, "int64"),
        ("float_value", 0.5, "float"),
        ("categorical_value", "high", "string"),
        ("boolean_value", True, "bool"),
    ],
)
def test_a_label_has_the_standards_type(tmp_path: Path, name: Any, cell: object, kind: str) -> None:
    write_labels(tmp_path / "l.parquet", [1], [datetime(2150, 1, 1)], {name: [cell]})
    table = pq.read_table(tmp_path / "l.parquet")
    assert str(table.schema.field(name).type) == kind
    assert table.column(name).to_pylist() == [cell]


def test_subjects_go_to_their_split_and_those_without_one_apart() -> None:
    table = pa.table({"subject_id": np.array([1, 1, 2, 3, 4]), "n": [0, 1, 2, 3, 4]})
    found = [(name, rows.column("n").to_pylist()) for name, rows in _by_split(table, {1: "b", 3: "a", 4: "b"})]
    assert found == [("b", [0, 1, 4]), ("no_split", [2]), ("a", [3])]
    assert [(name, rows.num_rows) for name, rows in _by_split(table, {})] == [("", 5)]


@pytest.mark.parametrize(
    ("time", "words"),
    [("known", "time is when the row became known"), ("event", r"time is when it happened (available_at: when known)")],
)
def test_a_data_set_says_what_it_is_and_what_its_time_means(
    synthetic_store: Store, tmp_path: Path, time: Any, words: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / ".out.unfinished").mkdir()
    (tmp_path / ".out.unfinished" / "left").write_text("by a run that was cut off")
    told: list[Progress] = []
    report = export_meds(synthetic_store, tmp_path / "out", settings=ExportSettings(time=time), report=told.append)
    about = json.loads((tmp_path / "out" / "metadata" / "dataset.json").read_text())
    assert about == {
        "dataset_name": f"{synthetic_store.spec.title}, through wardround; {words}",
        "dataset_version": synthetic_store.digest[:16],
        "etl_name": "wardround export meds",
        "people_of": "mimiciv",
        "same_person": {},
        "etl_version": "1",
        "meds_version": "0.4.1",
        "raw_source_id_columns": ["row_id"],
        "code_modifier_columns": ["unit"],
        "other_extension_columns": ["event_time", "available_at", "revision", "telling_of"],
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["data", "metadata"]
    assert [(one.label, one.done, one.total, one.unit) for one in told] == [
        ("export", shard, synthetic_store.shard_count, "shards") for shard in range(synthetic_store.shard_count)
    ]
    codes = pq.read_table(tmp_path / "out" / "metadata" / "codes.parquet")
    assert (report.folder, report.codes) == (tmp_path / "out", codes.num_rows)
    assert (report.subjects, report.files, report.splits, report.without_split) == (120, 1, {}, 0)


def test_how_many_subjects_each_split_has_is_reported(synthetic_store: Store, tmp_path: Path) -> None:
    subjects = synthetic_store.subjects.tolist()
    splits = {subject: "train" if place < 70 else "test" for place, subject in enumerate(subjects[:100])}
    settings = ExportSettings(splits={**splits, 1: "train"}, time="event")
    report = export_meds(synthetic_store, tmp_path / "out", settings=settings)
    assert (report.splits, report.without_split, report.files) == ({"train": 70, "test": 30}, 20, 3)


def test_a_file_in_the_way_is_refused(synthetic_store: Store, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UserError, match="out: the folder is not empty; choose another one"):
        export_meds(synthetic_store, tmp_path / "out")
