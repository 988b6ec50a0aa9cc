"""What of a table a particular store holds: the columns its files had, the labels that could be joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from wardround.records.rules.language import Column
from wardround.records.shards.layout import CLOCKS, DICTIONARY, LATE
from wardround.records.specs.arrow_types import ARROW_TYPES, one_array
from wardround.records.specs.spec import ColumnType, TableSpec, late_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class LateGroup:
    """Columns that become known at one time. ``clock`` is the stored column that holds it."""

    clock: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """A label column: row ``places`` (a stored column) of ``source``, an array of a dictionary."""

    places: str
    source: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """How stored columns become handed-out ones: those at ``places``, then each of ``added`` where it belongs."""

    schema: Any
    places: tuple[int, ...]
    added: tuple[tuple[int, str], ...]
    position: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """A table as stored. ``columns`` are the handed-out ones of policy ``known_at``, in order."""

    spec: TableSpec
    columns: Mapping[str, ColumnType]
    joined: Mapping[str, JoinedColumn]
    late: tuple[LateGroup, ...]
    all_columns: Mapping[str, ColumnType]
    _views: dict[tuple[str, ...], ColumnView] = field(default_factory=dict, repr=False, compare=False)
    _empty: dict[tuple[str, ...], pa.RecordBatch] = field(default_factory=dict, repr=False, compare=False)
    _whole: list[ColumnView] = field(default_factory=list, repr=False, compare=False)

    def view(self, stored: pa.RecordBatch, hide: tuple[str, ...] = ()) -> ColumnView:
        """Return the view without the columns in ``hide``, made once: stored columns are the same in every shard."""
        if hide not in self._views:
            self._views[hide] = self._view(stored.schema, hide)
        return self._views[hide]

    def whole_view(self, stored: pa.RecordBatch) -> ColumnView:
        """Return the view that hides nothing, clocks behind the columns; made once."""
        if not self._whole:
            self._whole.append(self._whole_view(stored.schema))
        return self._whole[0]

    def empty(self, hide: tuple[str, ...] = ()) -> pa.RecordBatch:
        """Return no rows without the columns in ``hide``, made once: most tables of most subjects are empty."""
        if hide not in self._empty:
            schema = self._schema(hide)
            none = [_no_cells(kind) for kind in schema.types]
            self._empty[hide] = pa.RecordBatch.from_arrays(none, schema=schema)
        return self._empty[hide]

    def _schema(self, hide: tuple[str, ...]) -> Any:
        types: Mapping[str, ColumnType] = {"row_id": "text", **self.columns}
        return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in types.items() if name not in hide])

    def _view(self, stored: Any, hide: tuple[str, ...]) -> ColumnView:
        schema = self._schema(hide)
        names = schema.names
        made = {name for name in names if name in self.joined or (name == "age" and self.spec.age is not None)}
        return ColumnView(
            schema=schema,
            places=tuple(stored.get_field_index(name) for name in names if name not in made),
            added=tuple((place, name) for place, name in enumerate(names) if name in made),
            position={name: place for place, name in enumerate(names)},
        )

    def _whole_view(self, stored: Any) -> ColumnView:
        clocks = [name for name in stored.names if name in CLOCKS or name.startswith(LATE)]
        names = ["row_id", *self.all_columns, *clocks]
        sources = {name: join.source.type for name, join in self.joined.items()}
        schema = pa.schema([(name, sources.get(name) or stored.field(name).type) for name in names])
        return ColumnView(
            schema=schema,
            places=tuple(stored.get_field_index(name) for name in names if name not in sources),
            added=tuple((place, name) for place, name in enumerate(names) if name in sources),
            position={name: place for place, name in enumerate(names)},
        )


@cache
def _no_cells(kind: Any) -> Any:
    return pa.array([], kind)


def table_layout(spec: TableSpec, present: Sequence[str], dictionaries: Mapping[str, pa.Table]) -> TableLayout:
    """Work out a table's layout from the columns its file had and the dictionaries that were there."""
    joined: dict[str, JoinedColumn] = {}
    for number, join in enumerate(spec.dictionaries):
        dictionary = dictionaries.get(join.table)
        if dictionary is not None and all(name in present for name in join.on):
            for new, old in join.add.items():
                if old in dictionary.column_names:
                    source = one_array(dictionary.column(old))
                    joined[new] = JoinedColumn(places=f"{DICTIONARY}{number}", source=source)
    held = {*present, *joined}
    if spec.group is not None and spec.group.code in present:
        held.add(spec.group.name)
    held.update(name for name, parts in spec.first_of.items() if not held.isdisjoint(parts))
    if spec.age is not None:
        held.add("age")
    late = tuple(
        LateGroup(clock=rule.name if isinstance(rule, Column) else f"{LATE}{names[0]}", columns=frozenset(names))
        for rule, names in late_rules(spec, list(present)).items()
    )
    return TableLayout(
        spec=spec,
        columns={name: kind for name, kind in spec.public_columns.items() if name in held},
        joined=joined,
        late=late,
        all_columns={name: kind for name, kind in spec.all_columns.items() if name in held},
    )
