"""Experiences, revisions, feedback, edges and verdicts as rows of a bank's file."""

from __future__ import annotations

import hmac
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Literal, get_args

from wardround.core import UserError
from wardround.memory.bank_file import BankFile
from wardround.memory.entries import write_entry
from wardround.memory.experience import Experience, Provenance, normal_name, plain_text, utc_now
from wardround.memory.keys import Key, note_length
from wardround.memory.words import index_text, unindex_text

# Experiences as rows of the file.


def structure_text(experience: Experience) -> str:
    """Return entities, their edges and the evidence in the form of the file; empty without any."""
    parts = {
        "entities": [[one.name, one.role] for one in experience.entities],
        "role_edges": [[role_edge.source, role_edge.target] for role_edge in experience.role_edges],
        "evidence": [[one.step, list(one.rows)] for one in experience.evidence],
    }
    return json_text(parts) if any(parts.values()) else ""


def json_text(value: Any) -> str:
    """Write a value as the file holds it."""
    return plain_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True))


# What was written of an experience, oldest first.


_REVISION_COLUMNS = (
    *("number", "experience", "live", "title", "description", "content", "score", "sample", "reason", "at"),
    *("condition", "exclusions"),
)
_HISTORY = f"SELECT {', '.join(_REVISION_COLUMNS)} FROM revision WHERE experience = ? ORDER BY number"


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


# How facts get into a bank's file: keys, experiences, revisions, feedback, ticks of its clock. Nothing is overwritten.
#
# Every function here is called inside one transaction of ``BankFile.writing``.


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
    note_length(file, key, is_first=_is_first(file, key))
    blob = key.vector.astype("<f4").tobytes()
    digest = sha256(b"\x1f".join((key.encoder.encode(), *(part.encode() for part in group), blob))).digest()
    file.connection.execute(_INSERT_KEY, (digest, key.encoder, key.text_hash, blob))
    return int(file.rows("SELECT number FROM key WHERE hash = ?", (digest,))[0][0])


