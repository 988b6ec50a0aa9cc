"""A synthetic hospital in the form of another source, with traps or planted rules."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.core import UserError
from wardround.synth.dialects.eicu import write_eicu
from wardround.synth.dialects.fhir import TIME_ZONE, write_fhir
from wardround.synth.dialects.meds import write_meds
from wardround.synth.dialects.mimiciii import write_mimiciii
from wardround.synth.dialects.omop import write_omop
from wardround.synth.hospital import SynthManifest, synthesize
from wardround.synth.planting import KEY, PlantedRule, plant_rules, plant_traps


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


def synthesize_as(
    dialect: str,
    folder: Path | str,
    *,
    patients: int,
    seed: int,
    traps: bool = False,
    rules: Sequence[PlantedRule] = (),
    flips: float = 0.0,
    corrections: float = 0.0,
    **options: Any,
) -> tuple[SynthManifest, int]:
    """Write a hospital in the form of a source of ``DIALECTS``; return its manifest and how often planted rules are
    obeyed.

    ``traps``: records that reveal the future to a careless reader. ``rules``, ``flips`` and ``corrections`` are those
    of :func:`plant_rules`, ``options`` those of :func:`synthesize`. Raises UserError for films, or for corrections if
    the form has no versions of a row.
    """
    if options.get("films"):
        raise UserError("--films are drawn for the plain hospital: leave out --dialect and --traps")
    if corrections and (dialect != "fhir" or traps):
        raise UserError("planting.corrections needs --dialect fhir, without --traps: other tables have no versions")
    folder, obeyed = Path(folder), 0
    with tempfile.TemporaryDirectory(prefix="wardround-synth-") as name:
        plain, planted = Path(name) / "hospital", Path(name) / "planted"
        manifest = synthesize(plain, patients=patients, seed=seed, **options | {"compress": False})
        hospital = plain
        if rules:
            obeyed = plant_rules(hospital, planted, rules, seed=seed, flips=flips, corrections=corrections)
            hospital = planted
        if traps:
            hospital = plant_traps(hospital, Path(name) / "trapped")
        write_dialect(dialect, hospital, folder)
        if rules:
            shutil.copyfile(planted / KEY, folder / KEY)
    return manifest, obeyed
