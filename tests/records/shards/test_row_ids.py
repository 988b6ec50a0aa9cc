"""Equal words are told apart in a way that stays the same: row ids hang on it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa

from wardround.records.shards.layout import NEVER_TIME
from wardround.records.shards.row_ids import Disclosure, as_disclosed, numbered_words, occurrences

MASK = (1 << 64) - 1


def scrambled(word: int) -> int:
    """The finaliser of splitmix64, in whole numbers."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def test_a_word_keeps_itself_and_its_later_rows_are_scrambled_with_their_number() -> None:
    words, available = np.array([5, 9, 5, 5], dtype=np.uint64), np.array([30, 10, 10, 20], dtype=np.int64)
    assert numbered_words(words, available).tolist() == [scrambled(7), 9, 5, scrambled(6)]


TwinTable = tuple[int, str | None, int, str | None]
"""A stop and when it is known, a status and when it is known."""


def numbers_of(twins: tuple[TwinTable, ...]) -> dict[TwinTable, int]:
    """Number rows that are equal when they are first shown."""
    batch = pa.record_batch({"stop": [each[1] for each in twins], "status": [each[3] for each in twins]})
    clocks = [np.array([each[place] for each in twins], np.int64) for place in (0, 2)]
    told = as_disclosed(
        batch, [Disclosure(times=clocks[0], columns=["stop"]), Disclosure(times=clocks[1], columns=["status"])]
    )
    found = occurrences(np.zeros(len(twins), np.uint64), np.zeros(len(twins), np.int64), told).tolist()
    return dict(zip(twins, found, strict=True))


def test_equal_rows_are_numbered_by_what_becomes_known_of_them_wherever_they_stand() -> None:
    open_still, closed_empty = (NEVER_TIME, "a", NEVER_TIME, None), (2, None, 9, "lost")
    stopped_early, stopped_late = (3, "b", 8, "done"), (5, "a", 8, "done")
    for order in permutations((open_still, closed_empty, stopped_early, stopped_late)):
        assert numbers_of(order) == {stopped_early: 0, stopped_late: 1, closed_empty: 2, open_still: 3}


def test_what_is_known_later_does_not_number_what_is_shown_now() -> None:
    """At 4 only the first row's stop is shown: it is the first whatever becomes of the two others."""
    first = (3, "b", 8, "done")
    for other, another in permutations(
        [(4, None, 5, "a"), (5, "a", 6, "a"), (NEVER_TIME, None, 7, "a"), (9, "a", 5, "c")], 2
    ):
        assert numbers_of((other, another, first))[first] == 0
