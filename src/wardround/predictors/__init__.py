"""Predictors: statistical models on counts of events or on supplied vectors, with EHRSHOT's few-shot protocol.

They need the extra [predictors]; importing this room does not.
"""

from wardround.predictors.catalogue import PREDICTORS, Predictor
from wardround.predictors.features import CountTable, count_table
from wardround.predictors.fit import fit_predictors, read_manifest
from wardround.predictors.heads import missing_packages
from wardround.predictors.results import MANIFEST, PREDICTIONS, FitKey, FitRow, read_predictions
from wardround.predictors.settings import ALL_SHOTS, GBM_GRIDS, PAPER_SHOTS, PredictorSettings

__all__ = [
    "ALL_SHOTS",
    "GBM_GRIDS",
    "MANIFEST",
    "PAPER_SHOTS",
    "PREDICTIONS",
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
