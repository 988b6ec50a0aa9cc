"""A small teacher: one finished training run of the offline policy on the synthetic hospital."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.cli import main
from wardround.runs import RunFolder


@pytest.fixture(scope="session")
def teacher(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunFolder:
    return played(
        synthetic_benchmark_path, synthetic_store_path, tmp_path_factory.mktemp("teacher") / "run", split="train"
    )


def played(benchmark: Path, store: Path, out: Path, *, split: str, agent: str = "react") -> RunFolder:
    """Play two samples of two tasks."""
    words = ["run", "--benchmark", str(benchmark), "--store", str(store), "--split", split, "--agent", agent]
    assert main([*words, "--task", "transfers", "diagnoses", "--limit", "2", "--workers", "1", "--out", str(out)]) == 0
    return RunFolder.open(out)
