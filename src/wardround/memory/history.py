"""Read the history of a bank's file: revisions and feedback of experiences, and their contributors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardround.core import UserError
from wardround.memory.bank_file import BankFile
from wardround.memory.experience import Provenance

_REVISION_COLUMNS = (
    *("number", "experience", "live", "title", "description", "content", "score", "sample", "reason", "at"),
    *("condition", "exclusions"),
)
_HISTORY = f"SELECT {', '.join(_REVISION_COLUMNS)} FROM revision WHERE experience = ? ORDER BY number"
_FEEDBACK = "SELECT number, kind, value, detail, at, episode FROM feedback WHERE experience = ? ORDER BY number"
_ORIGINS = "SELECT DISTINCT experience, sample, subject, split FROM revision ORDER BY experience, number"
_HANDS = """
SELECT sample, subject, split FROM revision WHERE experience = ? GROUP BY sample, subject, split ORDER BY min(number)
"""
_TURNING = """
SELECT number FROM quality WHERE experience = ?1 AND number <= ?2 UNION
SELECT number FROM met WHERE experience = ?1 AND number <= ?2 UNION
SELECT number FROM withdrawal WHERE number <= ?2 UNION SELECT number FROM undone WHERE number <= ?2 ORDER BY 1
"""
_BY_MOMENT = """
SELECT max(
    (SELECT coalesce(max(number), 0) FROM revision WHERE at <= ?1),
    (SELECT coalesce(max(number), 0) FROM step WHERE at <= ?1)
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionEntry:
    """One step of an experience's history. ``at`` is UTC, ISO 8601."""

    number: int
    experience: str
    live: bool
    title: str
    description: str
    content: str
    score: float | None
    sample: str
    reason: str
    at: str
    condition: str = ""
    exclusions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Something observed of an experience after it was served; ``episode`` says in which, where that is known."""

    number: int
    experience: str
    kind: str
    value: float | None
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""
    episode: str = ""


def history_of(file: BankFile, experience: str) -> tuple[RevisionEntry, ...]:
    """Return every revision of one experience, oldest first. Raises UserError if the experience does not exist."""
    rows = file.rows(_HISTORY, (experience,))
    if not rows:
        raise UserError(f"no experience {experience!r} in {file.path}")
    revisions = [dict(zip(_REVISION_COLUMNS, row, strict=True)) for row in rows]
    return tuple(
        RevisionEntry(
            **{**revision, "live": bool(revision["live"]), "exclusions": tuple(json.loads(revision["exclusions"]))}
        )
        for revision in revisions
    )


def feedback_of(file: BankFile, experience: str) -> tuple[Feedback, ...]:
    """Return every feedback event of one experience, oldest first."""
    return tuple(
        Feedback(
            number=number,
            experience=experience,
            kind=kind,
            value=value,
            detail=json.loads(detail),
            at=at,
            episode=episode,
        )
        for number, kind, value, detail, at, episode in file.rows(_FEEDBACK, (experience,))
    )


def origins_of(file: BankFile) -> tuple[tuple[str, str, str, str], ...]:
    """Return every contributor to every experience: (experience, sample, subject, split)."""
    return tuple(tuple(row) for row in file.rows(_ORIGINS))


def hands_in(file: BankFile, experience: str) -> tuple[Provenance, ...]:
    """Return every contributor to one experience, the first one first."""
    rows = file.rows(_HANDS, (experience,))
    return tuple(Provenance(sample=sample, subject=subject, split=split) for sample, subject, split in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStep:
    """One update by an episode: its revision, the episode's name, its sample."""

    number: int
    episode: str
    sample: str


def learning_steps(file: BankFile, beginning: str) -> tuple[LearningStep, ...]:
    """Return the updates by episodes whose names begin with a text, oldest first."""
    query = "SELECT number, episode, sample FROM step WHERE substr(episode, 1, ?) = ? ORDER BY number"
    rows = file.rows(query, (len(beginning), beginning)) if beginning else ()
    return tuple(LearningStep(number=number, episode=episode, sample=sample) for number, episode, sample in rows)


def step_of(file: BankFile, episode: str) -> int | None:
    """Return the revision at which an episode was learnt from; None if it was not."""
    rows = file.rows("SELECT number FROM step WHERE episode = ?", (episode,)) if episode else ()
    return int(rows[0][0]) if rows else None


def snapshots_of(file: BankFile) -> dict[str, int]:
    """Return the revisions that have a name, oldest first."""
    return dict(file.rows("SELECT name, number FROM snapshot ORDER BY number, name"))


def texts_since(file: BankFile, revision: int) -> tuple[str, ...]:
    """Return the experiences whose text or state was written after a revision."""
    rows = file.rows("SELECT DISTINCT experience FROM revision WHERE number > ? ORDER BY 1", (revision,))
    return tuple(name for (name,) in rows)


def turning_points(file: BankFile, experience: str, upto: int) -> tuple[int, ...]:
    """Return the revisions at which the quality of an experience may have changed."""
    rows = file.rows(_TURNING, (experience, upto))
    return tuple(number for (number,) in rows)


def revision_at(file: BankFile, moment: str) -> int:
    """Return the last revision written by a UTC moment in ISO 8601."""
    return int(file.rows(_BY_MOMENT, (moment,))[0][0])


def names_beginning(file: BankFile, beginning: str) -> tuple[str, ...]:
    """Return the ids of all experiences, live or retired, that begin with a text."""
    query = "SELECT id FROM experience WHERE substr(id, 1, ?) = ? ORDER BY id"
    return tuple(name for (name,) in file.rows(query, (len(beginning), beginning)))


def was_added(file: BankFile, experience: str) -> bool:
    """Return whether an experience was ever added, live or not."""
    return bool(file.rows("SELECT 1 FROM experience WHERE id = ?", (experience,)))
