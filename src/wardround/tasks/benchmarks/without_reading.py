"""How well the moment and the existence of rows alone predict an answer, fitted on training people."""

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
from wardround.tasks.benchmarks.task import Task

# What is known of the moment of a question, without reading what any row says: when things became known, how many.
#
# Times come from the clocks ``known_at`` of the store. Two readings: of the moment (how long since the arrival, the
# last result, ...), and of existence (which tables have rows in the window before the question, which of their columns
# are filled). Both are what a contender of the baseline card may use, and nothing else.


Table = npt.NDArray[np.float64]
_HOUR, _WINDOW = 60 * MINUTE, 24 * 60 * MINUTE
_KEPT = 4096
_NONE: Ints = np.empty(0, np.int64)
_SPANS = {"arrival": "emergency", "admission": "admission", "intensive care": "stay"}
_ROWS = {"vital sign": "vital", "laboratory result": "lab", "order": "order"}
MOMENT = (
    "hour of day",
    *(f"minutes since {name}" for name in (*_SPANS, "last row", *(f"last {what}" for what in _ROWS))),
    "rows so far",
    "questions so far",
)
"""What is known of a moment, in the order of the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """One row for each sample: ``moment`` by the columns of ``MOMENT`` (NaN: there is none), ``existence`` the number
    of rows or filled cells in the window, by ``names``: ``poe`` or ``poe.order_status``."""

    moment: Table
    names: tuple[str, ...]
    existence: Table


class MomentReader:
    """Reads the moments of questions of one store; the times of a subject are read once for all tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[tuple[int, bool], _Known] = {}

    def read(self, samples: Sequence[Sample], *, existence: bool) -> Readings:
        """Read the moments of a task's samples; without ``existence`` nothing of which rows there are."""
        by_subject: dict[int, list[int]] = {}
        for place, sample in enumerate(samples):
            by_subject.setdefault(sample.subject_id, []).append(place)
        moment = np.full((len(samples), len(MOMENT)), np.nan)
        counts: dict[str, Table] = {}
        for subject, places in by_subject.items():
            known = self._of(subject, existence)
            times = np.array([to_microseconds(samples[place].moment) for place in places], np.int64)
            moment[places, :-1] = known.moments([samples[place] for place in places])
            moment[places, -1] = np.searchsorted(np.sort(times), times)
            since = np.array([_since(samples[place], time) for place, time in zip(places, times.tolist(), strict=True)])
            hidden = [_hidden(samples[place]) for place in places]
            for name, moments in known.existing.items() if existence else ():
                column = counts.setdefault(name, np.zeros(len(samples)))
                rows = np.searchsorted(moments, times, "right") - np.searchsorted(moments, since, "right")
                column[places] = np.where([name.partition(".")[0] in tables for tables in hidden], 0, rows)
        names = tuple(sorted(name for name, column in counts.items() if column.min() != column.max()))
        table = np.column_stack([counts[name] for name in names]) if names else np.empty((len(samples), 0))
        return Readings(moment=moment, names=names, existence=table)

    def _of(self, subject: int, existence: bool) -> _Known:
        if (subject, existence) not in self._held:
            if len(self._held) >= _KEPT:
                self._held.clear()
            self._held[subject, existence] = _Known.of(self._store, subject, existence)
        return self._held[subject, existence]


def _since(sample: Sample, asked: int) -> int:
    """From when on rows lie in the window: the question's own, else the last day."""
    own = sample.facts.get("curated_from")
    return to_microseconds(parse_time(own)) - 1 if own else asked - _WINDOW


