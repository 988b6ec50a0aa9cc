"""Rows as the source's files have them, and their events by the rules of ingest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from wardround.clinical.bundles.reading import gathered, table_events
from wardround.records import SourceSpec, TableSpec
from wardround.records.ingest import ShardClocks, dated_rows
from wardround.records.pieces import StoredTable
from wardround.records.reading import FlatTables
from wardround.records.shards import (
    GROUP,
    Identity,
    fingerprints,
    make_row_ids,
    mix,
    numbered_ids,
    row_numbers,
    table_layout,
)
from wardround.records.sources.fhir import (
    NAMING_TYPES,
    Elements,
    Found,
    Malformed,
    Names,
    ResourceReading,
    parsed_resources,
    require_local_times,
    resource_rows,
)
from wardround.records.specs import ColumnType, UndeclaredZone, WallClock
from wardround.stream.input import ENCODER
from wardround.stream.ledger import Commit, LedgerReading, SourceRow
from wardround.stream.reading import TakenEvents, column, one_cell, timely_events, with_levels
from wardround.stream.source_rules import SourceRules

# Rows as a source's files have them, by subject and table: stored in the ledger, and new in this commit.


Cells = dict[str, Any]
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[Cells])


@dataclass(slots=True)
class StreamedRow:
    """One row of a subject: its name, and its versions, one for each version time (the last if the table has none)."""

    subject: int
    name: str
    versions: list[Cells]


@dataclass(slots=True, kw_only=True)
class SourceRows:
    """The rows of a stream's source; rows that are read for a commit stay in memory until the next."""

    spec: SourceSpec
    ledger: LedgerReading
    commit: Commit = field(default_factory=Commit)
    _whole: dict[tuple[int, str], dict[str, StreamedRow]] = field(default_factory=dict)
    _single: dict[tuple[int, str, str], StreamedRow | None] = field(default_factory=dict)

    def forget(self, commit: Commit) -> None:
        """Begin a new commit."""
        self.commit, self._whole, self._single = commit, {}, {}

    def of(self, subjects: Iterable[int], table: str) -> list[StreamedRow]:
        """Return all rows of some subjects in one table."""
        subjects = list(dict.fromkeys(subjects))
        new = [subject for subject in subjects if (subject, table) not in self._whole]
        for subject in new:
            self._whole[subject, table] = {}
        for row in self.ledger.source_rows(new, table) if new else ():
            self._whole[row.subject, table][row.key] = _held(row)
        for (subject, name, key), known in self._single.items():
            if name == table and known is not None and (subject, table) in self._whole:
                self._whole[subject, table][key] = known
        return [row for subject in subjects for row in self._whole[subject, table].values()]

    def put(self, subject: int, table: TableSpec, cells: Cells, given: str | None) -> StreamedRow | None:
        """Add a row and return it; None if it adds nothing new. ``given``: the row's own id.

        A row whose key or own id came before is a new version of that row, or replaces it. ValueError: the row lacks
        its key.
        """
        key, name = self._key(subject, table, cells, given)
        known = self._row(subject, table.name, key)
        versions = [cells] if known is None else _with_version(table, known.versions, cells)
        if versions is None:
            return None
        made = StreamedRow(subject, name if known is None else known.name, versions)
        self._single[subject, table.name, key] = made
        if (subject, table.name) in self._whole:
            self._whole[subject, table.name][key] = made
        row = SourceRow(subject, table.name, key, made.name, _ENCODER.encode(versions))
        self.commit.source_rows[subject, table.name, key] = row
        return made

    def take_back(self, subject: int, table: str, made: StreamedRow) -> None:
        """Remove a row that was added and could not be read; the version before it stays."""
        for place, known in list(self._single.items()):
            if known is made:
                del self._single[place]
                self.commit.source_rows.pop(place, None)
        self._whole.pop((subject, table), None)

    def _row(self, subject: int, table: str, key: str) -> StreamedRow | None:
        place = subject, table, key
        if place not in self._single:
            found = self.ledger.source_row(subject, table, key)
            self._single[place] = None if found is None else _held(found)
        return self._single[place]

    def _key(self, subject: int, table: TableSpec, cells: Cells, given: str | None) -> tuple[str, str]:
        """Return a row's key within its subject, and its name as in a store (rows of equal content are numbered)."""
        if given is not None:
            return f"i{given}", given
        if table.key:
            name = _keyed_name(table, cells, subject)
            return f"k{name}", name
        content = list(table.content_columns)
        word = fingerprints(_batch(table, [cells], [subject], content), content, table.name)
        start, own = f"c{int(word[0]):x}:", "-".join(str(cells.get(each)) for each in table.unique)
        if own:
            known = self._row(subject, table.name, start + own)
            if known is not None:
                return start + own, known.name
        again = self._count(subject, table.name, start)
        numbered = mix(word + np.uint64(again)) if again else word
        return f"{start}{own or again}", f"{table.name}:{row_numbers(numbered)[0]}"

    def _count(self, subject: int, table: str, start: str) -> int:
        """Return the number of rows whose keys begin with ``start``."""
        ours = {
            key
            for (whose, name, key), known in self._single.items()
            if whose == subject and name == table and known is not None and key.startswith(start)
        }
        return len(ours.union(self.ledger.source_keys(subject, table, start)))


