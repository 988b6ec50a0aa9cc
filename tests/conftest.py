"""Fixtures every room's tests share: where the real open data lies, when it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of open clinical data sets, next to a development checkout."""
    folder = Path(os.environ.get("WARDROUND_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the open data folder is not here (set WARDROUND_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def mimic_demo() -> Path:
    """The MIMIC-IV demo 2.2 as downloaded."""
    named = os.environ.get("WARDROUND_MIMIC_DEMO")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data" / "mimic-iv-demo-2.2"
    if not folder.is_dir():
        pytest.skip("the MIMIC-IV demo is not here (set WARDROUND_MIMIC_DEMO)")
    return folder
