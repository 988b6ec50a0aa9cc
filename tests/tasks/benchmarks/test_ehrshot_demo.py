"""EHRSHOT's tasks on the open data: labels computed again from the raw files by other means, one by one, and one set of
patients in three formats."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import SAMPLES_ZONE
from wardround.audits.labels.check import CLASS_TASKS, CODES, ITEMS, RawQuestions
from wardround.audits.labels.raw_files import RawFiles
from wardround.records import IngestSettings, Store, ingest
from wardround.tasks.benchmarks import Benchmark, build_ehrshot, leak_check

Label = tuple[int, datetime, str]


def labels(benchmark: Benchmark, task: str) -> Counter[Label]:
    return Counter((one.subject_id, one.prediction_time, one.target[0]) for one in benchmark.samples(task))


def built(source: str, raw: Path, folder: Path) -> tuple[Benchmark, Store]:
    settings = IngestSettings(time_zone=SAMPLES_ZONE if source == "fhir" else None)
    ingest(source, raw, folder / "store", settings=settings)
    return asked(Store.open(folder / "store"), folder)


def asked(store: Store, folder: Path) -> tuple[Benchmark, Store]:
    return build_ehrshot(store, folder / "bench", per_task=0, allow_missing=True), store


@pytest.fixture(scope="module")
def demo(mimic_demo_store: Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Benchmark, Store]:
    return asked(mimic_demo_store, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def raw(mimic_demo: Path) -> RawQuestions:
    return RawQuestions(RawFiles(mimic_demo))


@pytest.mark.parametrize("task", CLASS_TASKS)
def test_labels_computed_again_from_the_raw_files_are_the_same(
    demo: tuple[Benchmark, Store], raw: RawQuestions, task: str
) -> None:
    """Every question there could be, and no other."""
    found = labels(demo[0], task)
    assert found == Counter(raw.answers(task))
    assert sum(found.values()) > 100


def test_no_sampled_question_has_its_answer_on_the_chart(demo: tuple[Benchmark, Store]) -> None:
    benchmark, store = demo
    some = tuple(benchmark.all_samples[::60])
    assert len({one.task for one in some}) == len(benchmark.tasks)
    assert leak_check(Benchmark(manifest=benchmark.manifest, all_samples=some), store) == ()


@pytest.fixture(scope="module")
def meds(meds_demo_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return asked(meds_demo_store, tmp_path_factory.mktemp("meds"))[0]


@pytest.mark.long
def test_stays_and_diagnoses_of_the_demo_are_the_same_in_meds(demo: tuple[Benchmark, Store], meds: Benchmark) -> None:
    for task in ("guo_los", "guo_icu", "guo_readmission", *sorted({*CODES} - {"new_celiac", "new_lupus"})):
        assert labels(meds, task) == labels(demo[0], task)


@pytest.mark.long
def test_results_of_the_demo_differ_in_meds_only_where_the_two_records_do(
    demo: tuple[Benchmark, Store], meds: Benchmark
) -> None:
    """That data set puts what is dated to a day at its first second, so that some records begin before their first
    result, and keeps one of two rows that are alike but for their specimen."""
    files, stream = ({task: labels(each, task) for task in ITEMS} for each in (demo[0], meds))
    for task in ITEMS:
        more = stream[task] - files[task]
        left_out = demo[0].manifest["drops"][task]["at_the_first_event"]
        assert sum(more.values()) == left_out - meds.manifest["drops"][task]["at_the_first_event"]
        assert all(value == 1 for value in more.values())
    fewer = {task: files[task] - stream[task] for task in ITEMS}
    assert {task: sum(counts.values()) for task, counts in fewer.items()} == dict.fromkeys(ITEMS, 0) | {
        "lab_hyponatremia": 1
    }
    (twin,) = fewer["lab_hyponatremia"]
    assert files["lab_hyponatremia"][twin] == 2
    assert stream["lab_hyponatremia"][twin] == 1


def test_stays_of_the_demo_are_the_same_in_fhir(
    demo: tuple[Benchmark, Store], shared_data: Path, tmp_path: Path
) -> None:
    raw = shared_data / "mimic-iv-demo-fhir-2.1.0" / "fhir"
    if not raw.is_dir():
        pytest.skip("the MIMIC-IV demo on FHIR is not here")
    few = tmp_path / "few"
    few.mkdir()
    for name in ("MimicPatient", "MimicEncounter", "MimicEncounterED", "MimicEncounterICU", "MimicLocation"):
        (few / f"{name}.ndjson.gz").symlink_to(raw / f"{name}.ndjson.gz")
    ingest("fhir", few, tmp_path / "store", settings=IngestSettings(time_zone=SAMPLES_ZONE))
    store = Store.open(tmp_path / "store")
    fhir = build_ehrshot(store, tmp_path / "bench", per_task=0, tasks=["guo_los", "guo_icu", "guo_readmission"])
    for task in ("guo_los", "guo_readmission"):
        assert _anonymous(labels(fhir, task)) == _anonymous(labels(demo[0], task))
    difference = _anonymous(labels(fhir, "guo_icu")) - _anonymous(labels(demo[0], "guo_icu"))
    assert sum(difference.values()) <= 2  # FHIR has the unit of every transfer, the files stays put together from them


def _anonymous(found: Counter[Label]) -> Counter[Any]:
    """Without the numbers of subjects, which FHIR makes anew."""
    return Counter((moment, value) for _, moment, value in found.elements())


@pytest.mark.parametrize(
    ("source", "folder", "asked"),
    [
        ("omop", "omop-synthea27nj-5.4/csv", {"guo_los", "guo_readmission", "lab_anemia", "new_hypertension"}),
        ("eicu", "eicu-crd-demo-mini", {"guo_los", "guo_icu", "lab_anemia", "lab_hypoglycemia"}),
        ("fhir", "synthea-fhir-r4", {"guo_los", "guo_readmission", "lab_anemia", "new_hyperlipidemia"}),
    ],
)
def test_other_sources_are_asked_what_they_can_answer(
    source: str, folder: str, asked: set[str], shared_data: Path, tmp_path: Path
) -> None:
    if not (shared_data / folder).is_dir():
        pytest.skip(f"{folder} is not here")
    benchmark, store = built(source, shared_data / folder, tmp_path)
    names = {task.name for task in benchmark.tasks}
    assert asked <= names
    said = benchmark.manifest["tasks"]
    assert all(said[name]["unavailable"] for name in said if name not in names)
    for name in names:
        factors = said[name].get("units", {})
        assert all(unit["factor"] is not None for unit in factors.values())
    some = tuple(benchmark.all_samples[::25])
    assert leak_check(Benchmark(manifest=benchmark.manifest, all_samples=some), store) == ()


def test_stays_of_one_person_are_in_one_split_and_resampled_together(shared_data: Path, tmp_path: Path) -> None:
    """eICU keeps a person's hospital stays apart: 195 records of 96 people."""
    sample = shared_data / "eicu-crd-demo-edge"
    if not sample.is_dir():
        pytest.skip("the sample of eICU's edges is not here")
    ingest("eicu", sample, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    benchmark = build_ehrshot(store, tmp_path / "bench", per_task=0, tasks=["guo_los"])
    splits: dict[int, set[str]] = {}
    for one in benchmark.all_samples:
        assert one.person == store.person_of(one.subject_id) != one.subject_id
        splits.setdefault(one.person, set()).add(one.split)
    assert len(splits) < len({one.subject_id for one in benchmark.all_samples}), "some people have several"
    assert all(len(held) == 1 for held in splits.values())
    assert Benchmark.open(tmp_path / "bench").all_samples == benchmark.all_samples
