"""The guarded way to read a bank, live or pinned at a revision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from wardround.core import UserError, content_hash
from wardround.memory.bank_file import BANK_FORMAT, BankFile
from wardround.memory.candidates import RecallQuestion
from wardround.memory.experience import POLARITIES, Experience, Kind, Subject
from wardround.memory.gates import GateRecord, read_gate
from wardround.memory.graph import GraphCache, GraphReader
from wardround.memory.history import snapshots_of
from wardround.memory.keys import Key
from wardround.memory.recall import SeedRecall, SeedSettings, eligible, recall_seeds
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
    snapshots = snapshots_of(file)
    if name not in snapshots:
        file.close()
        known = ", ".join(snapshots) or "none"
        raise UserError(f"no revision of {file.path} is called {name!r}; named are: {known}")
    return snapshots[name]
