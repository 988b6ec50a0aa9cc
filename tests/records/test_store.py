"""The store: what opens and what does not, trusted access, and that any Arrow tool can read it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import wardround.records
from records.small_source import FILES, moment, small_spec, small_store, write_files
from wardround.core import RecordError, UserError
from wardround.records import Store, ingest


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return small_store(tmp_path_factory.mktemp("store"), shards=2)


def test_the_public_names_are_exact() -> None:
    names = wardround.records.__all__
    assert len(names) == len(set(names))
    assert all(hasattr(wardround.records, name) for name in names)


def test_an_open_store_says_what_it_holds(store: Store) -> None:
    assert store.subjects.tolist() == [1, 2]
    assert store.table_names == (
        "patients", "admissions", "labs", "orders", "drugs", "diagnoses", "cultures", "triage",
    )  # fmt: skip
    assert store.manifest["source"] == store.spec.name == "small"
    assert store.manifest["spec_sha256"] == store.spec.sha256


def test_rows_are_whole_with_their_clocks(store: Store) -> None:
    rows = store.rows(1, "labs").to_pylist()
    assert len(rows) == 4
    assert rows[0]["row_id"] == "labs:100"
    assert rows[0]["label"] == "Glucose"
    assert (rows[0]["_event"], rows[0]["_available"]) == (moment("01 07:00"), moment("01 09:00"))
    assert rows[0]["_late:hadm_id"] == moment("01 08:00")
    assert "test_seq" in store.rows(1, "cultures").schema.names


def test_no_rows_have_the_same_schema(store: Store) -> None:
    for table in store.table_names:
        if table != "triage":
            assert store.rows(99, table).schema.names == store.rows(1, table).schema.names


def test_scan_gives_every_subject_once(store: Store) -> None:
    scanned = dict(store.scan("labs"))
    assert set(scanned) == {1, 2}
    assert scanned[1].equals(store.rows(1, "labs"))
    assert [batch.schema.names for _, batch in store.scan("labs", ["lab_id"])] == [["lab_id"]] * 2


def test_dictionaries(store: Store) -> None:
    assert store.dictionary("d_labs").to_pydict() == {"itemid": [501, 502], "label": ["Glucose", "Ketone"]}
    with pytest.raises(RecordError, match=r"no dictionary 'd_lab'.*d_labs"):
        store.dictionary("d_lab")
    with pytest.raises(RecordError, match=r"no table 'lab'.*labs"):
        store.rows(1, "lab")


def test_the_number_of_shards_changes_nothing_that_is_read(store: Store, tmp_path: Path) -> None:
    one = small_store(tmp_path)
    for table in store.table_names:
        for subject in (1, 2):
            assert store.rows(subject, table).equals(one.rows(subject, table))


def test_the_digest_follows_the_content(store: Store, tmp_path: Path) -> None:
    same = small_store(tmp_path / "same", shards=2)
    other = small_store(tmp_path / "other", {"hosp/labs.csv": FILES["hosp/labs.csv"].replace("7.1", "7.2")}, shards=2)
    assert same.digest == store.digest
    assert other.digest != store.digest


def read_shards(store: Store, pattern: str) -> int:
    rows = 0
    for path in store.path.glob(f"shards/*/{pattern}"):
        with pa.input_stream(str(path), compression="zstd" if path.suffix == ".zst" else None) as stream:
            rows += pa.ipc.open_stream(stream).read_all().num_rows
    return rows


def test_any_arrow_tool_reads_the_shards_packed_or_not(store: Store, tmp_path: Path) -> None:
    assert read_shards(store, "labs.arrows") == 5
    long = FILES["hosp/labs.csv"].replace("NEG", "seen " * 3000).replace(",1,1,", f",{'none ' * 3000},1,")
    packed = small_store(tmp_path, {"hosp/labs.csv": long}, shards=2)
    assert read_shards(packed, "labs.arrows.zst") == 5
    texts = [row["value"] for subject in (1, 2) for row in packed.rows(subject, "labs").to_pylist()]
    assert sorted(len(text) for text in texts) == [3, 3, 3, 15000, 15000]


def test_only_finished_stores_of_this_version_open(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no store here"):
        Store.open(tmp_path)
    shutil.copytree(store.path, tmp_path / "copy")
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    (tmp_path / "copy" / "manifest.json").write_text(json.dumps(manifest)[:50])
    with pytest.raises(RecordError, match="damaged"):
        Store.open(tmp_path / "copy")
    (tmp_path / "copy" / "manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(UserError, match="a store of version 99, this wardround reads 1"):
        Store.open(tmp_path / "copy")


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_stores_of_another_version_are_refused(store: Store, tmp_path: Path, version: int) -> None:
    shutil.copytree(store.path, tmp_path / "old")
    manifest = json.loads((tmp_path / "old" / "manifest.json").read_text())
    manifest = {name: body for name, body in manifest.items() if name not in ("sha256", "files", "indexes")}
    (tmp_path / "old" / "manifest.json").write_text(json.dumps({**manifest, "version": version}))
    for use in (
        Store.open,
        lambda path: ingest(small_spec(tmp_path / "spec"), write_files(tmp_path / "raw", FILES), path),
    ):
        with pytest.raises(UserError, match=r"a store of version .*, this wardround reads 1; ingest again"):
            use(tmp_path / "old")
