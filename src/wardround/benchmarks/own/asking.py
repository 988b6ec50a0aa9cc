"""When a task is asked: some time after the rows of a table, if the chart shows them by then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from wardround.benchmarks.columns import NO_TIME, microseconds
from wardround.benchmarks.own.questions import Moment
from wardround.benchmarks.own.rows import Where, matching
from wardround.core import UserError, from_microseconds
from wardround.records import Policy, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterRows:
    """Asked ``after`` the time of every row of a table that meets ``where``, while the column ``empty`` is empty.

    A row is asked about only if a chart as of that moment shows it, with that time, its conditions met and ``empty``
    not filled in yet: what becomes known later has no part in whether there is a question.
    """

    table: str
    time: str
    after: timedelta = timedelta(0)
    where: Where
    empty: str | None = None

    def moments(self, store: Store, policy: Policy, dropped: Counter[str]) -> Iterator[Moment]:
        """Yield the moments, subject by subject, in order; several rows of one moment are one question."""
        self._check(store)
        for subject, batch in store.scan(self.table, ["row_id", self.time]):
            times = self._times(batch, dropped)
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

    def _check(self, store: Store) -> None:
        if self.table not in store.table_names:
            raise UserError(f"asked: the store has no table {self.table!r}; it has {', '.join(store.table_names)}")
        columns = store.spec.tables[self.table].columns
        for name in filter(None, (self.time, self.empty, *self.where.columns)):
            if name not in columns:
                raise UserError(f"asked: table {self.table!r} has no column {name!r}; it has {', '.join(columns)}")

    def _times(self, batch: pa.RecordBatch, dropped: Counter[str]) -> dict[str, datetime]:
        """Return the time of every row that has one."""
        ids, times = batch.column("row_id").to_pylist(), microseconds(batch.column(self.time)).tolist()
        dropped["row_without_time"] += times.count(NO_TIME)
        return {row: from_microseconds(time) for row, time in zip(ids, times, strict=True) if time != NO_TIME}

    def _shown(self, store: Store, policy: Policy, subject: int, moment: datetime) -> dict[str, datetime | None]:
        """Return the rows that count on the chart as of a moment, with the time that it shows of each."""
        batch = store.chart(subject, moment, policy=policy).table(self.table).batch
        rows = matching(batch, self.where)
        if self.empty is not None:
            filled = batch.column(self.empty).is_valid().to_pylist()
            rows = [row for row in rows if not filled[row]]
        ids, times = batch.column("row_id"), microseconds(batch.column(self.time)).tolist()
        return {str(ids[row].as_py()): None if times[row] == NO_TIME else from_microseconds(times[row]) for row in rows}
