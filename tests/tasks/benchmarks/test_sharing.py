"""A shared benchmark holds no answer and no record text, is built again byte for byte, and not on other records."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from gzip import decompress
from pathlib import Path
from typing import Any

import pytest

from text_cases import report, write_list
from wardround.cli import main
from wardround.core import Progress, UserError
from wardround.records import Store, ingest
from wardround.tasks.benchmarks import (
    Benchmark,
    CaseFiles,
    build_clinseek,
    build_clinseek_mm,
    build_ehrshot,
    build_text_cases,
    build_trace,
    get_task,
    reclock,
)
from wardround.tasks.benchmarks.own import build_own, read_label_table, read_task_file
from wardround.tasks.benchmarks.pipeline import BuildSettings
from wardround.tasks.benchmarks.sharing import difference, read_share, rebuild, share, write_share
from wardround.tasks.benchmarks.text_cases import MEDR_BENCH

TASK = """name = "shared_creatinine"
title = "High creatinine"
[question]
description = "Will creatinine rise?"
[answer]
kind = "one-class"
classes = [["0", "no"], ["1", "yes"]]
[asked]
role = "admission"
after = "24h"
[label.rule]
role = "lab"
column = "valuenum"
above = 1.2
within = "48h"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A benchmark, the raw files and the store of its people, and the files of a user's own that it was built with."""

    benchmark: Benchmark
    raw: Path | None = None
    store: Store | None = None
    files: tuple[Path, ...] = ()


@pytest.fixture(scope="module")
def agentehr(synthetic_benchmark_path: Path, synthetic_store: Store, synthetic_hospital: Path) -> Built:
    built = Benchmark.open(synthetic_benchmark_path)
    return Built(benchmark=built, store=synthetic_store, raw=synthetic_hospital)


def _trace(request: pytest.FixtureRequest, place: Path) -> Built:
    store = request.getfixturevalue("synthetic_store")
    built = build_trace(store, place / "bench", seed=2, per_task=2, unit="hospital")
    return Built(benchmark=built, store=store, raw=request.getfixturevalue("synthetic_hospital"))


def _clinseek(request: pytest.FixtureRequest, place: Path) -> Built:
    store, tasks = request.getfixturevalue("synthetic_store"), ["LengthOfStay_3day", "labevents"]
    built = build_clinseek(store, place / "bench", seed=2, per_task=3, tasks=tasks, balanced=False)
    return Built(benchmark=built, store=store, raw=request.getfixturevalue("synthetic_hospital"))


def _ehrshot(request: pytest.FixtureRequest, place: Path) -> Built:
    store, tasks = request.getfixturevalue("synthetic_store"), ["guo_los", "lab_anemia"]
    built = build_ehrshot(store, place / "bench", seed=2, per_task=4, per_subject=1, tasks=tasks)
    return Built(benchmark=built, store=store, raw=request.getfixturevalue("synthetic_hospital"))


def _clinseek_mm(request: pytest.FixtureRequest, place: Path) -> Built:
    store = request.getfixturevalue("film_store")
    built = build_clinseek_mm(store, place / "bench", seed=2, per_task=2, reports=True, vocabulary_shown=False)
    return Built(benchmark=built, store=store, raw=request.getfixturevalue("film_hospital"))


def _task_file(request: pytest.FixtureRequest, place: Path) -> Built:
    store, file = request.getfixturevalue("synthetic_store"), place / "creatinine.toml"
    file.write_bytes(TASK.replace("\n", "\r\n").encode())
    built = build_own([read_task_file(file, store.spec)], store, place / "bench", BuildSettings(seed=2, per_task=4))
    return Built(benchmark=built, store=store, files=(file,), raw=request.getfixturevalue("synthetic_hospital"))


def _labels(request: pytest.FixtureRequest, place: Path) -> Built:
    store, file = request.getfixturevalue("synthetic_store"), place / "sepsis.csv"
    rows = [f"{subject},2150-01-01 08:00:00,{n % 3}.5" for n, subject in enumerate(store.subjects.tolist()[:8])]
    file.write_text("\n".join(["subject_id,prediction_time,float_value", *rows]) + "\n")
    task = read_label_table(file, name="shared_illness", description="How ill?", cuts=[1.0, 2.0])
    built = build_own([task], store, place / "bench", BuildSettings(per_task=0, per_subject=1))
    return Built(benchmark=built, store=store, files=(file,), raw=request.getfixturevalue("synthetic_hospital"))


