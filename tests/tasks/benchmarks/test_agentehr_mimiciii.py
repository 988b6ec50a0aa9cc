"""AgentEHR on records of the shape of MIMIC-III, checked against the raw files, played, scored and audited."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from effort import often
from wardround.audits import audit_leaks
from wardround.cli import main
from wardround.clinical.codes import load_ccs
from wardround.core import parse_time
from wardround.log import LogReader
from wardround.records import Store
from wardround.reports import summarise_run, write_report
from wardround.runs import RunSettings, execute, score_run, start
from wardround.synth.dialects.mimiciii import PROCEDURES, UNITS
from wardround.tasks.benchmarks import AGENTEHR_TASKS, Benchmark, build_agentehr, get_task, leak_check, render_prompt

MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def store(mimiciii_store_path: Path) -> Store:
    return Store.open(mimiciii_store_path)


@pytest.fixture(scope="module", params=often(["known_at"], ["known_at", "published"]))
def built(
    request: pytest.FixtureRequest, store: Store, icd9_procedures: Path, tmp_path_factory: pytest.TempPathFactory
) -> Benchmark:
    folder = tmp_path_factory.mktemp("bench") / "b"
    return build_agentehr(store, folder, seed=3, policy=request.param, per_task=10_000, user_codes=icd9_procedures)


def read(hospital: Path, table: str) -> Iterator[dict[str, str]]:
    with gzip.open(hospital / f"{table}.csv.gz", "rt", newline="") as lines:
        yield from csv.DictReader(lines)


def test_all_six_tasks_are_drawn_directly_into_a_stratum_of_their_own(built: Benchmark) -> None:
    assert {task.name for task in built.tasks} == set(AGENTEHR_TASKS)
    assert built.manifest["sampling"] == "direct"
    assert {sample.stratum for sample in built.all_samples} == {"other-source"}
    assert {sample.facts["weight"] for sample in built.all_samples} == {1.0}
    assert [text.startswith("assumed: ") for text in built.manifest["source"]["assumptions"]] == [True, True]


def test_nothing_of_any_answer_is_on_any_chart(built: Benchmark, store: Store) -> None:
    assert leak_check(built, store) == ()


def test_the_answer_spaces_are_those_of_mimic_iii(built: Benchmark, store: Store) -> None:
    spaces = {task.name: built.space(task) for task in built.tasks}
    assert spaces["prescriptions"].name == "prescriptions_drug_candidates"
    assert set(spaces["transfers"].labels.labels) <= set(UNITS)
    assert "BLOOD CULTURE" in spaces["microbiology"].labels
    assert set(spaces["labevents"].labels.labels) == set(store.dictionary("d_labitems").column("label").to_pylist())
    assert (len(spaces["diagnoses"].labels), len(spaces["procedures"].labels)) == (283, 231)
    assert not any(sample.unwinnable for task in ("diagnoses", "procedures") for sample in built.samples(task))


def test_coded_tasks_ask_for_the_whole_stay_just_before_it_ends(built: Benchmark, mimiciii_hospital: Path) -> None:
    ends = {int(row["HADM_ID"]): parse_time(row["DISCHTIME"]) for row in read(mimiciii_hospital, "ADMISSIONS")}
    known, diagnoses = load_ccs("procedures").categories, load_ccs("diagnoses")
    wanted: dict[str, dict[int, set[str]]] = {"procedures": defaultdict(set), "diagnoses": defaultdict(set)}
    for row in read(mimiciii_hospital, "PROCEDURES_ICD"):
        wanted["procedures"][int(row["HADM_ID"])].add(known[PROCEDURES[row["ICD9_CODE"]]].label)
    for row in read(mimiciii_hospital, "DIAGNOSES_ICD"):
        category = diagnoses.category(row["ICD9_CODE"], 9)
        wanted["diagnoses"][int(row["HADM_ID"])] |= {category.label} if category else set()
    early = MINUTE if built.policy == "known_at" else 2 * MINUTE
    for task, targets in wanted.items():
        for sample in built.samples(task):
            assert set(sample.target) == targets[sample.facts["encounter"]]
            assert ends[sample.facts["encounter"]] - sample.prediction_time == early


def test_prescriptions_of_a_day_are_asked_before_any_is_known(built: Benchmark, mimiciii_hospital: Path) -> None:
    starts = {int(row["HADM_ID"]): parse_time(row["ADMITTIME"]) for row in read(mimiciii_hospital, "ADMISSIONS")}
    orders = defaultdict(set)
    for row in read(mimiciii_hospital, "PRESCRIPTIONS"):
        orders[int(row["HADM_ID"]), row["STARTDATE"][:10]].add(row["DRUG"])
    for sample in built.samples("prescriptions"):
        stay, day = sample.facts["encounter"], sample.facts["event_time"][:10]
        assert 0 < len(sample.target) <= len(orders[stay, day])
        midnight = parse_time(f"{day} 00:00:00")
        if built.policy == "known_at":
            assert sample.prediction_time == max(midnight, starts[stay])
        else:
            assert sample.prediction_time == midnight - timedelta(seconds=1)


def test_specimens_and_units_are_those_of_the_moment(built: Benchmark, mimiciii_hospital: Path) -> None:
    sent, moved = defaultdict(set), defaultdict(set)
    for row in read(mimiciii_hospital, "MICROBIOLOGYEVENTS"):
        sent[int(row["SUBJECT_ID"]), row["CHARTTIME"]].add(row["SPEC_TYPE_DESC"])
    for row in read(mimiciii_hospital, "TRANSFERS"):
        moved[int(row["SUBJECT_ID"]), row["INTIME"]].add(row["CURR_CAREUNIT"])
    for sample in built.samples("transfers"):
        assert set(sample.target) == moved[sample.subject_id, sample.facts["event_time"]]
    for sample in built.samples("microbiology"):
        at = sent[sample.subject_id, sample.facts["event_time"]]
        assert at <= set(sample.target) if at else built.policy == "published"


def test_what_the_records_do_not_say_changes_the_prompt(built: Benchmark) -> None:
    texts = {}
    for task in built.tasks:
        first = built.samples(task.name)[0]
        texts[task.name] = render_prompt(get_task(task.name), first, built.space(task))
    assert "about to end" in texts["procedures"]
    assert "in that day" in texts["prescriptions"]
    assert "kind of specimen" in texts["microbiology"]
    names = {prompt.name.rpartition("/")[2] for prompt in built.prompts}
    assert len(names) == 7  # of six tasks, and of their kind of answers
    assert all(built.manifest["tasks"][name]["prompt"]["sha256"] for name in texts)


def test_the_charts_of_the_questions_hold_nothing_of_the_future(
    built: Benchmark, store: Store, mimiciii_hospital: Path, icd9_procedures: Path
) -> None:
    if built.policy == "published":
        pytest.skip("the published clocks show rows before they were known")
    samples = [(one.subject_id, one.prediction_time) for one in built.all_samples[::17]]
    report = audit_leaks(store, samples, raw_folder=mimiciii_hospital, user_codes=icd9_procedures)
    assert report.clean, report.as_text()
    assert report.deletion_samples == len(set(samples))
    assert report.unmatched_rows == 0


def test_the_offline_policy_plays_all_tasks_without_a_wrong_call(
    built: Benchmark, store: Store, tmp_path: Path
) -> None:
    settings = RunSettings.of(benchmark=str(built.folder), store=str(store.path), limit=3, split="train")
    folder = start(tmp_path / "run", settings)
    counts = execute(folder, concurrency=4)
    assert counts.done == counts.total
    scores = score_run(folder)
    assert {score.task for score in scores} == set(AGENTEHR_TASKS)
    assert all(score.finish == "finish" for score in scores)
    assert sum(score.score.f1 for score in scores) > 2
    with LogReader(folder.logs) as reader:
        for entry in reader.episodes():
            turns = reader.trajectory(entry.key).turns
            results = [record for turn in turns for record in turn.results]
            wrong = [record.result_text for record in results if record.is_error]
            assert not [text for text in wrong if not text.startswith("Error: not recorded: ")], (
                "but for names, asked once"
            )
    page = write_report(folder, scores, summarise_run(scores, seed=0), pages=()).read_text()
    assert ("result_lag" in page) == ("culture_lag" in page) == (built.policy == "known_at")


def test_procedures_without_their_code_table_say_how_to_add_it(
    mimiciii_store_path: Path,
    built: Benchmark,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARDROUND_HOME", str(tmp_path / "home"))
    command = ["bench", "build", "agentehr", "--store", mimiciii_store_path, "--out", tmp_path / "bench", "--seed", 3]
    assert main(list(map(str, command))) == 0
    said = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("procedures is unavailable"))
    assert "no code of procedures_icd has a label; wardround codes add icd9-procedures FILE" in said
    assert "unavailable" not in built.manifest["tasks"]["procedures"]
