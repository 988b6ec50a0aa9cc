"""Runs: agents x models x tasks x samples as one resumable folder, its scores, comparisons and report."""

from wardround.runs.analyses import Point, points_of
from wardround.runs.arms import ARM_HEADINGS, arm_texts
from wardround.runs.banks import gate_notes
from wardround.runs.comparing import Comparison, Pair, compare, compare_all
from wardround.runs.constructing import construct
from wardround.runs.construction import Construction, ConstructionSettings, stages
from wardround.runs.damage import FilesCheck, check_files
from wardround.runs.episode import episode_facts, open_environment
from wardround.runs.evolve import Evolution, evolve, training_strata
from wardround.runs.evolving import StreamEvolution, evolve_stream
from wardround.runs.execute import execute, start
from wardround.runs.folder import RunFolder
from wardround.runs.gating import gate_bank
from wardround.runs.peers import build_peer
from wardround.runs.predictions import Curve, curves, predictor_rows
from wardround.runs.preparing import episode_keys
from wardround.runs.queue import Counts, WorkQueue
from wardround.runs.report import write_predictor_report, write_report
from wardround.runs.results import evidence_cuts, read_results, score_run
from wardround.runs.settings import EpisodeKey, PlayedSection, RunSettings
from wardround.runs.sources import (
    open_benchmark,
    open_store,
)
from wardround.runs.spending import Spending
from wardround.runs.subgroups import GROUPINGS, by_subgroup
from wardround.runs.summary import RunSummary, by_contender, summarise_run
from wardround.runs.words import codes_with_words

__all__ = [
    "ARM_HEADINGS",
    "GROUPINGS",
    "Comparison",
    "Construction",
    "ConstructionSettings",
    "Counts",
    "Curve",
    "EpisodeKey",
    "Evolution",
    "FilesCheck",
    "Pair",
    "PlayedSection",
    "Point",
    "RunFolder",
    "RunSettings",
    "RunSummary",
    "Spending",
    "StreamEvolution",
    "WorkQueue",
    "arm_texts",
    "build_peer",
    "by_contender",
    "by_subgroup",
    "check_files",
    "codes_with_words",
    "compare",
    "compare_all",
    "construct",
    "curves",
    "episode_facts",
    "episode_keys",
    "evidence_cuts",
    "evolve",
    "evolve_stream",
    "execute",
    "gate_bank",
    "gate_notes",
    "open_benchmark",
    "open_environment",
    "open_store",
    "points_of",
    "predictor_rows",
    "read_results",
    "score_run",
    "stages",
    "start",
    "summarise_run",
    "training_strata",
    "write_predictor_report",
    "write_report",
]
