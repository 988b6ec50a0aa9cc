"""Runs: agents x models x tasks x samples as one resumable folder, its scores, comparisons and report."""

from wardround.runs.execute import episode_keys, execute, start
from wardround.runs.folder import RunFolder
from wardround.runs.queue import Counts, WorkQueue
from wardround.runs.report import write_report
from wardround.runs.results import EpisodeResult, read_results, score_run
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.summary import Comparison, RunSummary, compare_contenders, summarise

__all__ = [
    "Comparison",
    "Counts",
    "EpisodeKey",
    "EpisodeResult",
    "RunFolder",
    "RunSettings",
    "RunSummary",
    "WorkQueue",
    "compare_contenders",
    "episode_keys",
    "execute",
    "read_results",
    "score_run",
    "start",
    "summarise",
    "write_report",
]
