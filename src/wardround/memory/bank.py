"""The bank: experiences in SQLite, the only source of truth. Several processes may read while one writes.

Writing is append-only: an experience is added once. Further revisions revise, retire or revert it, each with its
reason. Any past state can be rebuilt, and a bad update can be undone. Searches read what they look at
and keep it in memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from wardround.core import UserError
from wardround.memory.bank_file import BANK_FORMAT, BankFile
from wardround.memory.experience import POLARITIES, Experience, Kind, Provenance, Subject, normal_name
from wardround.memory.graph import GraphCache, write_alias, write_edges, write_own_name, write_qualities
from wardround.memory.keys import Key
from wardround.memory.outcomes import (
    ExperienceTrial,
    LearningRule,
    LearntEpisode,
    counted,
    write_outcome,
    write_undone,
    write_withdrawal,
)
from wardround.memory.reading import PastReader
from wardround.memory.recall import nearest_experiences, related_experiences
from wardround.memory.rows import (
    Edge,
    GateRecord,
    RevisionEntry,
    is_forgotten,
    write_experience,
    write_feedback,
    write_gate,
    write_key,
    write_revision,
    write_snapshot,
    write_tick,
)
from wardround.memory.state import BankState, follow


class Bank(PastReader):
    """A bank that follows its file. ``Bank.open`` makes or opens one; safe for threads of one process."""

    def __init__(self, file: BankFile) -> None:
        super().__init__(file)
        self._evaluated: frozenset[Subject] = frozenset()
        self._live_state = BankState(file=file, subject_key=self._subject_key)
        self._seen_version = -1
        self._seen_tombstones = 0
        self._wrote = True

    @classmethod
    def open(cls, path: Path, *, writable: bool = True) -> Bank:
        """Open a bank; create it if it does not exist. ``writable=False`` changes nothing, not even in its folder."""
        if not writable:
            return cls(BankFile(path, BANK_FORMAT.open_unchanged(path), writable=False))
        connection = BANK_FORMAT.open(path)
        connection.execute("INSERT OR IGNORE INTO setting VALUES ('subject_key', ?)", (secrets.token_bytes(32),))
        return cls(BankFile(path, connection, writable=True))

    @property
    def file(self) -> BankFile:
        """Its open file, for upkeep."""
        return self._file

    @property
    def path(self) -> Path:
        """Where its file is."""
        return self._file.path

    @property
    def writable(self) -> bool:
        """Return whether it may be changed."""
        return self._file.writable

    # Adding and changing

    def add(self, experiences: Iterable[Experience], *, key: Key | None = None, reason: str = "added") -> int:
        """Add experiences that share one key, all or none.

        Experiences that exist already are not changed. An experience is refused if its sample, or a row that it shows,
        was withdrawn or forgotten.

        Returns how many were new. Raises UserError when the key's encoder is not the bank's.
        """
        new = list(experiences)
        with self._lock, self._writing():
            numbers: dict[tuple[str, ...], int | None] = {}
            count = 0
            for experience in new:
                origin = experience.provenance
                if self.is_withdrawn(experience.id, origin.sample, *experience.rows):
                    continue
                group = (origin.sample, origin.subject, origin.run, origin.episode)
                if group not in numbers:
                    numbers[group] = None if key is None else write_key(self._file, key, group)
                count += write_experience(self._file, experience, numbers[group], reason)
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
        subject too from then on. Raises UserError where that episode's sample was withdrawn or forgotten.
        """
        with self._lock, self._writing():
            last = self._last(experience)
            if by is not None and self.is_withdrawn(by.sample):
                raise UserError(f"sample {by.sample!r} was withdrawn from {self.path}: nothing may be learnt from it")
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
            return write_revision(self._file, step, by=by, reason=reason)

    def retire(self, experience: str, *, reason: str) -> int:
        """Stop serving an experience; it stays in the file and can be reverted."""
        with self._lock, self._writing():
            last = self._last(experience)
            return write_revision(self._file, replace(last, live=False), by=None, reason=reason)

    def revert(self, experience: str, *, to: int, reason: str) -> int:
        """Give an experience the text, score and state it had at an earlier revision of its own."""
        with self._lock, self._writing():
            steps = [step for step in self.history(experience) if step.number <= to]
            if not steps:
                raise UserError(f"experience {experience!r} did not exist at revision {to}")
            return write_revision(self._file, steps[-1], by=None, reason=reason)

    def add_feedback(
        self,
        experience: str,
        kind: str,
        *,
        value: float | None = None,
        detail: Mapping[str, Any] | None = None,
        episode: str = "",
    ) -> bool:
        """Record the feedback of serving an experience; return whether it was new.

        The feedback alone changes nothing. The first feedback of an episode counts, later ones are ignored. An episode
        whose sample was withdrawn or forgotten is not recorded.
        """
        with self._lock, self._writing():
            self._last(experience)
            if self.is_withdrawn(*episode.split("|")):
                return False
            return write_feedback(self._file, experience, kind, value, detail or {}, episode)

    def set_graph(
        self,
        *,
        qualities: Mapping[str, float | None] | None = None,
        edges: Iterable[Edge] = (),
        reason: str,
        sample: str = "",
        episode: str = "",
    ) -> int:
        """Set qualities (None takes one back) and edges as one revision, returned; those not named stay.

        ``sample`` is the case that caused them: withdrawing it undoes them. ``episode`` names the run of this sample,
        which is written once.
        """
        written, changed = dict(qualities or {}), list(edges)
        if not all(value is None or 0.0 <= value <= 1.0 for value in written.values()):
            raise ValueError("a quality lies between 0 and 1")
        with self._lock, self._writing():
            ends = (end for edge in changed for end in (edge.source, edge.target))
            for name in {*written, *ends}:
                if not self.holds(name):
                    raise UserError(f"no experience {name!r} in {self.path}")
            is_out = self.is_withdrawn(sample)
            number = write_tick(self._file, reason, sample="" if is_out else sample, episode=episode)
            write_qualities(self._file.connection, number, {} if is_out else written)
            write_edges(self._file.connection, number, [] if is_out else changed)
            return number

    def add_outcome(
        self,
        met: Sequence[ExperienceTrial],
        *,
        run: str,
        task: str,
        score: float,
        rule: LearningRule,
        sample: str,
        episode: str,
    ) -> int:
        """Write the outcome of an episode for the experiences it met, as one revision, returned: see
        :func:`wardround.memory.learning.learn`."""
        with self._lock, self._writing():
            number = write_tick(self._file, f"learnt by {rule.writer}", sample=sample, episode=episode)
            outcome = LearntEpisode(
                number=number, run=run, task=task, score=score, rule=rule, sample=sample, met=tuple(met)
            )
            write_outcome(self._file.connection, outcome)
            return number

    def take_out(self, source: str, experiences: Iterable[str], *, reason: str) -> int:
        """Withdraw everything from a source, from a new revision on, returned: see
        :func:`wardround.memory.upkeep.withdraw`."""
        with self._lock, self._writing():
            number = write_tick(self._file, reason)
            write_withdrawal(self._file.connection, number, source, experiences)
            return number

    def go_back(self, target: int, *, reason: str) -> int:
        """Let qualities, edges and outcomes count as they did at a revision, from a new one on, returned."""
        with self._lock, self._writing():
            number = write_tick(self._file, reason)
            write_undone(self._file.connection, number, target)
            return number

    def is_withdrawn(self, *sources: str) -> bool:
        """Return whether an experience, a sample or a row was withdrawn, and not brought back by going back, or
        forgotten."""
        with self._lock:
            if self._file.rows("SELECT 1 FROM tombstone LIMIT 1") and any(
                is_forgotten(self._file, name) for name in sources
            ):
                return True
            withdrawn = counted(self._file.connection, self._file.last_number).sources
            return not withdrawn.isdisjoint(sources)

    def name_revision(self, name: str, revision: int) -> int:
        """Give a revision a name for good, by which a run can be pinned to it; a name that is given already stays with
        its revision, which is returned."""
        if name.isdecimal() or not name.strip():
            raise UserError(f"{name!r} cannot name a revision: it would be read as a number")
        with self._lock, self._writing():
            return write_snapshot(self._file, name, revision)

    def add_alias(self, name: str, *, of: str, reason: str) -> int:
        """Let two names of entities mean the same from a new revision on, returned."""
        with self._lock, self._writing():
            number = write_tick(self._file, reason)
            write_alias(self._file.connection, number, normal_name(name), normal_name(of))
            return number

    def end_alias(self, name: str, *, reason: str) -> int:
        """Let a name mean nothing but itself from a new revision on, returned."""
        with self._lock, self._writing():
            number = write_tick(self._file, reason)
            write_own_name(self._file.connection, number, normal_name(name))
            return number

    def record_gate(self, record: GateRecord) -> None:
        """Write the verdict of held-out evidence on a revision, by task: see :mod:`wardround.memory.rows`."""
        with self._lock, self._writing():
            write_gate(self._file, record)

    def evaluate_on(self, subjects: Iterable[Subject]) -> int:
        """Stop serving experiences that one of these subjects contributed to: see :meth:`BankState.evaluate_on`."""
        with self._lock:
            self._evaluated = frozenset(subjects)
            return self._state().evaluate_on(self._evaluated)

    # For construction: nothing here is served to anybody

    def related(self, experience: Experience, *, limit: int) -> tuple[Experience, ...]:
        """Live experiences of training samples to compare one with, nearest first."""
        with self._lock:
            state = self._state()
            return related_experiences(state, self._file.connection, experience, kinds=POLARITIES, limit=limit)

    def nearest(
        self, key: Key, *, kind: Kind, tool: str | None = None, limit: int
    ) -> tuple[tuple[Experience, float], ...]:
        """Live experiences of training samples to compare a text with, by the similarity of their vectors."""
        with self._lock:
            return nearest_experiences(self._state(), self._file.connection, key, kind=kind, tool=tool, limit=limit)

    def liveness(self) -> Callable[[str], bool]:
        """Return a fast reader of which experiences are live now, for many calls."""
        with self._lock:
            return self._state().is_live

    def entity_names(self) -> tuple[str, ...]:
        """Return every name of an entity that any experience has, live or retired."""
        with self._lock:
            return tuple(name for (name,) in self._file.rows("SELECT DISTINCT name FROM mention ORDER BY name"))

    def adopt_subject_key(self, key: bytes) -> None:
        """Write subjects down as another bank does. UserError if this one holds experiences under a key of its own:
        their patients could not be recognised any more."""
        with self._lock, self._writing():
            if key == self._subject_key:
                return
            if self.revision:
                raise UserError(f"{self.path} writes its subjects down under another key; import into a new bank")
            self._file.connection.execute("UPDATE setting SET value = ? WHERE name = 'subject_key'", (key,))
            self._subject_key = key
            self._forget_state()

    def rebuild(self) -> None:
        """Write the file anew without what was deleted from it: see :func:`wardround.memory.upkeep.forget`."""
        with self._lock:
            self._forget_state()
            self._wrote = True
            self._file.rebuild()
            with self._writing():
                self._file.connection.execute("DELETE FROM setting WHERE name = 'rebuild'")
            self._file.rebuild()

    # Inside

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._file.writing(undone=self._forget_state):
                yield
        finally:
            self._wrote = True

    def _forget_state(self) -> None:
        """Drop what is in memory, which may contain what is now undone."""
        self._live_state = BankState(file=self._file, subject_key=self._subject_key)
        self._live_state.evaluate_on(self._evaluated)
        self._graph_cache = GraphCache()

    def _last(self, experience: str) -> RevisionEntry:
        return self.history(experience)[-1]

    def _state(self) -> BankState:
        """Return the state, brought up to date with the file."""
        version = self._file.data_version
        if self._wrote or version != self._seen_version:
            # What another process forgot is in no later revision that could be followed: begin anew
            tombstones = int(self._file.rows("SELECT count(*) FROM tombstone")[0][0])
            if tombstones != self._seen_tombstones:
                self._forget_state()
                self._seen_tombstones = tombstones
            follow(self._file, self._live_state)
            self._seen_version, self._wrote = version, False
        return self._live_state
