"""What an event's line shows beside its value: other cells of its row, and rows of other tables that belong to it.

A source's spec declares both: ``beside`` (flag, limits, comments of a laboratory result), ``part_of`` (the details of a
dose are shown in the line of the dose) and ``label_from`` (a dose without a name has the name of its prescription).
Only visible rows are read, so a note holds nothing that its chart does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.records.chart.censor import ChartTable
from wardround.records.specs.spec import BESIDE_CELL

_MASKED = re.compile(r"[\s_]*")


class EventNotes:
    """The notes of one chart's events, by place. ``table`` and ``row`` are (n,): where the row of each event stands."""

    def __init__(self, tables: Sequence[ChartTable], table: npt.NDArray[np.int64], row: npt.NDArray[np.int64]) -> None:
        self._tables = tables
        self._names = {one.name: number for number, one in enumerate(tables)}
        self._table = table
        self._row = row

    @cached_property
    def shown_elsewhere(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a row is shown in the line of the row that it is a part of."""
        shown = np.zeros(len(self._table), dtype=bool)
        for number, one in enumerate(self._tables):
            if one.spec.part_of is None or one.spec.part_of.table not in self._names:
                continue
            parents = {key for key in self._column(one.spec.part_of.table, one.spec.part_of.on) if key is not None}
            inside = np.array([key in parents for key in self._column(one.name, one.spec.part_of.on)], dtype=bool)
            places = np.flatnonzero(self._table == number)
            shown[places] = inside[self._row[places]]
        return shown

    @cached_property
    def unnamed(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a row of a table whose spec says where names come from (``label_from``) has none."""
        unnamed = np.zeros(len(self._table), dtype=bool)
        for number, one in enumerate(self._tables):
            if not one.spec.label_from:
                continue
            labels = self._column(one.name, one.spec.label)
            places = np.flatnonzero(self._table == number)
            missing = np.array([label is None for label in labels], dtype=bool)[self._row[places]]
            for place in places[missing].tolist():
                unnamed[place] = self.name(place) is None
        return unnamed

    def name(self, place: int) -> str | None:
        """Return the name that a row without a label has from another row; None where there is none."""
        if not self._tables:
            return None
        one = self._tables[int(self._table[place])]
        if not one.spec.label_from or self._cell(one, place, one.spec.label) is not None:
            return None
        for source in one.spec.label_from:
            rows = self._rows_of(source.table, source.on).get(self._cell(one, place, source.on), [])
            labels = self._column(source.table, source.column) if rows else []
            name = next((labels[row] for row in rows if labels[row] is not None), None)
            if name is not None:
                return str(name)
        return None

    def notes(self, place: int) -> tuple[str, ...]:
        """Return what belongs beside an event's value, each note once."""
        if not self._tables:
            return ()
        one = self._tables[int(self._table[place])]
        own = self._written(one, one.spec.beside, int(self._row[place])) if one.spec.beside else ()
        return tuple(dict.fromkeys((*own, *self._parts(one, place))))

    def _parts(self, one: ChartTable, place: int) -> Iterable[str]:
        for part in self._part_tables.get(one.name, ()):
            assert part.spec.part_of is not None
            key = self._cell(one, place, part.spec.part_of.on)
            name = self._cell(one, place, one.spec.label) or self.name(place)
            for row in self._rows_of(part.name, part.spec.part_of.on).get(key, ()):
                for text in self._written(part, part.spec.part_of.beside, row):
                    yield text.removeprefix(f"{name} ")

    def _written(self, one: ChartTable, templates: Sequence[str], row: int) -> Iterable[str]:
        """Fill templates from a row; one with an empty or masked cell is left out."""
        for template in templates:
            cells = {name: self._shown_cell(one, name, row) for name in BESIDE_CELL.findall(template)}
            if all(cells.values()):
                yield BESIDE_CELL.sub(lambda match, cells=cells: cells[match.group(1)], template)  # type: ignore[misc]

    def _shown_cell(self, one: ChartTable, name: str, row: int) -> str:
        column = self._arrow(one, name)
        value = None if column is None else column[row].as_py()
        text = "" if value is None else f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
        return "" if _MASKED.fullmatch(text) else text

    def _cell(self, one: ChartTable, place: int, name: str | None) -> Any:
        column = self._arrow(one, name)
        return None if column is None else column[int(self._row[place])].as_py()

    def _column(self, table: str, name: str | None) -> list[Any]:
        one = self._tables[self._names[table]]
        column = self._arrow(one, name)
        return [None] * one.num_rows if column is None else column.to_pylist()

    def _arrow(self, one: ChartTable, name: str | None) -> Any:
        place = -1 if name is None else one.batch.schema.get_field_index(name)
        return None if place < 0 else one.batch.column(place)

    @cached_property
    def _part_tables(self) -> dict[str, list[ChartTable]]:
        parts: dict[str, list[ChartTable]] = {}
        for one in self._tables:
            if one.spec.part_of is not None and one.num_rows:
                parts.setdefault(one.spec.part_of.table, []).append(one)
        return parts

    @cached_property
    def _indexes(self) -> dict[tuple[str, str], dict[Any, list[int]]]:
        return {}

    def _rows_of(self, table: str, on: str) -> dict[Any, list[int]]:
        """The rows of a table by the cell of one column; empty cells belong to no row."""
        if (table, on) not in self._indexes:
            index: dict[Any, list[int]] = {}
            for row, key in enumerate(self._column(table, on) if table in self._names else ()):
                if key is not None:
                    index.setdefault(key, []).append(row)
            self._indexes[table, on] = index
        return self._indexes[table, on]
