"""Draw EHRSHOT questions and build samples from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.core import content_hash, derive_seed, format_time, from_microseconds
from wardround.records import Store
from wardround.records.shards import NEVER_TIME
from wardround.tasks.benchmarks.drawing import person_id
from wardround.tasks.benchmarks.ehrshot.concepts import Places
from wardround.tasks.benchmarks.ehrshot.labelling import Questions
from wardround.tasks.benchmarks.encounters import AVAILABLE, NO_TIME, Ints, microseconds
from wardround.tasks.benchmarks.sample import SPLITS, Sample, Split
from wardround.tasks.benchmarks.task import Task

# From drawn questions to samples: id, target, and the row or cells that no chart may show yet.


def make_samples(
    store: Store, places: Places, splits: Mapping[int, Split], task: Task, questions: Questions, drawn: Ints
) -> list[Sample]:
    """Build samples from the drawn questions; row ids are read for these questions only."""
    ids = _RowIds(store)
    samples = []
    answer = _answer(task)
    for index in drawn.tolist():
        subject, prediction_us = int(questions.subjects[index]), int(questions.predictions[index])
        row, event, stay = (int(column[index]) for column in (questions.rows, questions.events, questions.stays))
        table = questions.tables[int(questions.table_of[index])]
        is_stay_row = row == stay and table == places.stays.table
        moment = from_microseconds(prediction_us)
        row_id = "" if row < 0 else ids.of(subject, table, row)
        samples.append(
            Sample(
                id=f"{task.name}-{subject}-{moment:%Y%m%dT%H%M%S}{_result_suffix(task, row_id)}",
                task=task.name,
                subject_id=subject,
                person_id=person_id(store, subject),
                prediction_time=moment,
                target=answer(int(questions.values[index])),
                split=splits[subject],
                stratum="any",
                facts={
                    "event_time": None if event == NO_TIME else format_time(from_microseconds(event)),
                    **_answer_place(places, row_id, is_stay_row),
                    **({"stay": ids.of(subject, places.stays.table, stay)} if stay >= 0 else {}),
                },
            )
        )
    return samples


def _result_suffix(task: Task, row_id: str) -> str:
    """Return a suffix for the result in question: a later result of the same minute must not rename it."""
    return f"-{content_hash(row_id)[:8]}" if task.about == "result" else ""


def last_answers(
    store: Store, places: Places, task: Task, questions: Questions, drawn: Ints, samples: Sequence[Sample]
) -> dict[str, tuple[str, ...]]:
    """Return, by sample, the answer of the subject's last question that was on record by then.

    A negative answer without a row (no readmission came) has no time and never counts as known.
    """
    clock = _RowClock(store)
    answer = _answer(task)
    answers = {}
    for sample, index in zip(samples, drawn.tolist(), strict=True):
        prediction_us = int(questions.predictions[index])
        first = int(np.searchsorted(questions.subjects, sample.subject_id))
        events = questions.events[first:index]
        happened = (first + np.flatnonzero((events != NO_TIME) & (events <= prediction_us))).tolist()
        known = [earlier for earlier in happened if _is_known(clock, places, questions, earlier, prediction_us)]
        if known:
            last = max(known, key=lambda earlier: int(questions.events[earlier]))
            answers[sample.id] = answer(int(questions.values[last]))
    return answers


def _is_known(clock: _RowClock, places: Places, questions: Questions, index: int, prediction_us: int) -> bool:
    """Return whether the row of an answer was available by a moment.

    The end of a stay is known when it happens.
    """
    row, stay = int(questions.rows[index]), int(questions.stays[index])
    table = questions.tables[int(questions.table_of[index])]
    if row < 0 or (row == stay and table == places.stays.table):
        return row >= 0
    return clock.available(int(questions.subjects[index]), table, row) <= prediction_us


def _answer_place(places: Places, row_id: str, is_of_stay: bool) -> dict[str, Any]:
    """Return the row that no chart may show yet, or, for the row of the stay itself, its cells."""
    if row_id and is_of_stay:
        return {"row_ids": [], "late_cells": {row_id: list(places.stays.ends)}}
    return {"row_ids": [row_id] if row_id else []}


def _answer(task: Task) -> Callable[[int], tuple[str, ...]]:
    """Return the function from a value to a target: the value itself, or the set bits of several labels."""
    if not task.answer.several:
        return lambda value: (str(value),)
    positive = task.answer.label_values[1:]
    return lambda value: (
        tuple(sorted(label for bit, label in enumerate(positive) if value >> bit & 1)) or (task.answer.label_values[0],)
    )


def by_class(task: Task, values: Ints) -> dict[str, int]:
    """Count the questions of every class."""
    answer = _answer(task)
    counts: Counter[str] = Counter()
    for value, count in zip(*(column.tolist() for column in np.unique(values, return_counts=True)), strict=True):
        counts.update(dict.fromkeys(answer(value), count))
    return {value: counts[value] for value in task.answer.label_values}


class _RowIds:
    """Row ids by row index.

    One table of one subject is in memory at a time: samples come in the order of subjects.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loaded: tuple[int, str] | None = None
        self._ids: Any = None

    def of(self, subject_id: int, table: str, row: int) -> str:
        """Return the id of a row."""
        if self._loaded != (subject_id, table):
            self._loaded, self._ids = (subject_id, table), self._store.rows(subject_id, table).column("row_id")
        return str(self._ids[row].as_py())


