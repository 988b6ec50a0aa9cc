"""Chunks cover everything and stay what they are; merged passages hold each row once, in time order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.tools.retrieval import Passage, merge
from wardround.tools.retrieval.chunks import chunk_bounds


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (0, ()),
        (1, ((0, 1),)),
        (100, ((0, 100),)),
        (101, ((0, 100), (95, 101))),
        (195, ((0, 100), (95, 195))),
        (196, ((0, 100), (95, 195), (190, 196))),
    ],
)
def test_bounds_by_hand(rows: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert chunk_bounds(rows, size=100, overlap=5) == expected


@given(st.integers(0, 700), st.integers(1, 40), st.integers(0, 39), st.integers(0, 200))
def test_bounds_cover_every_row_and_full_chunks_outlast_growth(rows: int, size: int, overlap: int, more: int) -> None:
    overlap = min(overlap, size - 1)
    bounds = chunk_bounds(rows, size=size, overlap=overlap)
    assert sorted({row for start, end in bounds for row in range(start, end)}) == list(range(rows))
    for (_, before), (start, end) in pairwise(bounds):
        assert before - start == overlap
        assert end > before
    full = [pair for pair in bounds if pair[1] - pair[0] == size]
    assert list(chunk_bounds(rows + more, size=size, overlap=overlap)[: len(full)]) == full


def passage(*rows: int, score: float = 0.0) -> Passage:
    return Passage(
        id=f"p{rows}", lines=tuple(f"line {row}" for row in rows), rows=rows, start=None, end=None, score=score
    )


def test_merge_is_a_union_in_time_order() -> None:
    merged = merge(passage(5, 6, 7, score=0.2), passage(1, 2), passage(7, 8, score=0.4))
    assert merged.rows == (1, 2, 5, 6, 7, 8)
    assert merged.text == "line 1\nline 2\nline 5\nline 6\nline 7\nline 8"
    assert merged.score == 0.4
    assert len(merged) == 6


def test_merge_of_nothing_is_empty() -> None:
    assert merge().rows == ()
    assert merge(passage(), passage()).text == ""
    assert merge().start is None


@given(st.lists(st.sets(st.integers(0, 30)).map(sorted), max_size=5))
def test_merge_forgets_order_and_repetition(groups: list[list[int]]) -> None:
    passages = [passage(*rows) for rows in groups]
    merged = merge(*passages)
    assert merged.rows == tuple(sorted({row for rows in groups for row in rows}))
    assert merge(*reversed(passages), *passages) == merged
    assert merge(merged, *passages).rows == merged.rows
