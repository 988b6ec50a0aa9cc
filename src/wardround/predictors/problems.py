"""What a predictor is asked: a task's samples in their splits, each with the place of its class.

A task of more than two classes is asked twice: as it is (the paper's tables) and as normal against anything else (as
EHRSHOT does with lab results). Of a task whose labels may hold at once, each label is a question of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from wardround.benchmarks import Benchmark, Sample, Task
from wardround.core import UserError

View = str
CLASSES: View = "classes"
BINARY: View = "binary"
Part = Literal["train", "dev", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One question to predictors. ``truth_*`` hold the place of each sample's class in ``classes``."""

    task: str
    view: View
    classes: tuple[str, ...]
    class_names: tuple[str, ...]
    train: tuple[Sample, ...]
    dev: tuple[Sample, ...]
    test: tuple[Sample, ...]
    positive: frozenset[str] | None = None

    def truth(self, samples: Sequence[Sample]) -> npt.NDArray[np.int64]:
        """Return the place of each sample's class."""
        if self.positive is not None:
            return np.array([bool(self.positive & set(sample.target)) for sample in samples], np.int64)
        place = {name: n for n, name in enumerate(self.classes)}
        try:
            return np.array([place[sample.target[0]] for sample in samples], np.int64)
        except KeyError as error:
            raise UserError(f"task {self.task} has a sample of class {error}, which it does not declare") from error


def problems(
    benchmark: Benchmark,
    *,
    tasks: Collection[str] = (),
    split: str = "test",
    samples: Collection[str] | None = None,
) -> Iterator[Problem]:
    """Yield the questions of a benchmark's tasks that have classes; of test samples only those named, if any are."""
    for task in benchmark.tasks:
        if not task.classes or (tasks and task.name not in tasks):
            continue
        wanted = None if samples is None else set(samples)
        test = [one for one in benchmark.samples(task.name, split) if wanted is None or one.id in wanted]
        whole = Problem(
            task=task.name,
            view=CLASSES,
            classes=task.label_values,
            class_names=tuple(name for _, name in task.classes),
            train=benchmark.samples(task.name, "train"),
            dev=benchmark.samples(task.name, "dev"),
            test=tuple(test),
        )
        yield from _views(whole, task)


def _views(whole: Problem, task: Task) -> Iterator[Problem]:
    values, names = whole.classes, whole.class_names
    if task.several:
        for value, name in list(zip(values, names, strict=True))[1:]:  # the first says that none of them holds
            yield replace(
                whole,
                view=f"label {name}",
                classes=("0", "1"),
                class_names=("absent", "present"),
                positive=frozenset({value}),
            )
        return
    yield whole
    if len(values) > 2:
        yield replace(
            whole,
            view=BINARY,
            classes=("0", "1"),
            class_names=(names[0], f"not {names[0]}"),
            positive=frozenset(values[1:]),
        )