def write_experience(file: BankFile, experience: Experience, key: int | None, reason: str) -> bool:
    """Write an experience and its first revision; return False if it exists already."""
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
    first = RevisionEntry(
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
    write_revision(file, first, by=origin, reason=reason)
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
    write_entry(file.connection, number, step.experience, live=step.live, score=step.score, hand=hand[1:])
    if step.live:
        index_text(file.connection, number, _indexed(step))
    return number


def _unindex_last(file: BankFile, experience: str) -> None:
    """Remove the previous text of an experience from the index."""
    if not file.rows("SELECT 1 FROM revision WHERE experience = ? LIMIT 1", (experience,)):
        return
    last = history_of(file, experience)[-1]
    if last.live:
        unindex_text(file.connection, last.number, _indexed(last))


def _indexed(step: RevisionEntry) -> list[str]:
    """Return the texts of a revision that are searched, exclusions last."""
    texts = (step.title, step.description, step.content, step.condition, *step.exclusions)
    return [plain_text(text) for text in texts]


def mark_of(file: BankFile, name: str) -> bytes:
    """Return what a tombstone keeps of an id or a sample: a keyed hash. It recognises the id and reveals nothing."""
    return hmac.new(file.setting("subject_key"), f"forgotten {name}".encode(), sha256).digest()


def is_forgotten(file: BankFile, name: str) -> bool:
    """Return whether an experience, a sample or a row was forgotten for good."""
    return bool(file.rows("SELECT 1 FROM tombstone WHERE mark = ?", (mark_of(file, name),)))


def write_feedback(
    file: BankFile, experience: str, kind: str, value: float | None, detail: Mapping[str, Any], episode: str
) -> bool:
    """Write one feedback event; return False if the episode has this feedback already."""
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


def _is_first(file: BankFile, key: Key) -> bool:
    """Return whether a bank has no key yet, and let it take those of this encoder. Raises UserError for another one."""
    known = file.setting("encoder")
    if known is None:
        file.connection.execute("INSERT INTO setting VALUES ('encoder', ?)", (key.encoder,))
        file.connection.execute("INSERT INTO setting VALUES ('dimensions', ?)", (len(key.vector),))
        return True
    if known != key.encoder or file.setting("dimensions") != len(key.vector):
        raise UserError(
            f"this bank's keys were made by encoder {known!r}, this one of {len(key.vector)} numbers by "
            f"{key.encoder!r}; add with the bank's encoder, or to another bank"
        )
    return False


# Edges between experiences, and how one is read from a row of the file.


Relation = Literal["related", "boundary", "conflict"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)

_FACT = "number, source, target, live, relation, weight, entity, structure, synergy, task"
_FROM = f"SELECT {_FACT} FROM edge WHERE source = ? AND number <= ? ORDER BY number"
_EVERY = f"SELECT {_FACT} FROM edge WHERE number <= ? ORDER BY source, target, number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A directed edge between two experiences, with what its weight was made of.

    ``boundary``: similar, but their conditions differ. ``conflict``: same condition, opposite polarity. A component
    that was not judged is None, never 0. ``live`` is False from the revision that removed the edge. ``phi`` is its
    update by outcomes (equation 10).
    """

    source: str
    target: str
    weight: float
    relation: Relation = "related"
    live: bool = True
    entity: float | None = None
    structure: float | None = None
    synergy: float | None = None
    task: float | None = None
    phi: float = 0.0

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"an edge is one of {', '.join(RELATIONS)}, not {self.relation!r}")
        if self.source == self.target:
            raise ValueError(f"an edge leads from {self.source!r} to itself")
        parts = (self.weight, self.entity, self.structure, self.synergy, self.task)
        if not all(part is None or 0.0 <= part <= 1.0 for part in parts):
            raise ValueError("an edge's weight and components lie between 0 and 1")


EdgeFact = tuple[int, Edge]
"""An edge as it was set, and the number it was set at."""


def facts_from(connection: sqlite3.Connection, experience: str, revision: int) -> list[EdgeFact]:
    """Return every setting of the edges from an experience as of a revision, oldest first."""
    return [_fact(row) for row in connection.execute(_FROM, (experience, revision)).fetchall()]


def every_edge_fact(connection: sqlite3.Connection, revision: int) -> Iterator[EdgeFact]:
    """Return every setting of every edge as of a revision, by ends, oldest first."""
    return map(_fact, connection.execute(_EVERY, (revision,)))


def _fact(row: Sequence[Any]) -> EdgeFact:
    number, source, target, live, relation, weight, entity, structure, synergy, task = row
    return number, Edge(
        source=source,
        target=target,
        live=bool(live),
        relation=relation,
        weight=weight,
        entity=entity,
        structure=structure,
        synergy=synergy,
        task=task,
    )


# The verdicts of held-out evidence on a bank, by task.


GateUse = Literal["heed", "require", "ignore"]
"""``heed``: a task whose gate is not open is served nothing. ``require``: nor is one that was never judged."""
UNJUDGED, CHANGED = "never judged", "the bank changed since it was judged"
_LAST = "SELECT look, number, content FROM gate WHERE number <= ? ORDER BY look DESC LIMIT 1"
_OF = "SELECT task, verdict FROM gate WHERE look = ? ORDER BY task"
_LOOKS = "SELECT look, verdict FROM gate ORDER BY look"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord:
    """The verdicts of one look at a bank. ``revision`` and ``content`` (the hash of what it serves) say what was
    judged; None and empty where nothing was."""

    revision: int | None = None
    content: str = ""
    look: int = 0
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def state(self, task: str, content: str) -> str:
        """Return what is known about a bank with this content for a task: ``open``, or why it is not."""
        verdict = self.verdicts.get(task)
        if verdict is None:
            return UNJUDGED
        return str(verdict["state"]) if content == self.content else CHANGED

    def allows(self, task: str, use: GateUse, content: str) -> bool:
        """Return whether a task is served out of a bank that serves a content."""
        state = self.state(task, content)
        return use == "ignore" or state == "open" or (state == UNJUDGED and use == "heed")


def read_gate(file: BankFile, revision: int) -> GateRecord:
    """Return the verdicts of the last look at or before a revision."""
    rows = file.rows(_LAST, (revision,))
    if not rows:
        return GateRecord()
    look, judged, content = rows[0]
    verdicts = {task: json.loads(text) for task, text in file.rows(_OF, (look,))}
    return GateRecord(revision=judged, content=content, look=look, verdicts=verdicts)


def look_of(file: BankFile, without: str, with_it: str) -> int:
    """Return the number of the look that judges by two runs: the number it had before, or the next one."""
    looks = [(look, json.loads(text)) for look, text in file.rows(_LOOKS)]
    same = [look for look, verdicts in looks if (verdicts.get("without"), verdicts.get("with")) == (without, with_it)]
    return same[0] if same else max((look for look, _ in looks), default=0) + 1


def write_gate(file: BankFile, record: GateRecord) -> None:
    """Write the verdicts of a look; earlier verdicts of the same look are replaced."""
    rows = [
        (record.look, record.revision, record.content, task, json_text(dict(verdict)), utc_now())
        for task, verdict in record.verdicts.items()
    ]
    file.connection.executemany("INSERT OR REPLACE INTO gate VALUES (?, ?, ?, ?, ?, ?)", rows)
