"""The bank: experiences in SQLite, the only source of truth. Several processes may read while one writes.

Writing is append-only: an experience is added once, then revised, retired or reverted by further revisions, each with
its reason, so that any past state can be rebuilt and a bad update undone. What is searched is a copy in memory that
follows the file.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from wardround.core import UserError
from wardround.memory.database import explained, open_for_reading, open_for_writing
from wardround.memory.experience import Experience, Kind, Provenance, Subject, plain_text, utc_now
from wardround.memory.key import Key
from wardround.memory.state import SERVABLE_SPLITS, BankState, Recall

_SINCE = """
SELECT revision.number, experience.id, experience.kind, experience.task, experience.tool, experience.key,
    experience.provenance, experience.facts, revision.live, revision.title, revision.description, revision.content,
    revision.score, revision.subject, revision.split
FROM revision JOIN experience ON experience.id = revision.experience
WHERE revision.number > ? AND revision.number <= ? ORDER BY revision.number
"""
_KEYS_SINCE = """
SELECT DISTINCT key.number, key.vector FROM revision JOIN experience ON experience.id = revision.experience
JOIN key ON key.number = experience.key
WHERE revision.number > ? AND revision.number <= ? ORDER BY key.number
"""
_INSERT_REVISION = """
INSERT INTO revision (experience, live, title, description, content, score, sample, subject, split, reason, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Something observed of an experience after it was served."""

    number: int
    experience: str
    kind: str
    value: float | None
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""


class Bank:
    """An open bank. ``Bank.open`` makes or opens one; safe for threads of one process."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.path = path
        self.writable = writable
        self._connection = connection
        self._lock = threading.RLock()
        self._subject_key = self._setting("subject_key")
        self._live_state = BankState(subject_key=self._subject_key)
        self._seen_version = -1
        self._wrote = True

    @classmethod
    def open(cls, path: Path, *, writable: bool = True) -> Bank:
        """Open a bank, made if it is not there. ``writable=False`` changes nothing, not even in its folder."""
        if not writable:
            return cls(path, open_for_reading(path), writable=False)
        connection = open_for_writing(path)
        connection.execute("INSERT OR IGNORE INTO setting VALUES ('subject_key', ?)", (secrets.token_bytes(32),))
        return cls(path, connection, writable=True)

    # What is in it

    @property
    def encoder(self) -> str | None:
        """The identity of the encoder of its keys; None while it has none."""
        with self._lock:
            return self._state().encoder

    @property
    def revision(self) -> int:
        """The number of the last revision: the bank's clock."""
        with self._lock:
            return self._state().revision

    def experiences(self) -> tuple[Experience, ...]:
        """Every live experience, oldest first. For people and checks: agents get theirs from ``search``."""
        with self._lock:
            return self._state().experiences

    def __len__(self) -> int:
        with self._lock:
            return len(self._state())

    def subject_hash(self, subject: Subject) -> str:
        """How this bank writes a subject down."""
        return subject.hashed(self._subject_key)

    # Adding and changing

    def add(self, experiences: Iterable[Experience], *, key: Key | None = None, reason: str = "added") -> int:
        """Add experiences that share one key, all or none; those that are there already stay as they are.

        Returns how many were new. Raises UserError when the key's encoder is not the bank's.
        """
        new = list(experiences)
        with self._lock, self._writing():
            numbers: dict[tuple[str, ...], int | None] = {}
            count = 0
            for experience in new:
                origin = experience.provenance
                group = (origin.sample, origin.subject, origin.run, origin.episode)
                if group not in numbers:
                    numbers[group] = None if key is None else self._add_key(key, group)
                count += self._add(experience, numbers[group], reason)
            return count

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Commit everything written inside at once, all or nothing; other threads of this process wait."""
        with self._lock, self._writing():
            yield

    def revise(
        self,
        experience: str,
        *,
        title: str | None = None,
        description: str | None = None,
        content: str | None = None,
        score: float | None = None,
        by: Provenance | None = None,
        reason: str,
    ) -> int:
        """Change what an experience says or scores; returns the revision's number.

        ``by`` is the episode that taught the change, where it was another one: the experience is withheld from that
        subject too from then on.
        """
        with self._lock, self._writing():
            last = self._last(experience)
            texts = (title or last.title, description or last.description, content or last.content)
            return self._revise(last, True, texts, last.score if score is None else score, by, reason)

    def retire(self, experience: str, *, reason: str) -> int:
        """Stop serving an experience; it stays in the file and can be reverted."""
        with self._lock, self._writing():
            last = self._last(experience)
            return self._revise(last, False, (last.title, last.description, last.content), last.score, None, reason)

    def revert(self, experience: str, *, to: int, reason: str) -> int:
        """Give an experience the text, score and state it had at an earlier revision of its own."""
        with self._lock, self._writing():
            steps = [step for step in self.history(experience) if step.number <= to]
            if not steps:
                raise UserError(f"experience {experience!r} was not there at revision {to}")
            step = steps[-1]
            texts = (step.title, step.description, step.content)
            return self._revise(step, step.live, texts, step.score, None, reason)

    def add_feedback(
        self, experience: str, kind: str, *, value: float | None = None, detail: Mapping[str, Any] | None = None
    ) -> None:
        """Record what came of serving an experience. It changes nothing by itself."""
        with self._lock, self._writing():
            self._last(experience)
            self._connection.execute(
                "INSERT INTO feedback (experience, kind, value, detail, at) VALUES (?, ?, ?, ?, ?)",
                (experience, kind, value, _json(dict(detail or {})), utc_now()),
            )

    # Searching

    def search(
        self,
        key: Key,
        *,
        kind: Kind,
        for_subject: Subject,
        k: int = 1,
        task: str | None = None,
        allowed_splits: Sequence[str] = SERVABLE_SPLITS,
        least_similarity: float | None = None,
    ) -> Recall:
        """See :meth:`BankState.search`."""
        with self._lock:
            return self._state().search(
                key,
                kind=kind,
                for_subject=for_subject,
                k=k,
                task=task,
                allowed_splits=allowed_splits,
                least_similarity=least_similarity,
            )

    def recall(
        self,
        *,
        kind: Kind,
        for_subject: Subject,
        limit: int,
        task: str | None = None,
        tool: str | None = None,
        allowed_splits: Sequence[str] = SERVABLE_SPLITS,
    ) -> Recall:
        """See :meth:`BankState.recall`."""
        with self._lock:
            return self._state().recall(
                kind=kind, for_subject=for_subject, limit=limit, task=task, tool=tool, allowed_splits=allowed_splits
            )

    # The past

    def at(self, *, revision: int | None = None, moment: str | None = None) -> BankState:
        """Rebuild the state as of a revision, or of a UTC moment in ISO 8601 (the last revision written by then)."""
        with self._lock:
            if (revision is None) == (moment is None):
                raise UserError("name either a revision or a moment")
            if moment is not None:
                query = "SELECT coalesce(max(number), 0) FROM revision WHERE at <= ?"
                revision = int(self._rows(query, (moment,))[0][0])
            assert revision is not None
            state = BankState(subject_key=self._subject_key)
            self._follow(state, revision)
            return state

    def history(self, experience: str) -> tuple[RevisionEntry, ...]:
        """Every revision of one experience, oldest first."""
        columns = "number, experience, live, title, description, content, score, sample, reason, at"
        query = f"SELECT {columns} FROM revision WHERE experience = ? ORDER BY number"
        with self._lock:
            rows = self._rows(query, (experience,))
        names = columns.split(", ")
        steps = tuple(RevisionEntry(**{**dict(zip(names, row, strict=True)), "live": bool(row[2])}) for row in rows)
        if not steps:
            raise UserError(f"no experience {experience!r} in {self.path}")
        return steps

    def feedback(self, experience: str) -> tuple[Feedback, ...]:
        """Every feedback event of one experience, oldest first."""
        query = "SELECT number, kind, value, detail, at FROM feedback WHERE experience = ? ORDER BY number"
        with self._lock:
            rows = self._rows(query, (experience,))
        return tuple(
            Feedback(number=number, experience=experience, kind=kind, value=value, detail=json.loads(detail), at=at)
            for number, kind, value, detail, at in rows
        )

    def origins(self) -> tuple[tuple[str, str, str, str], ...]:
        """Every hand in every experience, from the file itself: (experience, sample, subject, split)."""
        query = "SELECT DISTINCT experience, sample, subject, split FROM revision ORDER BY experience, number"
        with self._lock:
            return tuple(tuple(row) for row in self._rows(query))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Inside

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if not self.writable:
            raise UserError(f"{self.path} was opened for reading only")
        if self._connection.in_transaction:
            yield
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._undo()
                raise
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            raise explained(error, self.path) from error
        finally:
            self._wrote = True

    def _undo(self) -> None:
        """Roll back, and forget the copy in memory, which may have followed what is now undone."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
            self._live_state = BankState(subject_key=self._subject_key)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def _setting(self, name: str) -> Any:
        rows = self._rows("SELECT value FROM setting WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def _add_key(self, key: Key, group: tuple[str, ...]) -> int:
        known = self._setting("encoder")
        if known is None:
            self._connection.execute("INSERT INTO setting VALUES ('encoder', ?)", (key.encoder,))
            self._connection.execute("INSERT INTO setting VALUES ('dimensions', ?)", (len(key.vector),))
        elif known != key.encoder or self._setting("dimensions") != len(key.vector):
            raise UserError(
                f"this bank's keys were made by encoder {known!r}, this one of {len(key.vector)} numbers by "
                f"{key.encoder!r}; add with the bank's encoder, or to another bank"
            )
        blob = key.vector.astype("<f4").tobytes()
        digest = sha256(b"\x1f".join((key.encoder.encode(), *(part.encode() for part in group), blob))).digest()
        values = (digest, key.encoder, key.text_hash, blob)
        self._connection.execute(
            "INSERT OR IGNORE INTO key (hash, encoder, text_hash, vector) VALUES (?, ?, ?, ?)", values
        )
        return int(self._rows("SELECT number FROM key WHERE hash = ?", (digest,))[0][0])

    def _add(self, experience: Experience, key: int | None, reason: str) -> int:
        origin = experience.provenance
        cursor = self._connection.execute(
            "INSERT OR IGNORE INTO experience VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                experience.id,
                experience.kind,
                experience.task,
                experience.tool,
                key,
                origin.sample,
                origin.subject,
                origin.split,
                _json(asdict(origin)),
                _json(dict(experience.facts)),
            ),
        )
        if not cursor.rowcount:
            return 0
        texts = (experience.title, experience.description, experience.content)
        hand = (origin.sample, origin.subject, origin.split)
        self._connection.execute(
            _INSERT_REVISION, (experience.id, 1, *map(plain_text, texts), experience.score, *hand, reason, utc_now())
        )
        return 1

    def _last(self, experience: str) -> RevisionEntry:
        return self.history(experience)[-1]

    def _revise(
        self,
        last: RevisionEntry,
        live: bool,
        texts: tuple[str, str, str],
        score: float | None,
        by: Provenance | None,
        reason: str,
    ) -> int:
        query = "SELECT sample, subject, split FROM experience WHERE id = ?"
        hand = self._rows(query, (last.experience,))[0] if by is None else (by.sample, by.subject, by.split)
        values = (last.experience, int(live), *map(plain_text, texts), score, *hand, reason, utc_now())
        return int(self._connection.execute(_INSERT_REVISION, values).lastrowid or 0)

    def _state(self) -> BankState:
        """The copy in memory, brought up to the file if anything was written since."""
        version = self._rows("PRAGMA data_version")[0][0]
        if self._wrote or version != self._seen_version:
            self._follow(self._live_state, None)
            self._seen_version, self._wrote = version, False
        return self._live_state

    def _follow(self, state: BankState, upto: int | None) -> None:
        """Read the revisions a state does not have yet, in one view of the file."""
        own = not self._connection.in_transaction
        if own:
            self._connection.execute("BEGIN")
        try:
            bounds = (state.revision, 2**62 if upto is None else upto)
            state.encoder = self._setting("encoder")
            for number, blob in self._connection.execute(_KEYS_SINCE, bounds):
                state.put_key(number, np.frombuffer(blob, "<f4"))
            for row in self._connection.execute(_SINCE, bounds):
                _put(state, row)
        except sqlite3.Error as error:
            raise explained(error, self.path) from error
        finally:
            if own:
                self._connection.execute("ROLLBACK")


def _put(state: BankState, row: Sequence[Any]) -> None:
    number, name, kind, task, tool, key, origin, facts, live, title, description, content, score, subject, split = row
    experience = Experience(
        id=name,
        kind=kind,
        title=title,
        description=description,
        content=content,
        task=task,
        provenance=Provenance(**json.loads(origin)),
        score=score,
        tool=tool,
        facts=json.loads(facts),
    )
    state.put_revision(number, experience, key=key, live=bool(live), subject=subject, split=split)


def _json(value: Any) -> str:
    return plain_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True))
