"""Conditions on rows: by column the patterns of which one must fit, as in the roles of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.records.specs.coded_rows import CodedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """``*`` any text, ``?*`` any but an empty one, none of those after ``!``; case does not matter; no columns: every
    row."""

    patterns: Mapping[str, tuple[str, ...]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it names."""
        return tuple(self.patterns)

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"where": {column: list(patterns) for column, patterns in self.patterns.items()}}


def matching(batch: pa.RecordBatch, where: Where) -> list[int]:
    """Return the places of the rows that meet every condition."""
    conditions = (where.patterns,) if where.patterns else ()
    places: list[int] = np.flatnonzero(CodedRows(batch=batch).meet(conditions)).tolist()
    return places
