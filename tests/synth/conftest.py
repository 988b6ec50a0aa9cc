"""A small synthetic hospital, made once, and a plain reader for its files."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

import pytest
from synth_rows import PATIENTS, SEED, Reader, Row

from wardround.synth import MODULES, synthesize


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of 160 invented patients."""
    folder = tmp_path_factory.mktemp("synth") / "hospital"
    synthesize(folder, patients=PATIENTS, seed=SEED, films=True, decoys=False)
    return folder


@pytest.fixture(scope="session")
def rows(hospital: Path) -> Reader:
    """Return the rows of a table as dicts of text."""

    @cache
    def read(table: str) -> list[Row]:
        path = hospital / MODULES[table] / f"{table}.csv.gz"
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    return read
