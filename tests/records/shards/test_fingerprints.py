"""Fingerprints against the same arithmetic written as loops: a row id once given must never change."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from wardround.records.shards.row_ids import (
    fingerprints,
    local_words,
    mix,
    numbered_ids,
    numbered_words,
    occurrences,
    row_numbers,
)

ALL = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
NULL = 0x6E756C6C


def mixed(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & ALL
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & ALL
    return word ^ (word >> 31)


def long_text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def word_of(cell: object) -> int:
    if cell is None:
        return NULL
    if isinstance(cell, float):
        return int(np.float64(cell + 0.0).view(np.uint64))
    if isinstance(cell, int):
        return cell & ALL
    data = str(cell).encode()
    if len(data) > 24:
        return long_text(str(cell))
    word = len(data)
    for start in (0, 8, 16):
        word = mixed((word * STEP + int.from_bytes(data.ljust(24, b"\0")[start : start + 8], "little")) & ALL)
    return word


CELLS: dict[str, list[Any]] = {
    "text": ["a", "", None, "x" * 24, "y" * 25, "größer", "a"],
    "whole": [0, -1, None, 2**62, 7, 7, 0],
    "real": [0.0, -0.0, None, 1.5, -2.25, 1e300, 0.0],
}


@pytest.mark.parametrize("names", [("text",), ("whole",), ("real",), ("text", "whole"), ("real", "text", "whole"), ()])
def test_a_rows_word_is_of_its_cells_and_the_salt_alone(names: tuple[str, ...]) -> None:
    batch = pa.record_batch({name: pa.array(cells) for name, cells in CELLS.items()})
    expected = []
    for row in range(batch.num_rows):
        word = long_text("table")
        for name in names:
            word = mixed((word * STEP + word_of(CELLS[name][row])) & ALL)
        expected.append(word)
    assert fingerprints(batch, names, "table").tolist() == expected


def test_a_time_is_its_microseconds() -> None:
    batch = pa.record_batch({"at": pa.array([datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("us"))})
    expected = [mixed((long_text("t") * STEP + word) & ALL) for word in (1_000_000, NULL)]
    assert fingerprints(batch, ("at",), "t").tolist() == expected


def test_mixing_is_splitmix64() -> None:
    words = np.array([0, 1, ALL, STEP], np.uint64)
    assert mix(words).tolist() == [mixed(int(word)) for word in words]


def test_numbers_of_row_ids_are_the_upper_40_bits() -> None:
    assert row_numbers(np.array([ALL, 1 << 24, (1 << 24) - 1], np.uint64)).tolist() == [(1 << 40) - 1, 1, 0]
    assert numbered_ids("labs", np.array([7, 12])).to_pylist() == ["labs:7", "labs:12"]


@pytest.mark.parametrize(
    ("words", "known", "numbers"),
    [
        ([1, 2, 3], [0, 0, 0], [0, 0, 0]),
        ([1, 1, 1], [30, 10, 20], [2, 0, 1]),
        ([1, 1, 2, 1], [5, 5, 1, 5], [0, 1, 0, 2]),
        ([2, 1, 2, 1], [1, 9, 0, 3], [1, 1, 0, 0]),
        ([], [], []),
    ],
)
def test_equal_words_are_numbered_as_they_become_known(words: list[int], known: list[int], numbers: list[int]) -> None:
    found = occurrences(np.array(words, np.uint64), np.array(known, np.int64))
    assert found.tolist() == numbers
    told_apart = numbered_words(np.array(words, np.uint64), np.array(known, np.int64)).tolist()
    assert told_apart == [mixed(word + number) if number else word for word, number in zip(words, numbers, strict=True)]


def test_words_within_a_batch_are_equal_where_the_cells_are() -> None:
    batch = pa.record_batch({name: pa.array(cells) for name, cells in CELLS.items()})
    words = local_words(batch, ("text", "whole")).tolist()
    assert words[0] == words[6]
    assert len(set(words)) == 6
    assert len(set(local_words(batch, ("real",)).tolist())) == 5, "0.0 and -0.0 are one number"
