"""``wardround bench build ehrshot`` and what reads its benchmark, through the real command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.tasks.benchmarks import Benchmark


def test_build_show_and_audit(synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, out = str(synthetic_store_path), str(tmp_path / "bench")
    tasks = ["guo_los", "lab_anemia", "chexpert"]
    build = ["bench", "build", "ehrshot", "--store", store, "--out", out, "--task", *tasks]
    assert main([*build, "--per-task", "5", "--per-subject", "1"]) == 0
    shown = capsys.readouterr().out
    assert main(["bench", "show", out]) == 0
    assert capsys.readouterr().out in shown
    benchmark = Benchmark.open(tmp_path / "bench")
    assert "ehrshot, clock policy known_at, 30 samples" in shown
    assert len(benchmark.all_samples) == 30
    assert "less than 7 days" in shown
    assert "chexpert is unavailable: no labels; EHRSHOT distributes them separately" in shown
    assert "beyond the number of samples that was asked for" in shown
    assert main(["audit", "leaks", "--store", store, "--benchmark", out, "--task", "guo_los"]) == 0
    assert "0 rows and 0 cells from the future" in capsys.readouterr().out


def test_what_has_no_code_is_refused_and_then_named(
    synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ["bench", "build", "ehrshot", "--store", str(synthetic_store_path), "--out", str(tmp_path / "bench")]
    assert main([*build, "--task", "new_lupus", "guo_los"]) == 2
    refusal = capsys.readouterr().err.strip().splitlines()
    assert "no code of 'systemic lupus erythematosus' in source 'mimiciv'" in refusal[-1]
    assert "--allow-missing" in refusal[-1]
    assert main([*build, "--task", "new_lupus", "guo_los", "--allow-missing"]) == 0
    assert "new_lupus is unavailable: no code of" in capsys.readouterr().out


def test_options_of_one_family_are_not_taken_for_the_other(
    synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "build", "agentehr", "--store", str(synthetic_store_path), "--out", str(tmp_path / "bench")]
    assert main([*words, "--per-subject", "2"]) == 2
    assert "--per-subject is for ehrshot" in capsys.readouterr().err


def test_the_published_clocks_are_those_of_a_benchmark_that_has_them(
    synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = ["--out", str(tmp_path / "bench"), "--policy", "published"]
    store = ["--store", str(synthetic_store_path), "--per-task", "1"]
    assert main(["bench", "build", "trace", *store, *end]) == 2
    assert "a bundle needs availability times" in capsys.readouterr().err
    assert main(["bench", "build", "medr-bench", "--cases", "cases.json", *end]) == 2
    assert "has no clocks" in capsys.readouterr().err
    assert main(["bench", "build", "agentehr", *store, *end]) == 0
    assert main(["bench", "show", str(tmp_path / "bench")]) == 0
    assert "agentehr, clock policy published, " in capsys.readouterr().out
    assert Benchmark.open(tmp_path / "bench").manifest["seed"] == 0


def test_the_fifteen_tasks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "benchmarks"]) == 0
    listed = capsys.readouterr().out
    assert "guo_readmission" in listed
    assert main(["list", "tasks"]) == 0
    assert "classes 0 1 2 3" in capsys.readouterr().out


def test_tasks_of_a_plug_in_are_listed_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own: what a plug-in adds stays."""
    plugin = Path(__file__).parents[2] / "examples" / "own_parts.py"
    command = [sys.executable, "-m", "wardround", "list", "tasks", "--json", "--plugin", str(plugin)]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    own = [row for row in listed if row["family"] == "own"]
    assert [(row["task"], row["title"]) for row in own] == [("kidney_soon", "Creatinine above 1.2 within two days")]
    assert "labevents" in {row["task"] for row in listed}


def test_shares_of_the_splits_are_set_and_a_wrong_sum_is_said(
    synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ["bench", "build", "ehrshot", "--store", str(synthetic_store_path), "--task", "guo_los", "--per-task", "0"]
    assert main([*build, "--out", str(tmp_path / "bench"), "--fractions", "0.2", "0", "0.8"]) == 0
    benchmark = Benchmark.open(tmp_path / "bench")
    assert benchmark.manifest["fractions"] == [0.2, 0.0, 0.8]
    sizes = {split: len(benchmark.samples(split=split)) for split in ("train", "dev", "test")}
    assert sizes["dev"] == 0
    assert sizes["test"] > sizes["train"] > 0
    capsys.readouterr()
    assert main([*build, "--out", str(tmp_path / "other"), "--fractions", "0.5", "0.5", "0.5"]) == 2
    assert "add up to 1" in capsys.readouterr().err


def test_agents_without_tools_are_not_told_of_the_room_that_tools_take(
    synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(synthetic_store_path)
    build = ["bench", "build", "ehrshot", "--store", store, "--task", "guo_los", "--per-task", "2"]
    assert main([*build, "--out", str(tmp_path / "bench")]) == 0
    run = ["run", "--benchmark", str(tmp_path / "bench"), "--store", store, "--limit", "1", "--workers", "1"]
    run += ["--context-tokens", "1600", "--set", "budget.reply_tokens=100"]
    assert main([*run, "--agent", "direct", "--out", str(tmp_path / "direct")]) == 0
    assert "leave" not in capsys.readouterr().err
    assert main([*run, "--agent", "direct", "react", "--out", str(tmp_path / "react")]) == 0
    assert "and the tools (1," in capsys.readouterr().err
