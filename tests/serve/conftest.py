"""A small run to look at, shared by the tests of the viewer."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.cli import main


@pytest.fixture(scope="session")
def viewed_run_path(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two agents on two samples of two tasks; its folder's name needs escaping."""
    folder = tmp_path_factory.mktemp("viewer") / "a <run> & more"
    new = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    new += ["--out", str(folder), "--task", "labevents", "diagnoses", "--limit", "2", "--workers", "1"]
    assert main([*new, "--agent", "react", "retrosum"]) == 0
    return folder
