"""A user's own tasks, from a task file (questions and labels) or from a table of labels."""

from wardround.tasks.benchmarks.own.family import OwnTasks, build_own, moment_comparison
from wardround.tasks.benchmarks.own.files import (
    OWN_TASKS,
    LabelTable,
    OwnTaskMaker,
    add_task,
    read_aces_task,
    read_label_table,
    read_task_file,
)

__all__ = [
    "OWN_TASKS",
    "LabelTable",
    "OwnTaskMaker",
    "OwnTasks",
    "add_task",
    "build_own",
    "moment_comparison",
    "read_aces_task",
    "read_label_table",
    "read_task_file",
]
