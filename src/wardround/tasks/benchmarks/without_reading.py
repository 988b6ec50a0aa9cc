"""Baselines that predict from the prediction time and from which rows exist, without reading a value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.audits import ShownTable
from wardround.core import derive_seed, parse_time, to_microseconds
from wardround.records import RowRole, SpanRole, Store, TableSpec, Withheld
from wardround.records.rules import ALWAYS_TIME
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import CodedRows
from wardround.tasks.benchmarks.encounters import (
    AVAILABLE,
    EVENT,
    MINUTE,
    NO_TIME,
    Flags,
    Ints,
    event_times,
    microseconds,
    read_spans,
)
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.small_models import DRAWS, Matrix, area, area_with_interval, neighbours, shares
from wardround.tasks.benchmarks.task import Task

# Features of a question that need no value of any row: its time, and how many rows were available.
#
# Times follow the policy ``known_at``. There are two feature sets. *Moment*: minutes since the arrival, since the last
# result, and so on. *Existence*: which tables have rows in the window before the question, which columns are filled.
# A contender of the baseline card may use these features and no others.


Table = npt.NDArray[np.float64]
_HOUR, _WINDOW = 60 * MINUTE, 24 * 60 * MINUTE
_CACHE_SIZE = 4096
_NONE: Ints = np.empty(0, np.int64)
_SPANS = {"arrival": "emergency", "admission": "admission", "intensive care": "stay"}
_ROWS = {"vital sign": "vital", "laboratory result": "lab", "order": "order"}
MOMENT = (
    "hour of day",
    *(f"minutes since {name}" for name in (*_SPANS, "last row", *(f"last {what}" for what in _ROWS))),
    "rows so far",
    "questions so far",
)
"""Names of the moment features, in column order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Features of samples, one row per sample.

    ``moment`` has the columns of ``MOMENT``; NaN marks a missing value. ``existence`` counts the rows or filled cells
    in the window, with the columns ``names``: ``poe`` or ``poe.order_status``.
    """

    moment: Table
    names: tuple[str, ...]
    existence: Table


class MomentReader:
    """Computes features of the questions of one store; each subject's times are read once for all tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: dict[tuple[int, bool], _AvailableTimes] = {}

    def read(self, samples: Sequence[Sample], *, existence: bool) -> Readings:
        """Return the features of a task's samples; without ``existence`` the existence table is empty."""
        by_subject: dict[int, list[int]] = {}
        for row, sample in enumerate(samples):
            by_subject.setdefault(sample.subject_id, []).append(row)
        moment = np.full((len(samples), len(MOMENT)), np.nan)
        counts: dict[str, Table] = {}
        for subject, rows in by_subject.items():
            available = self._of(subject, existence)
            times = np.array([to_microseconds(samples[row].moment) for row in rows], np.int64)
            moment[rows, :-1] = available.moments([samples[row] for row in rows])
            moment[rows, -1] = np.searchsorted(np.sort(times), times)
            since = np.array([_since(samples[row], time) for row, time in zip(rows, times.tolist(), strict=True)])
            hidden = [_hidden(samples[row]) for row in rows]
            seldom = frozenset().union(*hidden)
            for name, moments in available.existing.items() if existence else ():
                column = counts.setdefault(name, np.zeros(len(samples)))
                count = np.searchsorted(moments, times, "right") - np.searchsorted(moments, since, "right")
                table = name.partition(".")[0]
                column[rows] = np.where([table in tables for tables in hidden], 0, count) if table in seldom else count
        names = tuple(sorted(name for name, column in counts.items() if column.min() != column.max()))
        stacked = np.column_stack([counts[name] for name in names]) if names else np.empty((len(samples), 0))
        return Readings(moment=moment, names=names, existence=stacked)

    def _of(self, subject: int, existence: bool) -> _AvailableTimes:
        found = self._cache.get((subject, True)) or self._cache.get((subject, existence))
        if found is None:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            found = self._cache[subject, existence] = _AvailableTimes.of(self._store, subject, existence)
        return found


def _since(sample: Sample, prediction_us: int) -> int:
    """Return where the window starts: the question's own start, or one day before the prediction time."""
    curated_from = sample.facts.get("curated_from")
    return to_microseconds(parse_time(curated_from)) - 1 if curated_from else prediction_us - _WINDOW


def _hidden(sample: Sample) -> frozenset[str]:
    """Return the tables that the question's chart hides since its window began."""
    return frozenset() if sample.withheld is None else sample.withheld.tables


