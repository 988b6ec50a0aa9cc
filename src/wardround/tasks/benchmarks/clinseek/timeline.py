"""One subject's record as times, and a question about a stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from wardround.core import format_time, from_microseconds
from wardround.records import Chart, Policy, SpanRole, Store
from wardround.records.rules import ALWAYS_TIME, Reference
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import CodedRows
from wardround.tasks.benchmarks.clinseek.definitions import SpanName
from wardround.tasks.benchmarks.encounters import (
    AVAILABLE,
    DAY,
    EVENT,
    NO_TIME,
    PUBLISHED,
    SECOND,
    Ints,
    cell_times,
    event_times,
    microseconds,
    read_spans,
)

# Read from the trusted store. A moment is a time at which a chart changes: the later of a row's event and its
# availability, or under the published clocks the published time.


_KEPT = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stay.

    ``end`` is NO_TIME while the stay is open. ``known``: when a chart shows its row. ``kind_is_late``: late cells
    decide that the stay is of this kind. ``names``: the id by which other rows refer to the stay (None: no id).
    ``encounter``: the hospital stay that its own row refers to.
    """

    kind: SpanName
    start: int
    end: int
    row_id: str
    known: int
    kind_is_late: bool
    names: Any = None
    encounter: Any = None

    @property
    def left(self) -> int:
        """The time at which the record shows that the stay is over; NO_TIME while it is open."""
        return self.end if self.end == NO_TIME else max(self.end, self.known)

    @property
    def key(self) -> tuple[int, str]:
        """The sort key of the stay."""
        return self.start, self.row_id


