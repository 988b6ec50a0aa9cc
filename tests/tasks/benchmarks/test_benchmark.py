"""A benchmark survives the disk unchanged, and never half."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import ModuleType

import pytest

import wardround.tasks.benchmarks
from wardround.clinical.codes import LabelSet
from wardround.core import RecordError, UserError
from wardround.tasks.benchmarks import Benchmark, Sample, build_ehrshot, get_task, question_of
from wardround.tasks.benchmarks.agentehr import build_agentehr
from wardround.tasks.benchmarks.task import QuestionText
from wardround.tools.candidates import CandidateSpace


def a_sample(number: int, **changes: object) -> Sample:
    values: dict[str, object] = {
        "id": f"labevents-{number}",
        "task": "labevents",
        "subject_id": number,
        "prediction_time": datetime(2150, 1, 1, 7, 59, 30),
        "target": ("Glucose", "Sodium, Whole Blood"),
        "split": "test",
        "stratum": "common",
        "unwinnable": ("Glucose",),
        "facts": {"encounter": 7, "weight": 0.25},
    }
    return Sample(**{**values, **changes})  # type: ignore[arg-type]


def a_benchmark() -> Benchmark:
    samples = (a_sample(1), a_sample(2, split="train"), a_sample(3, task="transfers", stratum="rare"))
    return Benchmark(manifest={"name": "agentehr", "policy": "known_at"}, all_samples=samples)


def test_save_and_open_give_the_same(tmp_path: Path) -> None:
    saved = a_benchmark().save(tmp_path / "bench")
    opened = Benchmark.open(tmp_path / "bench")
    assert opened == saved
    assert opened.digest == a_benchmark().digest
    assert [path.name for path in tmp_path.iterdir()] == ["bench"]


def test_samples_are_chosen_by_task_split_and_stratum() -> None:
    bench = a_benchmark()
    assert [s.subject_id for s in bench.samples("labevents")] == [1, 2]
    assert [s.subject_id for s in bench.samples(split="test")] == [1, 3]
    assert [s.subject_id for s in bench.samples(split="test", stratum="rare")] == [3]
    assert [s.subject_id for s in bench.samples(stratum=("rare", "common"))] == [1, 2, 3]
    assert [task.name for task in bench.tasks] == ["labevents", "transfers"]
    assert bench.sample("labevents-2").split == "train"
    with pytest.raises(UserError, match="no sample 'x'"):
        bench.sample("x")


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    a_benchmark().save(tmp_path / "bench")
    with pytest.raises(UserError, match="exists already"):
        a_benchmark().save(tmp_path / "bench")


@pytest.mark.parametrize("build", [build_agentehr, build_ehrshot])
def test_a_full_folder_is_refused_before_any_work(build: Callable[..., Benchmark], tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "mine.txt").write_text("x")
    with pytest.raises(UserError, match="exists already"):
        build(object(), tmp_path / "bench")  # nothing is asked of the store


def test_what_a_killed_build_left_is_removed_and_a_running_one_kept(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    left, running = tmp_path / f"bench.partial-{process.pid}", tmp_path / f"bench.partial-{os.getppid()}"
    for folder in (left, running):
        folder.mkdir()
        (folder / "samples.jsonl").write_text("{}")
    a_benchmark().save(tmp_path / "bench")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench", running.name]


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    a_benchmark().save(tmp_path / "bench")
    path = tmp_path / "bench" / "samples.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Glucose", b"Lactate"))
    with pytest.raises(RecordError, match="not the file"):
        Benchmark.open(tmp_path / "bench")


def test_a_space_is_read_once_and_again_only_where_its_file_is_another(tmp_path: Path) -> None:
    space = CandidateSpace(name="labs", labels=LabelSet(name="labs", labels=("Glucose", "Sodium")))
    replace(a_benchmark(), spaces={"labs": space}).save(tmp_path / "bench")
    first, second = (Benchmark.open(tmp_path / "bench").spaces["labs"] for _ in range(2))
    assert first is second
    assert first.labels == space.labels
    path = tmp_path / "bench" / "spaces" / "labs.space"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # as long as before
    with pytest.raises(RecordError, match="not the candidate space"):
        Benchmark.open(tmp_path / "bench")
    path.unlink()
    with pytest.raises(RecordError, match="not the candidate space"):
        Benchmark.open(tmp_path / "bench")
    path.write_bytes(whole)
    assert Benchmark.open(tmp_path / "bench").spaces["labs"].by_keyword("sod")[0].label == "Sodium"


def test_a_missing_benchmark_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="build one first"):
        Benchmark.open(tmp_path)


def test_a_sample_must_have_a_target_and_a_known_split() -> None:
    with pytest.raises(ValueError, match="no target"):
        a_sample(1, target=())
    with pytest.raises(RecordError, match="split"):
        Sample.from_json({**a_sample(1).to_json(), "split": "validation"})
    with pytest.raises(RecordError, match="not a sample"):
        Sample.from_json({"id": "x"})


@pytest.mark.parametrize(
    ("given", "queries"),
    [
        ({}, ("about it", "about it")),
        ({"factual_query": "for"}, ("for", "about it")),
        ({"counterfactual_query": "against"}, ("about it", "against")),
        ({"factual_query": "for", "counterfactual_query": "against"}, ("for", "against")),
    ],
)
def test_a_task_is_searched_with_its_queries_or_its_description(
    given: dict[str, str], queries: tuple[str, str]
) -> None:
    words = QuestionText(category="ours", description="about it", **given)
    asked = question_of(replace(get_task("transfers"), words=words), a_sample(1))
    assert (asked.factual_query, asked.counterfactual_query) == queries
    assert (asked.category, asked.prediction_time) == ("ours", datetime(2150, 1, 1, 7, 59, 30))


def test_unknown_task_lists_the_known() -> None:
    with pytest.raises(UserError, match=r"there is no task 'radiology'.*chexpert"):
        get_task("radiology")


def test_public_names_are_exact() -> None:
    members = vars(wardround.tasks.benchmarks).items()
    public = {name for name, value in members if not name.startswith("_") and not isinstance(value, ModuleType)}
    assert public == set(wardround.tasks.benchmarks.__all__)


def test_the_kind_is_what_the_manifest_declares_whatever_the_name(
    synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    benchmark = Benchmark.open(synthetic_benchmark_path)
    kept = replace(benchmark, manifest={**benchmark.manifest, "name": "wards-of-2019"}).save(tmp_path / "renamed")
    assert (Benchmark.open(tmp_path / "renamed").kind, kept.name) == (benchmark.kind, "wards-of-2019")


@pytest.mark.parametrize("schema", [2, "1", None])
def test_a_benchmark_of_another_schema_is_refused(
    synthetic_benchmark_path: Path, tmp_path: Path, schema: object
) -> None:
    shutil.copytree(synthetic_benchmark_path, tmp_path / "other")
    manifest = json.loads((tmp_path / "other" / "manifest.json").read_text(encoding="utf-8"))
    (tmp_path / "other" / "manifest.json").write_text(json.dumps({**manifest, "schema": schema}), encoding="utf-8")
    with pytest.raises(UserError, match=rf"benchmark schema {schema!r}, this wardround reads 1: build again"):
        Benchmark.open(tmp_path / "other")
