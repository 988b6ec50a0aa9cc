"""The chart: the record of one subject as of a moment, and all that an agent can reach.

Policy ``known_at``: a row is visible iff it was available and had happened by ``as_of`` (equality counts); a late cell
is null until its own time. Policy ``published`` uses the papers' clocks, to reproduce them. A chart gives no access to
the rest of the store: its reader of rows is sealed and bound to its subject, moment and policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from math import isnan
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from wardround.core import RecordError, Sealed, to_microseconds, unsealed
from wardround.records.chart.censor import (
    NEWEST_ROWS,
    ChartTable,
    Cut,
    age_in_years,
    as_frame,
    censored,
    chart_template,
    published,
)
from wardround.records.chart.events import EventColumns, event_columns
from wardround.records.rules.language import ALWAYS_TIME
from wardround.records.shards.layout import TableLayout
from wardround.records.specs.spec import SourceSpec

Policy = Literal["known_at", "published"]
_EVENT_TYPES = {"time": pa.timestamp("us"), "numeric_value": pa.float64()}
"""Types of the events' columns that are not text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row flattened. ``time`` is None for static rows; ``code`` is ``system//code``, or the table's name.

    ``description``: the code in words, if the record has one; ``kind``: the kind of event, such as ``lab``.
    """

    time: datetime | None
    code: str
    description: str
    kind: str
    numeric_value: float | None
    text_value: str | None
    unit: str | None
    row_id: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Tables whose rows since a moment are hidden, because their existence would reveal the answer."""

    tables: frozenset[str]
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One subject's whole record, with the chart's moment and policy. Trusted code only: a chart keeps it sealed."""

    as_of: datetime
    policy: Policy
    layouts: Mapping[str, TableLayout]
    rows: Callable[[str], pa.RecordBatch | None]
    """Return all stored rows of a table with their clocks; None if the subject has none."""
    withheld: Withheld | None = None

    def table(self, name: str) -> Cut:
        """Return a table's visible rows and their event times; their memory holds nothing else."""
        cut = censored if self.policy == "known_at" else published
        batch, times = cut(self.layouts[name], self.rows(name), self.as_of, to_microseconds(self.as_of))
        if self.withheld is None or name not in self.withheld.tables:
            return batch, times
        kept = times < to_microseconds(self.withheld.since)
        return batch.filter(pa.array(kept)), times[kept]

    def age(self) -> int | None:
        """Return the age in years at the moment."""
        for layout in self.layouts.values():
            if layout.spec.age is not None:
                batch = self.rows(layout.spec.name)
                ages = [] if batch is None else age_in_years(layout.spec.age, batch, self.as_of).to_pylist()
                return ages[0] if ages else None
        return None


def _is_over(stop: Any, as_of: datetime) -> bool:
    """Return whether visible ends have passed: clocks other than ``known_at`` may show later ends."""
    return stop <= (as_of if isinstance(stop, datetime) else as_of.date()) if isinstance(stop, date) else True


def stored_rows(chart: Chart, table: str) -> pa.RecordBatch | None:
    """Return all stored rows of a chart's subject in a table, later ones too. Trusted code only; None without any."""
    return unsealed(chart.inside).rows(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One subject's record as of a moment. Tables are read at their first use; safe to share between threads.

    ``person``: the same number for all subjects that are one person. Withheld rows are left out.
    """

    subject_id: int
    person: int
    as_of: datetime
    policy: Policy
    spec: SourceSpec
    layouts: Mapping[str, TableLayout] = field(repr=False)
    inside: Sealed[StoredRecord] = field(repr=False)
    _tables: dict[str, ChartTable] = field(default_factory=dict, init=False, repr=False, compare=False)
    _events: list[EventColumns] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables this source has, whether or not the subject has rows in them."""
        return tuple(self.layouts)

    @property
    def age(self) -> int | None:
        """Age in years at ``as_of``; 90 means 90 and older. None if the source has no age."""
        return unsealed(self.inside).age()

    def table(self, name: str) -> ChartTable:
        """Return a table. RecordError: the source has no table of that name."""
        found = self._tables.get(name)
        if found is not None:
            return found
        if name not in self.layouts:
            raise RecordError(f"no table {name!r}; there are {', '.join(self.layouts)}")
        spec = self.layouts[name].spec
        batch, times = unsealed(self.inside).table(name)
        if spec.is_static:
            event_time = np.full(len(times), np.datetime64("NaT", "us"))
        else:
            event_time = times.view("datetime64[us]")
        return self._tables.setdefault(name, ChartTable(name=name, spec=spec, batch=batch, event_time=event_time))

    @property
    def ended_rows(self) -> frozenset[str]:
        """Return rows of procedures, lines and catheters that had ended by ``as_of``, if their role has a ``stop``."""
        ended: set[str] = set()
        for role in self.spec.roles.procedure:
            if role.stop is not None and role.table in self.layouts:
                batch = self.table(role.table).batch
                stops = zip(batch.column("row_id").to_pylist(), batch.column(role.stop).to_pylist(), strict=True)
                ended.update(row for row, stop in stops if stop is not None and _is_over(stop, self.as_of))
        return frozenset(ended)

    def event_columns(self) -> EventColumns:
        """Return every visible row as an event, as columns; made once. Static rows come first, then by time."""
        if not self._events:
            self._events.append(event_columns([self.table(name) for name in self.table_names]))
        return self._events[0]

    def to_pandas(self, table: str | None = None) -> Any:
        """Return a table's visible rows as a pandas DataFrame; without a name all rows as events.

        UserError: pandas is not installed; RecordError: no such table.
        """
        if table is not None:
            return self.table(table).to_pandas()
        names = [field.name for field in fields(Event)]
        rows = [tuple(getattr(event, name) for name in names) for event in self.events()]
        columns = [list(cells) for cells in zip(*rows, strict=True)] if rows else [[] for _ in names]
        types = [_EVENT_TYPES.get(name, pa.string()) for name in names]
        return as_frame(pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)}))

    def __repr__(self) -> str:
        when = self.as_of.isoformat(sep=" ")
        return f"Chart(subject {self.subject_id} as of {when}, {self.spec.name}, policy {self.policy})"

    def _repr_html_(self) -> str:
        """Return HTML of what was known, by table, with the newest rows of each."""
        tables = [self.table(name) for name in self.table_names]
        return chart_template("chart.html.jinja").render(chart=self, tables=tables, newest=NEWEST_ROWS)

    def events(self) -> Iterator[Event]:
        """Yield every visible row as an event, in time order; static rows come first."""
        columns = self.event_columns()
        moments = columns.time.view("datetime64[us]")
        times = np.where(columns.time <= ALWAYS_TIME, np.datetime64("NaT", "us"), moments).tolist()
        for place, (time, concept, value) in enumerate(
            zip(times, columns.concept.tolist(), columns.numeric_value.tolist(), strict=True)
        ):
            yield Event(
                time=time,
                code=columns.codes[concept],
                description=columns.descriptions[concept],
                kind=columns.kinds[concept],
                numeric_value=None if isnan(value) else value,
                text_value=columns.texts[place],
                unit=columns.units[place],
                row_id=columns.row_ids[place],
                table=columns.table_names[int(columns.table[place])],
            )
