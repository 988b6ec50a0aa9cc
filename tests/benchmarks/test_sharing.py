"""A benchmark to share holds no answer and no record text, and is built again byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from wardround.benchmarks import Benchmark
from wardround.benchmarks.sharing import difference, read_share, rebuild, share, write_share
from wardround.cli import main
from wardround.core import UserError
from wardround.records import Event, Store


@pytest.fixture(scope="module")
def benchmark(synthetic_benchmark_path: Path) -> Benchmark:
    return Benchmark.open(synthetic_benchmark_path)


def test_it_is_built_again_byte_for_byte(
    benchmark: Benchmark, synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    file, again = tmp_path / "bench.json", tmp_path / "again"
    assert main(["bench", "share", str(synthetic_benchmark_path), "--out", str(file)]) == 0
    assert read_share(file) == share(benchmark)
    assert main(["bench", "rebuild", str(file), "--store", str(synthetic_store_path), "--out", str(again)]) == 0
    assert (again / "samples.jsonl").read_bytes() == (synthetic_benchmark_path / "samples.jsonl").read_bytes()


def test_another_recipe_is_told_in_a_line(benchmark: Benchmark, synthetic_store: Store, tmp_path: Path) -> None:
    shared = share(benchmark)
    shared["recipe"] = shared["recipe"] | {"per_task": 1}
    with pytest.raises(UserError, match=r"is not the benchmark that was shared: .* samples are missing") as error:
        rebuild(shared, synthetic_store, tmp_path / "again")
    assert "\n" not in str(error.value)


def test_what_differs_is_named(benchmark: Benchmark) -> None:
    first, *rest = benchmark.all_samples
    other = {**benchmark.manifest, "samples_sha256": "another"}
    moved = replace(first, prediction_time=first.moment.replace(year=1999))
    changed = replace(first, target=("Zebra",))
    shared = share(benchmark)
    assert difference(shared, benchmark) is None
    for samples, said in (
        (rest, f"1 samples are missing ({first.id})"),
        ([moved, *rest], f"1 samples have another moment ({first.id})"),
        ([changed, *rest], "the samples are the same, their answers or facts are not"),
    ):
        assert difference(shared, replace(benchmark, manifest=other, all_samples=tuple(samples))) == said


def test_no_answer_and_no_record_text_is_in_the_file(
    benchmark: Benchmark, synthetic_store: Store, tmp_path: Path
) -> None:
    """Every text of the people's notes and rows is looked for."""
    write_share(benchmark, tmp_path / "bench.json")
    text = (tmp_path / "bench.json").read_text()
    assert {frozenset(one) for one in json.loads(text)["samples"]} == {frozenset({"id", "moment", "split"})}
    answers = {label for sample in benchmark.all_samples for label in sample.target}
    assert not [label for label in answers if f'"{label}"' in text]
    people = {sample.subject_id for sample in benchmark.all_samples}
    told = {event.text_value for subject in people for event in events(synthetic_store, subject)}
    names = " ".join(task.name for task in benchmark.tasks)  # of which the ids of samples are made
    long = {one for one in told if one and len(one) > 6 and one not in names}
    assert len(long) > 100
    of_people = json.dumps(
        {name: part for name, part in json.loads(text).items() if name != "tasks"}, ensure_ascii=False
    )
    assert not [one for one in long if one in of_people or json.dumps(one)[1:-1] in of_people]


def events(store: Store, subject: int) -> Iterator[Event]:
    return store.chart(subject, datetime(2300, 1, 1)).events()


def test_answers_change_nothing_but_the_hash_of_all(benchmark: Benchmark) -> None:
    samples = tuple(replace(one, target=("Zebra",), stratum="any", facts={}) for one in benchmark.all_samples)
    changed = share(replace(benchmark, all_samples=samples))
    assert changed == share(benchmark), "the hash is the manifest's"


def test_another_family_is_refused(benchmark: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only benchmarks of the family agentehr"):
        share(replace(benchmark, manifest={**benchmark.manifest, "kind": "clinseek"}))
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UserError, match="no shared benchmark"):
        read_share(tmp_path / "x.json")