class Timeline:
    """The record of one subject; each table is read when it is first needed."""

    def __init__(self, store: Store, subject: int, policy: Policy) -> None:
        self.store, self.subject, self.policy = store, subject, policy
        self._rows: dict[str, pa.RecordBatch] = {}
        self._times: dict[tuple[str, str], Ints] = {}
        self._spans: dict[SpanName, tuple[Span, ...]] = {}

    def rows(self, table: str) -> pa.RecordBatch:
        """Return every row of a table, with its clocks."""
        if table not in self._rows:
            self._rows[table] = self.store.rows(self.subject, table)
        return self._rows[table]

    def _once(self, what: str, table: str, made: Callable[[str], Ints]) -> Ints:
        """Return cached times of a table's rows; every task reads them again."""
        if (what, table) not in self._times:
            self._times[what, table] = made(table)
        return self._times[what, table]

    def event(self, table: str) -> Ints:
        """Return when each row of a table happened; under the published clocks their time where they have one."""
        return self._once("event", table, self._event)

    def _event(self, table: str) -> Ints:
        batch = self.rows(table)
        if self.policy == "known_at" or self.store.spec.tables[table].published.time is None:
            return event_times(batch)
        return _placed(microseconds(batch.column(PUBLISHED)))

    def happened(self, table: str) -> Ints:
        """Return when the event of each row happened.

        A field of a report has no time of its own: its event is the moment at which the report came on record. The
        examination was done at the time of the report.
        """
        return self._once("happened", table, self._happened)

    def _happened(self, table: str) -> Ints:
        times, rule = self.event(table), self.store.spec.tables[table].event_time
        if self.policy == "published" or not isinstance(rule, Reference) or rule.table not in self.store.table_names:
            return times
        report_rows, key = self.rows(rule.table), self.store.spec.tables[rule.table].key[0]
        if rule.column not in report_rows.schema.names:
            return times
        report_times = zip(
            report_rows.column(key).to_pylist(), cell_times(report_rows.column(rule.column)).tolist(), strict=True
        )
        time_by_report = dict(report_times)
        found = np.array(
            [time_by_report.get(reference, NO_TIME) for reference in self.rows(table).column(rule.key).to_pylist()],
            np.int64,
        )
        return np.where(found == NO_TIME, times, found)

    def known(self, table: str) -> Ints:
        """Return when a chart shows each row of a table; NO_TIME for rows that are never or always shown."""
        return self._once("known", table, self._known)

    def _known(self, table: str) -> Ints:
        batch = self.rows(table)
        if self.policy == "published":
            has_clock = self.store.spec.tables[table].published.time is not None
            return self.event(table) if has_clock else np.full(batch.num_rows, NO_TIME)
        known = np.maximum(microseconds(batch.column(EVENT)), microseconds(batch.column(AVAILABLE)))
        return _placed(known)

    def spans(self, kind: SpanName) -> tuple[Span, ...]:
        """Return the stays of a kind in order; empty where no table has the role."""
        if kind not in self._spans:
            self._spans[kind] = self._read_spans(kind)
        return self._spans[kind]

    def _read_spans(self, kind: SpanName) -> tuple[Span, ...]:
        role: SpanRole | None = getattr(self.store.spec.roles, kind)
        if role is None or role.table not in self.store.table_names:
            return ()
        batch = self.rows(role.table)
        spans = read_spans(role, event_times(batch), CodedRows(batch=batch))
        ids = batch.column("row_id").to_pylist()
        names = [None] * batch.num_rows if role.id is None else batch.column(role.id).to_pylist()
        named = self.store.spec.tables[role.table].encounter
        has_encounter = named is not None and named in batch.schema.names
        encounters = batch.column(named).to_pylist() if has_encounter else [None] * batch.num_rows
        late = (
            not self.store.spec.tables[role.table]
            .late.keys()
            .isdisjoint(column for condition in role.where for column in condition)
        )
        known = self.known(role.table).tolist()
        columns = zip(
            spans.starts.tolist(), spans.ends.tolist(), spans.rows.tolist(), spans.stops.tolist(), strict=True
        )
        return tuple(
            Span(
                kind=kind,
                start=start,
                end=end,
                row_id=ids[row],
                known=max(known[row], known[stop]) if stop >= 0 else known[row],
                kind_is_late=late,
                names=names[row],
                encounter=encounters[row],
            )
            for start, end, row, stop in columns
        )

    @cached_property
    def moments(self) -> Ints:
        """Sorted unique times at which the chart changes."""
        tables = [name for name in self.store.table_names if not self.store.spec.tables[name].is_static]
        times = np.concatenate([np.empty(0, np.int64), *(self._recorded(name) for name in tables)])
        return np.unique(times[times != NO_TIME])

    def _recorded(self, table: str) -> Ints:
        """Return when rows became available, where the row itself records that time.

        An estimated time (a result without one is known after the table's median delay) depends on other rows, also
        later ones, and is left out.
        """
        batch, known = self.rows(table), self.known(table)
        is_recorded = known == self.event(table)
        for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
            if pa.types.is_timestamp(kind) and not name.startswith("_"):
                is_recorded |= known == microseconds(batch.column(name))
        return np.where(is_recorded, known, NO_TIME)

    @cached_property
    def deaths(self) -> Ints:
        """The times of death on record."""
        times = [np.empty(0, np.int64)]
        for role in self.store.spec.roles.death:
            if role.table in self.store.table_names and role.time is not None:
                batch = self.rows(role.table)
                if role.time == EVENT:
                    times.append(event_times(batch))
                elif role.time in batch.schema.names:  # a release may lack the column
                    times.append(cell_times(batch.column(role.time)))
        every = np.concatenate(times)
        return np.unique(every[every != NO_TIME])

    @cached_property
    def days_of_death(self) -> Ints:
        """The last seconds of days of death without a recorded time."""
        is_day = self.deaths % DAY == DAY - SECOND
        days: Ints = self.deaths[is_day & ~np.isin(self.deaths // DAY, self.deaths[~is_day] // DAY)]
        return days

    def may_have_died(self, until: int, kind: SpanName) -> bool:
        """Return whether the person died on the day of ``until`` at an unknown time.

        False where the stays of the kind record deaths themselves.
        """
        role: SpanRole | None = getattr(self.store.spec.roles, kind)
        kind_records_death = role is not None and any(one.table == role.table for one in self.store.spec.roles.death)
        return not kind_records_death and bool(
            np.any((self.days_of_death >= until) & (self.days_of_death - until < DAY))
        )


def _placed(times: Ints) -> Ints:
    return np.where((times <= ALWAYS_TIME) | (times >= NEVER_TIME), NO_TIME, times)


class Timelines:
    """The timelines of a store's subjects, with a cache: every task reads the same people."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self._made = lru_cache(maxsize=_KEPT)(lambda subject: Timeline(store, subject, policy))

    def of(self, subject: int) -> Timeline:
        """Return the timeline of a subject."""
        return self._made(subject)


# One question: its prediction time, its answer, the rows that hold the answer, and the curated input.


HOUR = 3_600_000_000
MAX_EVENTS = 100
"""Limit on the events of a curated input (EHR-R1: up to 100 events of the last 24 hours)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StayQuestion:
    """One question about a stay; times in microseconds.

    ``prediction_us`` is the prediction time and the end of the curated input, ``curated_from`` the start of that
    input. ``event`` is when the answer happens (None: never). An empty ``target``: the record does not hold the
    answer.

    ``settled_us``: when everything is known that makes this a question (an event that follows in time, a stay that
    continued). With ``kind_is_late`` the row of the ``stay`` must also show its end. ``row_ids``: rows that no chart
    may show yet. ``late_cells``: cells that must be empty, by row.
    """

    subject: int
    prediction_us: int
    curated_from: int
    target: tuple[str, ...]
    settled_us: int
    stay: str
    kind_is_late: bool
    event: int | None = None
    row_ids: tuple[str, ...] = ()
    late_cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class QuestionSource(Protocol):
    """The questions of one task: at most one per subject, chosen before any answer is read where possible."""

    def unavailable(self) -> str | None:
        """Return why the task has no question in this store; None if it has."""

    @property
    def deciding_columns(self) -> str:
        """The columns that decide whether and when a question exists, as text."""

    def questions(self, timeline: Timeline) -> Sequence[StayQuestion]:
        """Return every possible question of a subject."""

    def question(self, timeline: Timeline, dropped: Counter[str]) -> StayQuestion | None:
        """Return the question of a subject; None where there is none, which is counted by its reason."""


def ended_stay_rows(chart: Chart) -> frozenset[str]:
    """Return the row ids of the stays whose end a chart shows."""
    row_ids: set[str] = set()
    for role in (chart.spec.roles.admission, chart.spec.roles.stay, chart.spec.roles.emergency):
        if role is not None and role.table in chart.table_names:
            batch = chart.table(role.table).batch
            ids = batch.column("row_id").to_pylist()
            ends = {part for column in role.ends for part in column.split("|")} & set(batch.schema.names)
            for name in ends:
                row_ids.update(
                    ids[row] for row in batch.column(name).is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
                )
    return frozenset(row_ids)


def time_text(moment: int) -> str:
    """Format a moment in microseconds."""
    return format_time(from_microseconds(moment))
