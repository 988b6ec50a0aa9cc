"""Row ids as text, from a stored row's key or number."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.arrow_types import integers
from wardround.records.layout import OCCURRENCE, ROW_NUMBER
from wardround.records.spec import TableSpec

_TEXT = pa.string()
_DASH, _NOTHING = pa.scalar("-", _TEXT), pa.scalar("", _TEXT)
"""Typed scalars: an untyped one makes Arrow look for pandas each time, 40 us."""


def row_ids(table: TableSpec, batch: pa.RecordBatch) -> Any:
    """Return ``table:key`` for every stored row; parts of a key are joined by ``-``, a repeated key ends in ``~2``."""
    schema = batch.schema
    number = schema.get_field_index(ROW_NUMBER)
    if number >= 0:
        return _prefixed(table.name, batch.column(number).cast(_TEXT))
    parts = [batch.column(schema.get_field_index(name)).cast(_TEXT) for name in table.key]
    keys = parts[0] if len(parts) == 1 else _join(parts, _DASH)
    again = integers(batch.column(schema.get_field_index(OCCURRENCE)), null=0)
    if again.any():
        marks = pa.array([f"~{number + 1}" if number else "" for number in again.tolist()], _TEXT)
        keys = _join([keys, marks], _NOTHING)
    return _prefixed(table.name, keys)


def numbered_ids(table: str, numbers: Any) -> Any:
    """Return row ids of bare numbers."""
    return _prefixed(table, pa.array(numbers).cast(pa.string()))


def _prefixed(table: str, keys: Any) -> Any:
    return _join([pa.scalar(f"{table}:", _TEXT), keys], _NOTHING)


def _join(parts: list[Any], separator: Any) -> Any:
    return pc.binary_join_element_wise(*parts, separator, null_handling="replace", null_replacement="")
