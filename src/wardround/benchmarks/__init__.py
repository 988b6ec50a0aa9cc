"""Benchmarks: tasks, their samples, and the recipes that build them from a store.

Nothing here runs an agent or scores an answer.
"""

from wardround.benchmarks.benchmark import Benchmark
from wardround.benchmarks.rendering import render_prompt
from wardround.benchmarks.sample import SPLITS, STRATA, Sample, Split, Stratum
from wardround.benchmarks.task import AGENTEHR_TASKS, Task, get_task, list_tasks

__all__ = [
    "AGENTEHR_TASKS",
    "SPLITS",
    "STRATA",
    "Benchmark",
    "Sample",
    "Split",
    "Stratum",
    "Task",
    "get_task",
    "list_tasks",
    "render_prompt",
]
