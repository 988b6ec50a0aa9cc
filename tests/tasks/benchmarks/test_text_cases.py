"""Benchmarks of cases told in words: what files hold, how they are split, what may not be in two splits."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from text_cases import both, published_question, published_report, question, report, write_lines, write_list
from wardround.cli import main
from wardround.core import UserError
from wardround.tasks.benchmarks import Benchmark, CaseFiles, build_text_cases, get_task, question_of
from wardround.tasks.benchmarks.text_cases import MEDAGENTSBENCH, MEDR_BENCH, read_cases


def medr(place: Path, training: list[dict[str, object]], test: list[dict[str, object]], **more: bool) -> Benchmark:
    files = CaseFiles(
        cases=(write_list(place / "train.json.gz", training),), test=(write_list(place / "test.json.gz", test),)
    )
    return build_text_cases(MEDR_BENCH, files, place / "bench", **more)


def test_a_report_is_the_subject_and_a_sample_has_no_chart(tmp_path: Path) -> None:
    training = [report(1, "diagnosis", "R1"), report(2, "treatment", "R1"), report(3, "diagnosis", "R3")]
    bench = medr(tmp_path, training, [report(9, "diagnosis", "R9")])
    by_number = {sample.facts["report"]: sample.subject_id for sample in bench.all_samples}
    assert len(by_number) == 3
    assert [sample.subject_id for sample in bench.all_samples].count(by_number["R1"]) == 2
    assert {sample.split for sample in bench.all_samples if sample.facts["report"] == "R9"} == {"test"}
    assert bench.is_text_cases
    sample = bench.samples(split="test")[0]
    assert sample.prediction_time is None
    with pytest.raises(UserError, match="no chart and no prediction time"):
        sample.moment  # noqa: B018
    again = Benchmark.open(tmp_path / "bench")
    assert again.all_samples == bench.all_samples


def test_the_question_tells_the_case_and_never_the_answer(tmp_path: Path) -> None:
    bench = medr(tmp_path, both(range(4), "T"), [report(9, "diagnosis", "R9")])
    sample = bench.samples(split="test")[0]
    prompt = bench.prompt(sample)
    assert "39-year-old woman" in prompt
    assert "What is the patient's diagnosis?" in prompt
    assert "Fabled" not in prompt
    assert "R9" not in prompt
    assert "Stopping it" not in prompt, "the reference is for the judge"


def test_options_are_the_questions_own(tmp_path: Path) -> None:
    rows = [question(0, "medqa"), question(1, "medqa_5options", options={"A": "x", "B": "y"}, answer="B.y")]
    rows += [question(2, "medxpertqa-r"), question(3, "medbullets"), question(4, "medmcqa"), question(5, "medexqa")]
    files = CaseFiles(test=(write_lines(tmp_path / "q.jsonl", rows),))
    bench = build_text_cases(MEDAGENTSBENCH, files, tmp_path / "bench")
    counts = Counter(sample.task for sample in bench.all_samples)
    assert counts == {f"medagentsbench.{name}": 1 for name in ("medbullets", "medexqa", "medmcqa", "medxpertqa")} | {
        "medagentsbench.medqa": 2
    }
    two = next(sample for sample in bench.all_samples if len(sample.facts["options"]) == 2)
    asked = question_of(get_task(two.task), two)
    assert asked.answer.label_values == ("A", "B")
    assert "A. x\nB. y" in bench.prompt(two)
    assert "C." not in bench.prompt(two)
    assert two.target == ("B",)
    assert asked.answer.problem_of(two.target) is None
    for target in ((), ("B", "A"), ("1",), ("b",)):
        assert "is not the letter of an option" in (asked.answer.problem_of(target) or "")
    assert get_task(two.task).answer.label_values == (), "letters of different questions mean nothing together"


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Reasoning: it came after.\nAnswer: B", "B"),
        ("Answer: B. Inventol", "B"),
        ("**Answer:** (B)", "B"),
        ("Answer: Inventol", "B"),
        ("Answer: A", "A"),
        ("Answer: b) Inventol", "B"),
        ("Answer: B or C", None),
        ("Answer: Inventol or Mythicin", None),
        ("Answer: E", None),
        ("It could be several things.", None),
    ],
)
def test_an_option_is_read_by_letter_or_words_and_never_guessed(reply: str, letter: str | None, tmp_path: Path) -> None:
    case = write_lines(tmp_path / "q.jsonl", [question(0, "medqa")])
    bench = build_text_cases(MEDAGENTSBENCH, CaseFiles(test=(case,)), tmp_path / "bench")
    sample = bench.all_samples[0]
    answer = question_of(get_task(sample.task), sample).answer
    assert answer.read(reply) == (None if letter is None else (letter,))


def test_what_teaches_may_share_no_report_and_no_question_with_the_test(tmp_path: Path) -> None:
    shared = [*both(range(4), "T"), report(7, "treatment", "R9")]
    reworded = report(8, "diagnosis", "T8", task="37-year-old WOMAN, rash  7!")
    test = [report(9, "diagnosis", "R9"), report(7, "diagnosis", "R7", task="37 year old woman: rash 7")]
    with pytest.raises(UserError, match=r"1 by their report and 1 by their question .*case_0007 = case_0009"):
        medr(tmp_path, [*shared, reworded], test)
    assert not (tmp_path / "bench").exists()
    bench = medr(tmp_path, [*shared, reworded], test, drop_overlaps=True)
    assert bench.manifest["drops"][MEDR_BENCH]["shares_a_report_or_question_with_the_test"] == 2
    people = {split: {sample.person for sample in bench.samples(split=split)} for split in ("train", "dev", "test")}
    assert not people["train"] & people["test"]
    assert len(bench.samples(split="train")) + len(bench.samples(split="dev")) == 4


def test_one_file_is_split_by_report_the_same_each_time(tmp_path: Path) -> None:
    rows = [report(n, what, f"R{n}") for n in range(60) for what in ("diagnosis", "treatment")]
    path = write_list(tmp_path / "all.json.gz", rows)
    first = build_text_cases(MEDR_BENCH, CaseFiles(cases=(path,)), tmp_path / "one", seed=5)
    second = build_text_cases(MEDR_BENCH, CaseFiles(cases=(path,)), tmp_path / "two", seed=5)
    assert first.all_samples == second.all_samples
    splits: dict[int, set[str]] = {}
    for sample in first.all_samples:
        splits.setdefault(sample.person, set()).add(sample.split)
    assert all(len(found) == 1 for found in splits.values())
    assert {split for found in splits.values() for split in found} == {"train", "dev", "test"}


@pytest.mark.parametrize(
    ("family", "row", "said"),
    [
        (MEDR_BENCH, {"id": "x"}, "row 1: not a case of medr-bench: it has no 'task_type'"),
        (MEDR_BENCH, report(1, "diagnosis", "R", task_type="exam"), "task_type is 'exam'"),
        (MEDR_BENCH, report(1, "diagnosis", "R", answer=" "), "its answer is empty"),
        (MEDAGENTSBENCH, question(1, "mednew"), "source_dataset is 'mednew'"),
        (MEDAGENTSBENCH, question(1, "medqa", answer="F.Other"), "'F.Other' is none of its options"),
        (MEDAGENTSBENCH, question(1, "medqa", options={"1": "x", "2": "y"}), "lettered 1, 2"),
    ],
)
def test_a_row_that_is_no_case_is_named(family: str, row: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        read_cases(family, write_lines(tmp_path / "rows.jsonl", [row]))


def test_the_command_builds_without_a_store_and_refuses_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_list(tmp_path / "cases.json.gz", both(range(20), "R"))
    build = ["bench", "build", "medr-bench", "--cases", str(path), "--out", str(tmp_path / "bench")]
    assert main([*build, "--store", "store"]) != 0
    assert "it takes no --store" in capsys.readouterr().err
    assert main(build) == 0
    assert "medr-bench.treatment" in capsys.readouterr().out
    assert main(["bench", "build", "agentehr", "--out", str(tmp_path / "other")]) != 0
    assert "agentehr is built from a store: --store FOLDER" in capsys.readouterr().err
    assert main(["bench", "build", "agentehr", "--store", "s", "--cases", "x", "--out", str(tmp_path / "o")]) != 0
    assert "--cases is for medr-bench and medagentsbench" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("family", "file", "rows"),
    [
        (MEDR_BENCH, "qa-medrbench/MedRbench_train.json.gz", 726),
        (MEDAGENTSBENCH, "qa-medagentsbench/medagentsbench_half_a.jsonl", 150),
    ],
)
def test_the_published_files_are_read(family: str, file: str, rows: int, shared_data: Path) -> None:
    path = shared_data / file
    if not path.is_file():
        pytest.skip("the published file is not here")
    cases = read_cases(family, path)
    assert len(cases) == rows
    assert all(case.answer in dict(case.options) for case in cases if case.options)


def test_medr_bench_as_its_authors_publish_it(tmp_path: Path) -> None:
    paths = []
    for what in ("diagnosis", "treatment"):
        cases = {f"PMC{n}": published_report(n, what) for n in range(10)}
        paths.append(tmp_path / f"{what}_10_cases.json")
        paths[-1].write_text(json.dumps(cases), encoding="utf-8")
    bench = build_text_cases(MEDR_BENCH, CaseFiles(test=tuple(paths)), tmp_path / "bench")
    counts = Counter(sample.task for sample in bench.all_samples)
    assert counts == {"medr-bench.diagnosis": 10, "medr-bench.treatment": 10}
    by_task = {sample.task: sample for sample in bench.all_samples if sample.facts["report"] == "PMC3"}
    diagnosis, treatment = by_task["medr-bench.diagnosis"], by_task["medr-bench.treatment"]
    assert diagnosis.subject_id == treatment.subject_id, "two tasks of one report are one subject"
    assert (diagnosis.target, treatment.target) == (("Fabled fever.",), ("Stop inventol.",))
    assert diagnosis.facts["reference"] == "1. The rash came after the drug.\nIt was **fabled fever**."
    assert treatment.facts["reference"] == "- Rationale: the drug did it.\nStop inventol."
    assert "whole report" not in bench.prompt(diagnosis), "the report itself tells the answer"


def test_the_splits_of_the_memory_papers_repository(tmp_path: Path) -> None:
    rows = [{"case_id": f"PMC{n}", **published_report(n, "treatment")} for n in range(10)]
    cases = read_cases(MEDR_BENCH, write_lines(tmp_path / "test.jsonl", rows))
    assert {case.task for case in cases} == {"medr-bench.treatment"}
    assert [case.report for case in cases] == [f"PMC{n}" for n in range(10)]


def test_medagentsbench_as_its_authors_publish_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("medqa", "mmlu-pro", "medxpertqa-u"):
        (tmp_path / "data" / name).mkdir(parents=True)
        rows = [published_question(n, question=f"{name}: what made rash {n}?") for n in range(10)]
        write_lines(tmp_path / "data" / name / "test_hard.jsonl", rows)
    build = ["bench", "build", "medagentsbench", "--test-cases", str(tmp_path / "data"), "--out"]
    assert main([*build, str(tmp_path / "bench")]) == 0
    assert "medagentsbench.medqa: 10 cases; its authors publish 100" in capsys.readouterr().out
    bench = Benchmark.open(tmp_path / "bench")
    assert Counter(sample.task for sample in bench.all_samples) == {
        f"medagentsbench.{name}": 10 for name in ("medqa", "mmlu-pro", "medxpertqa")
    }
    assert {sample.target for sample in bench.all_samples} == {("B",)}
    assert set(bench.manifest["files"]) == {f"{name}/test_hard.jsonl" for name in ("medqa", "mmlu-pro", "medxpertqa-u")}


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("questions.jsonl", published_question(1), "neither folder nor file is called after a question set"),
        ("medqa.test_hard.jsonl", published_question(1, answer="Fablerol"), "'Fablerol' is not its option B"),
        ("medqa.test_hard.jsonl", published_question(1, answer_idx="F"), "'F' is none of its options"),
    ],
)
def test_a_published_question_that_contradicts_itself_is_named(
    name: str, row: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        read_cases(MEDAGENTSBENCH, write_lines(tmp_path / name, [row]))


def test_the_published_question_sets_are_read_whole(shared_data: Path) -> None:
    folder = shared_data / "qa-medagentsbench-published"
    if not folder.is_dir():
        pytest.skip("the published files of MedAgentsBench are not here")
    files = sorted(folder.glob("*.jsonl"))
    for path in files:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
        cases = read_cases(MEDAGENTSBENCH, path)
        assert len(cases) == len(lines)
        assert [case.answer for case in cases] == [json.loads(line)["answer_idx"] for line in lines]
    assert len(files) == 8
