"""One subject's record as times, and a question asked on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from wardround.records import Policy, SpanRole, Store
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

# Read from the trusted store. A moment is when a chart changes: the later of a row's event and its availability, under
# the published clocks its time of theirs.


_KEPT = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stay. ``end`` is NO_TIME while it is open; ``known``: when a chart shows its row; ``told_late``: that it is a
    stay of this kind is said by cells that come late; ``names``: what other rows call it (None: nothing);
    ``encounter``: the stay in hospital that its own row names."""

    kind: SpanName
    start: int
    end: int
    row_id: str
    known: int
    told_late: bool
    names: Any = None
    encounter: Any = None

    @property
    def left(self) -> int:
        """When the record says that it is over, the end or later; NO_TIME while it is open."""
        return self.end if self.end == NO_TIME else max(self.end, self.known)

    @property
    def key(self) -> tuple[int, str]:
        """Its place in order."""
        return self.start, self.row_id


class Timeline:
    """What is read of one subject, table by table, when it is first asked for."""

    def __init__(self, store: Store, subject: int, policy: Policy) -> None:
        self.store, self.subject, self.policy = store, subject, policy
        self._rows: dict[str, pa.RecordBatch] = {}
        self._times: dict[tuple[str, str], Ints] = {}
        self._spans: dict[SpanName, tuple[Span, ...]] = {}

    def rows(self, table: str) -> pa.RecordBatch:
        """Every row of a table, clocks and all."""
        if table not in self._rows:
            self._rows[table] = self.store.rows(self.subject, table)
        return self._rows[table]

    def _once(self, what: str, table: str, made: Callable[[str], Ints]) -> Ints:
        """Times of a table's rows, made when they are first asked for: every task asks again."""
        if (what, table) not in self._times:
            self._times[what, table] = made(table)
        return self._times[what, table]

    def event(self, table: str) -> Ints:
        """When each row of a table happened; under the published clocks, when they say so, where they do."""
        return self._once("event", table, self._event)

    def _event(self, table: str) -> Ints:
        batch = self.rows(table)
        if self.policy == "known_at" or self.store.spec.tables[table].published.time is None:
            return event_times(batch)
        return _placed(microseconds(batch.column(PUBLISHED)))

    def happened(self, table: str) -> Ints:
        """When what each row tells of happened. A field of a report, which has no time of its own, has the event of its
        coming on record with the report; the examination was done when the report says."""
        return self._once("happened", table, self._happened)

    def _happened(self, table: str) -> Ints:
        times, rule = self.event(table), self.store.spec.tables[table].event_time
        if self.policy == "published" or not isinstance(rule, Reference) or rule.table not in self.store.table_names:
            return times
        told, key = self.rows(rule.table), self.store.spec.tables[rule.table].key[0]
        if rule.column not in told.schema.names:
            return times
        said = zip(told.column(key).to_pylist(), cell_times(told.column(rule.column)).tolist(), strict=True)
        when = dict(said)
        found = np.array([when.get(one, NO_TIME) for one in self.rows(table).column(rule.key).to_pylist()], np.int64)
        return np.where(found == NO_TIME, times, found)

    def known(self, table: str) -> Ints:
        """When a chart shows each row of a table, NO_TIME where it never does or always did."""
        return self._once("known", table, self._known)

    def _known(self, table: str) -> Ints:
        batch = self.rows(table)
        if self.policy == "published":
            has_clock = self.store.spec.tables[table].published.time is not None
            return self.event(table) if has_clock else np.full(batch.num_rows, NO_TIME)
        known = np.maximum(microseconds(batch.column(EVENT)), microseconds(batch.column(AVAILABLE)))
        return _placed(known)

    def spans(self, kind: SpanName) -> tuple[Span, ...]:
        """The stays of a kind, in order; none where no table plays the role."""
        if kind not in self._spans:
            self._spans[kind] = self._read_spans(kind)
        return self._spans[kind]

    def _read_spans(self, kind: SpanName) -> tuple[Span, ...]:
        role: SpanRole | None = getattr(self.store.spec.roles, kind)
        if role is None or role.table not in self.store.table_names:
            return ()
        batch = self.rows(role.table)
        found = read_spans(role, event_times(batch), CodedRows(batch=batch))
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
        places = zip(found.starts.tolist(), found.ends.tolist(), found.rows.tolist(), found.stops.tolist(), strict=True)
        return tuple(
            Span(
                kind=kind,
                start=start,
                end=end,
                row_id=ids[row],
                known=max(known[row], known[stop]) if stop >= 0 else known[row],
                told_late=late,
                names=names[row],
                encounter=encounters[row],
            )
            for start, end, row, stop in places
        )

    @cached_property
    def moments(self) -> Ints:
        """Every recorded time at which the chart changes, in order, each once."""
        tables = [name for name in self.store.table_names if not self.store.spec.tables[name].is_static]
        times = np.concatenate([np.empty(0, np.int64), *(self._recorded(name) for name in tables)])
        return np.unique(times[times != NO_TIME])

    def _recorded(self, table: str) -> Ints:
        """When rows became known, where the row itself says when: a time that is reckoned (a result without one is
        known after the table's median delay) hangs on other rows, later ones among them."""
        batch, known = self.rows(table), self.known(table)
        said = known == self.event(table)
        for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
            if pa.types.is_timestamp(kind) and not name.startswith("_"):
                said |= known == microseconds(batch.column(name))
        return np.where(said, known, NO_TIME)

    @cached_property
    def deaths(self) -> Ints:
        """The moments at which the record says that the person died."""
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
        """The last seconds of days on which the person died, nobody wrote when."""
        is_day = self.deaths % DAY == DAY - SECOND
        found: Ints = self.deaths[is_day & ~np.isin(self.deaths // DAY, self.deaths[~is_day] // DAY)]
        return found

    def may_have_died(self, until: int, kind: SpanName) -> bool:
        """Whether somebody died on the day of a moment, before or after it: what stays of the kind do not say."""
        role: SpanRole | None = getattr(self.store.spec.roles, kind)
        says = role is not None and any(one.table == role.table for one in self.store.spec.roles.death)
        return not says and bool(np.any((self.days_of_death >= until) & (self.days_of_death - until < DAY)))


def _placed(times: Ints) -> Ints:
    return np.where((times <= ALWAYS_TIME) | (times >= NEVER_TIME), NO_TIME, times)


class Timelines:
    """The timelines of a store's subjects; the latest few are kept, as every task looks at the same people."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self._made = lru_cache(maxsize=_KEPT)(lambda subject: Timeline(store, subject, policy))

    def of(self, subject: int) -> Timeline:
        """Return a subject's."""
        return self._made(subject)


# One question: when a subject is asked, what the answer is, which rows say so, and what the curated input shows.


HOUR = 3_600_000_000
MOST_EVENTS = 100
"""Of a curated input (EHR-R1 has up to 100 events of the last 24 hours)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StayQuestion:
    """Times in microseconds. ``asked`` is the moment of the question and the end of the curated input, ``curated_from``
    where that input begins; ``event`` is when the answer comes about (None: it never does). An empty ``target``: the
    record does not say what the answer is.

    ``settled``: when all is known that made it be asked (an event that follows in time, a stay that went on);
    where ``told_late``, the row of the ``stay`` must show its end too.
    ``row_ids``: rows that no chart may show yet; ``late_cells``: cells that must be empty, by row.
    """

    subject: int
    asked: int
    curated_from: int
    target: tuple[str, ...]
    settled: int
    stay: str
    told_late: bool
    event: int | None = None
    row_ids: tuple[str, ...] = ()
    late_cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Asking(Protocol):
    """How a task is asked. One question per subject, chosen before anybody's answer is looked at where that can be."""

    def unavailable(self) -> str | None:
        """Say why no subject of this store can be asked, None if one can."""

    @property
    def hangs_on(self) -> str:
        """The columns that decide whether and when a question is asked, for people."""

    def questions(self, timeline: Timeline) -> Sequence[StayQuestion]:
        """Return every question that a subject could be asked."""

    def question(self, timeline: Timeline, dropped: Counter[str]) -> StayQuestion | None:
        """Return a subject's question; None where it has none, and count why."""
