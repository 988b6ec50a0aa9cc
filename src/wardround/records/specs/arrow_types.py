"""Column types of a spec as Arrow types, and times as plain microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.records.rules.language import NO_TIME, Times
from wardround.records.specs.spec import ColumnType

DAY_MICROSECONDS = 86_400_000_000
END_OF_DAY_MICROSECONDS = DAY_MICROSECONDS - 1_000_000
ARROW_TYPES: Mapping[ColumnType, Any] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "time": pa.timestamp("us"),
    "date": pa.date32(),
}


def microseconds(array: Any) -> Times:
    """Return a timestamp[us] or date32 array as microseconds; a date is the end of its day, null is ``NO_TIME``."""
    times: Times
    if pa.types.is_date32(array.type):
        days = integers(array, null=0).astype(np.int64)
        times = days * DAY_MICROSECONDS + END_OF_DAY_MICROSECONDS
        if array.null_count:
            times = np.where(valid(array), times, NO_TIME)
    else:
        times = integers(array, null=NO_TIME)
    return times


def integers(array: Any, *, null: int) -> Any:
    """Return the raw integers of a fixed-width array, zero-copy if nothing is null (``null`` fills the gaps)."""
    width = array.type.bit_width // 8
    kind = np.dtype(f"i{width}")
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, dtype=kind)
    numbers = np.frombuffer(buffer, dtype=kind, count=len(array), offset=array.offset * width)
    if array.null_count:
        numbers = np.where(valid(array), numbers, kind.type(null))
    return numbers


def one_array(column: Any) -> Any:
    """Return a chunked column as one array; without a copy where it is one already, which Arrow itself does not see."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def valid(array: Any) -> Any:
    """Return which cells are not null, as a boolean array."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def timestamps(times: Times) -> Any:
    """Return microseconds as a timestamp[us] array without nulls."""
    return pa.Array.from_buffers(pa.timestamp("us"), len(times), [None, pa.py_buffer(np.ascontiguousarray(times))])


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as a single batch."""
    table = table.combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
