"""Choosing the form of a synthetic hospital: its files in another source's shape."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from wardround.synth.dialects.eicu import write_eicu
from wardround.synth.dialects.fhir import TIME_ZONE, write_fhir
from wardround.synth.dialects.meds import write_meds
from wardround.synth.dialects.mimiciii import write_mimiciii
from wardround.synth.dialects.omop import write_omop


def _copy(hospital: Path, folder: Path) -> None:
    shutil.copytree(hospital, folder, dirs_exist_ok=True)


DIALECTS: Mapping[str, Callable[[Path, Path], None]] = {
    "mimiciv": _copy,
    "mimiciii": write_mimiciii,
    "eicu": write_eicu,
    "omop": write_omop,
    "fhir": write_fhir,
    "meds": write_meds,
}
"""Form -> the function that writes it: (a hospital of MIMIC-IV's form, where its files go)."""


def time_zone_of(dialect: str) -> str | None:
    """Return the zone to ingest a form with, where its times say how far they are from UTC."""
    return TIME_ZONE if dialect == "fhir" else None


def write_dialect(dialect: str, hospital: Path, folder: Path) -> None:
    """Write a synthetic hospital in another form; ``hospital`` is what :func:`wardround.synth.synthesize` made."""
    folder.mkdir(parents=True, exist_ok=True)
    DIALECTS[dialect](hospital, folder)
