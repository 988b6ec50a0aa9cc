"""Benchmarks whose questions tell the case in words: published reports, examination questions. From a user's files."""

from __future__ import annotations

from wardround.tasks.benchmarks.text_cases.build import Overlap, build_text_cases, overlaps
from wardround.tasks.benchmarks.text_cases.cases import (
    MEDAGENTSBENCH,
    MEDR_BENCH,
    TEXT_CASE_FAMILIES,
    TEXT_CASE_TASKS,
    TEXT_CASES,
    TextCase,
    read_cases,
)

__all__ = [
    "MEDAGENTSBENCH",
    "MEDR_BENCH",
    "TEXT_CASES",
    "TEXT_CASE_FAMILIES",
    "TEXT_CASE_TASKS",
    "Overlap",
    "TextCase",
    "build_text_cases",
    "overlaps",
    "read_cases",
]
