"""A user's own tasks: when a question exists and how it is labelled (rule, SQL, last answer)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from wardround.core import ToolFailure, UserError, format_time, from_microseconds, parse_time
from wardround.records import Chart, Policy, Store
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import CodedRows, Conditions
from wardround.tasks.benchmarks.encounters import AVAILABLE, EVENT, NO_TIME, event_times, microseconds, texts
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import Task
from wardround.tools.sql_gate import SqlAnswer, SqlGate, SqlLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Conditions by column; one of a column's patterns must match.

    ``*`` is any text, ``?*`` any text that is not empty, ``!`` excludes patterns; case does not matter. No columns:
    every row. ``role``: conditions of the role that names the table, one of which must also match.
    """

    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    role: Conditions = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a file names."""
        return tuple(self.patterns)

    @property
    def every_column(self) -> tuple[str, ...]:
        """The columns of the file and of the role."""
        return tuple(dict.fromkeys((*self.patterns, *(column for one in self.role for column in one))))

    def within(self, columns: Collection[str]) -> Where:
        """Return only the conditions on these columns."""
        kept = {column: each for column, each in self.patterns.items() if column in columns}
        return Where(patterns=kept, role=self.role if all(set(one) <= set(columns) for one in self.role) else ())

    def facts(self) -> dict[str, Any]:
        """Return the conditions' entry in the manifest."""
        patterns_by_column = {column: list(patterns) for column, patterns in self.patterns.items()}
        role = [{column: list(patterns) for column, patterns in one.items()} for one in self.role]
        return {"where": patterns_by_column} | ({"where_of_role": role} if role else {})

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Where:
        """Build the conditions from the output of :meth:`facts`."""
        role = facts.get("where_of_role", ())
        return cls(patterns=_tuples(facts["where"]), role=tuple(_tuples(one) for one in role))


def matching(batch: pa.RecordBatch, where: Where) -> list[int]:
    """Return the indices of the rows that meet every condition."""
    rows = CodedRows(batch=batch)
    is_match = rows.meet((where.patterns,) if where.patterns else ()) & rows.meet(where.role)
    indices: list[int] = np.flatnonzero(is_match).tolist()
    return indices


def no_row_matches(store: Store, table: str, where: Where) -> list[str]:
    """Describe the conditions that no row of a table meets, with the nearest values.

    Empty where a row matches.
    """
    if not where.patterns:
        return []
    columns = [name for name in where.every_column if name in store.spec.tables[table].all_columns]
    values: dict[str, Counter[str]] = {name: Counter() for name in where.patterns}
    for _, batch in store.scan(table, columns):
        if matching(batch, where):
            return []
        for name in values.keys() & set(batch.schema.names):
            values[name].update(str(text) for text in batch.column(name).to_pylist() if text is not None)
    alone = {
        name: [text for text in counts if _matches(text, where.patterns[name])]
        for name, counts in sorted(values.items())
    }
    messages = []
    for name, counts in sorted(values.items()):
        wanted = where.patterns[name]
        if not alone[name]:
            messages.append(f"no row of {table} has {name} {' or '.join(map(repr, wanted))}{_nearest(wanted, counts)}")
    return messages or [f"no row of {table} meets all of {', '.join(where.every_column)}, though each is met by some"]


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    cells = pa.RecordBatch.from_pydict({"cell": [text]})
    return bool(matching(cells, Where(patterns={"cell": patterns})))


def _nearest(patterns: tuple[str, ...], counts: Counter[str]) -> str:
    """Describe the values most similar to the patterns, else the most common ones."""
    by_case = {text.casefold(): text for text in counts}
    near = [
        by_case[match]
        for pattern in patterns
        for match in get_close_matches(pattern.strip("*").casefold(), by_case, n=3)
    ]
    inside = [text for pattern in patterns for low, text in by_case.items() if pattern.strip("*!?").casefold() in low]
    if near or inside:
        return f"; the nearest: {', '.join(map(repr, dict.fromkeys([*near, *inside[:3]])))}"
    commonest = ", ".join(repr(text) for text, _ in counts.most_common(3))
    return f"; it has {commonest}" if commonest else "; it has no values"


