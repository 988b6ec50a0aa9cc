"""Vectors of chunks from the vectors of their event names.

An encoder that reads 256 tokens sees the first ten lines of a chunk of 100. The mean of the vectors of the names in a
chunk sees all of it, and costs one vector per name of the hospital instead of one per chunk of every patient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wardround.records import EventColumns
from wardround.retrieval.encoder import Encoder, Vectors, unit_rows


def mean_name_vectors(columns: EventColumns, groups: Sequence[npt.NDArray[np.int64]], encoder: Encoder) -> Vectors:
    """Return a unit vector per group of rows: the mean of its ``kind - description`` vectors, a name that occurs n
    times weighing 1 + ln n. Values and times are not in it."""
    if not groups:
        return np.empty((0, encoder.dimensions), np.float32)
    used = np.unique(columns.concept[np.concatenate(groups)])
    names = [f"{columns.kinds[concept]} - {columns.descriptions[concept]}" for concept in used.tolist()]
    vectors = encoder.encode(names).astype(np.float64)
    weights = np.zeros((len(groups), len(used)))
    for row, group in zip(weights, groups, strict=True):
        found, counts = np.unique(np.searchsorted(used, columns.concept[group]), return_counts=True)
        row[found] = 1.0 + np.log(counts)
    return unit_rows(weights @ vectors)
