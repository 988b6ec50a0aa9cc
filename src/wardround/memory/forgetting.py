"""Forgetting a source for good: the one operation that cannot be undone.

What came of it is withdrawn first; then its rows, texts, names, vectors and outcomes are deleted, the word index is
made anew, the file is rebuilt and the log beside it emptied. Everything else is computed from what is left. What stays
is a tombstone: a keyed hash by which it is known again and not taken in again, and which tells nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wardround.core import UserError
from wardround.memory.bank import Bank
from wardround.memory.cascade import came_of, is_known, withdraw
from wardround.memory.experience import utc_now
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
    "DELETE FROM met WHERE experience = ?1",
    "DELETE FROM mention WHERE experience = ?1",
    "DELETE FROM experience WHERE id = ?1",
)
_CAUSED = (
    "DELETE FROM quality WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM edge WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM met WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM outcome WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM withdrawal WHERE source = ?1 OR experience = ?1",
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
    guards = connection.execute(_GUARDS).fetchall()
    for name, _ in guards:
        connection.execute(f'DROP TRIGGER "{name}"')
    _each(connection, _CAUSED, (source, *sorted(gone)))
    _each(connection, _OF_AN_EXPERIENCE, sorted(gone))
    _each(connection, _MENTIONING, (source, *sorted(gone)))
    for statement in _LEFT_OVER:
        connection.execute(statement)
    index_all(connection)
    for _, text in guards:
        connection.execute(text)
    connection.execute(_BEGUN)


def _each(connection: sqlite3.Connection, statements: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        for statement in statements:
            connection.execute(statement, (name,))


def _bury(bank: Bank, names: Sequence[str], reason: str) -> None:
    rows = [(mark_of(bank.file, name), reason, utc_now()) for name in names]
    bank.file.connection.executemany("INSERT OR IGNORE INTO tombstone VALUES (?, ?, ?)", rows)
