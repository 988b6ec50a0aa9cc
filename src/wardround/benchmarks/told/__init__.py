"""Benchmarks whose questions tell the case in words: published reports, examination questions. From a user's files."""

from wardround.benchmarks.told.build import build_told
from wardround.benchmarks.told.cases import TextCase, read_cases
from wardround.benchmarks.told.definitions import MEDAGENTSBENCH, MEDR_BENCH, TEXT_CASES, TOLD_FAMILIES, TOLD_TASKS
from wardround.benchmarks.told.overlaps import Overlap, overlaps

__all__ = [
    "MEDAGENTSBENCH",
    "MEDR_BENCH",
    "TEXT_CASES",
    "TOLD_FAMILIES",
    "TOLD_TASKS",
    "Overlap",
    "TextCase",
    "build_told",
    "overlaps",
    "read_cases",
]
