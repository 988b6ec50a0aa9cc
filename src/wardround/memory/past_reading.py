"""A bank's past through the open bank: states as of a revision, histories, origins; nothing here is served."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wardround.core import UserError
from wardround.memory import history as past
from wardround.memory.bank_file import damage
from wardround.memory.experience import Provenance
from wardround.memory.graph import GraphCache, GraphReader
from wardround.memory.history import Feedback, LearningStep, RevisionEntry
from wardround.memory.outcomes import LearntEpisode, outcomes_of
from wardround.memory.reading import BankReader
from wardround.memory.state import BankState, state_at


class PastReader(BankReader):
    """A reader that also tells what was, for people, checks and upkeep."""

    def at(self, *, revision: int | None = None, moment: str | None = None) -> BankState:
        """Rebuild the state as of a revision, or of a UTC moment in ISO 8601 (the last revision written by then)."""
        if (revision is None) == (moment is None):
            raise UserError("name either a revision or a moment")
        with self._lock:
            number = revision if moment is None else past.revision_at(self._file, moment)
            assert number is not None
            return state_at(self._file, number, self._subject_key)

    def history(self, experience: str) -> tuple[RevisionEntry, ...]:
        """Return every revision of one experience, oldest first."""
        with self._lock:
            return past.history_of(self._file, experience)

    def quality_history(self, experience: str) -> tuple[tuple[int, float | None], ...]:
        """Return every quality of an experience with the revision from which it holds."""
        with self._lock:
            found: list[tuple[int, float | None]] = []
            for number, graph in self._graphs(past.turning_points(self._file, experience, self.revision)):
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
            return past.feedback_of(self._file, experience)

    def origins(self) -> tuple[tuple[str, str, str, str], ...]:
        """Return every contributor to every experience, from the file: (experience, sample, subject, split)."""
        with self._lock:
            return past.origins_of(self._file)

    def hands(self, experience: str) -> tuple[Provenance, ...]:
        """Return every contributor to one experience: its sample, its subject and its split."""
        with self._lock:
            return past.hands_in(self._file, experience)

    def learning_steps(self, beginning: str) -> tuple[LearningStep, ...]:
        """Return the updates by episodes whose names begin with a text, oldest first."""
        with self._lock:
            return past.learning_steps(self._file, beginning)

    def learnt_at(self, episode: str) -> int | None:
        """Return the revision at which an episode was learnt from; None if it was not."""
        with self._lock:
            return past.step_of(self._file, episode)

    def snapshots(self) -> dict[str, int]:
        """Return the revisions that have a name, oldest first."""
        with self._lock:
            return past.snapshots_of(self._file)

    def texts_since(self, revision: int) -> tuple[str, ...]:
        """Return the experiences whose text or state was written after a revision."""
        with self._lock:
            return past.texts_since(self._file, revision)

    def names(self, beginning: str) -> tuple[str, ...]:
        """Return the ids of all experiences, live or retired, that begin with a text."""
        with self._lock:
            return past.names_beginning(self._file, beginning)

    def holds(self, experience: str) -> bool:
        """Return whether an experience was ever added, live or not."""
        with self._lock:
            return past.was_added(self._file, experience)

    def damage(self) -> dict[str, int]:
        """Return counts of what is wrong with the file: SQLite's own check, texts missing in the index, edges and
        revisions that lead nowhere."""
        with self._lock:
            return damage(self._file.connection)
