"""Conditions on rows: by column the patterns of which one must fit, as in the roles of a source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.records.specs.coded_rows import CodedRows
from wardround.records.specs.roles import Conditions


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


def _tuples(patterns: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {column: tuple(each) for column, each in patterns.items()}
