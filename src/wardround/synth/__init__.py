"""Synth: a synthetic hospital that writes MIMIC-IV shaped CSV files of invented subjects, seeded and streaming.

    from pathlib import Path; from wardround.synth import synthesize; synthesize(Path("hospital"), patients=100, seed=1)

Nothing here reads a record; what a disease does lives in ``data/*.toml``.
"""

from wardround.synth.hospital import SynthManifest, synthesize
from wardround.synth.other_forms import DIALECTS, synthesize_as, time_zone_of, write_dialect
from wardround.synth.output import COLUMNS, MODULES
from wardround.synth.planting import PlantedRule, plant_rules, plant_traps, planted_rules

__all__ = [
    "COLUMNS",
    "DIALECTS",
    "MODULES",
    "PlantedRule",
    "SynthManifest",
    "plant_rules",
    "plant_traps",
    "planted_rules",
    "synthesize",
    "synthesize_as",
    "time_zone_of",
    "write_dialect",
]
