"""The guarded way to read a bank, live or pinned at a revision, and to look at what it was."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wardround.core import UserError, content_hash
from wardround.memory.bank_file import BANK_FORMAT, BankFile, damage
from wardround.memory.experience import POLARITIES, Experience, Kind, Provenance, Subject
from wardround.memory.graph import GraphCache, GraphReader
from wardround.memory.keys import Key
from wardround.memory.outcomes import LearntEpisode, outcomes_of
from wardround.memory.recall import RecallQuestion, SeedRecall, SeedSettings, eligible, recall_seeds
from wardround.memory.rows import GateRecord, RevisionEntry, history_of, read_gate
from wardround.memory.state import SERVABLE_SPLITS, BankState, Recall, state_at
from wardround.memory.words import index_as_of


class BankReader(ABC):
    """An open bank that answers as of one revision; safe for threads of one process."""

    def __init__(self, file: BankFile) -> None:
        self._file = file
        self._lock = file.lock
        self._subject_key: bytes = file.setting("subject_key")
        self._graph_cache = GraphCache()

    @abstractmethod
    def _state(self) -> BankState:
        """Return the state to read from. The lock must be held."""

    @property
    def encoder(self) -> str | None:
        """The identity of the encoder of its keys; None while it has none."""
        with self._lock:
            return self._state().encoder

    @property
    def revision(self) -> int:
        """The revision as of which it answers."""
        with self._lock:
            return self._state().revision

    def experiences(self) -> tuple[Experience, ...]:
        """Return every live experience, oldest first, for people and checks. Agents use ``search``."""
        with self._lock:
            return self._state().experiences

    def __len__(self) -> int:
        with self._lock:
            return len(self._state())

    def subject_hash(self, subject: Subject) -> str:
        """Return this bank's hash of a subject."""
        return subject.hashed(self._subject_key)

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
        question: RecallQuestion,
        *,
        for_subject: Subject,
        kinds: Sequence[Kind] = POLARITIES,
        task: str | None = None,
        tool: str | None = None,
        settings: SeedSettings | None = None,
    ) -> SeedRecall:
        """Recall by words, vectors and entities at once: see :func:`recall_seeds`."""
        with self._lock, BANK_FORMAT.errors(self._file.path), self._file.view():
            return recall_seeds(
                self._state(),
                self._file.connection,
                question,
                for_subject=for_subject,
                kinds=kinds,
                task=task,
                settings=SeedSettings() if settings is None else settings,
                tool=tool,
            )

    def served_to(
        self, subject: Subject, *, kinds: Sequence[Kind] = POLARITIES, task: str | None = None, tool: str | None = None
    ) -> Callable[[str], Experience | None]:
        """Return a function that fetches an experience by id under the same guards; it returns None for one that may
        not be served."""
        with self._lock:
            return eligible(self._state(), self._file.connection, kinds, task, subject, tool)

    def without_duplicates(self, found: Sequence[Experience], subject: Subject) -> tuple[Experience, ...]:
        """See :meth:`BankState.without_duplicates`."""
        with self._lock:
            return self._state().without_duplicates(found, subject)

    def graph(self, *, revision: int | None = None, task: str = "") -> GraphReader:
        """Qualities (for a task), edges and entities as of a revision; by default, of its own. It reads the open
        file."""
        with self._lock:
            own = self.revision
            if revision is not None and revision != own:
                return GraphReader(self._file.connection, revision, task)
            self._graph_cache.follow(self._file.connection, own)
            return GraphReader(self._file.connection, own, task, self._graph_cache)

    def gate(self) -> GateRecord:
        """Return the last verdict of held-out evidence on this bank, by task."""
        with self._lock:
            return read_gate(self._file, self.revision)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# A bank pinned at a revision: what a run reads, through a reading connection of its own, whatever is written since.


GATED = "gated"
"""The name of the last revision with held-out evidence."""


