"""Tables that are missing, cells that name nobody, and rows spread over buckets: each on a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from records.small_source import SPEC, small_spec
from wardround.records import SourceSpec
from wardround.records.ingest.buckets import BucketWriter, _needed, _required, bucket_file, read_bucket
from wardround.records.ingest.clocks import ClockSettings, ShardClocks
from wardround.records.ingest.joins import LostRows, foreign_keys, needed_tables, orphans
from wardround.records.shards.layout import bucket_numbers


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SourceSpec:
    text = SPEC.replace('code = "itemid"', 'encounter = "hadm_id"\ncode = "itemid"')
    return small_spec(tmp_path_factory.mktemp("spec"), text)


def read(rows: int = 5, never: int = 0, *columns: str) -> dict[str, Any]:
    return {"rows": rows, "never_visible": never, "columns": columns}


@pytest.mark.parametrize(
    ("held", "lost"),
    [
        (
            {"diagnoses": read(9, 4), "labs": read(5, 0, "hadm_id")},
            {"admissions": ({"diagnoses": 4}, {"labs": "hadm_id"})},
        ),
        ({"diagnoses": read(9, 0)}, {}),
        ({"diagnoses": read(9, 1)}, {"admissions": ({"diagnoses": 1}, {})}),
        ({"labs": read(0, 0, "hadm_id")}, {}),
        ({"labs": read(1, 0, "itemid")}, {}),
        ({"labs": read(1, 0, "hadm_id")}, {"admissions": ({}, {"labs": "hadm_id"})}),
        ({"orders": read(3, 3, "order_id")}, {}),
    ],
)
def test_a_missing_table_takes_rows_and_encounters_with_it(spec: SourceSpec, held: Any, lost: Any) -> None:
    found = needed_tables(spec, ["admissions", "d_labs", "cultures"], held)
    assert {name: (dict(each.rows), dict(each.encounters)) for name, each in found.items()} == lost


def test_what_is_lost_is_said_in_words() -> None:
    lost = LostRows(rows={"labs": 1234, "notes": 1}, encounters={"orders": "stay"})
    assert str(lost) == "1,234 rows of labs, 1 rows of notes, stay of orders"


def test_by_which_columns_a_table_looks_into_others(spec: SourceSpec) -> None:
    found = {name: foreign_keys(spec.tables[name]) for name in ("labs", "drugs", "diagnoses", "triage", "patients")}
    assert found == {
        "labs": (("hadm_id", "admissions"),),
        "drugs": (("order_id", "orders"),),
        "diagnoses": (("hadm_id", "admissions"),),
        "triage": (("lab_id", "labs"),),
        "patients": (),
    }


@pytest.mark.parametrize(
    ("cells", "parents", "count"),
    [([10, 99, None, 99], [10, 11], 2), ([10, None], [10], 0), ([10, 11, None], None, 2), ([None], [10], 0)],
)
def test_filled_cells_that_name_no_row_are_counted(
    spec: SourceSpec, cells: list[int | None], parents: list[int] | None, count: int
) -> None:
    def load(name: str, columns: tuple[str, ...]) -> Any:
        if parents is None:
            return None
        return pa.record_batch({"hadm_id": parents, "admittime": pa.array([0] * len(parents), pa.timestamp("us"))})

    clocks = ShardClocks(spec=spec, settings=ClockSettings(lags={}, medians={}), load=load)
    batch = pa.record_batch({"hadm_id": pa.array(cells, pa.int64())})
    expected = {"hadm_id in admissions": count} if count else {}
    named = clocks.frame(spec.tables["labs"], batch).named
    assert orphans(spec.tables["labs"], batch, named, {"admissions"}) == expected
    assert orphans(spec.tables["labs"], batch, named, {"labs"}) == {}
    assert orphans(spec.tables["labs"], pa.record_batch({"lab_id": [1]}), named, {"admissions"}) == {}


def test_what_a_file_must_have_and_what_a_row_must(spec: SourceSpec) -> None:
    names = ("labs", "triage", "diagnoses", "patients", "cultures")
    assert {name: _required(spec.tables[name]) for name in names} == {
        "labs": ["subject_id", "lab_id", "charttime"],
        "triage": ["lab_id"],
        "diagnoses": ["subject_id", "hadm_id", "seq_num"],
        "patients": ["subject_id"],
        "cultures": ["subject_id"],
    }
    assert {name: _needed(spec.tables[name]) for name in names} == {
        "labs": ["subject_id", "lab_id"],
        "triage": ["lab_id"],
        "diagnoses": ["subject_id"],
        "patients": ["subject_id"],
        "cultures": ["subject_id"],
    }


def test_the_delays_that_a_tables_clocks_need(spec: SourceSpec) -> None:
    assert {name: table.median_pairs for name, table in spec.tables.items() if table.median_pairs} == {
        "labs": [("charttime", "storetime")]
    }


def rows(*subjects: int) -> pa.Table:
    return pa.table({"who": list(subjects), "n": list(range(len(subjects)))})


@pytest.mark.parametrize("count", [1, 2, 7])
def test_all_rows_of_a_subject_lie_in_one_bucket_in_their_order(tmp_path: Path, count: int) -> None:
    subjects = [5, 3, 5, 8, 13, 3, 5, 21]
    writer = BucketWriter(tmp_path, count, "who", flush_bytes=1 << 20)
    for _ in range(2):
        writer.add(rows(*subjects))
        writer.flush()
    writer.flush()
    held = {bucket: read_bucket(tmp_path, bucket) for bucket in range(count)}
    numbers = bucket_numbers(np.array(subjects), count).tolist() if count > 1 else [0] * 8
    for bucket, batch in held.items():
        expected = [(who, n) for n, (who, where) in enumerate(zip(subjects, numbers, strict=True)) if where == bucket]
        found = [] if batch is None else [tuple(row.values()) for row in batch.to_pylist()]
        assert found == expected * 2
        assert (batch is None) == (not expected)


@pytest.mark.parametrize("flush_bytes", [1, 100, 500, 1 << 20])
def test_however_rows_are_held_a_bucket_has_them_in_their_order(tmp_path: Path, flush_bytes: int) -> None:
    """A flush is dealt in parts; parts and flushes fall anywhere."""
    writer = BucketWriter(tmp_path, 3, "who", flush_bytes=flush_bytes)
    read = [rows(*range(start, start + 1 + start % 4), start) for start in range(40)]
    for table in read:
        writer.add(table)
    writer.flush()
    everything = pa.concat_tables(read)
    numbers = bucket_numbers(everything.column("who").to_numpy(), 3)
    for bucket in range(3):
        found = read_bucket(tmp_path, bucket)
        assert found is not None
        assert pa.Table.from_batches([found]).equals(everything.filter(pa.array(numbers == bucket)).combine_chunks())


@pytest.mark.parametrize("count", [1, 2])
def test_large_and_small_parts_of_a_bucket_are_read_in_their_order(tmp_path: Path, count: int) -> None:
    """Large parts are written as they are (16 bytes a row), small ones joined before."""
    sizes = [40_000, 3, 17_000, 1, 1]
    writer = BucketWriter(tmp_path, count, "who", flush_bytes=1 << 30)
    read = [pa.table({"who": [at % 2] * size, "n": range(size)}) for at, size in enumerate(sizes)]
    for table in read:
        writer.add(table)
    writer.flush()
    found = [batch for bucket in range(count) if (batch := read_bucket(tmp_path, bucket)) is not None]
    for who in (0, 1):
        own = [batch.filter(pc.equal(batch.column("who"), who)) for batch in found]
        numbers = [number for batch in own for number in batch.column("n").to_pylist()]
        assert numbers == [number for size in sizes[who::2] for number in range(size)]


def test_rows_are_held_until_they_are_enough(tmp_path: Path) -> None:
    size = rows(1, 1).nbytes
    writer = BucketWriter(tmp_path, 1, "who", flush_bytes=2 * size)
    writer.add(rows(1, 1))
    assert read_bucket(tmp_path, 0) is None
    writer.add(rows(1, 1))
    assert read_bucket(tmp_path, 0).num_rows == 4  # type: ignore[union-attr]
    writer.add(rows(1, 1))
    assert read_bucket(tmp_path, 0).num_rows == 4  # type: ignore[union-attr]
    writer.flush()
    assert read_bucket(tmp_path, 0).num_rows == 6  # type: ignore[union-attr]


def test_only_some_columns_are_read_where_only_some_are_wanted(tmp_path: Path) -> None:
    writer = BucketWriter(tmp_path, 1, "who", flush_bytes=1)
    writer.add(rows(4))
    found = read_bucket(tmp_path, 0, ("n", "absent"))
    assert found is not None
    assert found.schema.names == ["n"]
    assert bucket_file(tmp_path, 3).name == "00003.streams"
