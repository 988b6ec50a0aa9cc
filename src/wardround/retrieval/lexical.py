"""The embedded default encoder: hashed words and letter trigrams. No weights, no fitting, no dependency.

Nothing is learnt from any text (no document frequencies), so no record can leak into the vector of another, and a text
has the same vector in every process, on every machine, for ever.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wardround.core import UserError
from wardround.retrieval.encoder import Encoder, Vectors, unit_rows

VERSION = 1
_TRIGRAM_SHARE = 0.7
_NUMBER_SHARE = 0.3
_WORD = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")
_LONG_NUMBER_DIGITS = 5
_STOP = frozenset(
    re.findall(r"\w+", "a an and are as at be by for from had has have in is it of on or that the to was with")
)

_Features = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


class LexicalEncoder:
    """Signed feature hashing. A word weighs 1 + ln(count) and is a unit feature for itself plus one spread over its
    padded trigrams, so that misspelt and inflected words stay near; numbers weigh less, long ones (ids) nothing."""

    max_tokens = None

    def __init__(self, dimensions: int = 1024) -> None:
        if dimensions < 16:
            raise UserError(f"a lexical encoder needs at least 16 dimensions, not {dimensions}")
        self.dimensions = dimensions
        self.name = "lexical" if dimensions == 1024 else f"lexical/{dimensions}"
        self.identity = f"lexical-{VERSION}-{dimensions}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text; a text without words has the zero vector."""
        rows = np.zeros((len(texts), self.dimensions))
        for row, text in zip(rows, texts, strict=True):
            counts = {word: count for word, count in Counter(_all_words(text)).items() if _tells(word)}
            if not counts:
                continue
            features = [_features(word, self.dimensions) for word in counts]
            weights = [1.0 + math.log(count) for count in counts.values()]
            places = np.concatenate([places for places, _ in features])
            values = np.concatenate([weight * values for weight, (_, values) in zip(weights, features, strict=True)])
            row += np.bincount(places, weights=values, minlength=self.dimensions)
        return unit_rows(rows) if len(rows) else np.empty((0, self.dimensions), np.float32)


def is_lexical(encoder: Encoder) -> bool:
    """Whether vectors are made here, behind a cache or not."""
    return is_lexical_identity(encoder.identity)


def is_lexical_identity(identity: str) -> bool:
    """Whether an identity is of vectors that are made here: of hashed words, by an encoder that learnt nothing."""
    return identity.startswith(f"lexical-{VERSION}-")


def words_of(text: str) -> list[str]:
    """Words and short numbers in normal form, in order, without the commonest function words."""
    return [word for word in _all_words(text) if _tells(word)]


def _all_words(text: str) -> list[str]:
    """Every word and number; what tells nothing is left out once counted, which is cheaper for long texts."""
    found: list[str] = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return found


def _tells(word: str) -> bool:
    """Whether a word is neither a common function word nor a long number, such as an id."""
    return word not in _STOP and not (len(word) >= _LONG_NUMBER_DIGITS and word[0].isdecimal())


@lru_cache(maxsize=65_536)
def _features(word: str, dimensions: int) -> _Features:
    """Places and signed values of one word."""
    if word[0].isdecimal():
        return _hashed([f"n{word}"], [_NUMBER_SHARE], dimensions)
    padded = f" {word} "
    trigrams = [padded[start : start + 3] for start in range(len(padded) - 2)]
    share = _TRIGRAM_SHARE / math.sqrt(len(trigrams))
    return _hashed([f"w{word}", *(f"t{one}" for one in trigrams)], [1.0, *(share for _ in trigrams)], dimensions)


def _hashed(names: Sequence[str], values: Sequence[float], dimensions: int) -> _Features:
    """Hash each name to a place and a sign."""
    digests = [hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest() for name in names]
    numbers = np.frombuffer(b"".join(digests), dtype="<u8")
    signs = np.where(numbers >> np.uint64(63), -1.0, 1.0)
    places = (numbers % np.uint64(dimensions)).astype(np.int64)
    return places, signs * np.asarray(values)
