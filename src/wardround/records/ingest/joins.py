"""Join dictionaries and code groupers, check foreign keys, and report missing tables that others need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.clinical.codes import load_ccs, load_drugs
from wardround.records.rules.language import (
    Among,
    Around,
    Known,
    LateCell,
    Reference,
    Rule,
    There,
    walk,
    walk_everywhere,
)
from wardround.records.shards.layout import DICTIONARY
from wardround.records.specs.spec import DictionaryJoin, GroupJoin, SourceSpec, TableSpec, integers, one_array, valid

# Joins with code dictionaries and code groupers: the labels beside a code.


Dictionaries = Mapping[str, pa.Table]
_SEPARATOR = "\x1f"


class DictionaryIndex:
    """A dictionary prepared for lookups by its key. Codes compare as text without outer spaces."""

    def __init__(self, dictionary: pa.Table, key: Sequence[str]) -> None:
        self._keys = _joined_key([one_array(dictionary.column(name)) for name in key])
        self._order: npt.NDArray[np.int64] | None = None
        if pa.types.is_int64(self._keys.type) and not self._keys.null_count and len(self._keys):
            numbers = self._keys.to_numpy()
            self._order = np.argsort(numbers, kind="stable")
            self._sorted = numbers[self._order]

    def places(self, batch: pa.RecordBatch, join: DictionaryJoin) -> Any:
        """Return the dictionary's row for every row of the batch (int32), null if there is none.

        The value under a null is 0: Arrow would leave an earlier row's value there, and stores are compared by their
        bytes.
        """
        wanted = _joined_key([batch.column(name) for name in join.on])
        if self._order is not None and pa.types.is_int64(wanted.type):
            found = self._numbered(wanted)
        elif len(wanted) < len(self._keys):
            found = pc.index_in(wanted, self._keys, skip_nulls=True)
        else:
            encoded = wanted.dictionary_encode()
            found = pc.index_in(encoded.dictionary, self._keys, skip_nulls=True).take(encoded.indices)
        return pa.array(integers(found, null=0).astype(np.int32), mask=~valid(found)) if found.null_count else found

    def _numbered(self, wanted: Any) -> Any:
        """Look whole numbers up in sorted keys, so that a vocabulary of millions is prepared only once."""
        assert self._order is not None
        numbers = integers(wanted, null=0)
        near = np.minimum(np.searchsorted(self._sorted, numbers), len(self._sorted) - 1)
        missing = (self._sorted[near] != numbers) | ~valid(wanted)
        return pa.array(self._order[near].astype(np.int32), mask=missing)


def with_labels(table: TableSpec, rows: pa.RecordBatch, dictionaries: Dictionaries) -> pa.RecordBatch:
    """Return stored rows with labels in place of their places in dictionaries."""
    for number, join in enumerate(table.dictionaries):
        place = rows.schema.get_field_index(f"{DICTIONARY}{number}")
        if place < 0:
            continue
        places, dictionary = rows.column(place), dictionaries[join.table]
        rows = rows.remove_column(place)
        for new, old in join.add.items():
            if old in dictionary.column_names:
                rows = rows.append_column(f"{DICTIONARY}{new}", one_array(dictionary.column(old)).take(places))
    return rows


def _joined_key(columns: Sequence[Any]) -> Any:
    columns = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    if len(columns) == 1 and not pa.types.is_string(columns[0].type):
        return columns[0]
    texts = [pc.utf8_trim_whitespace(column.cast(pa.string())) for column in columns]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, _SEPARATOR)


class GroupLabels:
    """Labels of code groupers; each distinct code is looked up once."""

    def __init__(self, user_codes: Path | None) -> None:
        self._user_codes = user_codes
        self._seen: dict[str, dict[tuple[str | None, ...], str | None]] = {}
        self._groupers: dict[str, Any] = {}

    def labels(self, batch: pa.RecordBatch, join: GroupJoin) -> Any:
        """Return the label column of a group join."""
        second = join.version or join.ndc
        names = [name for name in (join.code, second) if name is not None and name in batch.schema.names]
        columns = [batch.column(name).cast(pa.string()).to_pylist() for name in names]
        if join.fixed_version is not None:
            columns.append([str(join.fixed_version)] * batch.num_rows)
        seen = self._seen.setdefault(join.system, {})
        labels = []
        for cells in zip(*columns, strict=True):
            if cells not in seen:
                seen[cells] = self._look_up(join.system, cells)
            labels.append(seen[cells])
        return pa.array(labels, pa.string())

    def _look_up(self, system: str, cells: Sequence[str | None]) -> str | None:
        code, second = cells[0], cells[1] if len(cells) > 1 else None
        if code is None:
            return None
        if system == "atc":
            label = self._grouper(system).label(code, second)
            return None if label is None else str(label)
        if second is None:
            return None
        category = self._grouper(system).category(code.strip(), second)
        return None if category is None else str(category.label)

    def _grouper(self, system: str) -> Any:
        if system not in self._groupers:
            if system == "atc":
                self._groupers[system] = load_drugs(self._user_codes)
            else:
                is_diagnosis = system == "ccs-diagnoses"
                self._groupers[system] = load_ccs("diagnoses" if is_diagnosis else "procedures", self._user_codes)
        return self._groupers[system]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLabels:
    """Adds labels to the rows of a source, from its dictionaries and from code groupers."""

    dictionaries: Dictionaries
    indexes: Mapping[str, DictionaryIndex]
    groups: GroupLabels

    @classmethod
    def of(cls, spec: SourceSpec, dictionaries: Dictionaries, user_codes: Path | None) -> CodeLabels:
        """Prepare the dictionaries of a source."""
        indexes = {name: DictionaryIndex(table, spec.dictionaries[name].key) for name, table in dictionaries.items()}
        return cls(dictionaries=dictionaries, indexes=indexes, groups=GroupLabels(user_codes))

    def joined(self, table: TableSpec, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with their places in dictionaries, and the labels of groupers."""
        for number, join in enumerate(table.dictionaries):
            if join.table in self.indexes and all(name in batch.schema.names for name in join.on):
                places = self.indexes[join.table].places(batch, join)
                batch = batch.append_column(f"{DICTIONARY}{number}", places)
        if table.group is not None and table.group.code in batch.schema.names:
            batch = batch.append_column(table.group.name, self.groups.labels(batch, table.group))
        for name, parts in table.first.items():
            cells = [cells for part in parts if (cells := self._cells(table, batch, part)) is not None]
            if cells:
                batch = batch.append_column(name, pc.coalesce(*cells))
        return batch

    def _cells(self, table: TableSpec, batch: pa.RecordBatch, column: str) -> Any:
        """Return a column of the file or a joined one; None if this store has none."""
        if column in batch.schema.names:
            return batch.column(column)
        for number, join in enumerate(table.dictionaries):
            places = batch.schema.get_field_index(f"{DICTIONARY}{number}")
            if column in join.add and places >= 0:
                dictionary = self.dictionaries[join.table]
                if join.add[column] in dictionary.column_names:
                    return one_array(dictionary.column(join.add[column])).take(batch.column(places))
        return None


