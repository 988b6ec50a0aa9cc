"""The vectors of a bank's keys in memory: read when they are first compared, so that opening a bank does not wait."""

from __future__ import annotations

import json
import sqlite3

import numpy as np

from wardround.core import UserError
from wardround.memory.bank_file import BankFile
from wardround.memory.database import explained
from wardround.retrieval import Vectors

_KEYS = "SELECT number, vector FROM key WHERE number > ? AND number <= ? ORDER BY number"
_KEYS_AT_ONCE = 128
"""So many stay in the processor's cache between the file and the matrix."""
_LOST = "SELECT id FROM experience WHERE key IN (SELECT value FROM json_each(?)) LIMIT 1"


class KeyVectors:
    """A matrix of one row per key number, from 1; zeros where a key was forgotten."""

    __slots__ = ("_file", "_known", "_longest_square", "_room")

    def __init__(self, file: BankFile) -> None:
        self._file = file
        self._known = 0
        self._longest_square = 0.0
        self._room: Vectors = np.zeros((0, 0), np.float32)

    def upto(self, last: int) -> Vectors:
        """The vectors of the keys up to a number. UserError where an experience has lost its key."""
        if last > self._known:
            try:
                self._read(last)
            except sqlite3.Error as error:
                raise explained(error, self._file.path) from error
        return self._room[:last]

    @property
    def longest(self) -> float:
        """The length of the longest one that was read."""
        return float(np.sqrt(self._longest_square))

    def _read(self, last: int) -> None:
        self._make_room(last)
        there = np.zeros(last - self._known, bool)
        cursor = self._file.connection.execute(_KEYS, (self._known, last))
        while rows := cursor.fetchmany(_KEYS_AT_ONCE):
            places = np.array([number for number, _ in rows]) - 1
            vectors = np.frombuffer(b"".join(blob for _, blob in rows), "<f4").reshape(len(rows), -1)
            self._room[places] = vectors
            there[places - self._known] = True
            self._longest_square = max(self._longest_square, float(np.vecdot(vectors, vectors).max()))
        self._check_none_lost((np.flatnonzero(~there) + self._known + 1).tolist())
        self._known = last

    def _make_room(self, last: int) -> None:
        if last <= len(self._room):
            return
        dimensions = int(self._file.setting("dimensions") or 0)
        room = np.zeros((max(64, 5 * last // 4), dimensions), np.float32)
        if self._known:
            room[: self._known] = self._room[: self._known]
        self._room = room

    def _check_none_lost(self, missing: list[int]) -> None:
        lost = self._file.rows(_LOST, (json.dumps(missing),)) if missing else ()
        if lost:
            raise UserError(f"experience {lost[0][0]!r} has lost its key: the bank is damaged; see its audit")
