"""Row identity: the 64-bit fingerprint of chosen columns, and numbers that tell equal rows apart.

A fingerprint depends on values only (not on spelling in the file, library versions or other rows), so that a row keeps
its id when everything later than some moment is deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.arrow_types import integers, valid

Words = npt.NDArray[np.uint64]
_NULL = np.uint64(0x6E756C6C)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ID_BITS = 40


def fingerprints(batch: pa.RecordBatch, columns: Sequence[str], salt: str) -> Words:
    """Return one word per row that names the row's cells in ``columns``."""
    words = np.full(batch.num_rows, _text_word(salt), dtype=np.uint64)
    for name in columns:
        words = mix(words * _STEP + _column_words(batch.column(name)))
    return words


def row_numbers(words: Words) -> npt.NDArray[np.int64]:
    """Shorten fingerprints to the positive 40-bit numbers that stand in row ids (unique within a subject's rows)."""
    return (words >> np.uint64(64 - _ID_BITS)).astype(np.int64)


def occurrences(words: npt.NDArray[Any], available: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number equal words 0, 1, .. in the order in which their rows become known, then in the order given."""
    order = np.lexsort((available, words))
    ordered = words[order]
    fresh = np.ones(len(words), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    if fresh.all():
        return np.zeros(len(words), dtype=np.int64)
    place = np.arange(len(words))
    numbers = np.empty(len(words), dtype=np.int64)
    numbers[order] = place - np.maximum.accumulate(np.where(fresh, place, 0))
    return numbers


def mix(words: Words) -> Words:
    """Scramble words (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _column_words(array: Any) -> Words:
    words: Words
    if pa.types.is_string(array.type):
        encoded = array.dictionary_encode()
        table = np.array([_text_word(text) for text in encoded.dictionary.to_pylist()] or [0], dtype=np.uint64)
        words = table[integers(encoded.indices, null=0)]
    elif pa.types.is_float64(array.type):
        floats = np.asarray(array.fill_null(0.0)) if array.null_count else array.to_numpy()
        words = (floats + 0.0).view(np.uint64)
    else:
        words = integers(array, null=0).astype(np.int64).view(np.uint64)
    if array.null_count:
        words = np.where(valid(array), words, _NULL)
    return words


def _text_word(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
