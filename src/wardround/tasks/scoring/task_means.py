"""The mean of task means, and where the budget cut evidence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from wardround.tasks.scoring.bootstrap import Floats, Interval, Statistic, cluster_bootstrap, ratio

# The mean of task means: what the papers print as their average (RetroSum, tables 2 to 4).
#
# Every task weighs alike, however many samples it has. Patients are drawn across tasks: one who is asked about in
# several comes, or stays away, in all of them.


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


# Where the budget cut a method's evidence: its figures are then those of the method in that budget, and tables say so.
#
# An episode's loss is that of the prompt that lost most: the actor's, or one of a reader beside it.


PACKAGE = "curated"
NOTES = ("evidence", PACKAGE)
"""The kinds of notes in which an agent says what of its evidence a prompt shows; ``PACKAGE`` is that of an evidence
package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCut:
    """Episodes (of ``of`` with evidence) in which events were left out, and the mean number of these events."""

    episodes: int
    of: int
    events: float = 0.0

    def __str__(self) -> str:
        return f"{self.episodes:,} of {self.of:,} episodes ({self.events:,.0f} events each)"

    @property
    def short(self) -> str:
        """Return the text of a table's cell."""
        return f"{self.episodes:,} of {self.of:,}" + (f" (-{self.events:,.0f})" if self.episodes else "")


def events_left_out(details: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many events the most shortened prompt of an episode lost; None without evidence."""
    lost = [int(detail.get("events_left_out", 0)) for detail in details]
    return max(lost) if lost else None


def package_hours(details: Iterable[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return how many hours before the question an evidence package shows, and how many without a cut."""
    hours_by_note = [(float(detail["hours_shown"]), float(detail["hours"])) for detail in details if "hours" in detail]
    return hours_by_note[-1] if hours_by_note else None


def evidence_cut(lost: Iterable[int | None]) -> EvidenceCut | None:
    """Sum up episodes; None where none had evidence."""
    known = [events for events in lost if events is not None]
    if not known:
        return None
    cut = [events for events in known if events]
    return EvidenceCut(episodes=len(cut), of=len(known), events=fmean(cut) if cut else 0.0)