def _hidden(sample: Sample) -> frozenset[str]:
    """The tables that the chart of a question does not show since its window began."""
    return frozenset() if sample.withheld is None else sample.withheld.tables


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """When things of one subject became known, in order: the rows of every table, the starts of stays, the rows of
    roles by table; and of every column that is not filled in every row, its filled cells."""

    tables: Mapping[str, Ints]
    starts: Sequence[Ints]
    roles: Sequence[Mapping[str, Ints]]
    columns: Mapping[str, Ints]

    @classmethod
    def of(cls, store: Store, subject: int, existence: bool) -> _Known:
        """Read a subject; without ``existence`` no column."""
        specs = store.spec.tables
        rows = {name: store.rows(subject, name) for name in store.table_names if not specs[name].is_static}
        known = {name: _row_times(batch) for name, batch in rows.items()}
        columns: dict[str, Ints] = {}
        for name, batch in rows.items() if existence else ():
            if batch.num_rows:
                columns |= _columns(specs[name], batch, known[name])
        return cls(
            tables={name: _ordered(times) for name, times in known.items()},
            starts=[_starts(getattr(store.spec.roles, span), rows, known) for span in _SPANS.values()],
            roles=[_of_role(store.spec.roles.rows(role), rows, known) for role in _ROWS.values()],
            columns=columns,
        )

    @property
    def existing(self) -> Mapping[str, Ints]:
        """What may exist: rows by table, filled cells by column."""
        return {name: times for name, times in self.tables.items() if len(times)} | dict(self.columns)

    def moments(self, samples: Sequence[Sample]) -> Table:
        """Return the columns of ``MOMENT`` but the last, for some questions."""
        hidden = {one.withheld: None for one in samples}
        found = np.empty((len(samples), len(MOMENT) - 1))
        for withheld in hidden:
            places = [place for place, one in enumerate(samples) if one.withheld == withheld]
            times = np.array([to_microseconds(samples[place].moment) for place in places], np.int64)
            every = _shown(self.tables, withheld)
            roles = [_shown(role, withheld) for role in self.roles]
            found[places] = np.column_stack(
                [
                    times // _HOUR % 24,
                    *(_minutes_since(known, times) for known in (*self.starts, every, *roles)),
                    np.searchsorted(every, times, "right"),
                ]
            )
        return found


def _shown(tables: Mapping[str, Ints], withheld: Withheld | None) -> Ints:
    """The times of all tables, without those that a chart does not show."""
    since = 0 if withheld is None else to_microseconds(withheld.since)
    kept = (
        times[times < since] if withheld is not None and name in withheld.tables else times
        for name, times in tables.items()
    )
    return np.sort(np.concatenate([_NONE, *kept]))


def _row_times(batch: pa.RecordBatch) -> Ints:
    """When each row became known, NO_TIME where it never did or always was."""
    times = np.maximum(microseconds(batch.column(EVENT)), microseconds(batch.column(AVAILABLE)))
    return np.where((times <= ALWAYS_TIME) | (times >= NEVER_TIME), NO_TIME, times)


def _columns(spec: TableSpec, batch: pa.RecordBatch, known: Ints) -> dict[str, Ints]:
    """When the cells of every column became known that some rows lack, or that comes late."""
    shown, found = ShownTable.of(spec, batch), {}
    for column, column_field in zip(batch.columns, batch.schema, strict=True):
        empty = column.null_count == batch.num_rows
        if (
            not empty
            and not column_field.name.startswith("_")
            and (column.null_count or column_field.name in spec.late)
        ):
            cells = shown.cell(column_field.name)
            found[f"{spec.name}.{column_field.name}"] = _ordered(np.where(known == NO_TIME, NO_TIME, cells))
    return found


def _starts(role: SpanRole | None, rows: Mapping[str, pa.RecordBatch], known: Mapping[str, Ints]) -> Ints:
    """When the stays of a kind began, of those whose row is ever known."""
    if role is None or role.table not in rows:
        return _NONE
    batch = rows[role.table]
    spans = read_spans(role, event_times(batch), CodedRows(batch=batch))
    return _ordered(np.where(known[role.table][spans.rows] == NO_TIME, NO_TIME, spans.starts))


