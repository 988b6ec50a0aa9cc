"""Evaluate time rules over the tables of one shard.

References are looked up within the shard: all rows of a subject are in one shard, and rows refer only to rows of the
same subject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.rules.language import (
    NO_TIME,
    Among,
    LateCell,
    Reference,
    Rule,
    There,
    Times,
    evaluate,
    shared_parts,
    walk,
    walk_everywhere,
)
from wardround.records.shards.layout import bucket_numbers
from wardround.records.specs.spec import SourceSpec, TableSpec, integers, microseconds, valid

Halves = tuple[int | None, int | None]
"""A figure of each half of the subjects; None where that half has none."""
Load = Callable[[str, tuple[str, ...]], "pa.RecordBatch | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """Delays in microseconds: the lags of the settings, and by ``table.from.to`` the median of each half of the
    subjects (:func:`half_of`)."""

    lags: Mapping[str, int]
    medians: Mapping[str, Halves]


@dataclass(slots=True)
class _Parent:
    """A table that others refer to: its keys (first known first) and the times that rules need.

    ``times``: by rule over its rows or late column, the times that rows which refer to it have from it."""

    keys: Any
    order: npt.NDArray[np.int64]
    batch: pa.RecordBatch
    available: Times
    times: dict[Rule | str, Times] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ShardClocks:
    """Evaluates rules for the tables of one shard. ``load`` reads named columns of a table, None if it has no rows."""

    spec: SourceSpec
    settings: ClockSettings
    load: Load
    _asked: dict[str, set[str]] = field(default_factory=dict)
    _parents: dict[str, _Parent | None] = field(default_factory=dict)
    _children: dict[Among, tuple[Any, Times]] = field(default_factory=dict)
    _spans: dict[tuple[str, Rule, Rule], tuple[npt.NDArray[np.int64], Times, Times]] = field(default_factory=dict)

    def evaluate(self, rule: Rule, table: TableSpec, batch: pa.RecordBatch) -> Times:
        """Return the rule's times for the rows of ``batch``."""
        return evaluate(rule, TableFrame(clocks=self, table=table, batch=batch))

    def frame(self, table: TableSpec, batch: pa.RecordBatch) -> TableFrame:
        """Return the rows of a table to evaluate all of its rules over: their common parts are evaluated once."""
        parts = shared_parts(rule for _, rule in table.rules())
        return TableFrame(clocks=self, table=table, batch=batch, shared=dict.fromkeys(parts))

    def parent(self, name: str) -> _Parent | None:
        """Return a table that rules refer to, loaded once with only the columns that rules need."""
        if name in self._parents:
            return self._parents[name]
        table = self.spec.tables[name]
        if not self._asked:
            self._asked.update(_asked_of_others(self.spec))
        needed = {table.key[0], *rule_columns(table.available_at), *self._asked[name]}
        if any(part.needs_subject for part in walk(table.available_at)):
            needed.add(table.subject_column)
        batch, found = self.load(name, tuple(needed)), None
        if batch is not None:
            available = self.evaluate(table.available_at, table, batch)
            last = np.where(available == NO_TIME, np.iinfo(np.int64).max, available)
            order = np.argsort(last, kind="stable")
            found = _Parent(batch.column(table.key[0]).take(pa.array(order)), order, batch, available)
        self._parents[name] = found
        return found

    def children(self, part: Among) -> tuple[Any, Times]:
        """Return the keys that rows of another table refer to, and the smallest or largest time of their rows."""
        if part in self._children:
            return self._children[part]
        table = self.spec.tables[part.table]
        batch = self.load(part.table, tuple({part.key, *rule_columns(part.rule)}))
        found: tuple[Any, Times] = pa.nulls(0), np.empty(0, dtype=np.int64)
        if batch is not None and part.key in batch.schema.names:
            times = self.evaluate(part.rule, table, batch)
            named = batch.column(part.key).dictionary_encode()
            places = integers(named.indices, null=-1)
            counted = (places >= 0) & (times != NO_TIME)
            is_least = part.name == "earliest"
            most = np.full(len(named.dictionary), np.iinfo(np.int64).max if is_least else NO_TIME, dtype=np.int64)
            (np.minimum if is_least else np.maximum).at(most, places[counted], times[counted])
            found = named.dictionary, np.where(most == np.iinfo(np.int64).max, NO_TIME, most)
        self._children[part] = found
        return found

    def spans(self, name: str, start: Rule, end: Rule) -> tuple[npt.NDArray[np.int64], Times, Times]:
        """Return subject, start and end of the rows of another table."""
        if (name, start, end) in self._spans:
            return self._spans[name, start, end]
        table = self.spec.tables[name]
        needed = {*rule_columns(start), *rule_columns(end), table.subject_column, *table.key}
        batch = self.load(name, tuple(needed))
        found = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        if batch is not None:
            frame = TableFrame(clocks=self, table=table, batch=batch)
            found = frame.subjects(), evaluate(start, frame), evaluate(end, frame)
        self._spans[name, start, end] = found
        return found


