"""Benchmarks whose questions tell the case in words: published reports, examination questions. From a user's files."""

from __future__ import annotations

from wardround.tasks.benchmarks.text_cases.build import Overlap, build_told, overlaps
from wardround.tasks.benchmarks.text_cases.cases import (
    MEDAGENTSBENCH,
    MEDR_BENCH,
    TEXT_CASES,
    TOLD_FAMILIES,
    TOLD_TASKS,
    TextCase,
    read_cases,
)

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
