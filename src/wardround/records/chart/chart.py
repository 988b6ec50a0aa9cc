"""The chart: the record of one subject as of a moment. The only thing an agent may reach.

Policy ``known_at``: a row is there iff it was available and had happened by ``as_of`` (equality counts); a late cell is
null until its own time. Policy ``published`` uses the clocks of the papers and is for reproducing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from math import isnan
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from wardround.core import RecordError, to_microseconds
from wardround.records.chart.censor import ChartTable, age_in_years, as_frame, censored, published
from wardround.records.chart.event_columns import EventColumns, event_columns
from wardround.records.rules.language import ALWAYS_TIME
from wardround.records.shards.table_layout import TableLayout
from wardround.records.specs.spec import SourceSpec

Policy = Literal["known_at", "published"]
Read = Callable[[int, str], "pa.RecordBatch | None"]
_EVENT_TYPES = {"time": pa.timestamp("us"), "numeric_value": pa.float64()}
"""Of the events' columns that are no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row flattened. ``time`` is None for static rows; ``code`` is ``system//code``, or the table's name.

    ``description`` says the code in words, where the record does; ``kind`` is the sort of event, such as ``lab``.
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
class Chart:
    """One subject's record as of a moment. Tables are read when first asked for; safe to share between threads.

    ``person`` is the same number for all subjects that are one person.
    """

    subject_id: int
    person: int
    as_of: datetime
    policy: Policy
    spec: SourceSpec
    layouts: Mapping[str, TableLayout] = field(repr=False)
    read: Read = field(repr=False)
    _tables: dict[str, ChartTable] = field(default_factory=dict, init=False, repr=False, compare=False)
    _events: list[EventColumns] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables this source has, whether or not the subject has rows in them."""
        return tuple(self.layouts)

    @property
    def age(self) -> int | None:
        """Age in years at ``as_of``; 90 stands for 90 and older. None where the source has no age."""
        for layout in self.layouts.values():
            if layout.spec.age is not None:
                batch = self.read(self.subject_id, layout.spec.name)
                ages = [] if batch is None else age_in_years(layout.spec.age, batch, self.as_of).to_pylist()
                return ages[0] if ages else None
        return None

    def table(self, name: str) -> ChartTable:
        """Return a table. RecordError: this source has none of that name."""
        found = self._tables.get(name)
        if found is not None:
            return found
        if name not in self.layouts:
            raise RecordError(f"no table {name!r}; there are {', '.join(self.layouts)}")
        return self._tables.setdefault(name, self._load(name))

    def _load(self, name: str) -> ChartTable:
        layout = self.layouts[name]
        stored = self.read(self.subject_id, name)
        cut = censored if self.policy == "known_at" else published
        batch, times = cut(layout, stored, self.as_of, to_microseconds(self.as_of))
        if layout.spec.is_static:
            event_time = np.full(len(times), np.datetime64("NaT", "us"))
        else:
            event_time = times.view("datetime64[us]")
        return ChartTable(name=name, spec=layout.spec, batch=batch, event_time=event_time)

    def event_columns(self) -> EventColumns:
        """Return every visible row as an event, as columns; made once. Static rows come first, then by time."""
        if not self._events:
            self._events.append(event_columns([self.table(name) for name in self.table_names]))
        return self._events[0]

    def to_pandas(self, table: str | None = None) -> Any:
        """Return a table's visible rows as a pandas DataFrame, without a name all of them as events.

        UserError: pandas is not installed; RecordError: no such table.
        """
        if table is not None:
            return self.table(table).to_pandas()
        names = [field.name for field in fields(Event)]
        rows = [tuple(getattr(event, name) for name in names) for event in self.events()]
        columns = [list(cells) for cells in zip(*rows, strict=True)] if rows else [[] for _ in names]
        types = [_EVENT_TYPES.get(name, pa.string()) for name in names]
        return as_frame(pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)}))

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
