"""Whose rows differ between two releases: compared cell by cell, subject by subject, in the order of the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
NOBODY: Integers = np.empty(0, dtype=np.int64)


def differing_subjects(
    old_subjects: Integers, old: pa.RecordBatch, new_subjects: Integers, new: pa.RecordBatch, columns: Sequence[str]
) -> Integers:
    """Return the subjects, sorted, whose rows are not the same rows in the same order. Both are sorted by subject."""
    olds, old_counts = np.unique(old_subjects, return_counts=True)
    news, new_counts = np.unique(new_subjects, return_counts=True)
    both, old_places, new_places = np.intersect1d(olds, news, assume_unique=True, return_indices=True)
    alike = both[old_counts[old_places] == new_counts[new_places]]
    found = [np.setdiff1d(np.union1d(olds, news), alike)]
    for old_start, new_start, size in _stretches(old_subjects, new_subjects, alike):
        some = new.slice(new_start, size)
        differ = _cells_differ(old.slice(old_start, size), some, columns)
        found.append(np.unique(new_subjects[new_start : new_start + size][differ]))
    return np.unique(np.concatenate(found))


def _stretches(old: Integers, new: Integers, alike: Integers) -> list[tuple[int, int, int]]:
    """Return where rows of subjects with equally many of them stand beside each other in both: starts and size. So
    nothing is copied to be compared, and mostly few people have more rows or fewer."""
    old_rows, new_rows = (np.flatnonzero(np.isin(each, alike)) for each in (old, new))
    if not len(new_rows):
        return []
    breaks = np.flatnonzero((np.diff(old_rows) != 1) | (np.diff(new_rows) != 1)) + 1
    starts, ends = np.r_[0, breaks], np.r_[breaks, len(new_rows)]
    places = zip(old_rows[starts].tolist(), new_rows[starts].tolist(), (ends - starts).tolist(), strict=True)
    return list(places)


def _cells_differ(old: pa.RecordBatch, new: pa.RecordBatch, columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    differ = np.zeros(new.num_rows, dtype=bool)
    for name in columns:
        one, other = _bits(old.column(name)), _bits(new.column(name))
        if not one.equals(other):
            same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(one.is_null(), other.is_null()))
            differ |= ~np.asarray(same.to_numpy(zero_copy_only=False))
    return differ


def _bits(column: Any) -> Any:
    """What is no number equals itself too, and 0 is not -0: a store keeps bits."""
    return column.view(pa.int64()) if pa.types.is_floating(column.type) else column
