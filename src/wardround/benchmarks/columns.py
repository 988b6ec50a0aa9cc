"""Columns of stored rows as numbers and texts. Times are whole microseconds, NO_TIME where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import RecordError
from wardround.records.rules.language import ALWAYS_TIME
from wardround.records.shards.layout import NEVER_TIME

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NO_TIME = np.iinfo(np.int64).min
SECOND, MINUTE, DAY = 1_000_000, 60_000_000, 86_400_000_000
_MICROSECONDS = pa.timestamp("us")
EVENT, AVAILABLE, PUBLISHED = "_event", "_available", "_published"


def microseconds(column: pa.Array) -> Ints:
    """Return a time column as integers, NO_TIME where it is null."""
    if pa.types.is_null(column.type):
        return np.full(len(column), NO_TIME, np.int64)
    if not (pa.types.is_timestamp(column.type) or pa.types.is_int64(column.type)):
        raise RecordError(f"expected a time column, not {column.type}")
    exact = column if column.type in (pa.int64(), _MICROSECONDS) else column.cast(_MICROSECONDS)
    plain = exact.cast(pa.int64())
    filled = plain.fill_null(NO_TIME) if plain.null_count else plain
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def integers(column: pa.Array) -> Ints:
    """Return an id column as integers, -1 where it is null."""
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def texts(column: pa.Array) -> list[Any]:
    """Return a column as texts and None."""
    return list(column.cast(pa.string()).to_pylist())


def event_times(batch: pa.RecordBatch) -> Ints:
    """Return when each row happened, NO_TIME where it has no time."""
    times = microseconds(batch.column(EVENT))
    return np.where((times <= ALWAYS_TIME) | (times >= NEVER_TIME), NO_TIME, times)


def cell_times(column: pa.Array) -> Ints:
    """Return the times of a column; a date without a time is the end of its day."""
    if not pa.types.is_date(column.type):
        return microseconds(column)
    midnights = microseconds(column.cast(pa.timestamp("us")))
    return np.where(midnights == NO_TIME, NO_TIME, midnights + (DAY - SECOND))