class PinnedBank(BankReader):
    """Experiences, qualities, edges and aliases as of one revision. ``PinnedBank.open`` makes one."""

    def __init__(self, file: BankFile, revision: int) -> None:
        super().__init__(file)
        self._pinned = state_at(file, revision, self._subject_key)
        self._own_index = False

    @classmethod
    def open(cls, path: Path, *, revision: int | str | None = None) -> PinnedBank:
        """Open a bank for reading at a revision, by its number or its name, by default at its last. UserError if it has
        not come so far, or has none of that name."""
        file = BankFile(path, BANK_FORMAT.open_unchanged(path), writable=False)
        last = file.last_number
        if isinstance(revision, str):
            revision = _named(file, revision)
        if revision is not None and revision > last:
            file.close()
            raise UserError(f"the bank {str(path)!r} is older than the one this run was made with")
        return cls(file, last if revision is None else revision)

    def _state(self) -> BankState:
        """Return the state. Once the file has a later revision, the state has an index as of the pinned one."""
        if not self._own_index and self._file.last_number > self._pinned.revision:
            index_as_of(self._file.connection, self._pinned.revision)
            self._pinned.words.begin()
            self._own_index = True
        return self._pinned

    def evaluate_on(self, subjects: Iterable[Subject]) -> int:
        """See :meth:`BankState.evaluate_on`."""
        with self._lock:
            return self._pinned.evaluate_on(subjects)

    @property
    def has_forgotten(self) -> bool:
        """Return whether something was ever forgotten for good, so that a past revision may be another one now."""
        with self._lock:
            return bool(self._file.rows("SELECT 1 FROM tombstone LIMIT 1"))

    def content_hash(self) -> str:
        """Hash everything the bank would serve: texts and, if there are any, qualities, edges and aliases.

        A bank without a graph has the same hash as in the manifests of earlier runs.
        """
        bodies = sorted((experience.to_json() for experience in self.experiences()), key=lambda body: str(body["id"]))
        with self._lock:
            graph = self.graph().facts()
        return content_hash({"experiences": bodies, **graph} if any(graph.values()) else bodies)


def _named(file: BankFile, name: str) -> int:
    """Return the number of a revision given by its name, or by its number as text."""
    if name.isdecimal():
        return int(name)
    if name == GATED:
        judged = read_gate(file, file.last_number).revision
        if judged is None:
            file.close()
            raise UserError(f"no revision of {file.path} was judged; `wardround memory gate` does")
        return judged
    snapshots = _snapshots(file)
    if name not in snapshots:
        file.close()
        known = ", ".join(snapshots) or "none"
        raise UserError(f"no revision of {file.path} is called {name!r}; named are: {known}")
    return snapshots[name]


def _snapshots(file: BankFile) -> dict[str, int]:
    return dict(file.rows("SELECT name, number FROM snapshot ORDER BY number, name"))


# What was: for people, checks and upkeep; nothing of it is served.


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
class Feedback:
    """Something observed of an experience after it was served; ``episode`` says in which, where that is known."""

    number: int
    experience: str
    kind: str
    value: float | None
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""
    episode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStep:
    """One update by an episode: its revision, the episode's name, its sample."""

    number: int
    episode: str
    sample: str