def _of_role(
    roles: Sequence[RowRole], rows: Mapping[str, pa.RecordBatch], known: Mapping[str, Ints]
) -> dict[str, Ints]:
    found: dict[str, Ints] = {}
    for one in roles:
        if one.table in rows:
            times = known[one.table][CodedRows(batch=rows[one.table]).meet(one.where)]
            found[one.table] = _ordered(np.concatenate([found.get(one.table, _NONE), times]))
    return found


def _ordered(times: Ints) -> Ints:
    return np.sort(times[(times != NO_TIME) & (times < NEVER_TIME)])


def _minutes_since(known: Ints, times: Ints) -> Table:
    """Minutes since the latest of some moments, NaN before the first."""
    place = np.searchsorted(known, times, "right") - 1
    latest = known[np.maximum(place, 0)] if len(known) else np.zeros_like(times)
    return np.where(place >= 0, (times - latest) / MINUTE, np.nan)


# Two small fits without a library, for contenders that read almost nothing: a ridge logistic and nearest neighbours.
#
# Columns are spread by their ranks among the training rows, so that no unit and no outlier has a part in a fit.


Matrix = npt.NDArray[np.float64]
_RIDGE = 1.0
_STEPS = 25
_DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaUnderCurve:
    """An AUC with its interval: 2.5 to 97.5 % of draws of people with replacement."""

    value: float
    low: float
    high: float
    samples: int

    def to_json(self) -> dict[str, float]:
        """Return it for a manifest."""
        return {"auc": self.value, "low": self.low, "high": self.high, "samples": self.samples}


def spread(training: Matrix, rows: Matrix) -> Matrix:
    """Return ranks from 0 to 1 among the training rows; a missing cell is -1/2, outside of all that are there."""
    made = np.full(rows.shape, -0.5)
    for place in range(rows.shape[1]):
        held = np.sort(training[:, place][np.isfinite(training[:, place])])
        there = np.isfinite(rows[:, place])
        if len(held):
            low, high = (np.searchsorted(held, rows[there, place], side) for side in ("left", "right"))
            made[there, place] = (low + high) / (2 * len(held))
    return made


def shares(training: Matrix, classes: Ints, rows: Matrix, count: int) -> Matrix:
    """Fit each class against the rest and return the share of every class for some rows, (rows, ``count``)."""
    first, second = (_curved(spread(training, part)) for part in (training, rows))
    found = np.column_stack([_logistic(first, (classes == one).astype(float), second) for one in range(count)])
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12))


def neighbours(training: Matrix, rows: Matrix, count: int) -> Ints:
    """Return for each row the places of the ``count`` nearest training rows."""
    first, second = spread(training, training), spread(training, rows)
    found = np.empty((len(rows), min(count, len(training))), np.int64)
    for place, row in enumerate(second):
        away = ((first - row) ** 2).sum(axis=1)
        found[place] = np.argsort(away, kind="stable")[: found.shape[1]]
    return found


def area(values: Matrix, positive: Flags) -> float:
    """Return the AUC of some values; NaN where all rows are of one class."""
    order = np.sort(values)
    ranks = (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right") + 1) / 2
    yes, no = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - yes * (yes + 1) / 2) / (yes * no)) if yes and no else float("nan")


def area_with_interval(values: Matrix, positive: Flags, people: Ints, seed: int = 0) -> AreaUnderCurve:
    """Return the AUC with an interval over people; of one class alone it is a half, between nought and one."""
    value = area(values, positive)
    if not np.isfinite(value):
        return AreaUnderCurve(value=0.5, low=0.0, high=1.0, samples=len(values))
    rng = np.random.default_rng(seed)
    _, person = np.unique(people, return_inverse=True)
    order = np.argsort(person, kind="stable")
    rows_of = np.split(order, np.flatnonzero(np.diff(person[order])) + 1)
    drawn = []
    for _ in range(_DRAWS):
        rows = np.concatenate([rows_of[one] for one in rng.integers(0, len(rows_of), len(rows_of))])
        drawn.append(area(values[rows], positive[rows]))
    held = np.array([one for one in drawn if np.isfinite(one)])
    low, high = (float(one) for one in np.quantile(held, [0.025, 0.975])) if len(held) else (0.0, 1.0)
    return AreaUnderCurve(value=value, low=low, high=high, samples=len(values))