def _told(request: pytest.FixtureRequest, place: Path) -> Built:
    cases = [report(n, "diagnosis", f"R{n}") for n in range(4)]
    files = write_list(place / "train.json.gz", cases), write_list(place / "test.json.gz", cases[:1])
    given = CaseFiles(cases=files[:1], test=files[1:])
    built = build_text_cases(MEDR_BENCH, given, place / "bench", seed=2, drop_overlaps=True)
    return Built(benchmark=built, files=files)


BodyOf = Callable[[Built], dict[str, Any]]
FAMILIES: dict[str, Callable[[pytest.FixtureRequest, Path], Built]] = {
    "agentehr": lambda request, place: request.getfixturevalue("agentehr"),
    "clinseek": _clinseek,
    "clinseek-mm": _clinseek_mm,
    "ehrshot": _ehrshot,
    "labels": _labels,
    "medr-bench": _told,
    "tasks": _task_file,
    "trace": _trace,
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return FAMILIES[request.param](request, tmp_path_factory.mktemp(f"shared-{request.param}"))


@pytest.fixture(scope="module")
def body_of() -> BodyOf:
    """Returns what is shared of a benchmark, made once."""
    made: dict[str, dict[str, Any]] = {}

    def shared(built: Built) -> dict[str, Any]:
        digest = built.benchmark.digest
        made[digest] = made.get(digest) or share(built.benchmark, built.store)
        return dict(made[digest])

    return shared


def words(built: Built, *more: str) -> list[str]:
    """The words of a command, and where the store is."""
    return [*more, *([] if built.store is None else ["--store", str(built.store.path)])]


def test_every_family_is_built_again_byte_for_byte(family: Built, body_of: BodyOf, tmp_path: Path) -> None:
    file, again, folder = tmp_path / "bench.json", tmp_path / "again", family.benchmark.folder
    assert folder is not None
    assert main(words(family, "bench", "share", str(folder), "--out", str(file))) == 0
    assert read_share(file) == body_of(family)
    renamed = [Path(shutil.copy(path, tmp_path / f"other-{path.name}")) for path in family.files]
    given = ["--given", *map(str, renamed)] if renamed else []
    assert main(words(family, "bench", "rebuild", str(file), "--out", str(again), *given)) == 0
    assert (again / "samples.jsonl").read_bytes() == (folder / "samples.jsonl").read_bytes()
    assert Benchmark.open(again).digest == family.benchmark.digest


def test_no_answer_and_no_record_text_is_in_the_file(family: Built, body_of: BodyOf, tmp_path: Path) -> None:
    """Every text of the people's rows and notes, and of the cases, is looked for."""
    write_share(body_of(family), tmp_path / "bench.json")
    body = json.loads((tmp_path / "bench.json").read_text())
    assert {frozenset(one) for one in body["samples"]} == {frozenset({"id", "moment", "split"})}
    told = json.dumps({name: part for name, part in body.items() if name != "tasks"}, ensure_ascii=False)
    tables = [] if family.store is None else family.store.table_names
    names = " ".join([*(one.name for one in family.benchmark.tasks), *tables])  # of which ids and counts are made
    texts = {text for text in texts_of(family) if len(text) > 6 and text not in names and not text[0].isdigit()}
    assert len(texts) > 3
    assert not [text for text in texts if text in told]
    for name, said in body[
        "tasks"
    ].items():  # what a task may be answered with is written down before any record is read
        assert said.keys() <= {"title", "candidate_space", "prompt", "answer"}
        assert said["answer"] == json.loads(json.dumps(get_task(name).answer.to_json()))


def texts_of(built: Built) -> set[str]:
    """Every text cell of the people asked about, in any table, and the answers; of told cases what they tell."""
    samples = built.benchmark.all_samples
    texts = {str(label) for one in samples for label in one.target}
    if built.store is None:
        return texts | {str(one.facts[part]) for one in samples for part in ("asked", "reference")}
    for subject in {one.subject_id for one in samples}:
        for name in built.store.table_names:
            rows = built.store.rows(subject, name).drop_columns(["row_id"]).to_pylist()
            texts |= {cell for row in rows for cell in row.values() if isinstance(cell, str)}
    return texts


def test_other_records_are_refused_and_named(
    family: Built,
    body_of: BodyOf,
    tmp_path: Path,
    changed: Callable[[Path], Store],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same questions of people who are not the same; of told cases, files that are not."""
    write_share(body_of(family), tmp_path / "bench.json")
    command = ["bench", "rebuild", str(tmp_path / "bench.json"), "--out", str(tmp_path / "again")]
    if family.raw is None:
        assert main([*command, "--given", str(tmp_path / "bench.json")]) == 2
        assert "it was built with the file train.json.gz (sha256 " in capsys.readouterr().err
        return
    given = ["--given", *map(str, family.files)] if family.files else []
    assert main([*command, "--store", str(changed(family.raw).path), *given]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "is not the benchmark" in one]
    assert "other records of the benchmark's people (as many rows, other cells)" in line
    assert line.endswith("; other source")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Store]:
    """Returns the store of a hospital in which women are men and men women, and nothing else is another."""
    made: dict[Path, Store] = {}

    def store_of(raw: Path) -> Store:
        if raw not in made:
            place = tmp_path_factory.mktemp("changed")
            shutil.copytree(raw, place / "raw")
            (file,) = (place / "raw" / "hosp").glob("patients.csv*")
            text = (decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()).decode()
            file.unlink()
            (file.parent / "patients.csv").write_text(text.translate(str.maketrans("FM", "MF")))
            ingest("mimiciv", place / "raw", place / "store")
            made[raw] = Store.open(place / "store")
        return made[raw]

    return store_of


def test_another_recipe_is_told_in_a_line(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    built = _labels(request, tmp_path)
    shared = share(built.benchmark, built.store)
    shared["recipe"] = shared["recipe"] | {"per_task": 1}
    told: list[Progress] = []
    with pytest.raises(UserError, match=r"is not the benchmark that was shared: .* samples are missing") as error:
        rebuild(shared, built.store, tmp_path / "again", given=built.files, report=told.append)
    assert "\n" not in str(error.value)
    assert "records" in {one.label for one in told}, "hashing the people's records takes the longest"


def test_what_differs_is_named(agentehr: Built, body_of: BodyOf) -> None:
    shared = body_of(agentehr)
    first, *rest = shared["samples"]
    other = shared | {"samples_sha256": "another"}
    assert difference(shared, shared) is None
    for samples, said in (
        (rest, f"1 samples are missing ({first['id']})"),
        ([first | {"moment": "1999-01-01 00:00:00"}, *rest], f"1 samples have another moment ({first['id']})"),
        ([first | {"split": "none"}, *rest], f"1 samples are in another split ({first['id']})"),
        ([first, *rest], "the samples are the same, their answers or facts are not"),
    ):
        assert difference(shared, other | {"samples": samples}) == said
    fewer = {"sha256": "another", "rows": shared["records"]["rows"] | {"labevents": 1}}
    there = shared["records"]["rows"]["labevents"]
    assert difference(shared, shared | {"records": fewer}) == (
        f"other records of the benchmark's people (labevents {there:,} rows, here 1)"
    )


def test_answers_change_nothing_but_the_hash_of_all(agentehr: Built, body_of: BodyOf) -> None:
    benchmark = agentehr.benchmark
    samples = tuple(replace(one, target=("Zebra",), stratum="any", facts={}) for one in benchmark.all_samples)
    changed = share(replace(benchmark, all_samples=samples), agentehr.store)
    assert changed == body_of(agentehr), "the hash is the manifest's"


def test_what_cannot_be_built_again_is_refused(
    agentehr: Built, body_of: BodyOf, film_store: Store, tmp_path: Path
) -> None:
    benchmark, store = agentehr.benchmark, agentehr.store
    partial = {name: said for name, said in benchmark.manifest.items() if name != "recipe"}
    for made, where, told in (
        (replace(benchmark, manifest=partial), store, "its manifest does not record how it was built"),
        (reclock(benchmark, "published", tmp_path / "other"), store, "on other clocks: share that one"),
        (benchmark, film_store, "is not the store that it was built from"),
        (benchmark, None, "--store FOLDER"),
    ):
        with pytest.raises(UserError, match=told):
            share(made, where)
    unknown = body_of(agentehr) | {"kind": "unheard-of"}
    with pytest.raises(UserError, match="cannot build benchmarks of the family 'unheard-of'"):
        rebuild(unknown, store, tmp_path / "again")
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UserError, match="not a shared benchmark"):
        read_share(tmp_path / "x.json")
