"""A chart's visible rows as one list of events, and the notes in the line of each event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.clinical.vocabulary.units import plain_unit
from wardround.records.chart.censor import ChartTable
from wardround.records.rules.language import ALWAYS_TIME
from wardround.records.specs.spec import BESIDE_CELL, TableSpec

# Notes beside an event's value: other cells of its row, and rows of other tables that belong to it.
#
# A source's spec declares both: ``beside`` (flag, limits, comments of a laboratory result), ``part_of`` (the details of
# a dose are shown in the line of the dose) and ``label_from`` (a dose without a name has the name of its prescription).
# ``once_per`` names the cells that make a row a repetition; ``needs_unit`` hides a value without a unit.
# Only visible rows are read, so a note shows nothing that the chart does not.


_MASKED = re.compile(r"[\s_]*")


class EventNotes:
    """The notes of one chart's events, by place. ``table``, ``row``: (n,) the place of each event's row."""

    def __init__(self, tables: Sequence[ChartTable], table: npt.NDArray[np.int64], row: npt.NDArray[np.int64]) -> None:
        self._tables = tables
        self._names = {each.name: number for number, each in enumerate(tables)}
        self._table, self._row = table, row
        self._places: list[tuple[int, int]] = list(zip(table.tolist(), row.tolist(), strict=True))
        self._columns: dict[tuple[str, str | None], list[Any]] = {}
        self._filled: dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]] = {}

    @cached_property
    def shown_elsewhere(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a row is shown in the line of the row that it belongs to."""
        shown = np.zeros(len(self._table), dtype=bool)
        for number, table in enumerate(self._tables):
            if table.spec.part_of is None or table.spec.part_of.table not in self._names:
                continue
            parents = {key for key in self._column(table.spec.part_of.table, table.spec.part_of.on) if key is not None}
            inside = np.array([key in parents for key in self._column(table.name, table.spec.part_of.on)], dtype=bool)
            places = np.flatnonzero(self._table == number)
            shown[places] = inside[self._row[places]]
        return shown

    @cached_property
    def unnamed(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a row has no name although its table's spec declares a source of names (``label_from``)."""
        unnamed = np.zeros(len(self._table), dtype=bool)
        for number, table in enumerate(self._tables):
            if not table.spec.label_from:
                continue
            labels = self._column(table.name, table.spec.label)
            places = np.flatnonzero(self._table == number)
            missing = np.array([label is None for label in labels], dtype=bool)[self._row[places]]
            for place in places[missing].tolist():
                unnamed[place] = self.name(place) is None
        return unnamed

    @cached_property
    def repeated(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a later visible row of the table has the same cells, all filled, in the columns of the spec's
        ``once_per``. The last one stays, so that a window of recent rows lacks nothing that was charted in it."""
        repeated = np.zeros(len(self._table), dtype=bool)
        for number, table in enumerate(self._tables):
            if not table.spec.once_per:
                continue
            cells = list(zip(*(self._column(table.name, name) for name in table.spec.once_per), strict=True))
            seen: set[tuple[Any, ...]] = set()
            for place in np.flatnonzero(self._table == number)[::-1].tolist():
                key = cells[self._places[place][1]]
                repeated[place] = key in seen
                if None not in key:
                    seen.add(key)
        return repeated

    @cached_property
    def without_unit(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a row has no unit although its table's spec says that a value needs one (``needs_unit``)."""
        without = np.zeros(len(self._table), dtype=bool)
        for number, table in enumerate(self._tables):
            if table.spec.needs_unit:
                units = self._column(table.name, table.spec.unit)
                missing = np.array([plain_unit(unit) is None for unit in units], dtype=bool)
                places = np.flatnonzero(self._table == number)
                without[places] = missing[self._row[places]]
        return without

    def name(self, place: int) -> str | None:
        """Return the name of a row without a label from another row; None if there is none."""
        if not self._tables:
            return None
        table = self._tables[self._places[place][0]]
        if not table.spec.label_from or self._cell(table, place, table.spec.label) is not None:
            return None
        for source in table.spec.label_from:
            rows = self._rows_of(source.table, source.on).get(self._cell(table, place, source.on), [])
            labels = self._column(source.table, source.column) if rows else []
            name = next((labels[row] for row in rows if labels[row] is not None), None)
            if name is not None:
                return str(name)
        return None

    def notes(self, place: int) -> tuple[str, ...]:
        """Return the notes beside an event's value, each once."""
        if not self._tables:
            return ()
        number, row = self._places[place]
        table = self._tables[number]
        own = self._written(table, table.spec.beside)[row] if table.spec.beside else ()
        if table.name not in self._part_tables:
            return own
        return tuple(dict.fromkeys((*own, *self._parts(table, place))))

    def _parts(self, table: ChartTable, place: int) -> Iterable[str]:
        for part in self._part_tables.get(table.name, ()):
            assert part.spec.part_of is not None
            key = self._cell(table, place, part.spec.part_of.on)
            name = self._cell(table, place, table.spec.label) or self.name(place)
            for row in self._rows_of(part.name, part.spec.part_of.on).get(key, ()):
                for text in self._written(part, part.spec.part_of.beside)[row]:
                    yield text.removeprefix(f"{name} ")

    def _written(self, table: ChartTable, templates: Sequence[str]) -> Sequence[tuple[str, ...]]:
        """Return by row the templates filled from it, each text once; a template with an empty or masked cell is left
        out."""
        key = (table.name, tuple(templates))
        if key not in self._filled:
            rows: list[dict[str, None]] = [{} for _ in range(table.num_rows)]
            for template in templates:
                for texts, text in zip(rows, self._fill(table, template), strict=True):
                    if text:
                        texts[text] = None
            self._filled[key] = [tuple(texts) for texts in rows]
        return self._filled[key]

    def _fill(self, table: ChartTable, template: str) -> Iterable[str]:
        first, *rest = BESIDE_CELL.split(template)  # text, then name and text in turn
        names, texts = rest[::2], rest[1::2]
        rows = zip(*(self._shown_cells(table, name) for name in names), strict=True) if names else ()
        for cells in rows if names else [()] * table.num_rows:
            whole = zip(cells, texts, strict=True)
            yield first + "".join([part for both in whole for part in both]) if all(cells) else ""

    def _shown_cells(self, table: ChartTable, name: str) -> list[str]:
        values = self._column(table.name, name)
        shown = {text: _shown(text) for text in set(values) if isinstance(text, str)}
        return [shown[value] if isinstance(value, str) else _shown(value) for value in values]

    def _cell(self, table: ChartTable, place: int, name: str | None) -> Any:
        return self._column(table.name, name)[self._places[place][1]]

    def _column(self, table: str, name: str | None) -> list[Any]:
        if (table, name) not in self._columns:
            chart_table = self._tables[self._names[table]]
            column = self._arrow(chart_table, name)
            self._columns[table, name] = [None] * chart_table.num_rows if column is None else column.to_pylist()
        return self._columns[table, name]

    def _arrow(self, table: ChartTable, name: str | None) -> Any:
        place = -1 if name is None else table.batch.schema.get_field_index(name)
        return None if place < 0 else table.batch.column(place)

    @cached_property
    def _part_tables(self) -> dict[str, list[ChartTable]]:
        parts: dict[str, list[ChartTable]] = {}
        for table in self._tables:
            if table.spec.part_of is not None and table.num_rows:
                parts.setdefault(table.spec.part_of.table, []).append(table)
        return parts

    @cached_property
    def _indexes(self) -> dict[tuple[str, str], dict[Any, list[int]]]:
        return {}

    def _rows_of(self, table: str, on: str) -> dict[Any, list[int]]:
        """Return the rows of a table by the cell of one column; empty cells are left out."""
        if (table, on) not in self._indexes:
            index: dict[Any, list[int]] = {}
            for row, key in enumerate(self._column(table, on) if table in self._names else ()):
                if key is not None:
                    index.setdefault(key, []).append(row)
            self._indexes[table, on] = index
        return self._indexes[table, on]


def _shown(value: Any) -> str:
    """Return a cell's text in one line; empty where it is masked."""
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
    return "" if _MASKED.fullmatch(text) else text


# A chart's visible rows as one list of events in columns, for retrieval, features and exports.
#
# An event is a flattened row: time, concept, value. In a table without code, value and text (one row of many
# measurements) the cells become text, so that nothing visible is missing from the events.


CODE_PREFIX = "code prefix"
"""Value of a table's ``kind``: an event's kind is the part of its code before the first ``//``, in lower case."""
_SEPARATOR = "//"


@dataclass(frozen=True, kw_only=True)
class EventColumns:
    """All visible rows of a chart, static rows first, then by time; ties in the order of tables, then rows.

    ``time``: (n,) microseconds since 1970, of static rows ``rules.ALWAYS_TIME``. ``concept``: (n,) places in ``codes``,
    ``descriptions`` and ``kinds``, one entry per code with its description. ``numeric_value``: (n,) NaN if
    missing. ``class_only``: by concept, whether its description is only a class of rows (a spec's ``classes``).
    ``table``: (n,) places in ``table_names``; ``row``: (n,) places in that table of the chart.
    """

    time: npt.NDArray[np.int64]
    concept: npt.NDArray[np.int64]
    numeric_value: npt.NDArray[np.float64]
    table: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    codes: tuple[str, ...]
    descriptions: tuple[str, ...]
    kinds: tuple[str, ...]
    class_only: tuple[bool, ...]
    table_names: tuple[str, ...]
    text_array: Any = field(repr=False)
    unit_array: Any = field(repr=False)
    row_id_array: Any = field(repr=False)
    tables: tuple[ChartTable, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.time)

    @property
    def is_static(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a row is static (has no time)."""
        return self.time <= ALWAYS_TIME

    @property
    def is_numeric(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a row has a numeric value."""
        return ~np.isnan(self.numeric_value)

    @cached_property
    def texts(self) -> list[str | None]:
        """Text values, as written."""
        return list(self.text_array.to_pylist())

    @cached_property
    def units(self) -> list[str | None]:
        """Units, as written."""
        return list(self.unit_array.to_pylist())

    @cached_property
    def notes(self) -> EventNotes:
        """Notes beside the values in lines of events."""
        return EventNotes(self.tables, self.table, self.row)

    @cached_property
    def row_ids(self) -> list[str]:
        """Row ids."""
        return list(self.row_id_array.to_pylist())


def event_columns(tables: Sequence[ChartTable]) -> EventColumns:
    """Flatten tables of one chart into events."""
    parts = [_flatten(table) for table in tables if table.num_rows]
    if not parts:
        return _no_events(tables)
    time = np.concatenate([part.time for part in parts])
    order = np.argsort(time, kind="stable")
    starts = np.cumsum([0, *(len(part.codes) for part in parts)])
    concept = np.concatenate([part.concept + start for part, start in zip(parts, starts, strict=False)])
    names = tuple(table.name for table in tables)
    places = pa.array(order)
    return EventColumns(
        time=time[order],
        concept=concept[order],
        numeric_value=np.concatenate([part.numeric_value for part in parts])[order],
        table=np.concatenate([np.full(len(part.time), names.index(part.name)) for part in parts])[order],
        row=np.concatenate([np.arange(len(part.time)) for part in parts])[order],
        codes=tuple(code for part in parts for code in part.codes),
        descriptions=tuple(text for part in parts for text in part.descriptions),
        kinds=tuple(kind for part in parts for kind in part.kinds),
        class_only=tuple(flag for part in parts for flag in part.class_only),
        table_names=names,
        text_array=pa.concat_arrays([part.text for part in parts]).take(places),
        unit_array=pa.concat_arrays([part.unit for part in parts]).take(places),
        row_id_array=pa.concat_arrays([part.row_id for part in parts]).take(places),
        tables=tuple(tables),
    )


def _no_events(tables: Sequence[ChartTable]) -> EventColumns:
    nothing = np.empty(0, np.int64)
    no_text = pa.array([], pa.string())
    return EventColumns(
        time=nothing,
        concept=nothing,
        numeric_value=np.empty(0),
        table=nothing,
        row=nothing,
        codes=(),
        descriptions=(),
        kinds=(),
        class_only=(),
        table_names=tuple(table.name for table in tables),
        text_array=no_text,
        unit_array=no_text,
        row_id_array=no_text,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One table's events, in its own order."""

    name: str
    time: npt.NDArray[np.int64]
    concept: npt.NDArray[np.int64]
    numeric_value: npt.NDArray[np.float64]
    codes: tuple[str, ...]
    descriptions: tuple[str, ...]
    kinds: tuple[str, ...]
    class_only: tuple[bool, ...]
    text: Any
    unit: Any
    row_id: Any


def _flatten(table: ChartTable) -> _Part:
    spec = table.spec
    concept, codes, descriptions = _concepts(table)
    says_nothing = _column(table, spec.code) is None and _column(table, spec.value) is None
    classes = {name.casefold() for name in spec.classes}
    text = _column(table, spec.text)
    if text is None and says_nothing:
        text = _cells_as_text(table)
    return _Part(
        name=table.name,
        time=np.maximum(table.event_time.astype("datetime64[us]").view(np.int64), ALWAYS_TIME),
        concept=concept,
        numeric_value=_numbers(_column(table, spec.value), table.num_rows),
        codes=codes,
        descriptions=descriptions,
        kinds=tuple(_kind(table, code) for code in codes),
        class_only=tuple(text.strip().casefold() in classes for text in descriptions),
        text=_as_text(text, table.num_rows),
        unit=_as_text(_column(table, spec.unit), table.num_rows),
        row_id=table.batch.column(0),
    )


def _kind(table: ChartTable, code: str) -> str:
    kind = table.spec.kind
    return code.partition(_SEPARATOR)[0].lower() if kind == CODE_PREFIX else kind or table.name


def _column(table: ChartTable, name: str | None) -> Any:
    place = -1 if name is None else table.batch.schema.get_field_index(name)
    return None if place < 0 else table.batch.column(place)


def _concepts(table: ChartTable) -> tuple[npt.NDArray[np.int64], tuple[str, ...], tuple[str, ...]]:
    """Number the pairs of code and description of a table's rows; return the numbers and the pairs."""
    spec = table.spec
    columns = (_column(table, name) for name in (spec.code_system_column, spec.code, spec.label))
    systems, codes, labels = (_encoded(column, table.num_rows) for column in columns)
    width, height = len(labels.values), len(codes.values)
    pairs, concept = np.unique((systems.places * height + codes.places) * width + labels.places, return_inverse=True)
    usual = table.name if spec.code_system is None else spec.code_system
    names, descriptions = [], []
    for pair in pairs.tolist():
        code, label = codes.values[pair // width % height], labels.values[pair % width]
        system = systems.values[pair // width // height]
        system = usual if system is None else system
        names.append(table.name if code is None else f"{system}{_SEPARATOR}{code}" if system else code)
        descriptions.append(label if label else (code if code is not None else table.name))
    return concept.astype(np.int64), tuple(names), tuple(descriptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    """Return a column as places in its distinct values, the last of which is None."""

    places: npt.NDArray[np.int64]
    values: tuple[str | None, ...]


def _encoded(column: Any, count: int) -> _Encoded:
    if column is None:
        return _Encoded(places=np.zeros(count, np.int64), values=(None,))
    encoded = column.dictionary_encode()
    values = tuple(None if value is None else str(value) for value in encoded.dictionary.to_pylist())
    places = pc.fill_null(encoded.indices, len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    return _Encoded(places=places, values=(*values, None))


def _numbers(column: Any, count: int) -> npt.NDArray[np.float64]:
    if column is None or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return np.full(count, np.nan)
    return np.asarray(pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False))


def _as_text(column: Any, count: int) -> Any:
    if column is None:
        return pa.nulls(count, pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def spoken_columns(spec: TableSpec, present: Sequence[str]) -> list[str]:
    """Return the columns whose cells become text in a table without code, value and text."""
    types = spec.public_columns
    skipped = {"row_id", spec.subject, spec.encounter, *spec.key}
    wanted = [name for name in spec.default_columns if name in present] or list(present)
    telling = [name for name in wanted if name not in skipped and not name.endswith("_id")]
    return [name for name in telling if types.get(name) not in ("time", "date")]


def _cells_as_text(table: ChartTable) -> Any:
    """Return each row's cells as ``name value; name value``, without ids and times."""
    names = spoken_columns(table.spec, table.columns)
    columns = [table.batch.column(name).to_pylist() for name in names]
    rows = zip(*columns, strict=True) if columns else [()] * table.num_rows
    texts = (
        "; ".join(f"{name} {_cell(cell)}" for name, cell in zip(names, row, strict=True) if cell is not None)
        for row in rows
    )
    return pa.array([text or None for text in texts], pa.string())


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