def _tuples(patterns: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {column: tuple(each) for column, each in patterns.items()}


# The two parts of a user's own task: the moments at which a subject has a question, and their labels.


END_OF_TIME = datetime(9999, 12, 31)
"""Labels are read from a chart as of this time, which shows every row that ever became available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A subject and a prediction time."""

    subject_id: int
    prediction_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The answer, when it happened and the rows that hold it.

    A negative answer without a row has neither time nor rows.
    """

    target: tuple[str, ...]
    event_time: datetime | None = None
    row_ids: tuple[str, ...] = ()


class QuestionRule(Protocol):
    """Decides when a task has a question, from the chart at that moment and nothing else."""

    def moments(self, store: Store, policy: Policy, dropped: Counter[str]) -> Iterator[Moment]:
        """Yield the moments in order of subject and time; count dropped ones by reason."""

    def facts(self) -> dict[str, Any]:
        """Return the rule's entry in the manifest."""


class Labelling(Protocol):
    """Decides the answer at a moment; it may read the whole record of the subject, including the future."""

    def label(self, moment: Moment, future: Chart) -> Label | None:
        """Return the label, None where there is none. UserError: the rule cannot be applied."""

    def facts(self) -> dict[str, Any]:
        """Return the entry in the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTask:
    """A task with its two independent halves: the question rule and the labelling."""

    task: Task
    question_rule: QuestionRule
    labelling: Labelling
    sources: Sequence[tuple[str, str]] = ()
    """The files it comes from, with their hashes."""
    built_from: Mapping[str, Any] = field(default_factory=dict)
    """The file and its options, to read it again; empty for a plug-in's task."""


# Labels of a task file: a rule over the rows after the prediction time, or an SQL statement over the whole record.


YES, NO = "1", "0"
_LIMITS = SqlLimits(operations=100_000_000, seconds=5.0)
_ROW_ID, _EVENT_TIME = "row_id", "event_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLabel:
    """A label from the rows of a table after the prediction time, ``within`` a time span (None: no limit).

    Without ``names`` and ``cuts``: 1 if there is such a row, else 0. ``names``: the target is the set of texts in this
    column. ``cuts``: the class is the number of cuts that the first row's number reaches. ``column`` holds the number;
    only rows ``above`` and ``below`` a bound count.
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
        """Return the label; None where names or a number are needed and no row has one."""
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
        """Return the entry in the manifest."""
        hours = None if self.within is None else self.within.total_seconds() / 3600
        rule: dict[str, Any] = {"table": self.table, "within_hours": hours, "column": self.column, "above": self.above}
        rule |= {"below": self.below, "names": self.names, "cuts": list(self.cuts)}
        return {"rule": rule | self.where.facts()}

    def _rows(self, prediction_time: datetime, future: Chart) -> list[int]:
        """Return the matching rows in order of time."""
        if self.table not in future.table_names:
            raise UserError(f"label: the store has no table {self.table!r}; it has {', '.join(future.table_names)}")
        table = future.table(self.table)
        for name in filter(None, (self.column, self.names, *self.where.columns)):
            if name not in table.columns:
                columns = ", ".join(table.columns)
                raise UserError(f"label: table {self.table!r} has no column {name!r}; it has {columns}")
        after = table.event_time > np.datetime64(prediction_time, "us")
        if self.within is not None:
            after &= table.event_time <= np.datetime64(prediction_time + self.within, "us")
        rows = [row for row in matching(table.batch, self.where) if after[row]]
        if self.column is not None:
            numbers = self._numbers(table.batch)
            rows = [row for row in rows if self._is_within(numbers[row])]
        return rows

    def _numbers(self, batch: pa.RecordBatch) -> list[float]:
        assert self.column is not None  # the file's reader requires it
        cells = batch.column(self.column)
        if not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
            raise UserError(f"label: column {self.column!r} of {self.table!r} holds {cells.type}, not numbers")
        return [float("nan") if cell is None else float(cell) for cell in cells.to_pylist()]

    def _is_within(self, number: float) -> bool:
        low = -np.inf if self.above is None else self.above
        high = np.inf if self.below is None else self.below
        return bool(low < number < high)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLabel:
    """A label from the first column of a SELECT over all rows of the subject.

    Each row gives one name of the answer; no row: no label. The table ``question`` has ``subject_id`` and
    ``prediction_time``. With a column ``row_id`` (the row that holds the answer) or ``event_time`` (when it happened)
    the leak audit can prove that no chart shows the answer. The statement runs in SQLite behind the same gate as a
    model's.
    """

    sql: str
    _gates: dict[int, SqlGate] = field(default_factory=dict, repr=False, compare=False)

    def label(self, moment: Moment, future: Chart) -> Label | None:
        """Return the label; UserError where the statement is refused or stopped."""
        try:
            answer = self._gate(future).query(with_question(self.sql, moment))
        except ToolFailure as error:
            raise UserError(f"label: the SQL statement fails for subject {moment.subject_id}: {error}") from error
        target = tuple(sorted({_text(row[0]) for row in answer.rows if row[0] is not None}))
        if not target:
            return None
        times = [parse_time(str(time)) for time in _column(answer, _EVENT_TIME)]
        return Label(
            target=target,
            event_time=min(times, default=None),
            row_ids=tuple(dict.fromkeys(map(str, _column(answer, _ROW_ID)))),
        )

    def facts(self) -> dict[str, Any]:
        """Return the entry in the manifest."""
        return {"sql": self.sql}

    def _gate(self, future: Chart) -> SqlGate:
        """Return the gate of a subject; one gate is open at a time, because questions come subject by subject."""
        if future.subject_id not in self._gates:
            for gate in self._gates.values():
                gate.close()
            self._gates.clear()
            self._gates[future.subject_id] = SqlGate(future, limits=_LIMITS)
        return self._gates[future.subject_id]


def with_question(sql: str, moment: Moment) -> str:
    """Put the table ``question`` before a statement; its two values never come from the file."""
    row = f"SELECT {int(moment.subject_id)} AS subject_id, '{format_time(moment.prediction_time)}' AS prediction_time"
    first, _, rest = sql.strip().partition(" ")
    if first.casefold() == "with":
        return f"WITH question AS ({row}), {rest}"
    return f"WITH question AS ({row}) {sql}"


def _column(answer: SqlAnswer, name: str) -> Sequence[Any]:
    if name not in answer.columns[1:]:
        return ()
    index = answer.columns.index(name, 1)
    return [row[index] for row in answer.rows if row[index] is not None]


def _text(value: Any) -> str:
    """Return a value as text; a whole number loses its ``.0``, so that 1.0 equals 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


# When a task has a question: some time after the rows of a table, if the chart shows them then.


_CLOCKS = (EVENT, AVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterRows:
    """A question ``after`` each row's time where ``where`` holds and the column ``empty`` is empty.

    ``time`` is a column, or one of the row's own clocks (``_event``, ``_available``). A row gives a question only if a
    chart as of that moment shows the row with that time, its conditions met and ``empty`` not filled: rows that become
    available later have no influence.
    """

    table: str
    time: str = EVENT
    after: timedelta = timedelta(0)
    where: Where
    empty: str | None = None

    def moments(self, store: Store, policy: Policy, dropped: Counter[str]) -> Iterator[Moment]:
        """Yield the moments in order of subject and time; several rows at one moment are one question."""
        self._check(store)
        table = store.spec.tables[self.table]
        fixed_conditions = self.where.within(
            set(table.columns) - table.hidden - set(table.late)
        )  # equal at every moment
        columns = dict.fromkeys(("row_id", self.time, *fixed_conditions.every_column))
        for subject, batch in store.scan(self.table, list(columns)):
            times = self._times(batch.take(pa.array(matching(batch, fixed_conditions), pa.int64())), dropped)
            moment_of_row = {row: moment + self.after for row, moment in times.items()}
            shown = {
                moment: self._shown(store, policy, subject, moment) for moment in sorted(set(moment_of_row.values()))
            }
            for moment, rows in shown.items():
                candidates = [row for row, row_moment in moment_of_row.items() if row_moment == moment]
                known = [row for row in candidates if rows.get(row) == times[row]]
                dropped["not_on_the_chart_then"] += len(candidates) - len(known)
                if known:
                    yield Moment(subject_id=subject, prediction_time=moment)

    def facts(self) -> dict[str, Any]:
        """Return the entry in the manifest."""
        hours = self.after.total_seconds() / 3600
        return {"table": self.table, "time": self.time, "after_hours": hours, "empty": self.empty, **self.where.facts()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> AfterRows:
        """Build the rule from the output of :meth:`facts`."""
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
        """Return the matching rows on the chart as of a moment, with the time that it shows.

        Rows on the chart became available by then, so the available time is not read again.
        """
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


# The last answer of a user's own task: the answer of the subject's latest question whose rows are on the chart.


LOOKS_BACK = 20
"""Limit on the earlier questions of a subject: each is labelled only for this baseline."""
NO_ROWS = "the labels of this task name no rows, so it is unknown when an earlier answer was available"


def last_answers(
    labelling: Labelling, moments: Iterable[Moment], samples: Sequence[Sample], store: Store, policy: Policy
) -> dict[str, tuple[str, ...]] | str:
    """Return, by sample, the target of the latest earlier question that the sample's chart answers.

    All rows of its label must be on the chart. A negative answer without rows never counts as known. Where no label
    names a row, the reason is returned as text.
    """
    if samples and not any(sample.facts["row_ids"] for sample in samples):
        return NO_ROWS
    earlier: dict[int, list[Moment]] = {}
    for moment in sorted(moments, key=lambda moment: moment.prediction_time):
        earlier.setdefault(moment.subject_id, []).append(moment)
    answers = {}
    for sample in samples:
        prediction_time = sample.moment
        before = [one for one in earlier.get(sample.subject_id, ()) if one.prediction_time < prediction_time][
            -LOOKS_BACK:
        ]
        future = store.chart(sample.subject_id, END_OF_TIME, policy=policy)
        chart = store.chart(sample.subject_id, prediction_time, policy=policy)
        labels = (labelling.label(moment, future) for moment in reversed(before))
        target = next((label.target for label in labels if label is not None and _is_known(label, chart)), None)
        if target is not None:
            answers[sample.id] = target
    return answers


def _is_known(label: Label, chart: Chart) -> bool:
    """Return whether a chart shows every row of a label with at least one row."""
    return bool(label.row_ids) and all(row in _rows(chart, row.partition(":")[0]) for row in label.row_ids)


def _rows(chart: Chart, table: str) -> frozenset[str]:
    if table not in chart.table_names:
        return frozenset()
    return frozenset(chart.table(table).batch.column("row_id").to_pylist())
