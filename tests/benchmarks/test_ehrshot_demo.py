"""EHRSHOT's tasks on the open data: labels computed again from the raw files by other means, one by one, and one set of
patients in three formats."""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from wardround.benchmarks import Benchmark, build_ehrshot, leak_check
from wardround.records import Store, ingest

Label = tuple[int, datetime, str]
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
ITEMS = {
    "lab_anemia": {"51222", "50811", "51640", "51645"},
    "lab_thrombocytopenia": {"51265", "51704"},
    "lab_hyperkalemia": {"50971", "50822", "52610", "52452"},
    "lab_hypoglycemia": {"50931", "50809", "52569", "52027"},
    "lab_hyponatremia": {"50983", "50824", "52623", "52455"},
}
CODES: dict[str, Callable[[str, str], bool]] = {
    "new_hypertension": lambda code, version: code.startswith("401" if version == "9" else "I10"),
    "new_hyperlipidemia": lambda code, version: (
        code[:4] in {"2720", "2721", "2722", "2723", "2724"}
        if version == "9"
        else code[:3] == "E78" and code[3:4] in "012345"
    ),
    "new_acutemi": lambda code, version: code.startswith("410") if version == "9" else code[:3] in {"I21", "I22"},
    "new_pancan": lambda code, version: code.startswith("157" if version == "9" else "C25"),
}


class RawDemo:
    """The raw files, read row by row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stays: dict[int, list[tuple[datetime, datetime]]] = defaultdict(list)
        self.deaths: dict[int, datetime] = {}
        self.ends: dict[str, datetime] = {}
        for row in self.rows("hosp/admissions"):
            end = when(row["dischtime"])
            if row["deathtime"]:
                end = max(end, when(row["deathtime"]))
                self.deaths[int(row["subject_id"])] = when(row["deathtime"])
            self.stays[int(row["subject_id"])].append((when(row["admittime"]), end))
            self.ends[row["hadm_id"]] = when(row["dischtime"])
        for row in self.rows("hosp/patients"):
            if row["dod"]:
                day = last_second(date.fromisoformat(row["dod"][:10]))
                self.deaths[int(row["subject_id"])] = min(self.deaths.get(int(row["subject_id"]), day), day)

    def rows(self, name: str) -> Iterator[dict[str, str]]:
        with gzip.open(self.folder / f"{name}.csv.gz", "rt", encoding="utf-8") as source:
            yield from csv.DictReader(source)

    def length_of_stay(self) -> Iterator[Label]:
        for subject, stays in self.stays.items():
            for start, end in stays:
                if end.date() > start.date():
                    yield subject, last_second(start.date()), str(int(end - start >= 7 * DAY))

    def intensive_care(self) -> Iterator[Label]:
        icu: dict[int, list[tuple[datetime, datetime]]] = defaultdict(list)
        for row in self.rows("icu/icustays"):
            icu[int(row["subject_id"])].append((when(row["intime"]), when(row["outtime"])))
        for subject, stays in self.stays.items():
            for start, end in stays:
                inside = [begin for begin, over in icu[subject] if begin <= end and (begin >= start or over > start)]
                if end.date() > start.date() and not any(begin.date() <= start.date() for begin in inside):
                    yield subject, last_second(start.date()), str(int(bool(inside)))

    def readmission(self) -> Iterator[Label]:
        for subject, stays in self.stays.items():
            for start, end in stays:
                asked = last_second(end.date())
                others = [one for one in stays if one != (start, end)]
                back = any(end <= begin <= asked or begin <= asked < over for begin, over in others)
                if not back and not self.is_dead(subject, asked):
                    yield subject, asked, str(int(any(asked < begin <= asked + 30 * DAY for begin, _ in others)))

    def diagnosis(self, task: str) -> Iterator[Label]:
        first: dict[int, datetime] = {}
        for row in self.rows("hosp/diagnoses_icd"):
            if CODES[task](row["icd_code"].strip(), row["icd_version"]):
                subject, found = int(row["subject_id"]), self.ends[row["hadm_id"]]
                first[subject] = min(first.get(subject, found), found)
        for subject, stays in self.stays.items():
            for asked in {last_second(end.date()) for _, end in stays}:
                found = first.get(subject, datetime.max)
                if found > asked and not self.is_dead(subject, asked):
                    yield subject, asked, str(int(asked + DAY <= found <= asked + 365 * DAY))

    def results(self, task: str) -> Iterator[Label]:
        for row in self.results_of_a_task[task]:
            if row["valuenum"]:
                taken = when(row["charttime"])
                if taken > self.begins[int(row["subject_id"])]:
                    yield int(row["subject_id"]), taken - MINUTE, severity(task, float(row["valuenum"]))

    @cached_property
    def results_of_a_task(self) -> dict[str, list[dict[str, str]]]:
        task_of = {item: task for task, items in ITEMS.items() for item in items}
        found: dict[str, list[dict[str, str]]] = {task: [] for task in ITEMS}
        for row in self.rows("hosp/labevents"):
            if row["itemid"] in task_of:
                found[task_of[row["itemid"]]].append(row)
        return found

    @cached_property
    def begins(self) -> dict[int, datetime]:
        """The first time in any file of a subject's record; a date is the end of its day."""
        found: dict[int, datetime] = {}
        clocks = {
            "hosp/admissions": "admittime",
            "hosp/transfers": "intime",
            "hosp/services": "transfertime",
            "hosp/labevents": "charttime",
            "hosp/omr": "chartdate",
            "hosp/hcpcsevents": "chartdate",
            "hosp/procedures_icd": "chartdate",
            "hosp/poe": "ordertime",
            "hosp/emar": "charttime",
            "icu/icustays": "intime",
        }
        for name, column in clocks.items():
            for row in self.rows(name):
                if row[column]:
                    self.note(found, row, when(row[column]))
        for row in self.rows("hosp/microbiologyevents"):
            self.note(found, row, when(row["charttime"] or row["chartdate"][:10]))
        return found

    @staticmethod
    def note(found: dict[int, datetime], row: dict[str, str], moment: datetime) -> None:
        subject = int(row["subject_id"])
        found[subject] = min(found.get(subject, moment), moment)

    def is_dead(self, subject: int, moment: datetime) -> bool:
        return self.deaths.get(subject, datetime.max) <= moment