def _held(row: SourceRow) -> StreamedRow:
    return StreamedRow(row.subject, row.name, _DECODER.decode(row.versions))


def _keyed_name(table: TableSpec, cells: Cells, subject: int) -> str:
    parts = [cells.get(name) for name in table.key]
    if None in parts:
        raise ValueError(f"{table.name}: a row without {' or '.join(table.key)}")
    if all(table.columns[name] in ("int", "text") for name in table.key):
        return f"{table.name}:" + "-".join(map(str, parts))
    return str(make_row_ids(table, _batch(table, [cells], [subject], table.key), Identity())[0].as_py())


def _with_version(table: TableSpec, before: Sequence[Cells], cells: Cells) -> list[Cells] | None:
    """Return the versions of a row with a new one; None if it adds nothing new."""
    version = table.version if table.amended is not None else None
    if version is None:
        return None if before[-1] == cells else [cells]
    if cells in before or _without_version(before[-1], version) == _without_version(cells, version):
        return None
    return [*(each for each in before if each.get(version) != cells.get(version)), cells]


def _without_version(cells: Cells, version: str) -> Cells:
    return {name: cell for name, cell in cells.items() if name != version}


def typed_cells(table: TableSpec, row: Mapping[str, Any]) -> Cells:
    """Return the cells of a row that its table has, as ingest reads them; times as text.

    ValueError: a cell is no value of its column.
    """
    found: Cells = {}
    for name, kind in _kinds(table).items():
        cell = one_cell(kind, row.get(name), table.files)
        if cell is not None:
            found[name] = cell.isoformat(sep=" ") if kind == "time" else cell.isoformat() if kind == "date" else cell
    return found


def batch_of(table: TableSpec, rows: Sequence[StreamedRow], columns: Iterable[str] | None = None) -> pa.RecordBatch:
    """Return the versions of rows, row after row, as ingest reads them from a file."""
    cells = [each for row in rows for each in row.versions]
    subjects = [row.subject for row in rows for _ in row.versions]
    present = {name for each in cells for name in each}
    names = [*table.columns, *(name for name in table.joined if name in present and name not in table.columns)]
    wanted = frozenset(names if columns is None else columns)
    return _batch(table, cells, subjects, [name for name in names if name in wanted])


def _batch(table: TableSpec, cells: Sequence[Cells], subjects: Sequence[int], names: Iterable[str]) -> pa.RecordBatch:
    kinds = _kinds(table)
    arrays = {name: column([each.get(name) for each in cells], kinds[name], table.files) for name in names}
    arrays[table.subject_column] = pa.array(subjects, pa.int64())
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _kinds(table: TableSpec) -> Mapping[str, ColumnType]:
    """Return the columns that rows may have: those of the file, and labels that a line may add."""
    return {**table.read_columns, **table.joined}


# Rows of the source's files as events, by the rules with which ingest makes a store.


