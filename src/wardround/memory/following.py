"""Bringing a state in memory up to the file, as of a revision, in one view of it."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from wardround.memory.bank_file import BankFile
from wardround.memory.database import explained
from wardround.memory.rows import marks_since, natures
from wardround.memory.state import BankState


def follow(file: BankFile, state: BankState, *, upto: int | None = None) -> None:
    """Read the revisions a state does not have yet; None for all there are."""
    try:
        with file.view():
            last = file.last_number
            until = last if upto is None else min(last, upto)
            state.encoder = file.setting("encoder")
            with _collecting_later():
                nature_of = natures(file.connection, every=not state.size)
                for mark in marks_since(file.connection, state.revision, until):
                    state.put_revision(mark, nature_of)
            state.revision = max(state.revision, until)
    except sqlite3.Error as error:
        raise explained(error, file.path) from error


def state_at(file: BankFile, revision: int, subject_key: bytes) -> BankState:
    """The state as of a revision, made from the beginning."""
    state = BankState(file=file, subject_key=subject_key)
    follow(file, state, upto=revision)
    return state


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