def _curved(ranks: Matrix) -> Matrix:
    """A constant, each rank and its square, and whether it is missing."""
    missing = (ranks < 0).astype(float)
    there = np.where(ranks < 0, 0.5, ranks) - 0.5
    return np.column_stack([np.ones(len(ranks)), there, 2 * there**2, missing])


def _logistic(rows: Matrix, wanted: Matrix, asked: Matrix) -> Matrix:
    """Newton's steps on the ridge likelihood; the constant is not held back."""
    weight = np.zeros(rows.shape[1])
    ridge = np.full(rows.shape[1], _RIDGE)
    ridge[0] = 1e-6
    for _ in range(_STEPS):
        share = _sigmoid(rows @ weight)
        slope = rows.T @ (wanted - share) - ridge * weight
        curve = (rows * (share * (1 - share))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        weight = weight + step
        if np.abs(step).max() < 1e-6:
            break
    return _sigmoid(asked @ weight)


def _sigmoid(values: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))


# What the moment of a question, and the mere existence of rows, tell of its answer: fitted on training people.
#
# ``when`` answers each question from what is known of its moment alone. The existence audit tries one number at a time
# (a table has a row, its number of rows, a column is filled) and names the five that say most. A task that either of
# them answers tells its answer by when it is asked, or by which rows there are.


_FOLDS = 5
_NAMED = 5
_TABLE = re.compile(r"(?:rows of )?(\w+).*")
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
    """Fit both on the training samples of a task, on the clocks ``known_at``.

    A task of two classes with enough of both gets an AUC. Every other task that one answer settles gets the F1 of the
    best answer by one number, beside the F1 of the prior, and the difference with its interval.
    """
    training = np.array([one.split == "train" for one in samples], bool)
    if int(training.sum()) < _LEAST:
        return WithoutReading(when=f"fewer than {_LEAST} training questions: nothing to fit the moment on")
    values = task.answer.label_values
    figures = not (task.answer.by_steps or task.answer.judged)
    readings = reader.read(samples, existence=figures)
    people = np.array([one.person for one in samples], np.int64)
    folds = _folds(people, training)
    if not values or task.answer.several:
        when = _by_neighbours(task, samples, readings.moment, folds)
        return WithoutReading(when=when, facts=_gains(task, samples, readings, folds, when) if figures else {})
    classes = np.array([values.index(one.target[0]) for one in samples], np.int64)
    told, before = _out_of_fold(readings.moment, classes, folds, len(values))
    when = {one.id: (values[place],) for one, place in zip(samples, told.argmax(axis=1).tolist(), strict=True)}
    positive = classes == 1
    if len(values) > 2 or min(int(positive.sum()), int((~positive).sum())) < _LEAST_OF_EACH:
        return WithoutReading(when=when, facts=_gains(task, samples, readings, folds, when))
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


def _out_of_fold(
    rows: Matrix, classes: Ints, folds: Sequence[tuple[Flags, Flags]], count: int
) -> tuple[Matrix, Matrix]:
    """The share of every class by the moment, and the share that it has in the people of the fit: without that one,
    whom a fold leaves out tells."""
    told, before = (np.full((len(rows), count), 1 / count) for _ in range(2))
    for fit, asked in folds:
        chosen = np.flatnonzero(fit)[:_MOST]
        told[asked] = shares(rows[chosen], classes[chosen], rows[asked], count)
        before[asked] = np.bincount(classes[chosen], minlength=count) / len(chosen)
    return told, before


def _logit(shares_: Matrix) -> Matrix:
    held = np.clip(shares_, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(held / (1 - held)))


