"""The order of stored rows: by subject, event time and key. Packed into one integer, one fast sort does most of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.specs.arrow_types import integers, microseconds

Integers = npt.NDArray[np.int64]
_SECOND = 1_000_000


def row_order(subjects: Integers, event: Integers, ties: Sequence[Any]) -> Integers:
    """Return the places of rows in order. ``ties`` are Arrow or integer columns, the most important first."""
    packed = _packed(subjects, event)
    if packed is None:
        return np.lexsort([*(sortable(column) for column in reversed(ties)), event, subjects])
    order: Integers = np.argsort(packed)
    ordered = packed[order]
    same = ordered[1:] == ordered[:-1]
    tied = np.r_[same, False] | np.r_[False, same]
    if tied.any():
        runs = np.cumsum(np.r_[True, ~same])[tied]
        order[tied] = _settle(order[tied], runs, ties)
    return order


def _settle(rows: Integers, runs: Integers, ties: Sequence[Any]) -> Integers:
    """Order rows of equal time within their runs; what ties do not tell apart stays as it was given: a subject's order
    never depends on whose rows stand beside."""
    taken = pa.array(rows)
    columns = [sortable(column.take(taken) if isinstance(column, pa.Array) else column[rows]) for column in ties]
    if len(columns) == 1:
        packed = _packed(runs, columns[0])
        if packed is not None:
            return rows[_argsort(packed, rows)]
    return rows[np.lexsort([rows, *reversed(columns), runs])]


def _argsort(packed: Integers, rows: Integers) -> Integers:
    order: Integers = np.argsort(packed)
    ordered = packed[order]
    return np.lexsort([rows, packed]) if (ordered[1:] == ordered[:-1]).any() else order


def _packed(high: Integers, low: Integers) -> Integers | None:
    """Return ``high`` and ``low`` side by side in one integer, None if they do not fit."""
    if len(high) == 0:
        return None
    first, last = int(low.min()), int(low.max())
    if last - first > 1 << 40 and not (low % _SECOND).any():
        low = low // _SECOND
        first, last = first // _SECOND, last // _SECOND
    bits = (last - first).bit_length()
    least, most = int(high.min()), int(high.max())
    if (most - least).bit_length() + bits > 63:
        return None
    return ((high - least) << bits) | (low - first)


def sortable(column: Any) -> Integers:
    """Return integers that sort as the column does, nulls first."""
    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        ranks = np.full(len(encoded.dictionary) + 1, -1, dtype=np.int64)
        ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
        return np.asarray(ranks[integers(encoded.indices, null=-1)])
    if pa.types.is_floating(column.type):
        _, ranks = np.unique(np.asarray(column.fill_null(-np.inf)), return_inverse=True)
        return np.asarray(ranks)
    if pa.types.is_temporal(column.type):
        return microseconds(column)
    return np.asarray(integers(column, null=-1))
