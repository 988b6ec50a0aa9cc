"""When a task is asked: some time after the rows of a table, if the chart shows them by then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from wardround.benchmarks.columns import AVAILABLE, EVENT, NO_TIME, event_times, microseconds
from wardround.benchmarks.own.questions import Moment
from wardround.benchmarks.own.rows import Where, matching
from wardround.core import UserError, from_microseconds
from wardround.records import Policy, Store
from wardround.records.shards.layout import NEVER_TIME

_CLOCKS = (EVENT, AVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterRows:
    """Asked ``after`` the time of every row of a table that meets ``where``, while the column ``empty`` is empty.

    ``time`` is a column, or one of the row's own clocks (``_event``, ``_available``). A row is asked about only if a
    chart as of that moment shows it, with that time, its conditions met and ``empty`` not filled in yet: what becomes
    known later has no part in whether there is a question.
    """

    table: str
    time: str = EVENT
    after: timedelta = timedelta(0)
    where: Where
    empty: str | None = None

    def moments(self, store: Store, policy: Policy, dropped: Counter[str]) -> Iterator[Moment]:
        """Yield the moments, subject by subject, in order; several rows of one moment are one question."""
        self._check(store)
        table = store.spec.tables[self.table]
        settled = self.where.within(set(table.columns) - table.hidden - set(table.late))  # alike at every moment
        columns = dict.fromkeys(("row_id", self.time, *settled.every_column))
        for subject, batch in store.scan(self.table, list(columns)):
            times = self._times(batch.take(pa.array(matching(batch, settled), pa.int64())), dropped)
            asked = {row: moment + self.after for row, moment in times.items()}
            shown = {moment: self._shown(store, policy, subject, moment) for moment in sorted(set(asked.values()))}
            for moment, rows in shown.items():
                held = [row for row, one in asked.items() if one == moment]
                known = [row for row in held if rows.get(row) == times[row]]
                dropped["not_on_the_chart_then"] += len(held) - len(known)
                if known:
                    yield Moment(subject_id=subject, prediction_time=moment)

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        hours = self.after.total_seconds() / 3600
        return {"table": self.table, "time": self.time, "after_hours": hours, "empty": self.empty, **self.where.facts()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> AfterRows:
        """Read what :meth:`facts` wrote."""
        return cls(
            table=facts["table"],
            time=facts["time"],
            after=timedelta(hours=facts["after_hours"]),
            where=Where.from_facts(facts),
            empty=facts["empty"],
        )

    def _check(self, store: Store) -> None:
        if self.table not in store.table_names:
            raise UserError(f"asked: the store has no table {self.table!r}; it has {', '.join(store.table_names)}")
        columns = store.spec.tables[self.table].columns
        own = () if self.time in _CLOCKS else (self.time,)
        for name in filter(None, (*own, self.empty, *self.where.columns)):
            if name not in columns:
                raise UserError(f"asked: table {self.table!r} has no column {name!r}; it has {', '.join(columns)}")

    def _times(self, batch: pa.RecordBatch, dropped: Counter[str]) -> dict[str, datetime]:
        """Return the time of every row that has one."""
        ids = batch.column("row_id").to_pylist()
        times = (event_times(batch) if self.time == EVENT else microseconds(batch.column(self.time))).tolist()
        timed = {row: time for row, time in zip(ids, times, strict=True) if NO_TIME < time < NEVER_TIME}
        dropped["row_without_time"] += len(ids) - len(timed)
        return {row: from_microseconds(time) for row, time in timed.items()}

    def _shown(self, store: Store, policy: Policy, subject: int, moment: datetime) -> dict[str, datetime | None]:
        """Return the rows that count on the chart as of a moment, with the time that it shows of each; what is there
        became available by then, so that time is not read again."""
        table = store.chart(subject, moment, policy=policy).table(self.table)
        rows = matching(table.batch, self.where)
        if self.empty is not None:
            filled = table.batch.column(self.empty).is_valid().to_pylist()
            rows = [row for row in rows if not filled[row]]
        ids = table.batch.column("row_id").to_pylist()
        if self.time == AVAILABLE:
            return {ids[row]: moment - self.after for row in rows}
        event = table.event_time.view("int64")
        times = (event if self.time == EVENT else microseconds(table.batch.column(self.time))).tolist()
        return {ids[row]: None if times[row] == NO_TIME else from_microseconds(times[row]) for row in rows}
