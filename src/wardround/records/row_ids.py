"""Row ids as text, from a stored row's key or number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.layout import OCCURRENCE, ROW_NUMBER
from wardround.records.spec import TableSpec


def row_ids(table: TableSpec, batch: pa.RecordBatch) -> Any:
    """Return ``table:key`` for every stored row; parts of a key are joined by ``-``, a repeated key ends in ``~2``."""
    names = batch.schema.names
    if ROW_NUMBER in names:
        return _prefixed(table.name, batch.column(ROW_NUMBER).cast(pa.string()))
    parts = [batch.column(name).cast(pa.string()) for name in table.key]
    keys = parts[0] if len(parts) == 1 else _join(parts, "-")
    if OCCURRENCE in names:
        again = batch.column(OCCURRENCE).to_numpy()
        if again.any():
            marks = pa.array([f"~{number + 1}" if number else "" for number in np.asarray(again).tolist()], pa.string())
            keys = _join([keys, marks], "")
    return _prefixed(table.name, keys)


def numbered_ids(table: str, numbers: Any) -> Any:
    """Return row ids of bare numbers."""
    return _prefixed(table, pa.array(numbers).cast(pa.string()))


def _prefixed(table: str, keys: Any) -> Any:
    return _join([pa.scalar(f"{table}:"), keys], "")


def _join(parts: list[Any], separator: str) -> Any:
    return pc.binary_join_element_wise(*parts, separator, null_handling="replace", null_replacement="")
