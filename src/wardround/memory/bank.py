"""The bank: experiences in SQLite, the only source of truth. Several processes may read while one writes.

Writing is append-only: an experience is added once, then revised, retired or reverted by further revisions, each with
its reason, so that any past state can be rebuilt and a bad update undone. What is searched is a copy in memory that
follows the file.
"""

from __future__ import annotations

import gc
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from wardround.core import UserError
from wardround.memory.database import damage, explained, open_for_reading, open_for_writing
from wardround.memory.entities import normal_name
from wardround.memory.experience import POLARITIES, Experience, Kind, Provenance, Subject, plain_text, utc_now
from wardround.memory.graph import Edge, GraphReader, quality_history, write_alias, write_edges
from wardround.memory.key import Key
from wardround.memory.recall import Question, SeedRecall, SeedSettings, recall_seeds
from wardround.memory.rows import json_text, rows_since, structure_text
from wardround.memory.state import SERVABLE_SPLITS, BankState, Recall
from wardround.memory.words import index_text

_INSERT_REVISION = """
INSERT INTO revision (
    experience, live, title, description, content, score, condition, exclusions, sample, subject, split, reason, at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_FEEDBACK = (
    "INSERT OR IGNORE INTO feedback (experience, kind, value, detail, at, episode) VALUES (?, ?, ?, ?, ?, ?)"
)
_KEYS = "SELECT number, vector FROM key WHERE number > ? AND number <= ? ORDER BY number"
_KEYS_AT_ONCE = 4096
_LAST_KEY = """
SELECT coalesce(max(experience.key), 0) FROM revision JOIN experience ON experience.id = revision.experience
WHERE revision.number <= ?
"""
_LAST_TICK = "SELECT max((SELECT coalesce(max(number), 0) FROM revision), (SELECT coalesce(max(number), 0) FROM step))"
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
        condition: str | None = None,
        exclusions: Sequence[str] | None = None,
        by: Provenance | None = None,
        reason: str,
    ) -> int:
        """Change what an experience says or scores; returns the revision's number.

        ``by`` is the episode that taught the change, where it was another one: the experience is withheld from that
        subject too from then on.
        """
        with self._lock, self._writing():
            last = self._last(experience)
            step = replace(
                last,
                live=True,
                title=title or last.title,
                description=description or last.description,
                content=content or last.content,
                score=last.score if score is None else score,
                condition=condition or last.condition,
                exclusions=last.exclusions if exclusions is None else tuple(exclusions),
            )
            return self._revise(step, by, reason)

    def retire(self, experience: str, *, reason: str) -> int:
        """Stop serving an experience; it stays in the file and can be reverted."""
        with self._lock, self._writing():
            last = self._last(experience)
            return self._revise(replace(last, live=False), None, reason)

    def revert(self, experience: str, *, to: int, reason: str) -> int:
        """Give an experience the text, score and state it had at an earlier revision of its own."""
        with self._lock, self._writing():
            steps = [step for step in self.history(experience) if step.number <= to]
            if not steps:
                raise UserError(f"experience {experience!r} was not there at revision {to}")
            return self._revise(steps[-1], None, reason)

    def add_feedback(
        self,
        experience: str,
        kind: str,
        *,
        value: float | None = None,
        detail: Mapping[str, Any] | None = None,
        episode: str = "",
    ) -> bool:
        """Record what came of serving an experience; it changes nothing by itself. Returns whether it was new.

        What is said of one episode counts once, however often it is said: the first word stays.
        """
        with self._lock, self._writing():
            self._last(experience)
            cursor = self._connection.execute(
                _INSERT_FEEDBACK,
                (experience, kind, value, json_text(dict(detail or {})), utc_now(), episode),
            )
            return bool(cursor.rowcount)

    def set_graph(
        self, *, qualities: Mapping[str, float] | None = None, edges: Iterable[Edge] = (), reason: str
    ) -> int:
        """Write qualities and edges as one revision, returned; those not named stay as they are."""
        written, changed = dict(qualities or {}), list(edges)
        if not all(0.0 <= value <= 1.0 for value in written.values()):
            raise ValueError("a quality lies between 0 and 1")
        with self._lock, self._writing():
            for name in {*written, *(end for edge in changed for end in (edge.source, edge.target))}:
                if not self.holds(name):
                    raise UserError(f"no experience {name!r} in {self.path}")
            number = self._tick(reason)
            rows = [(name, number, value) for name, value in written.items()]
            self._connection.executemany("INSERT INTO quality VALUES (?, ?, ?)", rows)
            write_edges(self._connection, number, changed)
            return number

    def add_alias(self, name: str, *, of: str, reason: str) -> int:
        """Let two names of entities mean the same from a new revision on, returned."""
        with self._lock, self._writing():
            number = self._tick(reason)
            write_alias(self._connection, number, normal_name(name), normal_name(of))
            return number

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

    def seeds(
        self,
        question: Question,
        *,
        for_subject: Subject,
        kinds: Sequence[Kind] = POLARITIES,
        task: str | None = None,
        settings: SeedSettings | None = None,
    ) -> SeedRecall:
        """Recall by words, vectors and entities at once: see :func:`recall_seeds`."""
        with self._lock:
            try:
                return recall_seeds(
                    self._state(),
                    self._connection,
                    question,
                    for_subject=for_subject,
                    kinds=kinds,
                    task=task,
                    settings=SeedSettings() if settings is None else settings,
                )
            except sqlite3.Error as error:
                raise explained(error, self.path) from error

    # The past

    def at(self, *, revision: int | None = None, moment: str | None = None) -> BankState:
        """Rebuild the state as of a revision, or of a UTC moment in ISO 8601 (the last revision written by then)."""
        with self._lock:
            if (revision is None) == (moment is None):
                raise UserError("name either a revision or a moment")
            if moment is not None:
                revision = int(self._rows(_BY_MOMENT, (moment,))[0][0])
            assert revision is not None
            state = BankState(subject_key=self._subject_key)
            self._follow(state, revision)
            return state

    def history(self, experience: str) -> tuple[RevisionEntry, ...]:
        """Every revision of one experience, oldest first."""
        columns = (
            "number, experience, live, title, description, content, score, sample, reason, at, condition, exclusions"
        )
        query = f"SELECT {columns} FROM revision WHERE experience = ? ORDER BY number"
        with self._lock:
            rows = self._rows(query, (experience,))
        names = columns.split(", ")
        if not rows:
            raise UserError(f"no experience {experience!r} in {self.path}")
        told = [dict(zip(names, row, strict=True)) for row in rows]
        return tuple(
            RevisionEntry(**{**one, "live": bool(one["live"]), "exclusions": tuple(json.loads(one["exclusions"]))})
            for one in told
        )

    def graph(self, *, revision: int | None = None) -> GraphReader:
        """Qualities, edges and entities as of a revision; by default, of now. It reads the file, while that is open."""
        with self._lock:
            return GraphReader(self._connection, self.revision if revision is None else revision)

    def quality_history(self, experience: str) -> tuple[tuple[int, float], ...]:
        """Every quality an experience had, with the revision from which it had it."""
        with self._lock:
            return quality_history(self._connection, experience)

    def feedback(self, experience: str) -> tuple[Feedback, ...]:
        """Every feedback event of one experience, oldest first."""
        query = "SELECT number, kind, value, detail, at, episode FROM feedback WHERE experience = ? ORDER BY number"
        with self._lock:
            rows = self._rows(query, (experience,))
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
            for number, kind, value, detail, at, episode in rows
        )

    def origins(self) -> tuple[tuple[str, str, str, str], ...]:
        """Every hand in every experience, from the file itself: (experience, sample, subject, split)."""
        query = "SELECT DISTINCT experience, sample, subject, split FROM revision ORDER BY experience, number"
        with self._lock:
            return tuple(tuple(row) for row in self._rows(query))

    def changed_since(self, revision: int) -> tuple[list[str], list[str], list[tuple[str, str]]]:
        """The experiences, the qualities and the edges that were written after a revision."""
        with self._lock:
            names = self._rows("SELECT DISTINCT experience FROM revision WHERE number > ? ORDER BY 1", (revision,))
            moved = self._rows("SELECT DISTINCT experience FROM quality WHERE number > ? ORDER BY 1", (revision,))
            edges = self._rows("SELECT DISTINCT source, target FROM edge WHERE number > ? ORDER BY 1, 2", (revision,))
        return [name for (name,) in names], [name for (name,) in moved], [(one, other) for one, other in edges]

    def names(self, beginning: str) -> tuple[str, ...]:
        """The ids of all experiences, live or not, that begin so."""
        with self._lock:
            query = "SELECT id FROM experience WHERE substr(id, 1, ?) = ? ORDER BY id"
            return tuple(name for (name,) in self._rows(query, (len(beginning), beginning)))

    def holds(self, experience: str) -> bool:
        """Whether an experience was ever added, live or not."""
        with self._lock:
            return bool(self._rows("SELECT 1 FROM experience WHERE id = ?", (experience,)))

    def damage(self) -> dict[str, int]:
        """What is wrong with the file, counted: SQLite's own check, texts missing in the index, edges and revisions
        that lead nowhere."""
        with self._lock:
            return damage(self._connection)

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
            "INSERT OR IGNORE INTO experience VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                experience.id,
                experience.kind,
                experience.task,
                experience.tool,
                key,
                origin.sample,
                origin.subject,
                origin.split,
                json_text(asdict(origin)),
                json_text(dict(experience.facts)),
                experience.task_type,
                structure_text(experience),
            ),
        )
        if not cursor.rowcount:
            return 0
        names = [(normal_name(plain_text(entity.name)), experience.id) for entity in experience.entities]
        self._connection.executemany("INSERT INTO mention VALUES (?, ?)", names)
        step = RevisionEntry(
            number=0,
            experience=experience.id,
            live=True,
            title=experience.title,
            description=experience.description,
            content=experience.content,
            score=experience.score,
            sample=origin.sample,
            reason=reason,
            at="",
            condition=experience.condition,
            exclusions=experience.exclusions,
        )
        self._revise(step, origin, reason)
        return 1

    def _last(self, experience: str) -> RevisionEntry:
        return self.history(experience)[-1]

    def _revise(self, step: RevisionEntry, by: Provenance | None, reason: str) -> int:
        """Write an experience down as a step says."""
        query = "SELECT sample, subject, split FROM experience WHERE id = ?"
        hand = self._rows(query, (step.experience,))[0] if by is None else (by.sample, by.subject, by.split)
        parts = [plain_text(text) for text in (step.title, step.description, step.content, step.condition)]
        exclusions = [plain_text(text) for text in step.exclusions]
        values = (step.experience, int(step.live), *parts[:3], step.score, parts[3], json_text(exclusions))
        cursor = self._connection.execute(_INSERT_REVISION, (*values, *hand, reason, utc_now()))
        number = int(cursor.lastrowid or 0)
        if step.live:
            index_text(self._connection, number, [*parts, *exclusions])
        return number

    def _tick(self, reason: str) -> int:
        """Take the next number of the bank's clock for a change that is not one of texts."""
        number = int(self._rows(_LAST_TICK)[0][0]) + 1
        self._connection.execute("INSERT INTO step VALUES (?, ?, ?)", (number, reason, utc_now()))
        self._connection.execute("DELETE FROM sqlite_sequence WHERE name = 'revision'")
        self._connection.execute("INSERT INTO sqlite_sequence VALUES ('revision', ?)", (number,))
        return number

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
            last = int(self._rows(_LAST_TICK)[0][0])
            until = last if upto is None else min(last, upto)
            state.encoder = self._setting("encoder")
            self._follow_keys(state, until, everything=until == last)
            with _collecting_later():
                for row in rows_since(self._connection, state.revision, until):
                    state.put_revision(row)
            state.revision = max(state.revision, until)
        except sqlite3.Error as error:
            raise explained(error, self.path) from error
        finally:
            if own:
                self._connection.execute("ROLLBACK")

    def _follow_keys(self, state: BankState, until: int, *, everything: bool) -> None:
        """Read the keys a state does not have yet, many at once; for a past state, those that its experiences use."""
        newest = 2**62 if everything else int(self._rows(_LAST_KEY, (until,))[0][0])
        bounds = (state.last_key, newest)
        count = int(self._rows("SELECT count(*) FROM key WHERE number > ? AND number <= ?", bounds)[0][0])
        state.make_room(count, int(self._setting("dimensions") or 0))
        cursor = self._connection.execute(_KEYS, bounds)
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
