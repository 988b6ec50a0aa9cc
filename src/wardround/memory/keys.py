"""Keys of experiences: vectors and their encoder, read when first compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wardround.core import UserError, content_hash
from wardround.memory.bank_file import BANK_FORMAT, BankFile, checked
from wardround.tools.retrieval import Encoder, Vectors, describe_recent_events
from wardround.tools.retrieval.recent import MAX_TOKENS, RecentChart

# Keys: the vector by which an experience is found again, and the encoder it may be compared under.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Key:
    """``vector`` has length 1. ``text_hash`` names the text; the text, which is record text, is not kept."""

    encoder: str
    vector: Vectors
    text_hash: str = ""

    def __post_init__(self) -> None:
        vector = np.ascontiguousarray(self.vector, dtype="<f4").reshape(-1)
        vector.setflags(write=False)
        object.__setattr__(self, "vector", vector)
        if not len(vector) or not np.isfinite(vector).all():
            raise ValueError("a key needs a vector of finite numbers")

    @property
    def length(self) -> float:
        """The stored vector's length: 1, except for rounding."""
        return float(np.linalg.norm(self.vector.astype(np.float64)))


def text_key(encoder: Encoder, text: str) -> Key:
    """Encode a text. Blocks: call it off the event loop."""
    return Key(
        encoder=encoder.identity,
        vector=encoder.encode([text])[0],
        text_hash=content_hash(text.encode("utf-8", "replace")),
    )


class KeyEncoder:
    """An encoder that is given another length of a chart. Its keys are compared only with those of that length."""

    def __init__(self, encoder: Encoder, tokens: int) -> None:
        self._encoder = encoder
        self.tokens = tokens
        self.name = encoder.name
        self.identity = f"{encoder.identity}-of-{tokens}-tokens"
        self.dimensions = encoder.dimensions
        self.max_tokens = encoder.max_tokens

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""
        return self._encoder.encode(texts)


def chart_key(encoder: Encoder, chart: RecentChart) -> Key:
    """Encode a chart's most recent events (e of eq. 8), within what the encoder reads. Blocks like ``text_key``."""
    tokens = encoder.tokens if isinstance(encoder, KeyEncoder) else MAX_TOKENS
    limit = tokens if encoder.max_tokens is None else min(tokens, encoder.max_tokens)
    return text_key(encoder, describe_recent_events(chart, max_tokens=limit))


# The vectors of a bank's keys in memory: read when they are first compared, so that opening a bank does not wait.


_KEYS = "SELECT number, hash, encoder, text_hash, vector, seal FROM key WHERE number"
_KEYS_AT_ONCE = 128
"""So many stay in the processor's cache between the file and the matrix."""
_FIRST_LENGTH = "INSERT OR REPLACE INTO setting VALUES ('longest_key', ?)"
_LENGTH = "UPDATE setting SET value = ?1 WHERE name = 'longest_key' AND value < ?1"
_LOST = "SELECT id FROM experience WHERE key IN (SELECT value FROM json_each(?)) LIMIT 1"


def note_length(file: BankFile, key: Key, *, is_first: bool) -> None:
    """Note how long the longest key is, so that no reader has to look at all of them for it."""
    file.connection.execute(_FIRST_LENGTH if is_first else _LENGTH, (key.length,))


def note_lengths_again(file: BankFile) -> None:
    """Note the longest of the keys that are left: the length of a forgotten one is forgotten too."""
    file.connection.execute("DELETE FROM setting WHERE name = 'longest_key'")
    last = file.rows("SELECT coalesce(max(number), 0) FROM key")[0][0]
    file.connection.execute(_FIRST_LENGTH, (KeyVectors(file).longest(last),))


class KeyVectors:
    """The vectors of a bank's keys: some of them as they are looked at, or a matrix of one row per key number, from 1.
    Zeros stand where a key was forgotten."""

    __slots__ = ("_file", "_known", "_longest_square", "_room", "_some")

    def __init__(self, file: BankFile) -> None:
        self._file = file
        self._known = 0
        self._longest_square = 0.0
        self._room: Vectors = np.zeros((0, 0), np.float32)
        self._some: dict[int, Vectors] = {}

    def upto(self, last: int) -> Vectors:
        """Return the vectors of the keys up to a number. Raises UserError if an experience has lost its key."""
        if last > self._known:
            self._read(last)
        return self._room[:last]

    def some(self, places: Sequence[int]) -> Vectors:
        """Return the vectors at one or more places. Raises UserError as ``upto`` does."""
        if max(places) < self._known:
            return self._room[list(places)]
        missing = [place for place in places if place not in self._some]
        if missing:
            numbers = json.dumps([place + 1 for place in missing])
            for found, vectors in self._vectors("IN (SELECT value FROM json_each(?))", numbers):
                self._some |= zip(found, vectors, strict=True)
            self._check_none_lost([place + 1 for place in missing if place not in self._some])
        nothing = np.zeros(self.dimensions, np.float32)
        return np.stack([self._some.setdefault(place, nothing) for place in places])

    @property
    def dimensions(self) -> int:
        """How many numbers the bank's keys have; 0 while it has none."""
        return int(self._file.setting("dimensions") or 0)

    def longest(self, last: int) -> float:
        """The length of the longest key, as the bank's writers noted it, else of those up to a number."""
        noted = self._file.setting("longest_key")
        if noted is None:
            self.upto(last)
        return float(np.sqrt(self._longest_square)) if noted is None else float(noted)

    def _read(self, last: int) -> None:
        """Read the matrix up to a number; what was read alone is not needed any more."""
        if last > len(self._room):
            room = np.zeros((max(64, 5 * last // 4), self.dimensions), np.float32)
            if self._known:
                room[: self._known] = self._room[: self._known]
            self._room = room
        is_present = np.zeros(last - self._known, bool)
        for places, vectors in self._vectors("> ? AND number <= ?", self._known, last):
            self._room[places] = vectors
            is_present[np.array(places) - self._known] = True
            self._longest_square = max(self._longest_square, float(np.vecdot(vectors, vectors).max()))
        self._check_none_lost((np.flatnonzero(~is_present) + self._known + 1).tolist())
        self._known = last
        self._some.clear()

    def _vectors(self, which: str, *values: Any) -> Iterator[tuple[list[int], Vectors]]:
        """Read the keys of some numbers: their places and vectors, many at once."""
        with BANK_FORMAT.errors(self._file.path):
            cursor = self._file.connection.execute(f"{_KEYS} {which}", values)
            while rows := cursor.fetchmany(_KEYS_AT_ONCE):
                keys = [checked(self._file, "key", row) for row in rows]
                vectors = np.frombuffer(b"".join(key[4] for key in keys), "<f4").reshape(len(keys), -1)
                yield [key[0] - 1 for key in keys], vectors

    def _check_none_lost(self, missing: list[int]) -> None:
        lost = self._file.rows(_LOST, (json.dumps(missing),)) if missing else ()
        if lost:
            raise UserError(f"experience {lost[0][0]!r} has lost its key: the bank is damaged; see its audit")
