"""What the moment of a question, and the mere existence of rows, tell of its answer: fitted on training people.

``when`` answers each question from what is known of its moment alone. The existence audit tries one number at a time
(a table has a row, its number of rows, a column is filled) and names the five that say most. A task that either of them
answers tells its answer by when it is asked, or by which rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np

from wardround.benchmarks.chart_moments import MOMENT, MomentReader, Readings
from wardround.benchmarks.columns import Flags, Ints
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.small_fits import Table, area, area_with_interval, neighbours, shares
from wardround.benchmarks.task import Task
from wardround.core import derive_seed

_FOLDS = 5
_NAMED = 5
_LEAST = 10
"""Fewer training questions give no fit."""
_LEAST_OF_EACH = 5
"""Fewer of one class say nothing of an AUC."""
_MOST = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutReading:
    """The answers of ``when`` by sample, or why there are none; ``facts`` are what a manifest says of one task."""

    when: Mapping[str, tuple[str, ...]] | str
    facts: Mapping[str, Any] = field(default_factory=dict)


def without_reading(reader: MomentReader, task: Task, samples: Sequence[Sample]) -> WithoutReading:
    """Fit both on the training samples of a task, on the clocks ``known_at``."""
    training = np.array([one.split == "train" for one in samples], bool)
    if int(training.sum()) < _LEAST:
        return WithoutReading(when=f"fewer than {_LEAST} training questions: nothing to fit the moment on")
    values = task.answer.label_values
    two = len(values) == 2 and not task.answer.several
    readings = reader.read(samples, existence=two)
    people = np.array([one.person for one in samples], np.int64)
    folds = _folds(people, training)
    if not values or task.answer.several:
        return WithoutReading(when=_by_neighbours(task, samples, readings.moment, folds))
    classes = np.array([values.index(one.target[0]) for one in samples], np.int64)
    told, before = _out_of_fold(readings.moment, classes, folds, len(values))
    when = {one.id: (values[place],) for one, place in zip(samples, told.argmax(axis=1).tolist(), strict=True)}
    positive = classes == 1
    if not two or min(int(positive.sum()), int((~positive).sum())) < _LEAST_OF_EACH:
        return WithoutReading(when=when)
    moment = area_with_interval(_logit(told[:, 1]) - _logit(before[:, 1]), positive, people)
    facts = {
        "when": moment.to_json() | {"most_by": _most_by(readings.moment, positive, training)},
        "existence": _existence(readings, positive, training, people),
    }
    return WithoutReading(when=when, facts=facts)


def _folds(people: Ints, training: Flags) -> Sequence[tuple[Flags, Flags]]:
    """Pairs of rows to fit on and rows to answer: training people are answered by four fifths of the others."""
    number = np.array([derive_seed(0, "without_reading", person) % _FOLDS for person in people.tolist()])
    parts = [(training & (number != fold), training & (number == fold)) for fold in range(_FOLDS)]
    return [(fit, asked) for fit, asked in [*parts, (training, ~training)] if fit.any() and asked.any()]


def _out_of_fold(rows: Table, classes: Ints, folds: Sequence[tuple[Flags, Flags]], count: int) -> tuple[Table, Table]:
    """The share of every class by the moment, and the share that it has in the people of the fit: without that one,
    whom a fold leaves out tells."""
    told, before = (np.full((len(rows), count), 1 / count) for _ in range(2))
    for fit, asked in folds:
        chosen = np.flatnonzero(fit)[:_MOST]
        told[asked] = shares(rows[chosen], classes[chosen], rows[asked], count)
        before[asked] = np.bincount(classes[chosen], minlength=count) / len(chosen)
    return told, before


def _logit(shares_: Table) -> Table:
    held = np.clip(shares_, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(held / (1 - held)))


def _by_neighbours(
    task: Task, samples: Sequence[Sample], rows: Table, folds: Sequence[tuple[Flags, Flags]]
) -> dict[str, tuple[str, ...]]:
    """Answer with what the prior is of the training questions asked at the most similar moments."""
    found = {}
    for fit, asked in folds:
        chosen = np.flatnonzero(fit)[:_MOST]
        near = neighbours(rows[chosen], rows[asked], max(_LEAST, isqrt(len(chosen))))
        for place, row in zip(np.flatnonzero(asked).tolist(), near, strict=True):
            found[samples[place].id] = task.answer.prior([samples[chosen[one]].target for one in row.tolist()])
    return found


def _most_by(moment: Table, positive: Flags, training: Flags) -> str:
    """The column of the moment that says most by itself, among training people."""
    alone = [abs(_filled_area(moment[training, place], positive[training]) - 0.5) for place in range(len(MOMENT))]
    return MOMENT[int(np.argmax(alone))]


def _filled_area(values: Table, positive: Flags) -> float:
    found = area(np.where(np.isfinite(values), values, -1.0), positive)
    return found if np.isfinite(found) else 0.5


def _existence(readings: Readings, positive: Flags, training: Flags, people: Ints) -> list[dict[str, Any]]:
    """The five numbers that say most among training people, with their AUC among all others."""
    tried: dict[str, Table] = {}
    for place, name in enumerate(readings.names):
        column = readings.existence[:, place]
        tried[f"{name} is filled" if "." in name else f"{name} has a row"] = (column > 0).astype(float)
        if "." not in name:
            tried[f"rows of {name}"] = column
    signs = {name: _filled_area(values[training], positive[training]) for name, values in tried.items()}
    best = sorted(signs, key=lambda name: (-abs(signs[name] - 0.5), name))[:_NAMED]
    found = []
    for name in best:
        turned = tried[name] if signs[name] >= 0.5 else -tried[name]
        held_out = area_with_interval(turned[~training], positive[~training], people[~training])
        found.append({"what": name if signs[name] >= 0.5 else f"{name} (fewer)", **held_out.to_json()})
    return found
