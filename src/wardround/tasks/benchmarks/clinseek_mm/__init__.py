"""ClinSeek-Bench with chest radiographs: findings, their change, deaths and phenotypes, each with its linked pictures.

Definitions: docs/clinseek-bench.md.
"""

from wardround.tasks.benchmarks.clinseek_mm.build import build_clinseek_mm
from wardround.tasks.benchmarks.clinseek_mm.examples import (
    CLINSEEK_MM_TASKS,
    Conversion,
    MultimodalExample,
    write_examples,
)
from wardround.tasks.benchmarks.clinseek_mm.published import convert_ehrxqa, convert_medmod

__all__ = [
    "CLINSEEK_MM_TASKS",
    "Conversion",
    "MultimodalExample",
    "build_clinseek_mm",
    "convert_ehrxqa",
    "convert_medmod",
    "write_examples",
]