@dataclass(frozen=True, slots=True, kw_only=True)
class _AvailableTimes:
    """Sorted times at which rows and cells of one subject became available.

    ``tables``: rows by table. ``starts``: starts of stays. ``roles``: rows of each role, by table. ``columns``: filled
    cells of the columns that are not filled in every row.
    """

    tables: Mapping[str, Ints]
    starts: Sequence[Ints]
    roles: Sequence[Mapping[str, Ints]]
    columns: Mapping[str, Ints]

    @classmethod
    def of(cls, store: Store, subject: int, existence: bool) -> _AvailableTimes:
        """Read one subject; without ``existence`` no columns."""
        specs = store.spec.tables
        rows = {name: store.rows(subject, name) for name in store.table_names if not specs[name].is_static}
        known = {name: _row_times(batch) for name, batch in rows.items()}
        columns: dict[str, Ints] = {}
        for name, batch in rows.items() if existence else ():
            if batch.num_rows:
                columns |= _columns(specs[name], batch, known[name])
        return cls(
            tables={name: _sorted_times(times) for name, times in known.items()},
            starts=[_stay_starts(getattr(store.spec.roles, span), rows, known) for span in _SPANS.values()],
            roles=[_role_times(store.spec.roles.rows(role), rows, known) for role in _ROWS.values()],
            columns=columns,
        )

    @property
    def existing(self) -> Mapping[str, Ints]:
        """Return availability times by feature: rows by table, filled cells by column."""
        return {name: times for name, times in self.tables.items() if len(times)} | dict(self.columns)

    def moments(self, samples: Sequence[Sample]) -> Table:
        """Return the columns of ``MOMENT`` except the last, for samples of this subject."""
        withheld_filters = {sample.withheld: None for sample in samples}
        features = np.empty((len(samples), len(MOMENT) - 1))
        for withheld in withheld_filters:
            rows = [row for row, sample in enumerate(samples) if sample.withheld == withheld]
            times = np.array([to_microseconds(samples[row].moment) for row in rows], np.int64)
            all_times = _shown(self.tables, withheld)
            roles = [_shown(role, withheld) for role in self.roles]
            features[rows] = np.column_stack(
                [
                    times // _HOUR % 24,
                    *(_minutes_since(available, times) for available in (*self.starts, all_times, *roles)),
                    np.searchsorted(all_times, times, "right"),
                ]
            )
        return features


def _shown(tables: Mapping[str, Ints], withheld: Withheld | None) -> Ints:
    """Return the times of all tables, without the rows that the chart hides."""
    since = 0 if withheld is None else to_microseconds(withheld.since)
    kept = (
        times[times < since] if withheld is not None and name in withheld.tables else times
        for name, times in tables.items()
    )
    return np.sort(np.concatenate([_NONE, *kept]))


def _row_times(batch: pa.RecordBatch) -> Ints:
    """Return when each row became available; NO_TIME for rows that are never or always shown."""
    times = np.maximum(microseconds(batch.column(EVENT)), microseconds(batch.column(AVAILABLE)))
    return np.where((times <= ALWAYS_TIME) | (times >= NEVER_TIME), NO_TIME, times)


def _columns(spec: TableSpec, batch: pa.RecordBatch, available: Ints) -> dict[str, Ints]:
    """Return when the cells of each column became available, for columns with empty or late cells."""
    shown_table, times_by_column = ShownTable.of(spec, batch), {}
    for column, column_field in zip(batch.columns, batch.schema, strict=True):
        empty = column.null_count == batch.num_rows
        if (
            not empty
            and not column_field.name.startswith("_")
            and (column.null_count or column_field.name in spec.late)
        ):
            cells = shown_table.cell(column_field.name)
            times_by_column[f"{spec.name}.{column_field.name}"] = _sorted_times(
                np.where(available == NO_TIME, NO_TIME, cells)
            )
    return times_by_column


def _stay_starts(role: SpanRole | None, rows: Mapping[str, pa.RecordBatch], available: Mapping[str, Ints]) -> Ints:
    """Return when the stays of a kind began, for stays whose row becomes available."""
    if role is None or role.table not in rows:
        return _NONE
    batch = rows[role.table]
    spans = read_spans(role, event_times(batch), CodedRows(batch=batch))
    return _sorted_times(np.where(available[role.table][spans.rows] == NO_TIME, NO_TIME, spans.starts))


