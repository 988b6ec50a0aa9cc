"""Conditions on rows: by column the patterns of which one must fit, as in the roles of a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.records import Store
from wardround.records.specs import CodedRows, Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """``*`` any text, ``?*`` any but an empty one, none of those after ``!``; case does not matter; no columns: every
    row. ``role``: of these conditions of the role that names the table one must be met too."""

    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    role: Conditions = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a file names."""
        return tuple(self.patterns)

    @property
    def every_column(self) -> tuple[str, ...]:
        """Those that the role asks about too."""
        return tuple(dict.fromkeys((*self.patterns, *(column for one in self.role for column in one))))

    def within(self, columns: Collection[str]) -> Where:
        """Return the conditions that name these columns alone."""
        kept = {column: each for column, each in self.patterns.items() if column in columns}
        return Where(patterns=kept, role=self.role if all(set(one) <= set(columns) for one in self.role) else ())

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        said = {column: list(patterns) for column, patterns in self.patterns.items()}
        role = [{column: list(patterns) for column, patterns in one.items()} for one in self.role]
        return {"where": said} | ({"where_of_role": role} if role else {})

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Where:
        """Read what :meth:`facts` wrote."""
        role = facts.get("where_of_role", ())
        return cls(patterns=_tuples(facts["where"]), role=tuple(_tuples(one) for one in role))


def matching(batch: pa.RecordBatch, where: Where) -> list[int]:
    """Return the places of the rows that meet every condition."""
    rows = CodedRows(batch=batch)
    met = rows.meet((where.patterns,) if where.patterns else ()) & rows.meet(where.role)
    places: list[int] = np.flatnonzero(met).tolist()
    return places


def no_row_matches(store: Store, table: str, where: Where) -> list[str]:
    """Say which conditions no row of a table meets, with the nearest values there; nothing where some row does."""
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
        name: [text for text in held if _fits(text, where.patterns[name])] for name, held in sorted(values.items())
    }
    said = []
    for name, held in sorted(values.items()):
        wanted = where.patterns[name]
        if not alone[name]:
            said.append(f"no row of {table} has {name} {' or '.join(map(repr, wanted))}{_nearest(wanted, held)}")
    return said or [f"no row of {table} meets all of {', '.join(where.every_column)}, though each is met by some"]


def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    cells = pa.RecordBatch.from_pydict({"cell": [text]})
    return bool(matching(cells, Where(patterns={"cell": patterns})))


def _nearest(patterns: tuple[str, ...], held: Counter[str]) -> str:
    """The values most like the patterns, else the commonest."""
    by_case = {text.casefold(): text for text in held}
    near = [by_case[one] for each in patterns for one in get_close_matches(each.strip("*").casefold(), by_case, n=3)]
    inside = [text for each in patterns for low, text in by_case.items() if each.strip("*!?").casefold() in low]
    if near or inside:
        return f"; the nearest: {', '.join(map(repr, dict.fromkeys([*near, *inside[:3]])))}"
    commonest = ", ".join(repr(text) for text, _ in held.most_common(3))
    return f"; it has {commonest}" if commonest else "; it has no value there"


def _tuples(patterns: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {column: tuple(each) for column, each in patterns.items()}
