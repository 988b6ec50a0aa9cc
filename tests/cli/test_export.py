"""``wardround export`` and ``ingest meds`` from the command line: what they print, and one clear line for bad input."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.cli.main import main

NOON = datetime(2150, 3, 1, 12)


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    """Three subjects in two splits, one of them in none."""
    folder = tmp_path / "meds"
    for split, subjects in {"train": [1, 3], "held_out": [2]}.items():
        path = folder / "data" / split / "0.parquet"
        path.parent.mkdir(parents=True)
        table = pa.table(
            {"subject_id": subjects, "time": [NOON] * len(subjects), "code": ["LAB//1//mg"] * len(subjects)}
        )
        pq.write_table(table, path)
    (folder / "metadata").mkdir()
    splits = pa.table({"subject_id": [1, 2], "split": ["train", "held_out"]})
    pq.write_table(splits, folder / "metadata" / "subject_splits.parquet")
    return folder


def test_in_and_out_again(data_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    assert main(["ingest", "meds", str(data_set), "--store", str(store), "--result-lag-hours", "2"]) == 0
    said = capsys.readouterr().out
    assert "3 subjects, 3 rows" in said
    assert "2:00:00 (result_lag)" in said
    assert "missing tables: codes" in said
    assert main(["export", "meds", "--store", str(store), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "3 subjects, 3 events, 1 codes" in said
    assert "subjects by split: train 1, held_out 1" in said
    assert "1 subjects are in no split: they lie in data/no_split" in said
    files = {path.parent.name: pq.read_table(path).to_pylist() for path in out.glob("data/**/*.parquet")}
    assert {name: [row["subject_id"] for row in rows] for name, rows in files.items()} == {
        "train": [1],
        "held_out": [2],
        "no_split": [3],
    }
    assert files["train"][0]["time"] == datetime(2150, 3, 1, 14), "a lab is known after its lag"
    assert files["train"][0]["event_time"] == NOON


def test_the_happened_at_form_says_so(data_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    main(["ingest", "meds", str(data_set), "--store", str(store)])
    assert main(["export", "meds", "--store", str(store), "--out", str(out), "--time", "event"]) == 0
    assert "only from available_at on" in capsys.readouterr().out
    (row,) = pq.read_table(out / "data" / "held_out" / "0.parquet").to_pylist()
    assert (row["time"], row["available_at"]) == (NOON, datetime(2150, 3, 2, 12))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["export", "meds", "--store", "nowhere", "--out", "out"], "there is no store here"),
        (["export", "meds-labels", "--benchmark", "nowhere", "--out", "out"], "holds no benchmark"),
        (["export", "meds-predictions", "--run", "nowhere", "--out", "out"], "no predictions"),
        (["ingest", "meds", "nowhere", "--store", "store"], "no such folder"),
        (["ingest", "meds", ".", "--store", "store"], "expected files like data/**/*.parquet"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
