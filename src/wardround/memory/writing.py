"""How facts get into a bank's file: keys, experiences, revisions, feedback, ticks of its clock. Nothing is overwritten.

Every function here is called inside one transaction of ``BankFile.writing``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from wardround.core import UserError
from wardround.memory.bank_file import BankFile
from wardround.memory.entities import normal_name
from wardround.memory.experience import Experience, Provenance, plain_text, utc_now
from wardround.memory.key import Key
from wardround.memory.past import RevisionEntry, history_of
from wardround.memory.rows import json_text, structure_text
from wardround.memory.words import index_text, unindex_text

_INSERT_EXPERIENCE = "INSERT OR IGNORE INTO experience VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_REVISION = """
INSERT INTO revision (
    experience, live, title, description, content, score, condition, exclusions, sample, subject, split, reason, at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_FEEDBACK = (
    "INSERT OR IGNORE INTO feedback (experience, kind, value, detail, at, episode) VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_KEY = "INSERT OR IGNORE INTO key (hash, encoder, text_hash, vector) VALUES (?, ?, ?, ?)"


def write_key(file: BankFile, key: Key, group: tuple[str, ...]) -> int:
    """Write the key of one episode's experiences and return its number. Raises UserError for another encoder."""
    _check_encoder(file, key)
    blob = key.vector.astype("<f4").tobytes()
    digest = sha256(b"\x1f".join((key.encoder.encode(), *(part.encode() for part in group), blob))).digest()
    file.connection.execute(_INSERT_KEY, (digest, key.encoder, key.text_hash, blob))
    return int(file.rows("SELECT number FROM key WHERE hash = ?", (digest,))[0][0])


def write_experience(file: BankFile, experience: Experience, key: int | None, reason: str) -> bool:
    """Write an experience and its first revision; False where it is there already."""
    origin = experience.provenance
    values = (
        *(experience.id, experience.kind, experience.task, experience.tool, key),
        *(origin.sample, origin.subject, origin.split, json_text(asdict(origin))),
        *(json_text(dict(experience.facts)), experience.task_type, structure_text(experience)),
    )
    if not file.connection.execute(_INSERT_EXPERIENCE, values).rowcount:
        return False
    names = [(normal_name(plain_text(entity.name)), experience.id) for entity in experience.entities]
    file.connection.executemany("INSERT INTO mention VALUES (?, ?)", names)
    write_revision(file, _first(experience, reason), by=origin, reason=reason)
    return True


def write_revision(file: BankFile, step: RevisionEntry, *, by: Provenance | None, reason: str) -> int:
    """Write an experience down as a step says; returns the revision's number. ``by``: who taught it, if another."""
    query = "SELECT sample, subject, split FROM experience WHERE id = ?"
    hand = file.rows(query, (step.experience,))[0] if by is None else (by.sample, by.subject, by.split)
    _unindex_last(file, step.experience)
    title, description, content, condition, *exclusions = _indexed(step)
    values = (step.experience, int(step.live), title, description, content, step.score, condition)
    cursor = file.connection.execute(_INSERT_REVISION, (*values, json_text(exclusions), *hand, reason, utc_now()))
    number = int(cursor.lastrowid or 0)
    if step.live:
        index_text(file.connection, number, _indexed(step))
    return number


def _unindex_last(file: BankFile, experience: str) -> None:
    """Take out of the index what an experience said until now."""
    if not file.rows("SELECT 1 FROM revision WHERE experience = ? LIMIT 1", (experience,)):
        return
    last = history_of(file, experience)[-1]
    if last.live:
        unindex_text(file.connection, last.number, _indexed(last))


def _indexed(step: RevisionEntry) -> list[str]:
    """The texts of a revision that are searched, exclusions last."""
    texts = (step.title, step.description, step.content, step.condition, *step.exclusions)
    return [plain_text(text) for text in texts]


def mark_of(file: BankFile, name: str) -> bytes:
    """What a tombstone holds of an id or a sample: a keyed hash, by which it is known again and nothing is told."""
    return hmac.new(file.setting("subject_key"), f"forgotten {name}".encode(), sha256).digest()


def is_forgotten(file: BankFile, name: str) -> bool:
    """Whether an experience, a sample or a row was forgotten for good."""
    return bool(file.rows("SELECT 1 FROM tombstone WHERE mark = ?", (mark_of(file, name),)))


def write_feedback(
    file: BankFile, experience: str, kind: str, value: float | None, detail: Mapping[str, Any], episode: str
) -> bool:
    """Write one feedback event; False where this was said of the episode before."""
    values = (experience, kind, value, json_text(dict(detail)), utc_now(), episode)
    return bool(file.connection.execute(_INSERT_FEEDBACK, values).rowcount)


def write_snapshot(file: BankFile, name: str, revision: int) -> int:
    """Name a revision; where the name is given already, return the one it stays with."""
    values = (name, revision, utc_now())
    file.connection.execute("INSERT OR IGNORE INTO snapshot VALUES (?, ?, ?)", values)
    return int(file.rows("SELECT number FROM snapshot WHERE name = ?", (name,))[0][0])


def write_tick(file: BankFile, reason: str, *, sample: str = "", episode: str = "") -> int:
    """Take the next number of the bank's clock for a change that is not one of texts; ``sample`` is what caused it."""
    number = file.last_number + 1
    columns = "(number, reason, at, sample, episode)"
    file.connection.execute(
        f"INSERT INTO step {columns} VALUES (?, ?, ?, ?, ?)", (number, reason, utc_now(), sample, episode)
    )
    file.connection.execute("DELETE FROM sqlite_sequence WHERE name = 'revision'")
    file.connection.execute("INSERT INTO sqlite_sequence VALUES ('revision', ?)", (number,))
    return number


def _check_encoder(file: BankFile, key: Key) -> None:
    known = file.setting("encoder")
    if known is None:
        file.connection.execute("INSERT INTO setting VALUES ('encoder', ?)", (key.encoder,))
        file.connection.execute("INSERT INTO setting VALUES ('dimensions', ?)", (len(key.vector),))
    elif known != key.encoder or file.setting("dimensions") != len(key.vector):
        raise UserError(
            f"this bank's keys were made by encoder {known!r}, this one of {len(key.vector)} numbers by "
            f"{key.encoder!r}; add with the bank's encoder, or to another bank"
        )


def _first(experience: Experience, reason: str) -> RevisionEntry:
    return RevisionEntry(
        number=0,
        experience=experience.id,
        live=True,
        title=experience.title,
        description=experience.description,
        content=experience.content,
        score=experience.score,
        sample=experience.provenance.sample,
        reason=reason,
        at="",
        condition=experience.condition,
        exclusions=experience.exclusions,
    )
