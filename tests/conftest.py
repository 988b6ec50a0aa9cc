"""Fixtures every room's tests share: where the real open data lies, when it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from wardround.records import IngestSettings, Store, ingest
from wardround.synth import synthesize, write_dialect
from wardround.synth.dialects.mimiciii import PROCEDURES

REPOSITORY = Path(__file__).resolve().parents[1]

settings.register_profile("untimed", deadline=None)  # a machine under load is no defect
settings.load_profile("untimed")


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


@pytest.fixture(scope="session")
def synthetic_hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw files of 120 invented patients."""
    folder = tmp_path_factory.mktemp("synthetic") / "hospital"
    synthesize(folder, patients=120, seed=3)
    return folder


@pytest.fixture(scope="session")
def synthetic_store_path(synthetic_hospital: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their store."""
    path = tmp_path_factory.mktemp("synthetic") / "store"
    ingest("mimiciv", synthetic_hospital, path)
    return path


@pytest.fixture(scope="session")
def synthetic_store(synthetic_store_path: Path) -> Store:
    """Their store, open."""
    return Store.open(synthetic_store_path)


@pytest.fixture(scope="session")
def synthetic_benchmark_path(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The six AgentEHR tasks on them, a few samples each."""
    from wardround.benchmarks.agentehr import build_agentehr

    path = tmp_path_factory.mktemp("synthetic") / "benchmark"
    build_agentehr(synthetic_store, path, seed=3, per_task=6)
    return path


@pytest.fixture(scope="session")
def mimiciii_hospital(synthetic_hospital: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same invented patients in files of the shape of MIMIC-III 1.4."""
    folder = tmp_path_factory.mktemp("mimiciii") / "hospital"
    write_dialect("mimiciii", synthetic_hospital, folder)
    return folder


@pytest.fixture(scope="session")
def icd9_procedures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """User codes with the few ICD-9 procedures of that hospital."""
    from wardround.codes import add_user_codes

    folder = tmp_path_factory.mktemp("codes")
    rows = (f"{code},{category},x,x\n" for code, category in PROCEDURES.items())
    text = "ICD,CCS_CATEGORY,ICD_DESCRIPTION,CCS_CATEGORY_DESCRIPTION\n" + "".join(rows)
    (folder / "ccs.csv").write_text(text, encoding="utf-8")
    add_user_codes("icd9-procedures", folder / "ccs.csv", folder / "home")
    return folder / "home"


@pytest.fixture(scope="session")
def mimiciii_store_path(
    mimiciii_hospital: Path, icd9_procedures: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Their store."""
    path = tmp_path_factory.mktemp("mimiciii") / "store"
    ingest("mimiciii", mimiciii_hospital, path, settings=IngestSettings(user_codes=icd9_procedures))
    return path
