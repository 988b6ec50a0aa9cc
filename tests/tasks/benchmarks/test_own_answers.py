"""A training question is asked as if its own subject had not been counted: neither prompt nor candidates tell of it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from wardround.records import Store, ingest
from wardround.runs import open_environment
from wardround.synth import synthesize
from wardround.tasks.benchmarks import Benchmark, Sample, ask, build_agentehr

TASKS = ("prescriptions", "diagnoses", "labevents")
QUERIES = ("zymurgin", "heparin", "sodium", "renal", "gastritis", "catalase", "insulin", "potassium")
OTHER = {
    "prescriptions": {"drug": "Zymurgin", "ndc": "0"},
    "diagnoses_icd": {"icd_code": "K2900", "icd_version": "10"},
    "labevents": {"itemid": "50804"},
}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "raw"
    synthesize(folder, patients=14, seed=5, compress=False, decoys=False)
    return folder


def _built(raw: Path, folder: Path) -> tuple[Store, Benchmark]:
    ingest("mimiciv", raw, folder / "store")
    store = Store.open(folder / "store")
    return store, build_agentehr(store, folder / "bench", seed=1, tasks=TASKS)


def _with_other_answers(raw: Path, copy: Path, subject: int) -> None:
    """The same hospital, in which one subject has a drug that nobody else has, another diagnosis and another test."""
    shutil.copytree(raw, copy)
    for name, other in OTHER.items():
        file = next(copy.rglob(f"{name}.csv"))
        rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
        for row in rows:
            row.update(other if row["subject_id"] == str(subject) else {})
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def _shown(store: Store, benchmark: Benchmark, sample: Sample) -> list[str]:
    """The prompt of a question and what the candidate tools answer in it."""
    environment = open_environment(store, benchmark, sample)
    table = benchmark.prompt(sample).partition("_candidates")[0].split()[-1].strip("'\"`") + "_candidates"
    calls = [
        environment.call(tool, {"table_name": table, "query": word}).text
        for tool in environment.toolset.names
        if tool.startswith("get_candidates")
        for word in QUERIES
    ]
    rows = environment.call("run_sql_query", {"query": f"SELECT * FROM {table} LIMIT 500"}).text
    return [ask(benchmark, sample, rules=True), rows, *calls]


def test_a_subject_s_own_answers_change_nothing_of_how_it_is_asked(hospital: Path, tmp_path: Path) -> None:
    store, benchmark = _built(hospital, tmp_path / "here")
    asked = {sample.subject_id: sample for sample in benchmark.samples("prescriptions", "train")}
    subject = min(set(asked) & {one.subject_id for one in benchmark.samples("labevents", "train")})
    _with_other_answers(hospital, tmp_path / "raw", subject)
    other_store, other = _built(tmp_path / "raw", tmp_path / "there")
    compared = 0
    for sample in benchmark.samples(split="train"):
        if sample.subject_id == subject:
            again = other.sample(sample.id)
            assert again.target != sample.target
            here, there = _shown(store, benchmark, sample), _shown(other_store, other, again)
            assert [text for text in here if text not in there] == []
            assert "Zymurgin" not in "".join(there)
            compared += 1
    assert compared >= 2
    everybody_else = benchmark.samples("prescriptions", "test")[0]
    assert "zymurgin" in "".join(_shown(other_store, other, other.sample(everybody_else.id)))
