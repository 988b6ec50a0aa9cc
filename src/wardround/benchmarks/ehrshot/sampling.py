"""The draw: which of a task's questions become samples. Uniform, by seed; a smaller draw is part of a larger one.

Not stratified by class: accuracy, AUPRC and Brier score depend on how common a class is, and a set in which half of the
stays are long says nothing of a ward in which a fifth are. Whoever needs more of a rare class draws more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from wardround.benchmarks.columns import Ints
from wardround.benchmarks.ehrshot.labelling import Questions
from wardround.benchmarks.sample import SPLITS, Split
from wardround.core import derive_seed

_MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def draw(
    questions: Questions, splits: Mapping[int, Split], *, task: str, seed: int, per_task: int, per_subject: int | None
) -> Ints:
    """Return the places of the drawn questions, in order: at most ``per_subject`` of a subject and ``per_task`` of a
    split (0: all). A question's chance does not depend on its class."""
    keys = _keys(questions, derive_seed(seed, task, "draw"))
    kept = np.argsort(keys, kind="stable")
    if per_subject is not None:
        kept = kept[_rank_within(questions.subjects[kept]) < per_subject]
    split_of = np.array([SPLITS.index(splits[subject]) for subject in questions.subjects[kept].tolist()], np.int64)
    if per_task:
        kept = kept[_rank_within(split_of) < per_task]
    return np.sort(kept)


def _keys(questions: Questions, seed: int) -> npt.NDArray[np.uint64]:
    """A key per question, from the seed, the subject, the time and the place among the questions of that time."""
    n = len(questions)
    same = np.zeros(n, np.int64)
    if n:
        repeated = (np.diff(questions.subjects) == 0) & (np.diff(questions.predictions) == 0)
        run = np.r_[0, np.cumsum(repeated)]
        base = np.maximum.accumulate(np.where(np.r_[True, ~repeated], run, 0))
        same = run - base
    parts = (questions.subjects, questions.predictions, same)
    mixed = np.full(n, seed, np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            mixed = _mix(mixed ^ _mix(part.astype(np.uint64)))
    return mixed


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser."""
    mixed = (values + np.uint64(0x9E3779B97F4A7C15)) & _MASK
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


def _rank_within(groups: Ints) -> Ints:
    """How many of the same group come before each."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(groups) else np.empty(0, np.int64)
    rank = np.empty(len(groups), np.int64)
    sizes = np.diff(np.r_[starts, len(groups)])
    rank[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return rank
