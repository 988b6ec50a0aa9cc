"""The vector cache: nothing is encoded twice, nothing is shared between encoders, damage is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from wardround.core import UserError
from wardround.tools.retrieval import CachedEncoder, LexicalEncoder, VectorCache, Vectors, open_encoder


class CountingEncoder(LexicalEncoder):
    """The lexical encoder, noting what it was asked."""

    def __init__(self, dimensions: int = 64) -> None:
        super().__init__(dimensions)
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return super().encode(texts)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    made = VectorCache(tmp_path / "deep" / "vectors.sqlite")
    yield made
    made.close()


def test_a_text_is_encoded_once_and_comes_back_as_it_was(cache: VectorCache) -> None:
    slow = CountingEncoder()
    cached = CachedEncoder(slow, cache)
    texts = ["sepsis", "", "anaemia", "sepsis", "\ud800 torn"]
    first = cached.encode(texts)
    assert slow.asked == ["sepsis", "", "anaemia", "\ud800 torn"]
    assert first.tobytes() == LexicalEncoder(64).encode(texts).tobytes()
    assert (cached.hits, cached.misses) == (1, 4)

    reopened = VectorCache(cache.path)
    again = CachedEncoder(slow, reopened)
    assert again.encode(texts).tobytes() == first.tobytes()
    assert len(slow.asked) == 4
    assert again.misses == 0
    assert again.encode([]).shape == (0, 64)
    reopened.close()


def test_encoders_do_not_share_vectors(cache: VectorCache) -> None:
    small, large = CachedEncoder(LexicalEncoder(64), cache), CachedEncoder(LexicalEncoder(128), cache)
    assert small.encode(["sepsis"]).shape == (1, 64)
    assert large.encode(["sepsis"]).shape == (1, 128)
    assert len(cache) == 2


def test_threads_may_share_it(cache: VectorCache) -> None:
    cached = CachedEncoder(LexicalEncoder(64), cache)
    texts = [f"finding {number % 7}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: cached.encode([text])[0], texts))
    assert np.stack(rows).tobytes() == LexicalEncoder(64).encode(texts).tobytes()


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    path.write_text("not a database, however long it may be " * 10)
    with pytest.raises(UserError, match=r"vectors\.sqlite.*delete it"):
        VectorCache(path)


def test_short_texts_are_encoded_and_long_ones_looked_up(cache: VectorCache) -> None:
    quick = CountingEncoder()
    cached = CachedEncoder(quick, cache, from_characters=20)
    texts = ["short", "a text of some length", "", "another text of some length"]
    expected = LexicalEncoder(64).encode(texts).tobytes()
    assert cached.encode(texts).tobytes() == expected
    assert cached.encode(texts).tobytes() == expected
    assert (len(cache), cached.hits, cached.misses) == (2, 2, 2)
    assert quick.asked == ["short", "", texts[1], texts[3], "short", ""]


def test_the_lexical_encoder_caches_chunks_only(cache: VectorCache) -> None:
    encoder = open_encoder("lexical", cache=cache)
    encoder.encode(["query", "[2100-01-01 00:00:00] lab - Sodium\n" * 100])
    assert len(cache) == 1
