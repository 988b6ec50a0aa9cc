"""Tasks of a user's own: from a file that says what is asked and how it is labelled, or from a table of labels."""

from wardround.tasks.benchmarks.own.family import OwnTasks, asked_of, build_own
from wardround.tasks.benchmarks.own.label_table import LabelTable, read_label_table
from wardround.tasks.benchmarks.own.task_file import OWN_TASKS, OwnTaskMaker, add_task, read_task_file

__all__ = [
    "OWN_TASKS",
    "LabelTable",
    "OwnTaskMaker",
    "OwnTasks",
    "add_task",
    "asked_of",
    "build_own",
    "read_label_table",
    "read_task_file",
]
