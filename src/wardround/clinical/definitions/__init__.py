"""Definitions: clinical scores and states as published, each with its source, evaluated on a chart as of any moment.

Pure functions, and the places of their inputs in MIMIC-IV. A value that is not charted is unknown, never normal.
The inputs of each definition: docs/definitions.md.
"""

from __future__ import annotations

from wardround.clinical.definitions.charting import DEFINITIONS, ClinicalDefinition, ScoreAt, score_at
from wardround.clinical.definitions.formulas import (
    PartialScore,
    UrineRates,
    coma_scale,
    inflammatory_response,
    is_sepsis,
    kdigo_bounds,
    kdigo_creatinine,
    kdigo_stage,
    kdigo_urine,
    meld,
    meld_bounds,
    norepinephrine_equivalent,
    quick_sofa,
    sofa_brain,
    sofa_circulation,
    sofa_coagulation,
    sofa_kidney,
    sofa_liver,
    sofa_respiration,
    suspected_infection,
    urine_rate,
    ventilation_status,
)

__all__ = [
    "DEFINITIONS",
    "ClinicalDefinition",
    "PartialScore",
    "ScoreAt",
    "UrineRates",
    "coma_scale",
    "inflammatory_response",
    "is_sepsis",
    "kdigo_bounds",
    "kdigo_creatinine",
    "kdigo_stage",
    "kdigo_urine",
    "meld",
    "meld_bounds",
    "norepinephrine_equivalent",
    "quick_sofa",
    "score_at",
    "sofa_brain",
    "sofa_circulation",
    "sofa_coagulation",
    "sofa_kidney",
    "sofa_liver",
    "sofa_respiration",
    "suspected_infection",
    "urine_rate",
    "ventilation_status",
]