def _role_times(
    roles: Sequence[RowRole], rows: Mapping[str, pa.RecordBatch], available: Mapping[str, Ints]
) -> dict[str, Ints]:
    times_by_table: dict[str, Ints] = {}
    for role in roles:
        if role.table in rows:
            times = available[role.table][CodedRows(batch=rows[role.table]).meet(role.where)]
            times_by_table[role.table] = _sorted_times(np.concatenate([times_by_table.get(role.table, _NONE), times]))
    return times_by_table


def _sorted_times(times: Ints) -> Ints:
    return np.sort(times[(times != NO_TIME) & (times < NEVER_TIME)])


def _minutes_since(available: Ints, times: Ints) -> Table:
    """Return minutes since the latest of ``known``; NaN before the first."""
    index = np.searchsorted(available, times, "right") - 1
    latest = available[np.maximum(index, 0)] if len(available) else np.zeros_like(times)
    return np.where(index >= 0, (times - latest) / MINUTE, np.nan)


# How well the prediction time and the existence of rows predict an answer, fitted on training people.
#
# ``when`` predicts from the moment features alone. The existence audit tries one feature at a time (a table has a row,
# its number of rows, a column is filled) and reports the five most predictive ones. A task that either of them solves
# leaks its answer through the time of the question or through which rows exist.


_FOLDS = 5
_MAX_NAMED = 5
_TABLE = re.compile(r"(?:rows of )?(\w+).*")
_MIN_TRAINING = 10
"""Minimum number of training questions for a fit."""
_MIN_PER_CLASS = 5
"""Minimum number of samples of each class for an AUC."""
_MAX_TRAINING = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutReading:
    """Predictions of ``when`` by sample, or why there are none.

    ``facts`` go into the task's entry in the manifest.
    """

    when: Mapping[str, tuple[str, ...]] | str
    facts: Mapping[str, Any] = field(default_factory=dict)


def without_reading(reader: MomentReader, task: Task, samples: Sequence[Sample]) -> WithoutReading:
    """Fit both baselines on the training samples of a task, under the policy ``known_at``.

    A two-class task with enough samples of both classes gets an AUC. Other tasks that one answer settles get the F1 of
    the best single feature, the F1 of the prior, and the difference with its interval.
    """
    training = np.array([sample.split == "train" for sample in samples], bool)
    if int(training.sum()) < _MIN_TRAINING:
        return WithoutReading(when=f"fewer than {_MIN_TRAINING} training questions: nothing to fit the moment on")
    values = task.answer.label_values
    needs_figures = not (task.answer.by_steps or task.answer.judged)
    readings = reader.read(samples, existence=needs_figures)
    people = np.array([sample.person for sample in samples], np.int64)
    folds = _folds(people, training)
    if not values or task.answer.several:
        when = _by_neighbours(task, samples, readings.moment, folds)
        return WithoutReading(when=when, facts=_gains(task, samples, readings, folds, when) if needs_figures else {})
    classes = np.array([values.index(sample.target[0]) for sample in samples], np.int64)
    probabilities, priors = _out_of_fold(readings.moment, classes, folds, len(values))
    when = {
        sample.id: (values[label],)
        for sample, label in zip(samples, probabilities.argmax(axis=1).tolist(), strict=True)
    }
    positive = classes == 1
    if len(values) > 2 or min(int(positive.sum()), int((~positive).sum())) < _MIN_PER_CLASS:
        return WithoutReading(when=when, facts=_gains(task, samples, readings, folds, when))
    moment = area_with_interval(_logit(probabilities[:, 1]) - _logit(priors[:, 1]), positive, people)
    facts = {
        "when": moment.to_json() | {"most_by": _most_by(readings.moment, positive, training)},
        "existence": _existence(readings, positive, training, people),
    }
    return WithoutReading(when=when, facts=facts)


def _folds(people: Ints, training: Flags) -> Sequence[tuple[Flags, Flags]]:
    """Return (fit rows, test rows) pairs.

    Training people are predicted by five folds, all other people by all training people.
    """
    fold_of_person = np.array([derive_seed(0, "without_reading", person) % _FOLDS for person in people.tolist()])
    parts = [(training & (fold_of_person != fold), training & (fold_of_person == fold)) for fold in range(_FOLDS)]
    return [(fit, test) for fit, test in [*parts, (training, ~training)] if fit.any() and test.any()]


