"""Equal words are told apart in a way that stays the same: row ids hang on it."""

from __future__ import annotations

import numpy as np

from wardround.records.shards.row_ids import numbered_words

MASK = (1 << 64) - 1


def scrambled(word: int) -> int:
    """The finaliser of splitmix64, in whole numbers."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def test_a_word_keeps_itself_and_its_later_rows_are_scrambled_with_their_number() -> None:
    words, available = np.array([5, 9, 5, 5], dtype=np.uint64), np.array([30, 10, 10, 20], dtype=np.int64)
    assert numbered_words(words, available).tolist() == [scrambled(7), 9, 5, scrambled(6)]
