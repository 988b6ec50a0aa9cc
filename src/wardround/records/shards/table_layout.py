"""What of a table a particular store holds: the columns its files had, the labels that could be joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from wardround.records.rules.language import Column
from wardround.records.shards.layout import DICTIONARY, LATE
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
    nulls: tuple[Any, ...]
    empty: pa.RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """A table as stored. ``columns`` are the handed-out ones of policy ``known_at``, in order."""

    spec: TableSpec
    columns: Mapping[str, ColumnType]
    joined: Mapping[str, JoinedColumn]
    late: tuple[LateGroup, ...]
    all_columns: Mapping[str, ColumnType]
    _views: dict[tuple[str, ...], ColumnView] = field(default_factory=dict, repr=False, compare=False)

    def view(self, stored: pa.RecordBatch | None, hide: tuple[str, ...] = ()) -> ColumnView:
        """Return the view without the columns in ``hide``, made once: stored columns are the same in every shard."""
        view = self._views.get(hide)
        if view is None:
            view = self._view(None if stored is None else stored.schema, hide)
            if stored is not None:
                self._views[hide] = view
        return view

    def _view(self, stored: Any, hide: tuple[str, ...]) -> ColumnView:
        names = ["row_id", *(name for name in self.columns if name not in hide)]
        types: Mapping[str, ColumnType] = {"row_id": "text", **self.columns}
        schema = pa.schema([(name, ARROW_TYPES[types[name]]) for name in names])
        made = {name for name in names if name in self.joined or (name == "age" and self.spec.age is not None)}
        return ColumnView(
            schema=schema,
            places=tuple(stored.get_field_index(name) for name in names if name not in made) if stored else (),
            added=tuple((place, name) for place, name in enumerate(names) if name in made),
            position={name: place for place, name in enumerate(names)},
            nulls=tuple(pa.scalar(None, kind) for kind in schema.types),
            empty=_no_rows(schema),
        )


def _no_rows(schema: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


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