# Foreign keys: cells that refer to rows of another table, and those whose row is not in the shard.


def foreign_keys(table: TableSpec) -> tuple[tuple[str, str], ...]:
    """Return the columns through which a table's clocks use another table, each with that table."""
    parts = (part for _, rule in table.rules() for part in walk(rule))
    return tuple(sorted({(p.key, p.table) for p in parts if isinstance(p, Known | Reference | LateCell | There)}))


def links(spec: SourceSpec) -> tuple[tuple[str, str, str], ...]:
    """Return every column through which a clock uses another row: its table, the column, the other table."""
    found = {link for table in spec.tables.values() for _, rule in table.rules() for link in _links(rule, table.name)}
    found |= {(name, parent.key, parent.table) for name, table in spec.tables.items() if (parent := table.subject_from)}
    return tuple(sorted(found))


def _links(rule: Rule, owner: str) -> Iterator[tuple[str, str, str]]:
    for part in walk(rule):
        if isinstance(part, Known | Reference | LateCell | There):
            yield owner, part.key, part.table
        if isinstance(part, Among):
            yield part.table, part.key, owner
        if isinstance(part, There | Among):
            yield from _links(part.rule, part.table)
        if isinstance(part, Around):
            yield from (*_links(part.start, part.table), *_links(part.end, part.table))


NamedCells = Callable[[str, str], int]
"""(column, other table): how many cells of the column name a row of the other table that is there."""


def orphans(table: TableSpec, batch: pa.RecordBatch, named: NamedCells, read: Collection[str]) -> dict[str, int]:
    """Count filled cells whose row is missing, by column and table; tables that were not ``read`` are left out.

    All rows of a subject are in one shard, so the row would be found there.
    """
    found: dict[str, int] = {}
    for column, other in foreign_keys(table):
        if other in read and column in batch.schema.names:
            cells = batch.column(column)
            missing = len(cells) - cells.null_count - named(column, other)
            if missing:
                found[f"{column} in {other}"] = missing
    return found


# Missing tables that others need: rows that no chart can show without them.


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """Effects of a missing table: by table, the number of rows that are never shown; by table, the encounter column
    that stays empty."""

    rows: Mapping[str, int]
    encounters: Mapping[str, str]

    def __str__(self) -> str:
        lost = [f"{count:,} rows of {name}" for name, count in self.rows.items()]
        return ", ".join([*lost, *(f"{column} of {name}" for name, column in self.encounters.items())])


def needed_tables(
    spec: SourceSpec, missing: Collection[str], read: Mapping[str, Mapping[str, Any]]
) -> dict[str, LostRows]:
    """Return, by missing table, what is lost without it. ``read``: tables of a store's manifest.

    A module may be left out as a whole: encounters that only its tables use are not reported.
    """
    modules = {spec.tables[name].module for name in read}
    found: dict[str, LostRows] = {}
    for lost in (name for name in missing if name in spec.tables):
        rows: dict[str, int] = {}
        encounters: dict[str, str] = {}
        for name, counts in read.items():
            table = spec.tables[name]
            known = table.late.get(table.encounter or "")
            is_named = isinstance(known, Known) and known.table == lost  # its number is known with its own row
            if counts["never_visible"] and lost in _looked_up(table):
                rows[name] = counts["never_visible"]
            elif counts["rows"] and table.encounter in counts["columns"] and is_named:
                encounters[name] = str(table.encounter)
        if rows or (encounters and spec.tables[lost].module in modules):
            found[lost] = LostRows(rows=rows, encounters=encounters)
    return found


def _looked_up(table: TableSpec) -> set[str]:
    """Return the tables that a row's clock uses."""
    parts = walk_everywhere(table.available_at)
    return {part.table for part in parts if isinstance(part, Known | Reference | LateCell | There)}
