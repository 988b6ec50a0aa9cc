"""The mean of task means: what the papers print as their average (RetroSum, tables 2 to 4).

Every task weighs alike, however many samples it has. Patients are drawn across tasks: one who is asked about in several
comes, or stays away, in all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wardround.scoring.bootstrap import Floats, Interval, Statistic, cluster_bootstrap, ratio


def mean_of_task_means(values: Sequence[float], tasks: Sequence[str]) -> float:
    """Return the mean over tasks of the mean over their samples."""
    rows, statistic = task_rows(values, tasks)
    return float(statistic(rows.sum(axis=0)))


def task_mean_interval(
    values: Sequence[float], tasks: Sequence[str], subjects: Sequence[Hashable], *, seed: int, **how: Any
) -> Interval:
    """Return the mean of task means with its interval over patients. A resample without a task says nothing of it and
    is left out (``undefined``); where every task has one patient, none is left but the sample itself."""
    rows, statistic = task_rows(values, tasks)
    found = cluster_bootstrap(rows, subjects, statistic, seed=seed, **how)
    one_each = len(set(zip(tasks, subjects, strict=True))) == len(set(tasks))
    return replace(found, of_one=True) if one_each else found


def task_rows(values: Sequence[float], tasks: Sequence[str]) -> tuple[Floats, Statistic]:
    """Return, per sample, its value and a one in the columns of its task, and the statistic of their sums."""
    order = {task: place for place, task in enumerate(dict.fromkeys(tasks))}
    rows = np.zeros((len(values), 2 * len(order)))
    for row, value, task in zip(rows, values, tasks, strict=True):
        row[2 * order[task] : 2 * order[task] + 2] = value, 1.0
    return rows, lambda sums: np.asarray(ratio(sums[..., 0::2], sums[..., 1::2]).mean(axis=-1))


def task_weights(tasks: Sequence[str]) -> Floats:
    """Return what each sample weighs in the mean of task means: 1 / (tasks x samples of its task)."""
    counts = {task: tasks.count(task) for task in dict.fromkeys(tasks)}
    return np.array([1.0 / (len(counts) * counts[task]) for task in tasks])