RowEvents = dict[tuple[int, str], TakenEvents]
"""By subject and row name: all events of the row, also those that become known later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowClocks:
    """Evaluates rows together with the other rows of their subjects that the source's rules read."""

    rules: SourceRules
    rows: SourceRows

    def events(self, table: str, rows: Sequence[StreamedRow]) -> RowEvents:
        """Return the events of rows of one table, with an entry for each row and for each group that collapses."""
        spec, played = self.rules.spec.tables[table], self.rules.played[table]
        batch = batch_of(spec, rows)
        batch = batch.select([name for name in batch.schema.names if not self._is_labelled(table, name)])
        ids = [row.name for row in rows for _ in row.versions]
        subjects = np.array([row.subject for row in rows for _ in row.versions], np.int64)
        dated = dated_rows(spec, batch, self._clocks({row.subject for row in rows}))
        stored = self.rules.labels.joined(spec, dated.stored(batch, pa.array(ids, pa.string())))
        layout = table_layout(spec, batch.schema.names, self.rules.labels.dictionaries)
        order = np.argsort(subjects, kind="stable")
        piece = StoredTable(layout=layout, subject=subjects[order], stored=stored.take(pa.array(order)))
        found: RowEvents = {(row.subject, row.name): [] for row in rows}
        if GROUP in stored.schema.names:
            groups = numbered_ids(table, stored.column(GROUP)).to_pylist()
            found |= {(subject, group): [] for subject, group in zip(subjects.tolist(), groups, strict=True)}
        parts = list(table_events(piece, played))
        events = timely_events(gathered(parts))
        for subject, pair in zip(events.subject.tolist(), with_levels(events), strict=True):
            found[subject, pair[0].row_id].append(pair)
        return found

    def _is_labelled(self, table: str, name: str) -> bool:
        """Whether a row's label comes from the store's dictionaries, or is made of other columns."""
        spec = self.rules.spec.tables[table]
        if name not in spec.joined:
            return False
        ours = {new for join in spec.dictionaries if join.table in self.rules.labels.dictionaries for new in join.add}
        return name in ours or name in spec.first or (spec.group is not None and name == spec.group.name)

    def _clocks(self, subjects: set[int]) -> ShardClocks:
        def load(name: str, columns: tuple[str, ...]) -> pa.RecordBatch | None:
            rows = self.rows.of(subjects, name)
            return batch_of(self.rules.spec.tables[name], rows, columns) if rows else None

        return ShardClocks(spec=self.rules.spec, settings=self.rules.settings, load=load)


def in_rounds(steps: Sequence[tuple[int, str, bool]]) -> list[list[int]]:
    """Divide lines into rounds that can be read together with the same result as one by one.

    A round has for each subject one line on which other rows depend, or several lines on which none depends, and no row
    twice. ``steps``: subject, row, and whether other rows depend on it. Returns the places of each round, in order.
    """
    rounds: list[list[int]] = []
    begun: dict[int, int] = defaultdict(int)
    inside: dict[tuple[int, int], set[str]] = defaultdict(set)
    for place, (subject, row, alone) in enumerate(steps):
        number = begun[subject]
        seen = inside[subject, number]
        if seen and (alone or "" in seen or row in seen):
            number = begun[subject] = number + 1
            seen = inside[subject, number]
        seen.add("" if alone else row)
        while len(rounds) <= number:
            rounds.append([])
        rounds[number].append(place)
    return rounds


# FHIR resources as rows of the source's tables, flattened as at ingest; clocks are those of the source.


_MARK = b'"resourceType"'
_NOWHERE = Path("resources")
"""Stands for the files of rows: nothing is written there."""


def is_resource(text: bytes) -> bool:
    """Whether a line is a FHIR resource rather than a row."""
    return _MARK in text


@dataclass(slots=True)
class ResourceRows:
    """Makes rows of resources of our subjects. Resources that a name refers to have to come first."""

    spec: SourceSpec
    ledger: LedgerReading
    is_ours: Callable[[int], bool]
    _names: Names = field(default_factory=Names)
    _flat: FlatTables = field(init=False)
    _elements: Elements = field(init=False)

    def __post_init__(self) -> None:
        self._flat = FlatTables(self.spec, _NOWHERE, _NOWHERE)
        self._elements = Elements(WallClock.named(self.spec.time_zone) if self.spec.time_zone else None)
        for text in self.ledger.naming():
            for found in parsed_resources(_NOWHERE, 0, text, self._elements):
                self._names.learn(found)

    def read(self, text: bytes, commit: Commit) -> list[tuple[str, Mapping[str, Any]]]:
        """Return table and row for each row of a line of resources; names are added to the commit.

        Malformed, ValueError: a resource cannot be read.
        """
        return list(self._rows(text, commit))

    def _rows(self, text: bytes, commit: Commit) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for found in parsed_resources(_NOWHERE, 0, text, self._elements):
            if found.reason:
                raise ValueError(found.reason)
            if found.resource["resourceType"] in NAMING_TYPES:
                self._names.learn(found)
                commit.naming.append(ENCODER.encode(found.resource))
            if self._is_ours(found):
                if not self.spec.time_zone:
                    _require_local(found)
                yield from resource_rows(found, self._names, self._flat)

    def _is_ours(self, found: Found) -> bool:
        """Whether a resource is of our partition; a resource without a patient belongs to all."""
        try:
            subject = ResourceReading(found=found, names=self._names, flat=self._flat).subject()
        except Malformed:
            return True
        return subject is None or self.is_ours(subject)


def _require_local(found: Found) -> None:
    try:
        require_local_times(found)
    except UndeclaredZone as error:
        raise ValueError(f"its times have an offset from UTC ({error}), and --time-zone was not given") from None