def _by_neighbours(
    task: Task, samples: Sequence[Sample], rows: Matrix, folds: Sequence[tuple[Flags, Flags]]
) -> dict[str, tuple[str, ...]]:
    """Answer with what the prior is of the training questions asked at the most similar moments."""
    found = {}
    for fit, asked in folds:
        chosen = np.flatnonzero(fit)[:_MOST]
        near = neighbours(rows[chosen], rows[asked], max(_LEAST, isqrt(len(chosen))))
        for place, row in zip(np.flatnonzero(asked).tolist(), near, strict=True):
            found[samples[place].id] = task.answer.prior([samples[chosen[one]].target for one in row.tolist()])
    return found


def _most_by(moment: Matrix, positive: Flags, training: Flags) -> str:
    """The column of the moment that says most by itself, among training people."""
    alone = [abs(_filled_area(moment[training, place], positive[training]) - 0.5) for place in range(len(MOMENT))]
    return MOMENT[int(np.argmax(alone))]


def _filled_area(values: Matrix, positive: Flags) -> float:
    found = area(np.where(np.isfinite(values), values, -1.0), positive)
    return found if np.isfinite(found) else 0.5


def _existence(readings: Readings, positive: Flags, training: Flags, people: Ints) -> list[dict[str, Any]]:
    """The five numbers that say most among training people, one of a table, with their AUC among all others."""
    tried = _tried(readings)
    signs = {name: _filled_area(values[training], positive[training]) for name, values in tried.items()}
    best = _best_of_tables(sorted(signs, key=lambda name: (-abs(signs[name] - 0.5), name)))
    found = []
    for name in best:
        turned = tried[name] if signs[name] >= 0.5 else -tried[name]
        held_out = area_with_interval(turned[~training], positive[~training], people[~training])
        found.append({"what": name if signs[name] >= 0.5 else f"{name} (fewer)", **held_out.to_json()})
    return found


def _best_of_tables(ranked: Sequence[str]) -> list[str]:
    """The first five, one of a table: a table's columns are mostly filled where it has a row."""
    of_table = {_TABLE.sub(r"\1", name): name for name in reversed(ranked)}
    return [name for name in ranked if of_table[_TABLE.sub(r"\1", name)] == name][:_NAMED]


def _tried(readings: Readings) -> dict[str, Matrix]:
    """What the existence audit tries, by name: a table has a row, its number of rows, a column is filled."""
    tried: dict[str, Matrix] = {}
    for place, name in enumerate(readings.names):
        column = readings.existence[:, place]
        tried[f"{name} is filled" if "." in name else f"{name} has a row"] = (column > 0).astype(float)
        if "." not in name:
            tried[f"rows of {name}"] = column
    return tried


