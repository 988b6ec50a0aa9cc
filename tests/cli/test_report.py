"""``wardround report``: what the terminal says of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.cli import main


def test_epochs_are_reported_as_best_of_k(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    new = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--out", run]
    assert main([*new, "--task", "transfers", "--limit", "2", "--epochs", "2", "--workers", "1"]) == 0
    assert main(["report", run, "--no-episodes"]) == 0
    assert "react · offline, transfers, Best@K F1: K=1 " in capsys.readouterr().out
