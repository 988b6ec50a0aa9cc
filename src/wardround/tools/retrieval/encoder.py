"""Encoders: the protocol, the embedded lexical encoder, and the cache of vectors."""

from __future__ import annotations

import hashlib
import math
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from wardround.core import DatabaseFormat, UserError, checkpoint, content_hash, transaction

# What an encoder is to everything else: texts in, unit vectors out.


Vectors = npt.NDArray[np.float32]
"""One row per text, each of length 1, or all zero for a text with nothing in it."""


class Encoder(Protocol):
    """Turns texts into vectors whose dot product is their cosine similarity."""

    @property
    def name(self) -> str:
        """As given on the command line, for example ``lexical``."""
        ...

    @property
    def identity(self) -> str:
        """Everything that decides a vector: vectors of one identity may be compared, and are cached under it."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """How much of a text is read, in the encoder's own tokens; None reads all of it."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text. Blocks: call it off the event loop."""
        ...


def unit_rows(rows: npt.ArrayLike) -> Vectors:
    """Scale every row to length 1 in double precision; an all-zero or non-finite row becomes zero."""
    matrix = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    matrix = np.where(np.isfinite(matrix), matrix, 0.0)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


# The embedded default encoder: hashed words and letter trigrams. No weights, no fitting, no dependency.
#
# Nothing is learnt from any text (no document frequencies), so no record can leak into the vector of another, and a
# text has the same vector in every process, on every machine, for ever.


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
    """Return whether vectors are made here, behind a cache or not."""
    return is_lexical_identity(encoder.identity)


def is_lexical_identity(identity: str) -> bool:
    """Return whether an identity is of vectors that are made here: of hashed words, by an encoder that learnt
    nothing."""
    return identity.startswith(f"lexical-{VERSION}-")


def words_of(text: str) -> list[str]:
    """Words and short numbers in normal form, in order, without the commonest function words."""
    return [word for word in _all_words(text) if _tells(word)]


def _all_words(text: str) -> list[str]:
    """Return every word and number. Stop words are removed after counting, which is cheaper for long texts."""
    found: list[str] = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return found


def _tells(word: str) -> bool:
    """Return whether a word is neither a common function word nor a long number, such as an id."""
    return word not in _STOP and not (len(word) >= _LONG_NUMBER_DIGITS and word[0].isdecimal())


@lru_cache(maxsize=65_536)
def _features(word: str, dimensions: int) -> _Features:
    """Places and signed values of one word."""
    if word[0].isdecimal():
        return _hashed([f"n{word}"], [_NUMBER_SHARE], dimensions)
    padded = f" {word} "
    trigrams = [padded[start : start + 3] for start in range(len(padded) - 2)]
    share = _TRIGRAM_SHARE / math.sqrt(len(trigrams))
    return _hashed(
        [f"w{word}", *(f"t{trigram}" for trigram in trigrams)], [1.0, *(share for _ in trigrams)], dimensions
    )


def _hashed(names: Sequence[str], values: Sequence[float], dimensions: int) -> _Features:
    """Hash each name to a place and a sign."""
    digests = [hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest() for name in names]
    numbers = np.frombuffer(b"".join(digests), dtype="<u8")
    signs = np.where(numbers >> np.uint64(63), -1.0, 1.0)
    places = (numbers % np.uint64(dimensions)).astype(np.int64)
    return places, signs * np.asarray(values)


# Vectors by content hash in SQLite, shared by runs and processes: no text is encoded twice.


CACHE_FORMAT = DatabaseFormat(
    name="vector cache",
    application="wardround-vectors",
    tables="",
    tables_without_checksums="""
CREATE TABLE vector (
    encoder TEXT NOT NULL, text_hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (encoder, text_hash)
) WITHOUT ROWID
""",
    makes_folder=True,
    for_threads=True,
    if_damaged="delete it or name another file",
    if_other_version="delete it or name another file",
)
_DELETE = "DELETE FROM vector WHERE text_hash = ?"
_HASHES_PER_QUERY = 500


class VectorCache:
    """Holds vectors, not texts; safe for several processes and threads. It can be deleted at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection = CACHE_FORMAT.open(path)

    def get(self, encoder: str, hashes: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors it has, by text hash."""
        found: dict[str, Vectors] = {}
        with self._lock:
            for start in range(0, len(hashes), _HASHES_PER_QUERY):
                some = [bytes.fromhex(one) for one in hashes[start : start + _HASHES_PER_QUERY]]
                marks = ", ".join("?" * len(some))
                query = f"SELECT text_hash, vector FROM vector WHERE encoder = ? AND text_hash IN ({marks})"
                for text_hash, blob in self._connection.execute(query, (encoder, *some)):
                    found[text_hash.hex()] = np.frombuffer(blob, dtype="<f4")
        return found

    def put(self, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors by text hash, all or none of them."""
        rows = [(encoder, bytes.fromhex(key), row.astype("<f4").tobytes()) for key, row in vectors.items()]
        with self._lock, transaction(self._connection):
            self._connection.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?, ?)", rows)

    def forget(self, hashes: Sequence[str]) -> int:
        """Delete the vectors of some texts for good, of all encoders; return their number."""
        with self._lock:
            rows = [(bytes.fromhex(one),) for one in hashes]
            deleted = sum(self._connection.execute(_DELETE, row).rowcount for row in rows)
            self._connection.execute("VACUUM")
            checkpoint(self._connection)
        return deleted

    def __len__(self) -> int:
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM vector").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class CachedEncoder:
    """An encoder that looks in the cache first. ``hits`` and ``misses`` count texts.

    Texts shorter than ``from_characters`` are encoded, not looked up: an encoder may be faster than the cache on those.
    """

    def __init__(self, encoder: Encoder, cache: VectorCache, *, from_characters: int = 0) -> None:
        self.encoder = encoder
        self.cache = cache
        self._from_characters = from_characters
        self.name = encoder.name
        self.identity = encoder.identity
        self.hits = 0
        self.misses = 0

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self.encoder.dimensions

    @property
    def max_tokens(self) -> int | None:
        """How much of a text the encoder reads."""
        return self.encoder.max_tokens

    def close(self) -> None:
        """Close the encoder if it has open resources; the opener of the cache closes the cache."""
        close = getattr(self.encoder, "close", None)
        if close is not None:
            close()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text; equal texts are encoded once."""
        if any(len(text) < self._from_characters for text in texts):
            return self._apart(texts)
        return self._looked_up(texts)

    def _apart(self, texts: Sequence[str]) -> Vectors:
        """Encode short texts and look up the others."""
        short = np.array([len(text) < self._from_characters for text in texts])
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        vectors[short] = self.encoder.encode([text for text in texts if len(text) < self._from_characters])
        vectors[~short] = self._looked_up([text for text in texts if len(text) >= self._from_characters])
        return vectors

    def _looked_up(self, texts: Sequence[str]) -> Vectors:
        hashes = [content_hash(text.encode("utf-8", "replace")) for text in texts]
        known = self.cache.get(self.identity, list(dict.fromkeys(hashes)))
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
        self.misses += len(missing)
        self.hits += len(texts) - len(missing)
        if missing:
            fresh = dict(zip(missing, self.encoder.encode(list(missing.values())), strict=True))
            self.cache.put(self.identity, fresh)
            known |= fresh
        return np.stack([known[key] for key in hashes]) if hashes else np.empty((0, self.dimensions), np.float32)
