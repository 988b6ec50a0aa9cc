"""A benchmark's targets in MEDS label form: one folder per task, one file per split.

MEDS lets data be used up to and including ``prediction_time``, which is what a chart as of that time shows. A task of
two classes has ``boolean_value``; one of several has ``integer_value`` and ``categorical_value`` (the meaning). Labels
that may hold at once have a folder each. An answer that is a set of names has one ``categorical_value`` row per name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.core import must_be_new
from wardround.exports.meds import LabelColumn, write_labels
from wardround.tasks.benchmarks.benchmark import Benchmark
from wardround.tasks.benchmarks.sample import SPLITS, Sample, Split
from wardround.tasks.benchmarks.task import Task

MEDS_SPLITS: Mapping[Split, str] = {"train": "train", "dev": "tuning", "test": "held_out"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryQuestion:
    """A question with yes and no for an answer: its folder, the label values that mean yes, its view's name."""

    folder: str
    positive: frozenset[str]
    view: str

    def holds(self, values: Sequence[str]) -> bool:
        """Whether an answer or a target means yes."""
        return not self.positive.isdisjoint(values)


def binary_questions(task: Task) -> tuple[BinaryQuestion, ...]:
    """Return the yes-or-no questions of a task whose answers are classes: its own, each of its labels, or "not the
    first class"."""
    return tuple(
        BinaryQuestion(
            folder=f"{task.name}/{folder_name(view.short)}" if view.short else task.name,
            positive=frozenset(view.classes[1:]) if view.positive is None else view.positive,
            view=view.name,
        )
        for view in task.answer.views
        if len(view.classes) == 2
    )


def folder_name(text: str) -> str:
    """Return a text as the name of a folder or file."""
    return "".join(letter if letter.isalnum() or letter in "-.+" else "_" for letter in text).strip("_.") or "_"


def meds_splits(benchmark: Benchmark) -> dict[int, str]:
    """Return the split of every subject that a benchmark asks about, by the names of MEDS."""
    return {sample.subject_id: MEDS_SPLITS[sample.split] for sample in benchmark.all_samples}


def write_meds_labels(benchmark: Benchmark, folder: Path) -> dict[str, int]:
    """Write the labels of every task into a new folder; return rows by folder. UserError: it holds something."""
    must_be_new(folder)
    counts: dict[str, int] = {}
    for task in benchmark.tasks:
        for split in SPLITS:
            samples = benchmark.samples(task.name, split)
            for name, rows, labels in _files(task, samples) if samples else ():
                path = folder / name / f"{MEDS_SPLITS[split]}.parquet"
                subjects, times = [row.subject_id for row in rows], [row.moment for row in rows]
                write_labels(path, subjects, times, labels)
                counts[name] = counts.get(name, 0) + len(rows)
    return counts


def _files(
    task: Task, samples: Sequence[Sample]
) -> Iterator[tuple[str, Sequence[Sample], Mapping[LabelColumn, list[Any]]]]:
    """Yield (folder, sample of each row, label columns)."""
    numbered = [view for view in task.answer.views if len(view.classes) > 2]
    for view in numbered:
        numbers = [view.classes.index(sample.target[0]) for sample in samples]
        names = [view.class_names[number] for number in numbers]
        yield task.name, samples, {"integer_value": numbers, "categorical_value": names}
    for question in () if numbered else binary_questions(task):
        yield question.folder, samples, {"boolean_value": [question.holds(sample.target) for sample in samples]}
    if not task.answer.views:
        rows = [(sample, name) for sample in samples for name in sample.target]
        yield task.name, [one for one, _ in rows], {"categorical_value": [name for _, name in rows]}
