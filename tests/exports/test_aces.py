"""ACES task files as labels, by the package es-aces: against the rows of the store, counted by hand."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from extras import needs
from wardround.cli import main
from wardround.core import UserError
from wardround.exports.aces import write_aces_labels
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark

CREATININE = 50912
TASK = """
predicates:
  admission:
    code: {regex: "^mimic-admission-type//.*"}
  creatinine:
    code: {regex: "^mimic-lab//50912($|//.*)"}
trigger: admission
windows:
  input:
    start: null
    end: trigger + 24h
    start_inclusive: True
    end_inclusive: True
    index_timestamp: end
  target:
    start: input.end
    end: start + 48h
    start_inclusive: False
    end_inclusive: True
    label: creatinine
"""
pytestmark = [needs("aces"), pytest.mark.filterwarnings("ignore")]  # warnings of its packages


@pytest.fixture
def task(tmp_path: Path) -> Path:
    file = tmp_path / "creatinine.yaml"
    file.write_text(TASK)
    return file


def test_labels_are_those_that_the_rows_say(synthetic_store_path: Path, task: Path, tmp_path: Path) -> None:
    assert main(["export", "tables", "--store", str(synthetic_store_path), "--out", str(tmp_path / "tables")]) == 0
    admissions = pq.read_table(tmp_path / "tables" / "admissions.parquet").to_pylist()
    labs = pq.read_table(tmp_path / "tables" / "labevents.parquet").to_pylist()
    drawn = {(row["subject_id"], row["charttime"]) for row in labs if row["itemid"] == CREATININE}
    expected = {}
    for row in admissions:
        asked = row["admittime"] + timedelta(hours=24)
        times = [time for subject, time in drawn if subject == row["subject_id"] and time]
        expected[row["subject_id"], asked] = any(asked < time <= asked + timedelta(hours=48) for time in times)
    found = write_aces_labels(Store.open(synthetic_store_path), task, tmp_path / "labels.parquet")
    rows = pq.read_table(found.file).to_pylist()
    assert {(row["subject_id"], row["prediction_time"]): row["boolean_value"] for row in rows} == expected
    otherwise = [row for row in rows if row["available_value"] not in (None, row["boolean_value"])]
    asked = [row for row in rows if row["available_value"] is not None]
    assert (len(asked), len(otherwise)) == (found.asked_alike, found.answered_otherwise)
    assert (found.labels, found.positive) == (len(expected), sum(expected.values()))
    assert 0 < found.positive < found.labels
    assert 0 < found.answered_otherwise < found.asked_alike <= found.labels, "results are known later than drawn"


def test_they_become_a_benchmark(
    synthetic_store_path: Path, task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the task file alone, and by its labels: the same samples; another site needs only the task file."""
    labels, bench, own = (str(tmp_path / name) for name in ("creatinine.parquet", "bench", "own"))
    store = ["--store", str(synthetic_store_path)]
    assert main(["export", "aces", *store, "--task", str(task), "--out", labels]) == 0
    assert main(["bench", "build", "labels", *store, "--out", bench, "--labels", labels]) == 0
    capsys.readouterr()
    assert main(["bench", "build", "own", *store, "--out", own, "--aces", str(task)]) == 0
    assert "creatinine, by ACES: " in capsys.readouterr().out
    built = [Benchmark.open(Path(folder)) for folder in (bench, own)]
    assert [[one.name for one in benchmark.tasks] for benchmark in built] == [["creatinine"], ["creatinine"]]
    assert built[0].all_samples
    assert built[0].all_samples == built[1].all_samples
    shared, again = str(tmp_path / "shared"), str(tmp_path / "again")
    assert main(["bench", "share", own, *store, "--out", shared]) == 0
    assert main(["bench", "rebuild", shared, *store, "--given", str(task), "--out", again]) == 0
    assert Benchmark.open(Path(again)).all_samples == built[1].all_samples
    with pytest.raises(UserError, match="is there already"):
        write_aces_labels(Store.open(synthetic_store_path), task, Path(labels))


@pytest.mark.parametrize(
    ("change", "said"),
    [(("trigger: admission", "trigger: nothing"), "is no ACES task"), (("    label: creatinine\n", ""), "`label`")],
)
def test_a_task_that_cannot_be_read_is_refused_in_a_line(
    synthetic_store_path: Path, task: Path, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    task.write_text(TASK.replace(*change))
    with pytest.raises(UserError, match=said):
        write_aces_labels(Store.open(synthetic_store_path), task, tmp_path / "labels.parquet")
