"""Draw EHRSHOT's questions and make samples of them."""

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

# From drawn questions to samples: the id, the target, which row or cells no chart may show when it is asked.


def make_samples(
    store: Store, places: Places, splits: Mapping[int, Split], task: Task, questions: Questions, drawn: Ints
) -> list[Sample]:
    """Make samples of the drawn questions; their rows' ids are looked up now, for these only."""
    ids = _RowIds(store)
    made = []
    answer = _answer(task)
    for place in drawn.tolist():
        subject, asked = int(questions.subjects[place]), int(questions.predictions[place])
        row, event, stay = (int(column[place]) for column in (questions.rows, questions.events, questions.stays))
        table = questions.tables[int(questions.table_of[place])]
        of_stay = row == stay and table == places.stays.table
        moment = from_microseconds(asked)
        row_id = "" if row < 0 else ids.of(subject, table, row)
        made.append(
            Sample(
                id=f"{task.name}-{subject}-{moment:%Y%m%dT%H%M%S}{_result(task, row_id)}",
                task=task.name,
                subject_id=subject,
                person_id=person_id(store, subject),
                prediction_time=moment,
                target=answer(int(questions.values[place])),
                split=splits[subject],
                stratum="any",
                facts={
                    "event_time": None if event == NO_TIME else format_time(from_microseconds(event)),
                    **_answer_place(places, row_id, of_stay),
                    **({"stay": ids.of(subject, places.stays.table, stay)} if stay >= 0 else {}),
                },
            )
        )
    return made


def _result(task: Task, row_id: str) -> str:
    """Name the result that a question is about: another one of the same minute, known later, must not rename it."""
    return f"-{content_hash(row_id)[:8]}" if task.about == "result" else ""


def last_answers(
    store: Store, places: Places, task: Task, questions: Questions, drawn: Ints, samples: Sequence[Sample]
) -> dict[str, tuple[str, ...]]:
    """Return, by sample, the answer of the subject's last question that had come about and was written down by then.

    A no that nothing tells (no readmission came) has no time of its own and is never taken for known.
    """
    clock = _RowClock(store)
    answer = _answer(task)
    found = {}
    for sample, place in zip(samples, drawn.tolist(), strict=True):
        asked = int(questions.predictions[place])
        first = int(np.searchsorted(questions.subjects, sample.subject_id))
        events = questions.events[first:place]
        told = (first + np.flatnonzero((events != NO_TIME) & (events <= asked))).tolist()
        known = [one for one in told if _is_known(clock, places, questions, one, asked)]
        if known:
            last = max(known, key=lambda one: int(questions.events[one]))
            found[sample.id] = answer(int(questions.values[last]))
    return found


def _is_known(clock: _RowClock, places: Places, questions: Questions, place: int, asked: int) -> bool:
    """Whether the row that gives an answer is there by a moment; the end of a stay is known when it comes."""
    row, stay = int(questions.rows[place]), int(questions.stays[place])
    table = questions.tables[int(questions.table_of[place])]
    if row < 0 or (row == stay and table == places.stays.table):
        return row >= 0
    return clock.available(int(questions.subjects[place]), table, row) <= asked


def _answer_place(places: Places, row_id: str, is_of_stay: bool) -> dict[str, Any]:
    """Say which row no chart may show when the question is asked, or, where that is the row of the stay itself, which
    cells of it."""
    if row_id and is_of_stay:
        return {"row_ids": [], "late_cells": {row_id: list(places.stays.ends)}}
    return {"row_ids": [row_id] if row_id else []}


def _answer(task: Task) -> Callable[[int], tuple[str, ...]]:
    """What turns a value into a target: itself, or with several labels the bits that are set."""
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
    """Ids of rows by their place, one subject's table at a time: samples come in the order of subjects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: tuple[int, str] | None = None
        self._ids: Any = None

    def of(self, subject_id: int, table: str, row: int) -> str:
        """Return a row's id."""
        if self._held != (subject_id, table):
            self._held, self._ids = (subject_id, table), self._store.rows(subject_id, table).column("row_id")
        return str(self._ids[row].as_py())


class _RowClock:
    """When rows became available, one subject's table at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: tuple[int, str] | None = None
        self._times: list[int] = []

    def available(self, subject_id: int, table: str, row: int) -> int:
        """Return when a row became available, NEVER_TIME where it did not."""
        if self._held != (subject_id, table):
            self._held = (subject_id, table)
            self._times = microseconds(self._store.rows(subject_id, table).column(AVAILABLE)).tolist()
        return NEVER_TIME if self._times[row] == NO_TIME else self._times[row]


# The draw: which of a task's questions become samples. Uniform, by seed; a smaller draw is part of a larger one.
#
# Not stratified by class: accuracy, AUPRC and Brier score depend on how common a class is, and a set in which half of
# the stays are long says nothing of a ward in which a fifth are. Whoever needs more of a rare class draws more.


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
