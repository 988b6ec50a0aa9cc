"""Scoring: set scores, Best@K, pass^k, statistics over patients, grounding, the error taxonomy, tables.

Nothing here runs an agent or reads a chart; it reads samples, answers and logs.
"""

from wardround.tasks.scoring.arms import ArmCell, ArmFigure, ArmRow, arm_cells, arm_rows
from wardround.tasks.scoring.bootstrap import (
    RESAMPLES,
    Interval,
    PatientDraws,
    cluster_bootstrap,
    patient_bootstrap,
    student_quantile,
    student_radius,
)
from wardround.tasks.scoring.class_tables import ClassificationRow, class_answer, classify, render_classes, same_samples
from wardround.tasks.scoring.classification import ClassMetrics, ScoreMetrics, class_metrics, score_metrics
from wardround.tasks.scoring.episodes import EpisodeScore, EpisodeUse, episode_use, score_answer, score_episode
from wardround.tasks.scoring.errors import ErrorClass, NoPrediction, classify_errors, no_prediction_mode
from wardround.tasks.scoring.gate import HeldOutPairs, TaskGate, gate
from wardround.tasks.scoring.grounding import GroundingCounts, grounding_counts
from wardround.tasks.scoring.paired import (
    Hypothesis,
    PairedTest,
    holm,
    linear_hypothesis,
    macro_hypothesis,
    paired_macro_f1,
    paired_test,
    paired_test_by_key,
    patients_parts,
    step_down,
)
from wardround.tasks.scoring.safety import PlantedKey, SafetyCounts, played_steps
from wardround.tasks.scoring.safety_curve import NotedStay, SafetyPoint, safety_curve
from wardround.tasks.scoring.scorer import (
    ACCURACY,
    MACRO_F1,
    SCORERS,
    SET_F1,
    FurtherTest,
    PairedAnswers,
    Scorer,
    scorer_of,
)
from wardround.tasks.scoring.sets import SetScore, best_at_k, class_score, pass_hat_k, set_scores
from wardround.tasks.scoring.settings import ScoringSettings
from wardround.tasks.scoring.stay_tables import AdherenceRow, render_stays, stay_rows
from wardround.tasks.scoring.stays import RecallRow, missed_actions
from wardround.tasks.scoring.successes import Successes, successes
from wardround.tasks.scoring.tables import (
    FigureRow,
    SummaryRow,
    figure_rows,
    per_sample,
    render_figures,
    render_table,
    summarise,
)
from wardround.tasks.scoring.task_means import (
    EvidenceCut,
    events_left_out,
    evidence_cut,
    mean_of_task_means,
    task_mean_interval,
)
from wardround.tasks.scoring.trivial import TrivialScores, trivial_scores

__all__ = [
    "ACCURACY",
    "MACRO_F1",
    "RESAMPLES",
    "SCORERS",
    "SET_F1",
    "AdherenceRow",
    "ArmCell",
    "ArmFigure",
    "ArmRow",
    "ClassMetrics",
    "ClassificationRow",
    "EpisodeScore",
    "EpisodeUse",
    "ErrorClass",
    "EvidenceCut",
    "FigureRow",
    "FurtherTest",
    "GroundingCounts",
    "HeldOutPairs",
    "Hypothesis",
    "Interval",
    "NoPrediction",
    "NotedStay",
    "PairedAnswers",
    "PairedTest",
    "PatientDraws",
    "PlantedKey",
    "RecallRow",
    "SafetyCounts",
    "SafetyPoint",
    "ScoreMetrics",
    "Scorer",
    "ScoringSettings",
    "SetScore",
    "Successes",
    "SummaryRow",
    "TaskGate",
    "TrivialScores",
    "arm_cells",
    "arm_rows",
    "best_at_k",
    "class_answer",
    "class_metrics",
    "class_score",
    "classify",
    "classify_errors",
    "cluster_bootstrap",
    "episode_use",
    "events_left_out",
    "evidence_cut",
    "figure_rows",
    "gate",
    "grounding_counts",
    "holm",
    "linear_hypothesis",
    "macro_hypothesis",
    "mean_of_task_means",
    "missed_actions",
    "no_prediction_mode",
    "paired_macro_f1",
    "paired_test",
    "paired_test_by_key",
    "pass_hat_k",
    "patient_bootstrap",
    "patients_parts",
    "per_sample",
    "played_steps",
    "render_classes",
    "render_figures",
    "render_stays",
    "render_table",
    "safety_curve",
    "same_samples",
    "score_answer",
    "score_episode",
    "score_metrics",
    "scorer_of",
    "set_scores",
    "stay_rows",
    "step_down",
    "student_quantile",
    "student_radius",
    "successes",
    "summarise",
    "task_mean_interval",
    "trivial_scores",
]
