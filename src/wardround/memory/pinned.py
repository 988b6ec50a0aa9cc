"""A bank pinned at a revision: what a run reads, through a reading connection of its own, whatever is written since."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wardround.core import UserError, content_hash
from wardround.memory.bank_file import BankFile
from wardround.memory.database import open_for_reading
from wardround.memory.experience import Subject
from wardround.memory.following import state_at
from wardround.memory.gates import read_gate
from wardround.memory.past import snapshots_of
from wardround.memory.reading import BankReader
from wardround.memory.state import BankState
from wardround.memory.words import index_as_of

GATED = "gated"
"""The name of the last revision that held-out evidence was gathered of."""


class PinnedBank(BankReader):
    """Experiences, qualities, edges and aliases as of one revision. ``PinnedBank.open`` makes one."""

    def __init__(self, file: BankFile, revision: int) -> None:
        super().__init__(file)
        self._pinned = state_at(file, revision, self._subject_key)
        self._own_index = False

    @classmethod
    def open(cls, path: Path, *, revision: int | str | None = None) -> PinnedBank:
        """Open a bank for reading at a revision, by its number or its name, by default at its last. UserError where it
        has not come so far, or has none of that name."""
        file = BankFile(path, open_for_reading(path), writable=False)
        last = file.last_number
        if isinstance(revision, str):
            revision = _named(file, revision)
        if revision is not None and revision > last:
            file.close()
            raise UserError(f"the bank {str(path)!r} is older than the one this run was made with")
        return cls(file, last if revision is None else revision)

    def _state(self) -> BankState:
        """The state, and an index as of it from the moment on at which the file's own has gone further."""
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
        """Whether something was ever forgotten for good, so that a past revision may be another one now."""
        with self._lock:
            return bool(self._file.rows("SELECT 1 FROM tombstone LIMIT 1"))

    def content_hash(self) -> str:
        """Hash everything it would serve: texts and, where there are any, qualities, edges and aliases.

        A bank without a graph has the hash that the manifests of earlier runs hold.
        """
        bodies = sorted((one.to_json() for one in self.experiences()), key=lambda body: str(body["id"]))
        with self._lock:
            graph = self.graph().facts()
        return content_hash({"experiences": bodies, **graph} if any(graph.values()) else bodies)


def _named(file: BankFile, name: str) -> int:
    """The number that a revision's name, or the number as text, stands for."""
    if name.isdecimal():
        return int(name)
    if name == GATED:
        judged = read_gate(file, file.last_number).revision
        if judged is None:
            file.close()
            raise UserError(f"no revision of {file.path} was judged; `wardround memory gate` does")
        return judged
    there = snapshots_of(file)
    if name not in there:
        file.close()
        known = ", ".join(there) or "none"
        raise UserError(f"no revision of {file.path} is called {name!r}; named are: {known}")
    return there[name]
