"""What the command line says when it is used wrongly: options in full, no key repeated, names that exist."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wardround.cli.main import main
from wardround.core.errors import nearest, unknown

KEY = "sk-live-4f9a8b7c6d5e"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail; return its one line."""
    assert main(words) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


@pytest.mark.parametrize("words", [["--api-key", KEY], [f"--api-key={KEY}"], ["--api-key-variable", "NAME", KEY]])
def test_a_key_is_never_repeated(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    line = said(capsys, "run", *words)
    assert KEY not in line
    if words[0] != "--api-key-variable":
        assert "--api-key-variable NAME" in line


def test_a_key_given_as_the_name_of_a_variable_is_not_repeated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path
) -> None:
    folders = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    model = ["--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1"]
    line = said(capsys, "run", *folders, *model, "--out", str(tmp_path / "run"), "--api-key-variable", KEY)
    assert KEY not in line
    assert "a variable's name" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("written", "meant"), [("--tasks", "--task"), ("--models", "--model"), ("--epoch", "--epochs")]
)
def test_an_option_is_written_in_full(capsys: pytest.CaptureFixture[str], written: str, meant: str) -> None:
    line = said(capsys, "run", written, "x")
    assert f"unknown option {written}; did you mean {meant}?" in line


def test_the_options_of_an_action_are_known_too(capsys: pytest.CaptureFixture[str]) -> None:
    line = said(capsys, "bench", "build", "agentehr", "--store", "s", "--out", "o", "--per-tasks", "3")
    assert "did you mean --per-task?" in line


def test_no_class_of_ours_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, synthetic_benchmark_path: Path
) -> None:
    shutil.copytree(synthetic_benchmark_path, tmp_path / "bench")
    with (tmp_path / "bench" / "samples.jsonl").open("a") as file:
        file.write("{}")
    line = said(capsys, "bench", "show", str(tmp_path / "bench"))
    assert "not the file that the manifest describes" in line
    assert "RecordError" not in line


def test_an_unknown_task_is_answered_with_those_of_the_benchmark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path
) -> None:
    folders = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    line = said(capsys, "run", *folders, "--out", str(tmp_path / "run"), "--task", "labs")
    assert "Did you mean 'labevents'?" in line
    assert "diagnoses, labevents, microbiology, prescriptions, procedures, transfers" in line
    assert "guo_los" not in line


def test_what_a_resumed_run_refuses_is_named_with_what_it_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path
) -> None:
    folders = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    new = ["--out", str(tmp_path / "run"), "--task", "transfers", "--limit", "1", "--workers", "1"]
    assert main(["run", *folders, *new]) == 0
    capsys.readouterr()
    asked = ["--task", "diagnoses", "--model", "replay:x", "--set", "run.samples=a", "--set", "budget.turns=7"]
    line = said(capsys, "run", "--resume", str(tmp_path / "run"), *asked)
    assert "(run.tasks = ['transfers'], run.samples = [], run.models = ['offline'], budget.turns = 100)" in line
    same = ["--task", "transfers", "--set", "budget.turns=100", *folders]
    assert main(["run", "--resume", str(tmp_path / "run"), *same]) == 0


TABLES = ("diagnoses_icd", "labevents", "prescriptions", "chartevents", "poe", "omr", "emar")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nope", []),
        ("xyz", []),
        ("medical history", []),
        ("labs", ["labevents"]),
        ("lab_events", ["labevents"]),
        ("diagnoses", ["diagnoses_icd"]),
        ("perscriptions", ["prescriptions"]),
        ("chart", ["chartevents"]),
    ],
)
def test_a_name_is_suggested_only_where_it_looks_alike(written: str, meant: list[str]) -> None:
    assert nearest(written, TABLES, limit=1) == meant
    assert ("Did you mean" in unknown("table", written, TABLES)) == bool(meant)


@pytest.mark.parametrize(
    ("written", "name", "is_alike"),
    [
        ("lab", "labevents_of_icu", True),
        ("la", "labevents_of_icu", False),
        ("DETAIL", "pharmacy_detail_table", True),
        ("orders of the poe table", "poe", True),
        ("orders of the po table", "po", False),
        ("the prescriptoins of today", "prescriptions", True),
        ("the emra of today", "emar", False),
    ],
)
def test_a_part_is_alike_from_three_letters_on_and_with_a_slip_from_six(
    written: str, name: str, is_alike: bool
) -> None:
    assert nearest(written, ["zzz", name]) == ([name] if is_alike else [])


def test_what_does_not_exist_is_told_with_what_does_in_a_line_that_does_not_grow() -> None:
    said = unknown("table", "x" * 1_000, [f"t{number}" for number in range(41)])
    assert said.startswith(f"there is no table '{'x' * 400}...'. Available: t0, t1, ")
    assert said.endswith(", t39 and 1 more.")
    assert unknown("table", "labss", ["emar", "labs", "labsx"]) == (
        "there is no table 'labss'. Did you mean 'labs', 'labsx'? Available: emar, labs, labsx."
    )


def test_no_release_is_named_before_there_is_one() -> None:
    sources = Path(__file__).parents[2] / "src" / "wardround"
    assert [path for path in sources.rglob("*.py") if "pip install 'wardround[" in path.read_text()] == []
