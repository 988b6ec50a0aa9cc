"""Scoring: set scores, Best@K, statistics over patients, the error taxonomy, tables.

Nothing here runs an agent or reads a chart; it reads samples, answers and logs.
"""

from wardround.scoring.bootstrap import Interval, cluster_bootstrap, patient_bootstrap
from wardround.scoring.errors import ErrorClass, classify_errors
from wardround.scoring.metrics import SetMetrics, set_metrics
from wardround.scoring.no_prediction import NoPrediction, no_prediction_mode
from wardround.scoring.paired import PairedTest, holm, paired_test, paired_test_by_key
from wardround.scoring.sets import SetScore, best_at_k, set_scores

__all__ = [
    "ErrorClass",
    "Interval",
    "NoPrediction",
    "PairedTest",
    "SetMetrics",
    "SetScore",
    "best_at_k",
    "classify_errors",
    "cluster_bootstrap",
    "holm",
    "no_prediction_mode",
    "paired_test",
    "paired_test_by_key",
    "patient_bootstrap",
    "set_metrics",
    "set_scores",
]
