"""Benchmarks: tasks, their samples, and the recipes that build them from a store.

Nothing here runs an agent or scores an answer.
"""

from wardround.tasks.benchmarks.agentehr import build_agentehr
from wardround.tasks.benchmarks.answer_rules import ask, rules_prompt
from wardround.tasks.benchmarks.benchmark import Benchmark
from wardround.tasks.benchmarks.clinseek import CLINSEEK_TASKS, build_clinseek
from wardround.tasks.benchmarks.clinseek_mm import (
    CLINSEEK_MM_TASKS,
    Conversion,
    build_clinseek_mm,
    convert_ehrxqa,
    convert_medmod,
    write_examples,
)
from wardround.tasks.benchmarks.drawing import split_of
from wardround.tasks.benchmarks.ehrshot import build_ehrshot
from wardround.tasks.benchmarks.families import FAMILIES, build_benchmark, options_of
from wardround.tasks.benchmarks.leaks import Leak, leak_check, names_its_answer, reclock
from wardround.tasks.benchmarks.sample import SPLITS, STRATA, Sample, Split, Stratum, question_of, render_prompt
from wardround.tasks.benchmarks.task import AGENTEHR_TASKS, EHRSHOT_TASKS, Task, get_task, list_tasks
from wardround.tasks.benchmarks.text_cases import TEXT_CASE_FAMILIES, CaseFiles, build_text_cases
from wardround.tasks.benchmarks.trace import build_trace

__all__ = [
    "AGENTEHR_TASKS",
    "CLINSEEK_MM_TASKS",
    "CLINSEEK_TASKS",
    "EHRSHOT_TASKS",
    "FAMILIES",
    "SPLITS",
    "STRATA",
    "TEXT_CASE_FAMILIES",
    "Benchmark",
    "CaseFiles",
    "Conversion",
    "Leak",
    "Sample",
    "Split",
    "Stratum",
    "Task",
    "ask",
    "build_agentehr",
    "build_benchmark",
    "build_clinseek",
    "build_clinseek_mm",
    "build_ehrshot",
    "build_text_cases",
    "build_trace",
    "convert_ehrxqa",
    "convert_medmod",
    "get_task",
    "leak_check",
    "list_tasks",
    "names_its_answer",
    "options_of",
    "question_of",
    "reclock",
    "render_prompt",
    "rules_prompt",
    "split_of",
    "write_examples",
]
