"""ClinSeek-Bench: the next event of 27 sorts, 18 risks, each sample played on a curated input and by seeking evidence.

Definitions: docs/clinseek-bench.md.
"""

from wardround.tasks.benchmarks.clinseek.build import build_clinseek
from wardround.tasks.benchmarks.clinseek.definitions import CLINSEEK_TASKS

__all__ = ["CLINSEEK_TASKS", "build_clinseek"]
