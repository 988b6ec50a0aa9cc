"""Labels in MEDS form: what each kind of task becomes, in which file, and that the standard's validator takes it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wardround.core import UserError
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tasks.benchmarks.meds_labels import binary_questions, meds_splits, write_meds_labels
from wardround.tasks.benchmarks.task import get_task

NOON = datetime(2150, 3, 1, 12)
SAMPLES = [
    ("guo_los", 2, ("1",), "train"),
    ("guo_los", 1, ("0",), "train"),
    ("guo_los", 3, ("1",), "test"),
    ("lab_anemia", 1, ("2",), "dev"),
    ("chexpert", 1, ("3", "6"), "train"),
    ("chexpert", 2, ("0",), "train"),
    ("diagnoses", 1, ("Gout", "Anemia"), "train"),
]


def benchmark() -> Benchmark:
    samples = tuple(
        Sample(
            id=f"{task}-{subject}-{split}",
            task=task,
            subject_id=subject,
            prediction_time=NOON,
            target=tuple(sorted(target)),
            split=split,  # type: ignore[arg-type]
            stratum="common",
        )
        for task, subject, target, split in SAMPLES
    )
    return Benchmark(manifest={"name": "test", "policy": "known_at"}, all_samples=samples)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / f"{name}.parquet").to_pylist())


def test_every_kind_of_task_has_its_column(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    counts = write_meds_labels(benchmark(), folder)
    assert rows(folder, "guo_los/train") == [
        {"subject_id": 1, "prediction_time": NOON, "boolean_value": False},
        {"subject_id": 2, "prediction_time": NOON, "boolean_value": True},
    ]
    assert [row["boolean_value"] for row in rows(folder, "guo_los/held_out")] == [True]
    assert not (folder / "guo_los" / "tuning.parquet").exists()
    assert rows(folder, "lab_anemia/tuning") == [
        {"subject_id": 1, "prediction_time": NOON, "integer_value": 2, "categorical_value": "moderate"}
    ]
    assert [row["boolean_value"] for row in rows(folder, "chexpert/Cardiomegaly/train")] == [True, False]
    assert [row["boolean_value"] for row in rows(folder, "chexpert/Edema/train")] == [True, False]
    assert [row["boolean_value"] for row in rows(folder, "chexpert/Pneumonia/train")] == [False, False]
    assert sorted(row["categorical_value"] for row in rows(folder, "diagnoses/train")) == ["Anemia", "Gout"]
    assert (counts["guo_los"], counts["lab_anemia"], counts["diagnoses"]) == (3, 1, 2)


def test_the_standards_validator_takes_every_file(tmp_path: Path) -> None:
    meds = pytest.importorskip("meds", reason="needs meds, the standard's package")
    write_meds_labels(benchmark(), tmp_path / "labels")
    files = sorted((tmp_path / "labels").glob("**/*.parquet"))
    assert len(files) == 4 + 14
    for file in files:
        meds.LabelSchema.validate(pq.read_table(file))


def test_several_classes_are_one_question_of_yes_and_no() -> None:
    (question,) = binary_questions(get_task("lab_anemia"))
    assert question.folder == "lab_anemia/binary"
    assert [question.holds([value]) for value in "0123"] == [False, True, True, True]
    assert binary_questions(get_task("diagnoses")) == ()


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UserError, match="not empty"):
        write_meds_labels(benchmark(), tmp_path)


def test_splits_have_the_names_of_the_standard() -> None:
    samples = [one for one in benchmark().all_samples if one.task == "guo_los"]
    assert meds_splits(Benchmark(manifest={}, all_samples=tuple(samples))) == {1: "train", 2: "train", 3: "held_out"}
