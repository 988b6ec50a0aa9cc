"""Labels of a task's file: a rule over the rows after the question, or an SQL statement over the whole record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.benchmarks.columns import texts
from wardround.benchmarks.own.questions import Label, Moment
from wardround.benchmarks.own.rows import Where, matching
from wardround.core import ToolFailure, UserError, format_time, parse_time
from wardround.records import Chart
from wardround.tools.sql_gate import SqlAnswer, SqlGate, SqlLimits

YES, NO = "1", "0"
_LIMITS = SqlLimits(operations=100_000_000, seconds=5.0)
_ROW_ID, _EVENT_TIME = "row_id", "event_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLabel:
    """What the rows of a table say that happen after the question, and ``within`` a time (None: ever).

    Without ``names`` and ``cuts``: 1 if there is such a row, else 0. ``names``: the target is every text that this
    column of them has. ``cuts``: the class is how many of them the number of the first row reaches. ``column`` holds
    the number; only rows ``above`` and ``below`` a bound count.
    """

    table: str
    where: Where
    within: timedelta | None = None
    column: str | None = None
    above: float | None = None
    below: float | None = None
    names: str | None = None
    cuts: tuple[float, ...] = ()

    def label(self, moment: Moment, future: Chart) -> Label | None:
        """Return the label; None where names or a number are asked for and no row has any."""
        rows = self._rows(moment.prediction_time, future)
        batch, times = future.table(self.table).batch, future.table(self.table).event_time
        if self.names is not None:
            cells = texts(batch.column(self.names))
            rows = [row for row in rows if cells[row] and cells[row].strip()]
            target = tuple(sorted({" ".join(cells[row].split()) for row in rows}))
        elif self.cuts:
            rows, numbers = rows[:1], self._numbers(batch)
            target = tuple(str(bisect_right(self.cuts, numbers[row])) for row in rows)
        else:
            rows = rows[:1]
            target = (YES if rows else NO,)
        if not target:
            return None
        ids = batch.column("row_id")
        return Label(
            target=target,
            event_time=times[rows[0]].astype(datetime) if rows else None,
            row_ids=tuple(str(ids[row].as_py()) for row in rows),
        )

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        hours = None if self.within is None else self.within.total_seconds() / 3600
        said: dict[str, Any] = {"table": self.table, "within_hours": hours, "column": self.column, "above": self.above}
        said |= {"below": self.below, "names": self.names, "cuts": list(self.cuts)}
        return {"rule": said | self.where.facts()}

    def _rows(self, asked: datetime, future: Chart) -> list[int]:
        """Return the rows that count, in order of time."""
        if self.table not in future.table_names:
            raise UserError(f"label: the store has no table {self.table!r}; it has {', '.join(future.table_names)}")
        table = future.table(self.table)
        for name in filter(None, (self.column, self.names, *self.where.columns)):
            if name not in table.columns:
                known = ", ".join(table.columns)
                raise UserError(f"label: table {self.table!r} has no column {name!r}; it has {known}")
        after = table.event_time > np.datetime64(asked, "us")
        if self.within is not None:
            after &= table.event_time <= np.datetime64(asked + self.within, "us")
        rows = [row for row in matching(table.batch, self.where) if after[row]]
        if self.column is not None:
            numbers = self._numbers(table.batch)
            rows = [row for row in rows if self._is_within(numbers[row])]
        return rows

    def _numbers(self, batch: pa.RecordBatch) -> list[float]:
        assert self.column is not None  # the reader of the file asks for it
        cells = batch.column(self.column)
        if not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
            raise UserError(f"label: column {self.column!r} of {self.table!r} holds no numbers but {cells.type}")
        return [float("nan") if cell is None else float(cell) for cell in cells.to_pylist()]

    def _is_within(self, number: float) -> bool:
        low = -np.inf if self.above is None else self.above
        high = np.inf if self.below is None else self.below
        return bool(low < number < high)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLabel:
    """The first column of a SELECT over all rows of the subject: one text per row of the answer; none: no label.

    The table ``question`` holds ``subject_id`` and ``prediction_time``. A column ``row_id`` names the row that says so,
    ``event_time`` when it happened: with them the leak audit can prove that no chart shows it. The statement runs in
    SQLite behind the same gate as a model's.
    """

    sql: str
    _gates: dict[int, SqlGate] = field(default_factory=dict, repr=False, compare=False)

    def label(self, moment: Moment, future: Chart) -> Label | None:
        """Return the label; UserError where the statement is refused or stopped."""
        try:
            found = self._gate(future).query(with_question(self.sql, moment))
        except ToolFailure as error:
            raise UserError(f"label: the SQL statement fails for subject {moment.subject_id}: {error}") from error
        target = tuple(sorted({_text(row[0]) for row in found.rows if row[0] is not None}))
        if not target:
            return None
        times = [parse_time(str(time)) for time in _column(found, _EVENT_TIME)]
        return Label(
            target=target,
            event_time=min(times, default=None),
            row_ids=tuple(dict.fromkeys(map(str, _column(found, _ROW_ID)))),
        )

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"sql": self.sql}

    def _gate(self, future: Chart) -> SqlGate:
        """One gate at a time: questions come subject by subject."""
        if future.subject_id not in self._gates:
            for gate in self._gates.values():
                gate.close()
            self._gates.clear()
            self._gates[future.subject_id] = SqlGate(future, limits=_LIMITS)
        return self._gates[future.subject_id]


def with_question(sql: str, moment: Moment) -> str:
    """Put the table ``question`` before a statement; its two values are ours, never a text of the file."""
    row = f"SELECT {int(moment.subject_id)} AS subject_id, '{format_time(moment.prediction_time)}' AS prediction_time"
    first, _, rest = sql.strip().partition(" ")
    if first.casefold() == "with":
        return f"WITH question AS ({row}), {rest}"
    return f"WITH question AS ({row}) {sql}"


def _column(found: SqlAnswer, name: str) -> Sequence[Any]:
    if name not in found.columns[1:]:
        return ()
    place = found.columns.index(name, 1)
    return [row[place] for row in found.rows if row[place] is not None]


def _text(value: Any) -> str:
    """A whole number is written as one: SQL knows no truth but 1 and 0, and 1.0 is 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