def when(text: str) -> datetime:
    return last_second(date.fromisoformat(text)) if len(text) == 10 else datetime.fromisoformat(text)


def last_second(day: date) -> datetime:
    return datetime.combine(day, time(23, 59, 59))


def severity(task: str, value: float) -> str:
    """MIMIC's units: g/dL, K/uL, mEq/L, mg/dL; the thresholds are the issue's, turned into them."""
    steps: dict[str, list[bool]] = {
        "lab_anemia": [value < 7, value < 11, value < 12],
        "lab_thrombocytopenia": [value < 50, value < 100, value < 150],
        "lab_hyperkalemia": [value > 7, value > 6, value > 5.5],
        "lab_hypoglycemia": [value < 54, value < 63, value <= 70.2],
        "lab_hyponatremia": [value < 125, value < 130, value <= 135],
    }
    return next((str(3 - place) for place, holds in enumerate(steps[task]) if holds), "0")


def labels(benchmark: Benchmark, task: str) -> Counter[Label]:
    return Counter((one.subject_id, one.prediction_time, one.target[0]) for one in benchmark.samples(task))


def built(source: str, raw: Path, folder: Path) -> tuple[Benchmark, Store]:
    ingest(source, raw, folder / "store")
    return asked(Store.open(folder / "store"), folder)


def asked(store: Store, folder: Path) -> tuple[Benchmark, Store]:
    return build_ehrshot(store, folder / "bench", per_task=0, allow_missing=True), store


@pytest.fixture(scope="module")
def demo(mimic_demo_store: Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Benchmark, Store]:
    return asked(mimic_demo_store, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def raw(mimic_demo: Path) -> RawDemo:
    return RawDemo(mimic_demo)


@pytest.mark.parametrize("task", ["guo_los", "guo_icu", "guo_readmission", *ITEMS, *CODES])
def test_labels_computed_again_from_the_raw_files_are_the_same(
    demo: tuple[Benchmark, Store], raw: RawDemo, task: str
) -> None:
    if task in ITEMS:
        again = raw.results(task)
    elif task in CODES:
        again = raw.diagnosis(task)
    else:
        again = {"guo_los": raw.length_of_stay, "guo_icu": raw.intensive_care, "guo_readmission": raw.readmission}[
            task
        ]()
    found = labels(demo[0], task)
    assert found == Counter(again)
    assert sum(found.values()) > 100


def test_no_sampled_question_has_its_answer_on_the_chart(demo: tuple[Benchmark, Store]) -> None:
    benchmark, store = demo
    some = tuple(benchmark.all_samples[::60])
    assert len({one.task for one in some}) == len(benchmark.tasks)
    assert leak_check(Benchmark(manifest=benchmark.manifest, all_samples=some), store) == ()


@pytest.fixture(scope="module")
def meds(meds_demo_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return asked(meds_demo_store, tmp_path_factory.mktemp("meds"))[0]


def test_stays_and_diagnoses_of_the_demo_are_the_same_in_meds(demo: tuple[Benchmark, Store], meds: Benchmark) -> None:
    for task in ("guo_los", "guo_icu", "guo_readmission", *CODES):
        assert labels(meds, task) == labels(demo[0], task)


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
    ingest("fhir", few, tmp_path / "store")
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
