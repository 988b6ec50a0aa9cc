"""``wardround bench build labels | tasks``: benchmarks of a user's own questions."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.answers import AnswerClass
from wardround.benchmarks import Benchmark
from wardround.benchmarks.own import OWN_TASKS, build_own, read_label_table, read_task_file
from wardround.benchmarks.own.questions import OwnTask
from wardround.benchmarks.pipeline import BuildSettings
from wardround.cli.paths import user_codes_home
from wardround.cli.progress import TerminalProgress
from wardround.core import UserError
from wardround.records import Store

OWN_OPTIONS = {
    "labels": ("labels",),
    "label_name": ("labels",),
    "question": ("labels",),
    "classes": ("labels",),
    "cut": ("labels",),
    "task_file": ("tasks",),
}
"""Which kinds of benchmarks an option is for."""


def add_own_options(parser: argparse.ArgumentParser) -> None:
    """Declare what labels and tasks of a user's own take."""
    labels = parser.add_argument_group("labels", "a table as MEDS has it: subject_id, prediction_time, *_value")
    labels.add_argument("--labels", type=Path, default=None, metavar="FILE", help="CSV or Parquet file of labels")
    labels.add_argument("--label-name", default=None, metavar="NAME", help="name of the task (default: the file's)")
    labels.add_argument("--question", default=None, metavar="TEXT", help="what is asked, as the prompt says it")
    labels.add_argument(
        "--class",
        dest="classes",
        nargs="+",
        default=[],
        metavar="VALUE=MEANING",
        help="what integer or categorical values mean, the negative one first",
    )
    labels.add_argument("--cut", nargs="+", type=float, default=[], help="where classes of float values begin")
    tasks = parser.add_argument_group("tasks", "files that say what is asked, when, and how it is labelled")
    tasks.add_argument("--task-file", nargs="+", type=Path, default=[], metavar="FILE", help="one TOML file per task")


def build_from_labels(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    """Build the task of a table of labels."""
    if arguments.labels is None:
        raise UserError("say which table of labels: wardround bench build labels --labels FILE ...")
    task = read_label_table(
        arguments.labels,
        name=arguments.label_name,
        description=arguments.question,
        classes=[_class(text) for text in arguments.classes],
        cuts=arguments.cut,
    )
    return _build(arguments, Store.open(arguments.store), [task], progress)


def build_from_files(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    """Build the tasks of some files and of plug-ins."""
    if not arguments.task_file and not arguments.task:
        raise UserError("say which tasks: wardround bench build tasks --task-file FILE ... (or --task of a plug-in)")
    store = Store.open(arguments.store)
    tasks = [read_task_file(path, store.spec) for path in arguments.task_file]
    tasks += [OWN_TASKS.get(name)(store.spec) for name in arguments.task]
    return _build(arguments, store, tasks, progress)


def _build(arguments: argparse.Namespace, store: Store, tasks: list[OwnTask], progress: TerminalProgress) -> Benchmark:
    settings = BuildSettings(
        seed=arguments.seed,
        fractions=tuple(arguments.fractions),
        policy=arguments.policy,
        per_task=arguments.per_task,
        per_subject=arguments.per_subject,
        workers=arguments.workers,
        executor=arguments.executor,
    )
    return build_own(tasks, store, arguments.out, settings, user_codes=user_codes_home(), report=progress)


def _class(text: str) -> AnswerClass:
    value, sign, meaning = text.partition("=")
    if not sign or not value.strip() or not meaning.strip():
        raise UserError(f"--class takes VALUE=MEANING, such as 1=mild, not {text!r}")
    return value.strip(), meaning.strip()
