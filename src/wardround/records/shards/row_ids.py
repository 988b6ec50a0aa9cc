"""Row ids: ``table:key``, stable across runs, and without a late cell in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.rules.language import Times
from wardround.records.shards.identity import fingerprints, numbered_words, row_numbers
from wardround.records.specs.spec import TableSpec

_TEXT = pa.string()
_DASH, _NOTHING = pa.scalar("-", _TEXT), pa.scalar("", _TEXT)
"""Typed scalars: an untyped one makes Arrow look for pandas each time, 40 us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes a table's row ids: the key, which names one row, or an opaque ``number``."""

    number: npt.NDArray[np.int64] | None = None

    def ties(self, table: TableSpec, batch: pa.RecordBatch) -> list[Any]:
        """Return the columns that order rows of one event time."""
        if self.number is not None:
            return [self.number]
        return [batch.column(name) for name in table.key]


def identify(table: TableSpec, batch: pa.RecordBatch, available: Times) -> Identity:
    """Work out what makes row ids: the key, else a number that hashes what is shown and never late."""
    if table.key:
        return Identity()
    names = [name for name in table.content_columns if name in batch.schema.names]
    return Identity(number=row_numbers(numbered_words(fingerprints(batch, names, table.name), available)))


def row_ids(table: TableSpec, batch: pa.RecordBatch, identity: Identity) -> Any:
    """Return ``table:key`` for every row; parts of a key are joined by ``-``."""
    if identity.number is not None:
        return numbered_ids(table.name, identity.number)
    parts = [batch.column(name).cast(_TEXT) for name in table.key]
    keys = parts[0] if len(parts) == 1 else _join(parts, _DASH)
    return _prefixed(table.name, keys)


def numbered_ids(table: str, numbers: Any) -> Any:
    """Return row ids of bare numbers."""
    return _prefixed(table, pa.array(numbers).cast(pa.string()))


def _prefixed(table: str, keys: Any) -> Any:
    return _join([pa.scalar(f"{table}:", _TEXT), keys], _NOTHING)


def _join(parts: list[Any], separator: Any) -> Any:
    return pc.binary_join_element_wise(*parts, separator, null_handling="replace", null_replacement="")
