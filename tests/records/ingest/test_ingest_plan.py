"""The plan of an ingest: how many shards, what names the work, and whose folder it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import UserError
from wardround.records.ingest.plan import IngestSettings, Plan, is_finished, prepare, shard_count
from wardround.records.reading.source_files import SourceFiles


def files_of(*paths: Path, raw: tuple[Path, ...] = ()) -> SourceFiles:
    tables: dict[str, tuple[Path, ...]] = {f"t{place}": (path,) for place, path in enumerate(paths)}
    return SourceFiles(folders=(), tables=tables, dictionaries={}, missing=(), unknown=(), raw=raw)


def shards(files: SourceFiles, memory_bytes: int = 8) -> int:
    """By the size of the files; one byte of them to a shard if not said."""
    return shard_count(files, cast(Any, SimpleNamespace(shards=None, memory_bytes=memory_bytes)))


def sized(path: Path, size: int) -> Path:
    path.write_bytes(b"x" * size)
    return path


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [
        ("a.csv", 0, 1),
        ("a.csv", 1, 2),
        ("a.csv", 9, 10),
        ("a.csv.gz", 3, 1 + 3 * 8),
        ("a.parquet", 3, 1 + 3 * 6),
        ("a.csv", 4094, 4095),
        ("a.csv", 4095, 4096),
        ("a.csv", 4096, 4096),
        ("a.csv", 9000, 4096),
    ],
)
def test_shards_are_as_many_as_the_files_need(tmp_path: Path, name: str, size: int, count: int) -> None:
    assert shards(files_of(sized(tmp_path / name, size))) == count


def test_a_shard_takes_an_eighth_of_the_memory(tmp_path: Path) -> None:
    files = [sized(tmp_path / f"{n}.csv", 50) for n in range(2)]
    assert [shards(files_of(*files), 8 * share) for share in (25, 100, 101)] == [5, 2, 1]


def test_raw_files_count_in_the_place_of_the_tables_made_of_them(tmp_path: Path) -> None:
    table, raw = sized(tmp_path / "t.csv", 5), sized(tmp_path / "r.csv", 3)
    assert shards(files_of(table, raw=(raw,))) == 4


def test_of_a_parquet_file_the_rows_count(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [7] * 10_000, "b": [7] * 10_000}), path)
    size = path.stat().st_size
    assert 6 * size < 10_000 * 2 * 12
    assert shards(files_of(path), 8 * 1000) == 1 + 10_000 * 2 * 12 // 1000
    wide = tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": ["x"]}), wide)
    assert shards(files_of(wide)) == 1 + 6 * wide.stat().st_size


def test_a_number_that_is_asked_for_is_taken(tmp_path: Path) -> None:
    assert shard_count(files_of(sized(tmp_path / "a.csv", 9)), IngestSettings(shards=5)) == 5


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    files = files_of(sized(tmp_path / "a.csv", 9))
    spec = cast(Any, SimpleNamespace(sha256="spec"))
    return Plan(spec=spec, files=files, settings=IngestSettings(), store=tmp_path / "store", shards=2)


def test_the_same_work_has_the_same_name_and_other_work_another(plan: Plan, tmp_path: Path) -> None:
    others = [
        replace(plan, spec=cast(Any, SimpleNamespace(sha256="other"))),
        replace(plan, settings=IngestSettings(coding_lag=timedelta(1))),
        replace(plan, files=files_of(sized(tmp_path / "b.csv", 9))),
        replace(plan, shards=3),
    ]
    names = [one.digest for one in others]
    assert len({plan.digest, *names}) == 5
    assert replace(plan, store=tmp_path / "elsewhere").digest == plan.digest


def test_delays_are_told_in_microseconds(plan: Plan) -> None:
    settings = IngestSettings(
        coding_lag=timedelta(seconds=1.5), result_lag=timedelta(minutes=1), culture_lag=timedelta(hours=1)
    )
    clocks = replace(plan, settings=settings).clock_settings({"t.a.b": (2.5, None), "t.a.c": (None, 0.0)})
    assert clocks.lags == {"coding_lag": 1_500_000, "result_lag": 60_000_000, "culture_lag": 3_600_000_000}
    assert clocks.medians == {"t.a.b": (2_500_000, None), "t.a.c": (None, 0)}


def test_a_part_is_noted_in_one_step_and_read_again(plan: Plan) -> None:
    prepare(plan)
    assert plan.noted("labs") is None
    plan.note("labs", {"rows": [1, 2]})
    plan.note("labs", {"rows": 3})
    assert plan.noted("labs") == {"rows": 3}
    assert plan.noted("orders") is None


def test_an_interrupted_ingest_is_continued_only_by_its_own_plan(plan: Plan) -> None:
    assert prepare(plan) is False
    assert plan.store.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in plan.store.iterdir()} == {
        "building",
        "dictionaries",
        "origin",
        "quarantine",
        "shards",
        "spec",
    }
    kept = plan.store / "shards" / "kept"
    kept.write_text("x")
    assert prepare(plan) is True
    assert kept.exists()
    (plan.building / "buckets").mkdir()
    (plan.building / "buckets" / "old").write_text("x")
    other = replace(plan, shards=3)
    assert prepare(other) is False
    assert not kept.exists()
    assert [path.name for path in plan.building.iterdir()] == ["plan.json"]
    assert prepare(other) is True


def test_what_was_begun_before_the_machine_was_started_is_begun_anew(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a part wrote may be gone with the power, though its note says that it is done."""
    assert prepare(plan) is False
    plan.note("table-labevents", {"rows": 3})
    assert prepare(plan) is True
    monkeypatch.setattr(sys.modules[prepare.__module__], "this_boot", lambda: "another")
    assert prepare(plan) is False
    assert plan.noted("table-labevents") is None


@pytest.mark.parametrize(
    ("held", "is_taken"),
    [
        ((), True),
        (("building/",), True),
        (("building/plan.json.tmp",), True),
        (("shards/", "spec/"), True),
        (("thesis.txt",), False),
        (("building/thesis.txt",), False),
        (("shards/thesis.txt",), False),
        (("building/deep/plan.json",), False),
        (("other/",), False),
    ],
)
def test_a_folder_is_taken_only_if_an_ingest_may_have_begun_it(
    plan: Plan, held: tuple[str, ...], is_taken: bool
) -> None:
    plan.store.mkdir()
    for name in held:
        path = plan.store / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text("mine")
    if is_taken:
        assert prepare(plan) is False
        return
    with pytest.raises(UserError, match="not empty and holds no unfinished store; choose another or remove it"):
        prepare(plan)
    assert all((plan.store / name).exists() for name in held)


def test_a_store_is_finished_when_its_manifest_is_there(plan: Plan) -> None:
    prepare(plan)
    assert not is_finished(plan.store)
    (plan.store / "manifest.json").write_text("{}")
    assert is_finished(plan.store)