_QUARTERS = (0.25, 0.5, 0.75)
_COMMONEST = 64
"""So many of the commonest names may stand in an answer without reading: no prior of a task of ours holds as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Targets:
    """Targets as a table, (samples, names of training), with the number of names of each; ``one``: one name answers."""

    held: Matrix
    sizes: Matrix
    one: bool

    @classmethod
    def of(cls, task: Task, samples: Sequence[Sample], training: Flags) -> _Targets:
        known = [set(one.target) for one, trains in zip(samples, training.tolist(), strict=True) if trains]
        places = {name: place for place, name in enumerate(sorted(set().union(*known)))}
        held = np.zeros((len(samples), len(places)))
        for row, sample in enumerate(samples):
            held[row, [places[name] for name in set(sample.target) if name in places]] = 1
        sizes = np.array([len(set(one.target)) for one in samples], float)
        return cls(held=held, sizes=sizes, one=not task.answer.several)

    def by_prior(self, fit: Ints, asked: Ints) -> Matrix:
        """The F1 of some rows, answered with the names that score best in the rows of a fit."""
        order = np.argsort(-self.held[fit].sum(axis=0), kind="stable")[:_COMMONEST]
        count = 1
        if not self.one:
            given = np.arange(1, len(order) + 1)
            f1 = 2 * self.held[np.ix_(fit, order)].cumsum(axis=1) / (given + self.sizes[fit][:, None])
            count = int(f1.mean(axis=0).argmax()) + 1
        met = self.held[np.ix_(asked, order[:count])].sum(axis=1)
        return np.asarray(2 * met / (count + self.sizes[asked]))

    def by_number(self, values: Matrix, fit: Ints, asked: Ints) -> Matrix:
        """The F1 of some rows, answered with the prior of the fit's rows in the same quarter of a number: in two parts
        where it is 0 or 1, those without it in a part of their own."""
        known = values[fit][np.isfinite(values[fit])]
        edges = np.unique(np.quantile(known, _QUARTERS)) if len(known) else known
        part = np.where(np.isfinite(values), np.searchsorted(edges, values, "left"), -1)
        found = self.by_prior(fit, asked)
        for one in np.unique(part[asked]).tolist():
            like = fit[part[fit] == one]
            if len(like) >= _LEAST_OF_EACH:
                found[part[asked] == one] = self.by_prior(like, asked[part[asked] == one])
        return found


def _gains(
    task: Task,
    samples: Sequence[Sample],
    readings: Readings,
    folds: Sequence[tuple[Flags, Flags]],
    when: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """How far above the prior the moment answers, and the five existing things that do best among training people: mean
    F1 of all other people; nothing where there are none."""
    training = np.array([one.split == "train" for one in samples], bool)
    if training.all():
        return {}
    targets = _Targets.of(task, samples, training)
    rows = [(np.flatnonzero(fit)[:_MOST], np.flatnonzero(asked)) for fit, asked in folds]
    prior, people = np.zeros(len(samples)), np.array([one.person for one in samples], np.int64)
    for fit, asked in rows:
        prior[asked] = targets.by_prior(fit, asked)

    done: dict[bytes, Matrix] = {}  # many columns are filled in the same rows

    def f1_of(values: Matrix) -> Matrix:
        key = values.tobytes()
        if key not in done:
            done[key] = prior.copy()
            for fit, asked in rows:
                done[key][asked] = targets.by_number(values, fit, asked)
        return done[key]

    def gain(f1: Matrix) -> dict[str, float]:
        return _gain(f1[~training], prior[~training], people[~training])

    moments = {name: f1_of(readings.moment[:, place])[training].mean() for place, name in enumerate(MOMENT)}
    tried = {name: f1_of(values) for name, values in _tried(readings).items()}
    best = _best_of_tables(sorted(tried, key=lambda name: (-tried[name][training].mean(), name)))
    return {
        "when": gain(_f1_of_answers(samples, when)) | {"most_by": max(MOMENT, key=lambda name: moments[name])},
        "existence": [{"what": name, **gain(tried[name])} for name in best],
    }


def _f1_of_answers(samples: Sequence[Sample], given: Mapping[str, tuple[str, ...]]) -> Matrix:
    pairs = [(set(one.target), set(given[one.id])) for one in samples]
    return np.array([2 * len(target & answer) / (len(target) + len(answer)) for target, answer in pairs])


def _gain(f1: Matrix, prior: Matrix, people: Ints) -> dict[str, float]:
    """The mean difference to the prior with its interval: 2.5 to 97.5 % of draws of people with replacement."""
    _, person = np.unique(people, return_inverse=True)
    summed, questions = np.bincount(person, f1 - prior), np.bincount(person)
    drawn = np.random.default_rng(0).integers(0, len(questions), (_DRAWS, len(questions)))
    means = summed[drawn].sum(axis=1) / questions[drawn].sum(axis=1)
    low, high = (float(one) for one in np.quantile(means, [0.025, 0.975]))
    middle = {"f1": float(f1.mean()), "prior": float(prior.mean()), "gain": float((f1 - prior).mean())}
    return middle | {"low": low, "high": high, "samples": len(f1)}
