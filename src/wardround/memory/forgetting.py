"""Forgetting a source for good: the one operation that cannot be undone.

What came of it is withdrawn first, so that everything else is computed again without it; then its rows, texts, names,
vectors and numbers are deleted, the word index is made anew, the file is rebuilt and the log beside it emptied. What
stays is a tombstone: a keyed hash by which it is known again and not taken in again, and which tells nothing.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wardround.core import UserError
from wardround.memory.bank import Bank
from wardround.memory.cascade import (
    came_of,
    is_known,
    phi_steps,
    quality_steps,
    trial_steps,
    weight_steps,
    withdraw,
    without,
)
from wardround.memory.experience import utc_now
from wardround.memory.sums import sums_without
from wardround.memory.words import index_all
from wardround.memory.writing import mark_of

REBUILD = "rebuild"
"""The setting that is there from the deletion on until the file was rebuilt."""
_GUARDS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
_BEGUN = f"INSERT OR REPLACE INTO setting VALUES ('{REBUILD}', 1)"
_OF_AN_EXPERIENCE = (
    "DELETE FROM revision WHERE experience = ?1",
    "DELETE FROM feedback WHERE experience = ?1",
    "DELETE FROM quality WHERE experience = ?1",
    "DELETE FROM edge WHERE source = ?1 OR target = ?1",
    "DELETE FROM trial WHERE experience = ?1",
    "DELETE FROM mention WHERE experience = ?1",
    "DELETE FROM experience WHERE id = ?1",
)
_MOVED = "SELECT DISTINCT experience FROM quality JOIN step USING (number) WHERE step.sample = ?"
_PULLED = "SELECT DISTINCT source, target FROM edge JOIN step USING (number) WHERE step.sample = ?"
_RATED = "UPDATE quality SET value = ? WHERE experience = ? AND number = ?"
_TRIED = "SELECT DISTINCT experience, task FROM trial JOIN step USING (number) WHERE step.sample = ?"
_COUNTED = """
UPDATE trial SET shown = ?, shown_total = ?, shown_squares = ?, masked = ?, masked_total = ?, masked_squares = ?
WHERE experience = ? AND task = ? AND number = ?
"""
_ADDED_UP = "UPDATE edge SET phi = ? WHERE source = ? AND target = ? AND number = ?"
_WEIGHED = "UPDATE edge SET weight = ? WHERE source = ? AND target = ? AND number = ?"
_MOVES = (
    "DELETE FROM quality WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM edge WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM trial WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
)
_MENTIONING = (
    "UPDATE step SET reason = 'forgotten', sample = '', episode = '' WHERE sample = ?1 OR names(reason, ?1)",
    "UPDATE step SET episode = '' WHERE names(episode, ?1)",
    "DELETE FROM snapshot WHERE names(name, ?1)",
    "UPDATE revision SET reason = 'forgotten' WHERE names(reason, ?1)",
    "DELETE FROM feedback WHERE names(episode, ?1) OR names(detail, ?1)",
)
_LEFT_OVER = (
    "DELETE FROM key WHERE number NOT IN (SELECT key FROM experience WHERE key IS NOT NULL)",
    "DELETE FROM alias WHERE name NOT IN (SELECT name FROM mention) OR entity NOT IN (SELECT name FROM mention)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was forgotten: how many experiences, and the ids and vectors' texts (hashes) to look for elsewhere."""

    experiences: tuple[str, ...]
    text_hashes: tuple[str, ...]


def forget(bank: Bank, source: str, *, reason: str) -> Forgotten:
    """Forget an experience, a sample or a row, and everything that came of it. ``reason`` stays in the file.

    Cut short by a kill, it is finished by asking again. Raises UserError where the bank knows nothing of the source,
    and where another process still reads an earlier state of the file.
    """
    if source in reason:
        raise UserError("the reason stays in the file: do not name in it what is to be forgotten")
    gone = _all_of(bank, source)
    known = bool(gone) or is_known(bank, source)
    if not known and bank.file.setting(REBUILD) is None:
        raise UserError(f"nothing in {bank.path} came of {source!r}: name an experience, a sample or a row")
    hashes = _text_hashes(bank, gone)
    if known:
        with bank.batch():
            for name in (source, *sorted(gone)):
                if is_known(bank, name) or name == source:
                    withdraw(bank, name, reason="forgotten")
            _erase(bank, source, gone)
            _bury(bank, (source, *sorted(gone)), reason)
    bank.rebuild()
    return Forgotten(experiences=tuple(sorted(gone)), text_hashes=hashes)


def _all_of(bank: Bank, source: str) -> set[str]:
    """Every experience a source had a hand in, retired ones too."""
    return {one.id for one in came_of(bank, source, bank.at(revision=bank.revision).every_experience)}


def _text_hashes(bank: Bank, gone: Collection[str]) -> tuple[str, ...]:
    query = "SELECT key.text_hash FROM experience JOIN key ON key.number = experience.key WHERE id = ?"
    return tuple(sorted({text for name in gone for (text,) in bank.file.rows(query, (name,)) if text}))


def _erase(bank: Bank, source: str, gone: Collection[str]) -> None:
    """Delete all rows of what is forgotten, with the guards of append-only tables lifted meanwhile."""
    connection = bank.file.connection
    connection.create_function("names", 2, _names, deterministic=True)
    guards = connection.execute(_GUARDS).fetchall()
    for name, _ in guards:
        connection.execute(f'DROP TRIGGER "{name}"')
    _replay(bank, source)
    _each(connection, _MOVES, (source, *sorted(gone)))
    _each(connection, _OF_AN_EXPERIENCE, sorted(gone))
    _each(connection, _MENTIONING, (source, *sorted(gone)))
    for statement in _LEFT_OVER:
        connection.execute(statement)
    index_all(connection)
    for _, text in guards:
        connection.execute(text)
    connection.execute(_BEGUN)


def _names(text: str, name: str) -> bool:
    """Whether a text names something, and not only something longer: ``stream-2`` is not in ``stream-20``."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _replay(bank: Bank, sample: str) -> None:
    """Write every quality and weight that a sample moved, at every later number, as it would have been without."""
    connection = bank.file.connection
    for (name,) in bank.file.rows(_MOVED, (sample,)):
        steps = without(quality_steps(bank, name), sample)
        connection.executemany(_RATED, [(step.value, name, step.number) for step in steps])
    for ends in bank.file.rows(_PULLED, (sample,)):
        steps = without(weight_steps(bank, *ends), sample)
        connection.executemany(_WEIGHED, [(step.value, *ends, step.number) for step in steps])
        added = sums_without(phi_steps(bank, *ends), sample)
        connection.executemany(_ADDED_UP, [(*step.sums, *ends, step.number) for step in added])
    for name in bank.file.rows(_TRIED, (sample,)):
        counted = sums_without(trial_steps(bank, *name), sample)
        connection.executemany(_COUNTED, [(*step.sums, *name, step.number) for step in counted])


def _each(connection: sqlite3.Connection, statements: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        for statement in statements:
            connection.execute(statement, (name,))


def _bury(bank: Bank, names: Sequence[str], reason: str) -> None:
    rows = [(mark_of(bank.file, name), reason, utc_now()) for name in names]
    bank.file.connection.executemany("INSERT OR IGNORE INTO tombstone VALUES (?, ?, ?)", rows)