def _asked_of_others(spec: SourceSpec) -> dict[str, set[str]]:
    """Return, by table, the columns that rules of other tables read."""
    needed: dict[str, set[str]] = {name: set() for name in spec.tables}
    rules = [rule for table in spec.tables.values() for _, rule in table.rules()]
    for part in (part for rule in rules for part in walk_everywhere(rule)):
        if isinstance(part, There):
            needed[part.table] |= rule_columns(part.rule)
        elif isinstance(part, Reference):
            needed[part.table].add(part.column)
        elif isinstance(part, LateCell):
            needed[part.table] |= {part.column, *rule_columns(spec.tables[part.table].late[part.column])}
    return needed


def rule_columns(rule: Rule) -> set[str]:
    """Return the columns of the row itself that a rule reads."""
    return {name for part in walk(rule) for name in part.columns}


@dataclass(slots=True, kw_only=True)
class TableFrame:
    """The rows of one table, as the rule language sees them."""

    clocks: ShardClocks
    table: TableSpec
    batch: pa.RecordBatch
    shared: dict[Rule, Times | None] = field(default_factory=dict)
    _places: dict[tuple[str, str], npt.NDArray[np.int64] | None] = field(default_factory=dict)
    _held: dict[tuple[str, tuple[str, ...]], npt.NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    def times(self, column: str) -> Times:
        """Return a time or date column; a column that the file lacks is null throughout."""
        if column not in self.batch.schema.names:
            return np.full(self.num_rows, NO_TIME, dtype=np.int64)
        return microseconds(self.batch.column(column))

    def known(self, key: str, table: str) -> Times:
        """Return the available times of the rows of ``table`` that ``key`` refers to."""
        parent = self.clocks.parent(table)
        return self._look_up(key, table, None if parent is None else parent.available)

    def reference(self, key: str, table: str, column: str) -> Times:
        """Return time cells of the rows of ``table`` that ``key`` refers to, not before those rows are available."""
        parent = self.clocks.parent(table)
        if parent is None or column not in parent.batch.schema.names:
            return self._look_up(key, table, None)
        times = microseconds(parent.batch.column(column))
        known = (times != NO_TIME) & (parent.available != NO_TIME)
        return self._look_up(key, table, np.where(known, np.maximum(times, parent.available), NO_TIME))

    def late_cell(self, key: str, table: str, column: str) -> Times:
        """Return when late cells of the rows of ``table`` that ``key`` refers to became known; null for empty cells."""
        parent = self.clocks.parent(table)
        if parent is None or column not in parent.batch.schema.names:
            return self._look_up(key, table, None)
        if column not in parent.times:
            owner = self.clocks.spec.tables[table]
            late = self.clocks.evaluate(owner.late[column], owner, parent.batch)
            known = valid(parent.batch.column(column)) & (late != NO_TIME) & (parent.available != NO_TIME)
            parent.times[column] = np.where(known, np.maximum(late, parent.available), NO_TIME)
        return self._look_up(key, table, parent.times[column])

    def there(self, key: str, table: str, rule: Rule) -> Times:
        """Evaluate a rule over the rows of ``table`` that ``key`` refers to, not before those rows are available."""
        parent = self.clocks.parent(table)
        if parent is None:
            return self._look_up(key, table, None)
        if rule not in parent.times:
            times = self.clocks.evaluate(rule, self.clocks.spec.tables[table], parent.batch)
            known = (times != NO_TIME) & (parent.available != NO_TIME)
            parent.times[rule] = np.where(known, np.maximum(times, parent.available), NO_TIME)
        return self._look_up(key, table, parent.times[rule])

    def among(self, which: str, table: str, key: str, rule: Rule) -> Times:
        """Return the ``earliest`` or ``latest`` time of the rows of another table that refer to these rows."""
        keys, times = self.clocks.children(Among(which, table, key, rule))
        if len(keys) == 0:
            return np.full(self.num_rows, NO_TIME, dtype=np.int64)
        places = integers(pc.index_in(self.batch.column(self.table.key[0]), keys, skip_nulls=True), null=-1)
        return np.where(places >= 0, times[places], NO_TIME)

    def holds(self, column: str, values: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Return which rows have one of ``values`` in a text or int column; ``''`` is an empty cell or a missing
        column. In a text column a value that ends in ``*`` matches every text that begins so."""
        if (column, values) in self._held:
            return self._held[column, values]
        if column not in self.batch.schema.names:
            return np.full(self.num_rows, "" in values, dtype=bool)
        cells = self.batch.column(column)
        is_text = pa.types.is_string(cells.type)
        starts = [value[:-1] for value in values if is_text and value.endswith("*")]
        whole = [value for value in values if not (is_text and value.endswith("*"))]
        wanted = [None if value == "" else value if is_text else int(value) for value in whole]
        found = pc.is_in(cells, pa.array(wanted, cells.type))
        for start in starts:
            found = pc.or_(found, pc.fill_null(pc.starts_with(cells, start), False))
        self._held[column, values] = np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)
        return self._held[column, values]

    def subjects(self) -> npt.NDArray[np.int64]:
        """Return the subject of each row."""
        subjects: npt.NDArray[np.int64] = integers(self.batch.column(self.table.subject_column), null=0)
        return subjects

    def spans(self, table: str, start: Rule, end: Rule) -> tuple[npt.NDArray[np.int64], Times, Times]:
        """Return subject, start and end of the rows of another table."""
        return self.clocks.spans(table, start, end)

    def names_after(self, column: str, starts: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which of ``starts`` a text begins with (-1: none), and a number for the rest of the text."""
        if column not in self.batch.schema.names:
            return np.full(self.num_rows, -1), np.full(self.num_rows, -1)
        encoded = self.batch.column(column).dictionary_encode()
        numbers: dict[str, int] = {}
        which, names = [-1], [-1]
        for text in encoded.dictionary.to_pylist():
            place = next((place for place, start in enumerate(starts) if text.startswith(start)), -1)
            which.append(place)
            names.append(numbers.setdefault(text[len(starts[place]) :], len(numbers)) if place >= 0 else -1)
        cells = integers(encoded.indices, null=-1) + 1
        return np.array(which, np.int64)[cells], np.array(names, np.int64)[cells]

    def lag(self, setting: str) -> int:
        """Return a setting in microseconds."""
        return self.clocks.settings.lags[setting]

    def median_delay(self, start: str, end: str) -> Times:
        """Return per row the median of ``end - start``, in microseconds, of the half that does not contain its
        subject."""
        halves = self.clocks.settings.medians.get(f"{self.table.name}.{start}.{end}", (None, None))
        medians = np.array([NO_TIME if median is None else median for median in halves])
        return np.asarray(medians[1 - half_of(self.subjects())])

    def places(self, key: str, table: str) -> npt.NDArray[np.int64] | None:
        """Return the places of the rows of ``table`` that ``key`` refers to, in the order of its keys; -1: there is no
        such row. None: the table has no rows, or these rows no such column."""
        if (key, table) not in self._places:
            parent = self.clocks.parent(table)
            if parent is None or key not in self.batch.schema.names:
                self._places[key, table] = None
            else:
                found = pc.index_in(self.batch.column(key), parent.keys, skip_nulls=True)
                self._places[key, table] = integers(found, null=-1)
        return self._places[key, table]

    def named(self, key: str, table: str) -> int:
        """Return how many cells of ``key`` refer to a row of ``table`` that is there."""
        places = self.places(key, table)
        return 0 if places is None else int(np.count_nonzero(places >= 0))

    def _look_up(self, key: str, table: str, values: Times | None) -> Times:
        parent, places = self.clocks.parent(table), self.places(key, table)
        if values is None or parent is None or places is None:
            return np.full(self.num_rows, NO_TIME, dtype=np.int64)
        return np.asarray(np.r_[values[parent.order], NO_TIME][places])


def half_of(subjects: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return to which half of all subjects each belongs (0 or 1), by its number alone.

    A figure that a clock takes from the whole source is taken from the other half, so that a subject's own later rows
    have no influence.
    """
    return bucket_numbers(subjects, 2)


def median_of_counts(counts: Mapping[int, int]) -> int | None:
    """Return the lower median of values given as value -> count; None without values."""
    total, seen = sum(counts.values()), 0
    for value in sorted(counts):
        seen += counts[value]
        if 2 * seen >= total:
            return value
    return None


def delay_counts(table: TableSpec, start: str, end: str, batch: Any, counts: Sequence[dict[int, int]]) -> None:
    """Add the delays ``end - start`` of a batch, in whole seconds and at least 0, to the ``counts`` of each half."""
    if start not in batch.schema.names or end not in batch.schema.names:
        return
    from_times, to_times = microseconds(batch.column(start)), microseconds(batch.column(end))
    both = (from_times != NO_TIME) & (to_times != NO_TIME)
    seconds = np.maximum((to_times[both] - from_times[both]) // 1_000_000, 0)
    halves = half_of(integers(batch.column(table.subject_column), null=0))[both]
    for half, counted in enumerate(counts):
        for value, count in zip(*np.unique(seconds[halves == half], return_counts=True), strict=True):
            counted[int(value)] = counted.get(int(value), 0) + int(count)
