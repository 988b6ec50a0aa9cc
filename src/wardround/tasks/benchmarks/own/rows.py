"""Conditions on rows: patterns by column, as in the roles of a source."""

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
