"""ClinSeek-Bench with chest radiographs: findings, their change, deaths and phenotypes, each with its linked pictures.

Definitions: docs/clinseek-bench.md.
"""

from wardround.benchmarks.clinseek_mm.build import build_clinseek_mm
from wardround.benchmarks.clinseek_mm.definitions import CLINSEEK_MM_TASKS

__all__ = ["CLINSEEK_MM_TASKS", "build_clinseek_mm"]
