"""From drawn questions to samples: the id, the target, which row or cells no chart may show when it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wardround.benchmarks.columns import NO_TIME, Ints
from wardround.benchmarks.ehrshot.labelling import Questions
from wardround.benchmarks.ehrshot.places import Places
from wardround.benchmarks.sample import Sample, Split
from wardround.benchmarks.split import person_id
from wardround.benchmarks.task import Task
from wardround.core import format_time, from_microseconds
from wardround.records import Store


def make_samples(
    store: Store, places: Places, splits: Mapping[int, Split], task: Task, questions: Questions, drawn: Ints
) -> list[Sample]:
    """Make samples of the drawn questions; their rows' ids are looked up now, for these only."""
    ids = _RowIds(store)
    seen: Counter[tuple[int, int]] = Counter()
    made = []
    answer = _answer(task)
    for place in drawn.tolist():
        subject, asked = int(questions.subjects[place]), int(questions.predictions[place])
        row, event, stay = (int(column[place]) for column in (questions.rows, questions.events, questions.stays))
        table = questions.tables[int(questions.table_of[place])]
        of_stay = row == stay and table == places.stays.table
        moment = from_microseconds(asked)
        seen[subject, asked] += 1
        again = f"-{seen[subject, asked]}" if seen[subject, asked] > 1 else ""
        made.append(
            Sample(
                id=f"{task.name}-{subject}-{moment:%Y%m%dT%H%M%S}{again}",
                task=task.name,
                subject_id=subject,
                person_id=person_id(store, subject),
                prediction_time=moment,
                target=answer(int(questions.values[place])),
                split=splits[subject],
                stratum="any",
                facts={
                    "event_time": None if event == NO_TIME else format_time(from_microseconds(event)),
                    **_answer_place(places, "" if row < 0 else ids.of(subject, table, row), of_stay),
                    **({"stay": ids.of(subject, places.stays.table, stay)} if stay >= 0 else {}),
                },
            )
        )
    return made


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
