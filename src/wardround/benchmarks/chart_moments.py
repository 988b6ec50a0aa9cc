"""What is known of the moment of a question, without reading what any row says: when things became known, how many.

Times come from the clocks ``known_at`` of the store. Two readings: of the moment (how long since the arrival, the last
result, ...), and of existence (which tables have rows in the window before the question, which of their columns are
filled). Both are what a contender of the baseline card may use, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.audits import ShownTable
from wardround.benchmarks.columns import AVAILABLE, EVENT, MINUTE, NO_TIME, Ints, event_times, microseconds
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.spans import read_spans
from wardround.core import parse_time, to_microseconds
from wardround.records import RowRole, SpanRole, Store, TableSpec, Withheld
from wardround.records.rules.language import ALWAYS_TIME
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.coded_rows import CodedRows

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
    for column, field in zip(batch.columns, batch.schema, strict=True):
        empty = column.null_count == batch.num_rows
        if not empty and not field.name.startswith("_") and (column.null_count or field.name in spec.late):
            found[f"{spec.name}.{field.name}"] = _ordered(np.where(known == NO_TIME, NO_TIME, shown.cell(field.name)))
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
