"""Deleting the future from raw files: what a chart must equal.

Works from the raw rows and the clock columns of the store, not from the chart's own masking, so that a fault in one
shows against the other. Raw rows and stored rows are matched by the columns that make their ids and clocks.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from wardround.audits.raw_subjects import Folders, RawSubjects, one_file
from wardround.core import end_of_day, parse_time
from wardround.records.ingest.clocks import rule_columns
from wardround.records.rules.language import Column
from wardround.records.shards.layout import AVAILABLE, EVENT, LATE, PENDING
from wardround.records.specs.spec import ColumnType, TableSpec, late_rules
from wardround.records.store import Store

_EMPTY_WORDS = frozenset({"", "NULL", "null", "NaN", "nan", "NA", "None", "\\N", "___"})


@dataclass(slots=True)
class DeletionCounts:
    """What one deletion did. ``unmatched`` raw rows are in no store: they were quarantined."""

    kept: int = 0
    deleted: int = 0
    collapsed: int = 0
    blanked_cells: int = 0
    unmatched: int = 0


def delete_future(raw_folder: Folders, target_folder: Path, store: Store, subject_id: int, as_of: datetime) -> None:
    """Write raw files of one subject that hold only what was available at ``as_of``: flat ones where the source is made
    flat (to be read with ``replace(spec, flatten=None)``)."""
    raw = RawSubjects.read(store, raw_folder, {subject_id})
    write_deleted(raw, target_folder, store, {subject_id: as_of})


def write_deleted(
    raw: RawSubjects, target_folder: Path, store: Store, moments: Mapping[int, datetime]
) -> DeletionCounts:
    """Write raw files of several subjects, each as of its own moment."""
    counts = DeletionCounts()
    for name, table in store.spec.tables.items():
        if name in raw.tables:
            header = raw.tables[name].header
            rows = (
                row for subject, as_of in moments.items() for row in _left(raw, store, table, subject, as_of, counts)
            )
            _write(target_folder / f"{one_file(table)}.csv", header, rows)
        elif table.derive is not None and table.derive.source in raw.tables:
            _write(target_folder / f"{one_file(table)}.csv", tuple(table.columns), _derived(store, table, moments))
    for name, (header, entries) in raw.dictionaries.items():
        _write(target_folder / f"{store.spec.dictionaries[name].path}.csv", header, entries)
    return counts


def _left(
    raw: RawSubjects, store: Store, table: TableSpec, subject: int, as_of: datetime, counts: DeletionCounts
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one subject that are left, late cells blanked, unknown groups collapsed."""
    source = raw.tables[table.name]
    stored = _StoredRows(table, source.header, store.rows(subject, table.name, versions=True))
    matched = []
    for row in source.rows.get(subject, ()):
        clocks = stored.take(row)
        counts.unmatched += clocks is None
        if clocks is not None:
            matched.append((row, clocks))
    known_groups = {stored.group(row) for row, clocks in matched if _visible(clocks, as_of)}
    collapsed: set[tuple[str, ...]] = set()
    for row, clocks in matched:
        if _visible(clocks, as_of):
            counts.kept += 1
            yield stored.blank(row, clocks, as_of, counts)
        elif table.pending is not None and _is_ordered(stored, row, clocks, as_of, known_groups | collapsed):
            collapsed.add(stored.group(row))
            counts.collapsed += 1
            yield stored.blank(row, clocks, as_of, counts, only=(*table.pending.columns, *table.pending.group))
        else:
            counts.deleted += 1


def _visible(clocks: Mapping[str, Any], as_of: datetime) -> bool:
    return bool(clocks[AVAILABLE] <= as_of and clocks[EVENT] <= as_of)


def _is_ordered(
    stored: _StoredRows, row: tuple[str, ...], clocks: Mapping[str, Any], as_of: datetime, shown: set[tuple[str, ...]]
) -> bool:
    """Say whether a row stands for its group: ordered by now, nothing of the group shown yet, and no reflex test."""
    pending = stored.table.pending
    assert pending is not None
    if clocks[PENDING] > as_of or stored.group(row) in shown:
        return False
    text = stored.cell(row, pending.reflex_column) if pending.reflex_column else ""
    return not any(pattern.casefold() in text.casefold() for pattern in pending.reflex_patterns)


