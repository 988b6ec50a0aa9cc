"""Vectors by content hash in SQLite, shared by runs and processes: no text is encoded twice."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from wardround.core import UserError, content_hash, private_file, private_folder
from wardround.retrieval.encoder import Encoder, Vectors

_TABLE = """
CREATE TABLE IF NOT EXISTS vector (
    encoder TEXT NOT NULL, text_hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (encoder, text_hash)
) WITHOUT ROWID
"""
_DELETE = "DELETE FROM vector WHERE text_hash = ?"
_ASKED_AT_ONCE = 500


class VectorCache:
    """Holds vectors, not texts; safe for several processes and threads. It can be deleted at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            private_folder(path.parent)
            private_file(path)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            if hasattr(self, "_connection"):
                self._connection.close()
            raise UserError(f"cannot use the vector cache {path}: {error}; delete it or name another file") from error

    def get(self, encoder: str, hashes: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors it has, by text hash."""
        found: dict[str, Vectors] = {}
        with self._lock:
            for start in range(0, len(hashes), _ASKED_AT_ONCE):
                some = [bytes.fromhex(one) for one in hashes[start : start + _ASKED_AT_ONCE]]
                marks = ", ".join("?" * len(some))
                query = f"SELECT text_hash, vector FROM vector WHERE encoder = ? AND text_hash IN ({marks})"
                for text_hash, blob in self._connection.execute(query, (encoder, *some)):
                    found[text_hash.hex()] = np.frombuffer(blob, dtype="<f4")
        return found

    def put(self, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors by text hash, all or none of them."""
        rows = [(encoder, bytes.fromhex(key), row.astype("<f4").tobytes()) for key, row in vectors.items()]
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?, ?)", rows)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def forget(self, hashes: Sequence[str]) -> int:
        """Delete the vectors of some texts for good, whatever encoder made them; returns how many there were."""
        with self._lock:
            rows = [(bytes.fromhex(one),) for one in hashes]
            deleted = sum(self._connection.execute(_DELETE, row).rowcount for row in rows)
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
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
        """Close the encoder, where it holds something open; the cache is whoever's who opened it."""
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