def _out_of_fold(
    rows: Matrix, classes: Ints, folds: Sequence[tuple[Flags, Flags]], count: int
) -> tuple[Matrix, Matrix]:
    """Return out-of-fold class probabilities and the class priors of the fit rows.

    Comparing with the priors removes what the choice of the fold alone gives away.
    """
    probabilities, priors = (np.full((len(rows), count), 1 / count) for _ in range(2))
    for fit, test in folds:
        chosen = np.flatnonzero(fit)[:_MAX_TRAINING]
        probabilities[test] = shares(rows[chosen], classes[chosen], rows[test], count)
        priors[test] = np.bincount(classes[chosen], minlength=count) / len(chosen)
    return probabilities, priors


def _logit(shares_: Matrix) -> Matrix:
    clipped = np.clip(shares_, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(clipped / (1 - clipped)))


def _by_neighbours(
    task: Task, samples: Sequence[Sample], rows: Matrix, folds: Sequence[tuple[Flags, Flags]]
) -> dict[str, tuple[str, ...]]:
    """Predict the prior of the training questions with the most similar moments."""
    predictions = {}
    for fit, test in folds:
        chosen = np.flatnonzero(fit)[:_MAX_TRAINING]
        near = neighbours(rows[chosen], rows[test], max(_MIN_TRAINING, isqrt(len(chosen))))
        for index, row in zip(np.flatnonzero(test).tolist(), near, strict=True):
            predictions[samples[index].id] = task.answer.prior(
                [samples[chosen[neighbour]].target for neighbour in row.tolist()]
            )
    return predictions


def _most_by(moment: Matrix, positive: Flags, training: Flags) -> str:
    """Return the moment feature with the best AUC by itself, among training people."""
    strengths = [abs(_filled_area(moment[training, column], positive[training]) - 0.5) for column in range(len(MOMENT))]
    return MOMENT[int(np.argmax(strengths))]


def _filled_area(values: Matrix, positive: Flags) -> float:
    auc = area(np.where(np.isfinite(values), values, -1.0), positive)
    return auc if np.isfinite(auc) else 0.5


def _existence(readings: Readings, positive: Flags, training: Flags, people: Ints) -> list[dict[str, Any]]:
    """Return the five best existence features, one per table, with their AUC outside training.

    Features are ranked on training people.
    """
    features = _existence_features(readings)
    signs = {name: _filled_area(values[training], positive[training]) for name, values in features.items()}
    best = _best_of_tables(sorted(signs, key=lambda name: (-abs(signs[name] - 0.5), name)))
    results = []
    for name in best:
        oriented = features[name] if signs[name] >= 0.5 else -features[name]
        held_out = area_with_interval(oriented[~training], positive[~training], people[~training])
        results.append({"what": name if signs[name] >= 0.5 else f"{name} (fewer)", **held_out.to_json()})
    return results


def _best_of_tables(ranked: Sequence[str]) -> list[str]:
    """Return the first five features, at most one per table.

    The columns of a table are mostly filled where the table has a row.
    """
    of_table = {_TABLE.sub(r"\1", name): name for name in reversed(ranked)}
    return [name for name in ranked if of_table[_TABLE.sub(r"\1", name)] == name][:_MAX_NAMED]


def _existence_features(readings: Readings) -> dict[str, Matrix]:
    """Return the existence features by name: a table has a row, its number of rows, a column is filled."""
    features: dict[str, Matrix] = {}
    for index, name in enumerate(readings.names):
        column = readings.existence[:, index]
        features[f"{name} is filled" if "." in name else f"{name} has a row"] = (column > 0).astype(float)
        if "." not in name:
            features[f"rows of {name}"] = column
    return features


