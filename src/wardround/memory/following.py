"""Bringing a state in memory up to the file, as of a revision: its keys, then its revisions, in one view."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from wardround.memory.bank_file import BankFile
from wardround.memory.database import explained
from wardround.memory.rows import rows_since
from wardround.memory.state import BankState

_KEYS = "SELECT number, vector FROM key WHERE number > ? AND number <= ? ORDER BY number"
_KEY_COUNT = "SELECT count(*) FROM key WHERE number > ? AND number <= ?"
_KEYS_AT_ONCE = 4096
_LAST_KEY = """
SELECT coalesce(max(experience.key), 0) FROM revision JOIN experience ON experience.id = revision.experience
WHERE revision.number <= ?
"""


def follow(file: BankFile, state: BankState, *, upto: int | None = None) -> None:
    """Read the revisions a state does not have yet; None for all there are."""
    try:
        with file.view():
            last = file.last_number
            until = last if upto is None else min(last, upto)
            state.encoder = file.setting("encoder")
            _follow_keys(file, state, until, everything=until == last)
            with _collecting_later():
                for row in rows_since(file.connection, state.revision, until):
                    state.put_revision(row)
            state.revision = max(state.revision, until)
    except sqlite3.Error as error:
        raise explained(error, file.path) from error


def state_at(file: BankFile, revision: int, subject_key: bytes) -> BankState:
    """The state as of a revision, made from the beginning."""
    state = BankState(subject_key=subject_key)
    follow(file, state, upto=revision)
    return state


def _follow_keys(file: BankFile, state: BankState, until: int, *, everything: bool) -> None:
    """Read the keys a state does not have yet, many at once; for a past state, those that its experiences use."""
    newest = 2**62 if everything else int(file.rows(_LAST_KEY, (until,))[0][0])
    bounds = (state.last_key, newest)
    state.make_room(int(file.rows(_KEY_COUNT, bounds)[0][0]), int(file.setting("dimensions") or 0))
    cursor = file.connection.execute(_KEYS, bounds)
    while rows := cursor.fetchmany(_KEYS_AT_ONCE):
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), "<f4").reshape(len(rows), -1)
        state.put_keys([number for number, _ in rows], vectors)


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Hold Python's collector of cycles off while many objects are made that stay: it would look through all of them
    again and again (half of the time of opening a bank of 100,000)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