class _RowClock:
    """Availability times of rows, with one table of one subject in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loaded: tuple[int, str] | None = None
        self._times: list[int] = []

    def available(self, subject_id: int, table: str, row: int) -> int:
        """Return when a row became available, NEVER_TIME where it never did."""
        if self._loaded != (subject_id, table):
            self._loaded = (subject_id, table)
            self._times = microseconds(self._store.rows(subject_id, table).column(AVAILABLE)).tolist()
        return NEVER_TIME if self._times[row] == NO_TIME else self._times[row]


# The draw: which questions become samples. It is uniform by seed; a smaller draw is part of a larger one.
#
# It is not stratified by class: accuracy, AUPRC and Brier score depend on prevalence, and a set with half long stays
# says nothing about a ward where a fifth are long. To get more of a rare class, draw more.


_MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def draw(
    questions: Questions, splits: Mapping[int, Split], *, task: str, seed: int, per_task: int, per_subject: int | None
) -> Ints:
    """Return the indices of the drawn questions, in order.

    At most ``per_subject`` of a subject and ``per_task`` of a split (0: no limit). The chance of a question does not
    depend on its class.
    """
    keys = _keys(questions, derive_seed(seed, task, "draw"))
    kept = np.argsort(keys, kind="stable")
    if per_subject is not None:
        kept = kept[_rank_within(questions.subjects[kept]) < per_subject]
    split_of = np.array([SPLITS.index(splits[subject]) for subject in questions.subjects[kept].tolist()], np.int64)
    if per_task:
        kept = kept[_rank_within(split_of) < per_task]
    return np.sort(kept)


def _keys(questions: Questions, seed: int) -> npt.NDArray[np.uint64]:
    """Return a random key per question, from the seed, subject, time and rank within that time."""
    n = len(questions)
    rank_in_time = np.zeros(n, np.int64)
    if n:
        repeated = (np.diff(questions.subjects) == 0) & (np.diff(questions.predictions) == 0)
        run = np.r_[0, np.cumsum(repeated)]
        base = np.maximum.accumulate(np.where(np.r_[True, ~repeated], run, 0))
        rank_in_time = run - base
    parts = (questions.subjects, questions.predictions, rank_in_time)
    mixed = np.full(n, seed, np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            mixed = _mix(mixed ^ _mix(part.astype(np.uint64)))
    return mixed


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return SplitMix64's finaliser of each value."""
    mixed = (values + np.uint64(0x9E3779B97F4A7C15)) & _MASK
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


def _rank_within(groups: Ints) -> Ints:
    """Return the number of earlier items of the same group, for each item."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(groups) else np.empty(0, np.int64)
    rank = np.empty(len(groups), np.int64)
    sizes = np.diff(np.r_[starts, len(groups)])
    rank[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return rank