_QUARTERS = (0.25, 0.5, 0.75)
_MAX_PRIOR_NAMES = 64
"""Limit on the names of a prior answer; no prior of our tasks has as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Targets:
    """Targets as a binary table (samples, training names).

    ``sizes`` is the number of names of each target. ``is_single``: an answer is a single name.
    """

    table: Matrix
    sizes: Matrix
    is_single: bool

    @classmethod
    def of(cls, task: Task, samples: Sequence[Sample], training: Flags) -> _Targets:
        name_sets = [
            set(sample.target) for sample, is_training in zip(samples, training.tolist(), strict=True) if is_training
        ]
        columns = {name: column for column, name in enumerate(sorted(set().union(*name_sets)))}
        table = np.zeros((len(samples), len(columns)))
        for row, sample in enumerate(samples):
            table[row, [columns[name] for name in set(sample.target) if name in columns]] = 1
        sizes = np.array([len(set(sample.target)) for sample in samples], float)
        return cls(table=table, sizes=sizes, is_single=not task.answer.several)

    def by_prior(self, fit: Ints, test: Ints) -> Matrix:
        """Return the F1 of ``test`` rows answered with the names that score best in the ``fit`` rows."""
        order = np.argsort(-self.table[fit].sum(axis=0), kind="stable")[:_MAX_PRIOR_NAMES]
        count = 1
        if not self.is_single:
            answer_sizes = np.arange(1, len(order) + 1)
            f1 = 2 * self.table[np.ix_(fit, order)].cumsum(axis=1) / (answer_sizes + self.sizes[fit][:, None])
            count = int(f1.mean(axis=0).argmax()) + 1
        matched = self.table[np.ix_(test, order[:count])].sum(axis=1)
        return np.asarray(2 * matched / (count + self.sizes[test]))

    def by_number(self, values: Matrix, fit: Ints, test: Ints) -> Matrix:
        """Predict the ``test`` rows with the prior of the ``fit`` rows in the same quarter of a number; return the F1.

        A number that is 0 or 1 gives two parts. Rows without the number form a part of their own.
        """
        finite = values[fit][np.isfinite(values[fit])]
        edges = np.unique(np.quantile(finite, _QUARTERS)) if len(finite) else finite
        quarters = np.where(np.isfinite(values), np.searchsorted(edges, values, "left"), -1)
        scores = self.by_prior(fit, test)
        for quarter in np.unique(quarters[test]).tolist():
            similar = fit[quarters[fit] == quarter]
            if len(similar) >= _MIN_PER_CLASS:
                scores[quarters[test] == quarter] = self.by_prior(similar, test[quarters[test] == quarter])
        return scores


def _gains(
    task: Task,
    samples: Sequence[Sample],
    readings: Readings,
    folds: Sequence[tuple[Flags, Flags]],
    when: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """Return the F1 gain over the prior, of the moment and of the five best existence features.

    Features are ranked on training people; the gain is the mean over all other people. Empty without other people.
    """
    training = np.array([sample.split == "train" for sample in samples], bool)
    if training.all():
        return {}
    targets = _Targets.of(task, samples, training)
    folds_by_row = [(np.flatnonzero(fit)[:_MAX_TRAINING], np.flatnonzero(test)) for fit, test in folds]
    prior, people = np.zeros(len(samples)), np.array([sample.person for sample in samples], np.int64)
    for fit, test in folds_by_row:
        prior[test] = targets.by_prior(fit, test)

    cache: dict[bytes, Matrix] = {}  # many columns are filled in the same rows

    def f1_of(values: Matrix) -> Matrix:
        key = values.tobytes()
        if key not in cache:
            cache[key] = prior.copy()
            for fit, test in folds_by_row:
                cache[key][test] = targets.by_number(values, fit, test)
        return cache[key]

    def gain(f1: Matrix) -> dict[str, float]:
        return _gain(f1[~training], prior[~training], people[~training])

    moments = {name: f1_of(readings.moment[:, column])[training].mean() for column, name in enumerate(MOMENT)}
    scores = {name: f1_of(values) for name, values in _existence_features(readings).items()}
    best = _best_of_tables(sorted(scores, key=lambda name: (-scores[name][training].mean(), name)))
    return {
        "when": gain(_f1_of_answers(samples, when)) | {"most_by": max(MOMENT, key=lambda name: moments[name])},
        "existence": [{"what": name, **gain(scores[name])} for name in best],
    }


def _f1_of_answers(samples: Sequence[Sample], answers: Mapping[str, tuple[str, ...]]) -> Matrix:
    pairs = [(set(sample.target), set(answers[sample.id])) for sample in samples]
    return np.array([2 * len(target & answer) / (len(target) + len(answer)) for target, answer in pairs])


def _gain(f1: Matrix, prior: Matrix, people: Ints) -> dict[str, float]:
    """Return the mean difference to the prior with its 95 % bootstrap interval over people."""
    _, person = np.unique(people, return_inverse=True)
    summed, questions = np.bincount(person, f1 - prior), np.bincount(person)
    drawn = np.random.default_rng(0).integers(0, len(questions), (DRAWS, len(questions)))
    means = summed[drawn].sum(axis=1) / questions[drawn].sum(axis=1)
    low, high = (float(one) for one in np.quantile(means, [0.025, 0.975]))
    middle = {"f1": float(f1.mean()), "prior": float(prior.mean()), "gain": float((f1 - prior).mean())}
    return middle | {"low": low, "high": high, "samples": len(f1)}