def _derived(store: Store, table: TableSpec, moments: Mapping[int, datetime]) -> Iterator[tuple[str, ...]]:
    for subject, as_of in moments.items():
        for row in store.rows(subject, table.name).to_pylist():
            if _visible(row, as_of):
                yield tuple("" if row[name] is None else str(row[name]) for name in table.columns)


class _StoredRows:
    """The clocks of one subject's stored rows, found by what makes the raw row's id and clocks."""

    def __init__(self, table: TableSpec, header: tuple[str, ...], batch: pa.RecordBatch) -> None:
        self.table = table
        self.header = header
        self._places = {name: place for place, name in enumerate(header)}
        self._columns = [name for name in table.columns if name in self._places]
        self._late = {
            column: rule.name if isinstance(rule, Column) else f"{LATE}{columns[0]}"
            for rule, columns in late_rules(table, batch.schema.names).items()
            for column in columns
            if column in self._places
        }
        rules = {name for _, rule in table.rules() for name in rule_columns(rule)}
        identity = {*table.key, *table.id_columns, *(table.pending.group if table.pending else ())}
        identity |= {table.version, *table.amended.columns} if table.amended and table.version else set()
        shown = {part for parts in table.first_of.values() for part in parts}
        used = rules | identity | shown
        self._unused = [name for name in table.withhold if name in self._places and name not in used]
        self._read = {name: table.columns[name] for name in self._columns if name in rules | identity}
        self._clocks: dict[tuple[object, ...], list[dict[str, Any]]] = defaultdict(list)
        wanted = [name for name in batch.schema.names if name.startswith("_") or name in self._read]
        for row in batch.select(wanted).to_pylist():
            self._clocks[tuple(_same(row.get(name)) for name in self._read)].append(row)

    def take(self, row: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the stored row of a raw one, each stored row once; None if there is none."""
        content = tuple(_value(kind, row[self._places[name]]) for name, kind in self._read.items())
        rows = self._clocks.get(content)
        return rows.pop(0) if rows else None

    def cell(self, row: tuple[str, ...], column: str) -> str:
        """Return a raw cell, empty when the file lacks the column."""
        return row[self._places[column]] if column in self._places else ""

    def group(self, row: tuple[str, ...]) -> tuple[str, ...]:
        """Return the group that collapses with the row."""
        return tuple(self.cell(row, name) for name in self.table.pending.group) if self.table.pending else row

    def blank(
        self,
        row: tuple[str, ...],
        clocks: Mapping[str, Any],
        as_of: datetime,
        counts: DeletionCounts,
        only: Collection[str] | None = None,
    ) -> tuple[str, ...]:
        """Return the raw row without its late cells; with ``only``, without every other column too."""
        cells = list(row)
        out = set(self._unused) if only is None else {name for name in self._columns if name not in only}
        out |= {name for name, clock in self._late.items() if not _passed(clocks.get(clock), as_of)}
        for name in out:
            counts.blanked_cells += cells[self._places[name]] != ""
            cells[self._places[name]] = ""
        return tuple(cells)


def _passed(moment: datetime | date | None, as_of: datetime) -> bool:
    if moment is None:
        return False
    return (moment if isinstance(moment, datetime) else end_of_day(moment)) <= as_of


def _same(value: object) -> object:
    return None if isinstance(value, float) and value != value else value


def _value(kind: ColumnType, text: str) -> object:
    """Return a raw cell as the store holds it; the text itself where it cannot be read."""
    if kind == "text":
        return text or None
    text = text.strip()
    if text in _EMPTY_WORDS:
        return None
    try:
        if kind == "int":
            return int(text.partition(".")[0])
        if kind == "float":
            return _same(float(text))
        moment = parse_time(text)
    except ValueError:
        return text
    return moment.date() if kind == "date" else moment


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
