"""The order of stored rows, by hand: subject, then event time, then key."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from wardround.records.ingest.shard_rows import row_order, sortable

FAR = 1 << 62
"""Too far from zero to lie beside another number in 64 bits."""


def order(subjects: list[int], event: list[int], *ties: object) -> list[int]:
    return row_order(np.array(subjects), np.array(event), ties).tolist()


def test_no_rows_have_no_order() -> None:
    assert order([], [], np.array([], np.int64)) == []


def test_the_subject_comes_before_the_time_and_the_time_before_the_key() -> None:
    assert order([2, 1, 1, 1], [0, 5, 4, 5], np.array([1, 9, 8, 2])) == [2, 3, 1, 0]


@pytest.mark.parametrize("far", [0, FAR])
def test_the_first_key_counts_before_the_second(far: int) -> None:
    first, second = pa.array(["b", "a", "b", "a"]), pa.array([1, 2, 0, 1])
    assert order([1, 1, 1, 1], [far] * 4, first, second) == [3, 1, 2, 0]
    assert order([1, 1, 2, 2], [far, far, -far, -far], second.take(pa.array([0, 1, 0, 1]))) == [0, 1, 2, 3]


def test_only_rows_of_one_time_are_settled_by_their_keys() -> None:
    keys = np.array([5, 4, 3, 2, 1, 0])
    assert order([1, 1, 1, 1, 1, 1], [10, 20, 20, 30, 40, 40], keys) == [0, 2, 1, 3, 5, 4]


def test_times_too_far_apart_for_one_integer_are_ordered_all_the_same() -> None:
    subjects, event = [7, FAR, 7, -5], [FAR, 0, -FAR, 3]
    assert order(subjects, event, np.arange(4)) == [3, 2, 0, 1]


def test_whole_seconds_far_apart_are_ordered_to_the_second_and_others_to_the_microsecond() -> None:
    second = 1_000_000
    century = 3_155_760_000 * second
    assert order([1, 1, 1], [century + second, century, 0], np.arange(3)) == [2, 1, 0]
    assert order([1, 1, 1], [century + 1, century, 0], np.arange(3)) == [2, 1, 0]


def test_few_subjects_with_numbers_of_64_bits_are_ordered_as_any_others() -> None:
    """As in OMOP, where persons may be numbered by hashes: numbers and times do not fit one integer, ranks do."""
    subjects, event = [FAR, -FAR, FAR, 7, -FAR], [3, 2, 1, 5, 2]
    assert order(subjects, event, np.array([0, 9, 0, 0, 8])) == [4, 1, 3, 2, 0]


def test_subjects_below_zero_come_first() -> None:
    assert order([0, -3, 4], [1, 9, 0], np.arange(3)) == [1, 0, 2]


@pytest.mark.parametrize(
    ("column", "places"),
    [
        (pa.array(["b", None, "a", "b"]), [1, -1, 0, 1]),
        (pa.array([2.5, None, -1.0, 2.5]), [2, 0, 1, 2]),
        (pa.array([3, None, 2]), [3, -1, 2]),
        (np.array([4, 2]), [4, 2]),
    ],
)
def test_columns_sort_as_integers_with_nulls_first(column: object, places: list[int]) -> None:
    assert sortable(column).tolist() == places


def test_a_moment_that_is_missing_sorts_first() -> None:
    column = pa.array([datetime(2150, 1, 1), None, datetime(1700, 1, 1)], pa.timestamp("us"))
    assert np.argsort(sortable(column)).tolist() == [1, 2, 0]


def test_keys_of_rows_too_far_apart_are_looked_at_in_their_order() -> None:
    subjects, event = [0, 0, FAR], [FAR, FAR, -FAR]
    assert order(subjects, event, np.array([2, 1, 0]), np.array([1, 2, 0])) == [1, 0, 2]


def test_64_bits_are_one_too_many() -> None:
    assert order([1 << 31, 0], [0, (1 << 32) - 1], np.arange(2)) == [1, 0]


def test_large_subjects_that_lie_close_are_packed_from_the_least() -> None:
    assert order([1 << 43, (1 << 43) - 1], [0, (1 << 20) - 1], np.arange(2)) == [1, 0]