class PastReader(BankReader):
    """A reader that also tells what was, for people, checks and upkeep."""

    def at(self, *, revision: int | None = None, moment: str | None = None) -> BankState:
        """Rebuild the state as of a revision, or of a UTC moment in ISO 8601 (the last revision written by then)."""
        if (revision is None) == (moment is None):
            raise UserError("name either a revision or a moment")
        with self._lock:
            number = int(self._file.rows(_BY_MOMENT, (moment,))[0][0]) if revision is None else revision
            return state_at(self._file, number, self._subject_key)

    def history(self, experience: str) -> tuple[RevisionEntry, ...]:
        """Return every revision of one experience, oldest first."""
        with self._lock:
            return history_of(self._file, experience)

    def quality_history(self, experience: str) -> tuple[tuple[int, float | None], ...]:
        """Return every quality of an experience with the revision from which it holds."""
        with self._lock:
            found: list[tuple[int, float | None]] = []
            turns = self._file.rows(_TURNING, (experience, self.revision))
            for number, graph in self._graphs([number for (number,) in turns]):
                value = graph.quality(experience)
                if value != (found[-1][1] if found else None):
                    found.append((number, value))
            return tuple(found)

    def course(self, revisions: Sequence[int]) -> Iterator[tuple[int, GraphReader]]:
        """Return the graph as of each of some revisions, oldest first. Each is computed from the one before it."""
        with self._lock:
            yield from self._graphs(sorted(set(revisions)))

    def _graphs(self, revisions: Sequence[int]) -> Iterator[tuple[int, GraphReader]]:
        cache = GraphCache()
        for number in revisions:
            cache.follow(self._file.connection, number)
            yield number, GraphReader(self._file.connection, number, "", cache)

    def outcomes(self, experience: str) -> tuple[LearntEpisode, ...]:
        """Return the episodes that met an experience and were learnt from, oldest first, without the other experiences
        they met."""
        with self._lock:
            return tuple(outcomes_of(self._file.connection, experience, self.revision))

    def feedback(self, experience: str) -> tuple[Feedback, ...]:
        """Return every feedback event of one experience, oldest first."""
        with self._lock:
            rows = self._file.rows(_FEEDBACK, (experience,))
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
        """Return every contributor to every experience, from the file: (experience, sample, subject, split)."""
        with self._lock:
            return tuple(tuple(row) for row in self._file.rows(_ORIGINS))

    def hands(self, experience: str) -> tuple[Provenance, ...]:
        """Return every contributor to one experience: its sample, its subject and its split."""
        with self._lock:
            rows = self._file.rows(_HANDS, (experience,))
        return tuple(Provenance(sample=sample, subject=subject, split=split) for sample, subject, split in rows)

    def learning_steps(self, beginning: str) -> tuple[LearningStep, ...]:
        """Return the updates by episodes whose names begin with a text, oldest first."""
        with self._lock:
            query = "SELECT number, episode, sample FROM step WHERE substr(episode, 1, ?) = ? ORDER BY number"
            rows = self._file.rows(query, (len(beginning), beginning)) if beginning else ()
        return tuple(LearningStep(number=number, episode=episode, sample=sample) for number, episode, sample in rows)

    def learnt_at(self, episode: str) -> int | None:
        """Return the revision at which an episode was learnt from; None if it was not."""
        with self._lock:
            rows = self._file.rows("SELECT number FROM step WHERE episode = ?", (episode,)) if episode else ()
        return int(rows[0][0]) if rows else None

    def snapshots(self) -> dict[str, int]:
        """Return the revisions that have a name, oldest first."""
        with self._lock:
            return _snapshots(self._file)

    def texts_since(self, revision: int) -> tuple[str, ...]:
        """Return the experiences whose text or state was written after a revision."""
        with self._lock:
            rows = self._file.rows("SELECT DISTINCT experience FROM revision WHERE number > ? ORDER BY 1", (revision,))
        return tuple(name for (name,) in rows)

    def names(self, beginning: str) -> tuple[str, ...]:
        """Return the ids of all experiences, live or retired, that begin with a text."""
        with self._lock:
            query = "SELECT id FROM experience WHERE substr(id, 1, ?) = ? ORDER BY id"
            return tuple(name for (name,) in self._file.rows(query, (len(beginning), beginning)))

    def holds(self, experience: str) -> bool:
        """Return whether an experience was ever added, live or not."""
        with self._lock:
            return bool(self._file.rows("SELECT 1 FROM experience WHERE id = ?", (experience,)))

    def damage(self) -> dict[str, int]:
        """Return counts of what is wrong with the file: SQLite's own check, texts missing in the index, edges and
        revisions that lead nowhere."""
        with self._lock:
            return damage(self._file.connection)
