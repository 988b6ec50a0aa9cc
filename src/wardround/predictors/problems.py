"""What a predictor is asked: a task's samples in their splits, each with the place of its class.

A task of more than two classes is asked twice: as it is (the paper's tables) and as normal against anything else (as
EHRSHOT does with lab results). Of a task whose labels may hold at once, each label is a question of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wardround.benchmarks import Benchmark, Sample
from wardround.core import UserError

Part = Literal["train", "dev", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One question to predictors. ``truth_*`` hold the place of each sample's class in ``classes``."""

    task: str
    view: str
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
    """Yield the questions of a benchmark's tasks whose answers are classes; of test samples only those named, if any
    are."""
    wanted = None if samples is None else set(samples)
    for task in benchmark.tasks:
        if tasks and task.name not in tasks:
            continue
        test = [one for one in benchmark.samples(task.name, split) if wanted is None or one.id in wanted]
        for view in task.answer.views:
            yield Problem(
                task=task.name,
                view=view.name,
                classes=view.classes,
                class_names=view.class_names,
                train=benchmark.samples(task.name, "train"),
                dev=benchmark.samples(task.name, "dev"),
                test=tuple(test),
                positive=view.positive,
            )
