"""Predictors: statistical models on counts of events or on supplied vectors, with EHRSHOT's few-shot protocol.

They need the extra [predictors]; importing this room does not.
"""

from wardround.predictors.features import CountTable, count_table
from wardround.predictors.fit import fit_predictors, read_manifest
from wardround.predictors.heads import (
    ALL_SHOTS,
    GBM_GRIDS,
    PAPER_SHOTS,
    PREDICTORS,
    Predictor,
    PredictorSettings,
    missing_packages,
)
from wardround.predictors.results import MANIFEST, FitKey, FitRow, read_predictions

__all__ = [
    "ALL_SHOTS",
    "GBM_GRIDS",
    "MANIFEST",
    "PAPER_SHOTS",
    "PREDICTORS",
    "CountTable",
    "FitKey",
    "FitRow",
    "Predictor",
    "PredictorSettings",
    "count_table",
    "fit_predictors",
    "missing_packages",
    "read_manifest",
    "read_predictions",
]
