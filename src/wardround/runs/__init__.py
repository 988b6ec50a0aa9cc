"""Runs: agents x models x tasks x samples as one resumable folder: settings, queue, workers, results."""

from wardround.runs.banks import gate_notes
from wardround.runs.damage import FilesCheck, check_files
from wardround.runs.execute import episode_keys, execute, start
from wardround.runs.folder import RunFolder, Spending
from wardround.runs.notes import codes_with_words
from wardround.runs.queue import Counts, WorkQueue
from wardround.runs.results import read_results, score_run
from wardround.runs.settings import EpisodeKey, PlayedSection, RunSettings
from wardround.runs.sources import open_benchmark, open_store
from wardround.runs.worker import episode_facts, open_environment

__all__ = [
    "Counts",
    "EpisodeKey",
    "FilesCheck",
    "PlayedSection",
    "RunFolder",
    "RunSettings",
    "Spending",
    "WorkQueue",
    "check_files",
    "codes_with_words",
    "episode_facts",
    "episode_keys",
    "execute",
    "gate_notes",
    "open_benchmark",
    "open_environment",
    "open_store",
    "read_results",
    "score_run",
    "start",
]
