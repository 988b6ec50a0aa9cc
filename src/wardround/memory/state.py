"""Keep a bank's state in memory as of one revision, and update it from the file."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from wardround.core import LeakError, UserError
from wardround.core.garbage import no_cycle_collection
from wardround.memory.bank_file import BANK_FORMAT, BankFile
from wardround.memory.choice import EligibleEntries
from wardround.memory.experience import Experience, Kind, Subject
from wardround.memory.keys import Key, KeyVectors
from wardround.memory.rows import Entry, Nature, RevisionRow, Texts, marks_since, natures
from wardround.memory.words import WordScores
from wardround.tools.retrieval import Vectors

# The guards are in this module only. An experience is eligible if every sample that contributed to it is of an allowed
# split. It is withheld from every subject that contributed to it. Withheld experiences are counted.


SERVABLE_SPLITS = ("train",)
_ROUNDING = 1e-5
_MOST_COMPARED = 10_000
"""Duplicates are not counted for a kind with more experiences than this."""
_CACHED_NUMBERS = 4_000_000
"""Up to this size a matrix fits the processor's cache and the threaded product is faster. Larger matrices are limited
by memory, and threads wait for each other (at 100,000 x 384 on two shared cores: 7 to 36 ms, one thread 6 to 8 ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An experience that may be shown, and the similarity of its key (None if no key was compared)."""

    experience: Experience
    similarity: float | None
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The result of a search.

    ``withheld`` counts the experiences of the requested kind and task that the guards withheld: ``same_subject``,
    ``split``, and ``evaluated`` for subjects of an evaluation. ``revision`` is the searched revision of the bank.
    """

    matches: tuple[Match, ...]
    withheld: Mapping[str, int]
    revision: int

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """What may be shown, best first."""
        return tuple(match.experience for match in self.matches)

    def facts(self) -> dict[str, object]:
        """Return what the log of an episode notes about a retrieval."""
        served = [{"id": match.experience.id, "similarity": match.similarity} for match in self.matches]
        return {"served": served, "withheld": dict(self.withheld), "bank_revision": self.revision}


@dataclass(slots=True)
class BankState:
    """The experiences of a bank as of one revision. ``Bank`` keeps one up to date, ``Bank.at`` makes past ones."""

    file: BankFile
    subject_key: bytes
    revision: int = 0
    encoder: str | None = None
    _entries: dict[str, Entry] = field(default_factory=dict)
    _last_key: int = 0
    _keys: KeyVectors = field(init=False)
    _texts: Texts = field(init=False)
    words: WordScores = field(init=False)
    _by_revision: dict[int, Entry] = field(default_factory=dict)
    _choices: dict[tuple[str, str | None, str | None, tuple[str, ...]], EligibleEntries] = field(default_factory=dict)
    _evaluated: frozenset[str] = frozenset()
    _live: set[str] = field(default_factory=set)
    _by_duplicate_key: dict[str, dict[str, list[Entry]]] = field(default_factory=dict)
    _duplicates_revision: int = -1

    def __post_init__(self) -> None:
        self._keys, self._texts = KeyVectors(self.file), Texts(self.file)
        self.words = WordScores(self.file.connection)

    def evaluate_on(self, subjects: Iterable[Subject]) -> int:
        """Stop serving experiences that one of these subjects contributed to; return their number.

        A bank's own ``train`` is that of the benchmark it was evolved on: another benchmark may test on its patients.
        """
        self._evaluated |= {subject.hashed(self.subject_key) for subject in subjects}
        self._choices.clear()
        self._duplicates_revision = -1
        return sum(entry.live and not self._evaluated.isdisjoint(entry.subjects) for entry in self._entries.values())

    @property
    def dimensions(self) -> int:
        """How many numbers its keys have; 0 while it has none."""
        return self._keys.dimensions if self._last_key else 0

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """Every live experience, oldest first."""
        return self.read(entry for entry in self._entries.values() if entry.live)

    @property
    def every_experience(self) -> tuple[Experience, ...]:
        """Every experience it knows, retired ones too, oldest first."""
        return self.read(self._entries.values())

    def read(self, entries: Iterable[Entry]) -> tuple[Experience, ...]:
        """Return the experiences of entries. Those not read yet are read from the file together."""
        wanted = list(entries)
        self._texts.read(wanted)
        return tuple(entry.experience for entry in wanted)

    def __len__(self) -> int:
        return len(self._live)

    @property
    def _matrix(self) -> Vectors:
        return self._keys.upto(self._last_key)

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
        """Return the experiences behind the ``k`` nearest keys (an episode's experiences share one key), nearest first.

        Exact: every key is compared. Keys that are equally near go by age. ``for_subject`` is whom it is for.
        """
        choice = self.choice(kind, task, None, allowed_splits)
        own = choice.of_subject(for_subject.hashed(self.subject_key))
        withheld = choice.withheld(len(own), counts_evaluated=self.evaluates)
        if not choice.has_keys or k < 1:
            return Recall(matches=(), withheld=withheld, revision=self.revision)
        self.check_key(key)
        barred = {entry.name for entry in own}
        rows = {entry.place for entry in own}
        closed = [row for row in rows if row is not None and self._all_barred(choice, row, barred)]
        matches: list[Match] = []
        for row, similarity in self.nearest(key.vector, choice.penalty(self._last_key), closed, k):
            if least_similarity is not None and similarity < least_similarity:
                break
            shown = [entry for entry in choice.by_row[row] if entry.name not in barred]
            matches += [
                Match(experience=entry.experience, similarity=similarity, revision=entry.revision) for entry in shown
            ]
        return Recall(matches=tuple(matches), withheld=withheld, revision=self.revision)

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
        """Return experiences without a key: the best scored, then the newest, under the same guards."""
        choice = self.choice(kind, task, tool, allowed_splits)
        own = {entry.name for entry in choice.of_subject(for_subject.hashed(self.subject_key))}
        entries = (entry for name, entry in choice.entries.items() if name not in own)
        best = heapq.nsmallest(limit, entries, key=lambda entry: (-(entry.score or 0.0), -entry.order))
        matches = tuple(Match(experience=entry.experience, similarity=None, revision=entry.revision) for entry in best)
        withheld = choice.withheld(len(own), counts_evaluated=self.evaluates)
        return Recall(matches=matches, withheld=withheld, revision=self.revision)

    @property
    def longest_key(self) -> float:
        """The length of its longest key: 1, but for rounding. No similarity is greater than it times the question's."""
        return self._keys.longest(self._last_key)

    def put_revision(self, mark: RevisionRow, nature_of: Callable[[str], Nature]) -> None:
        """Apply a revision: the experience from here on, and its contributor."""
        entry = self._entries.get(mark.experience)
        if entry is None:
            entry = Entry(nature_of(mark.experience), mark, len(self._entries), self._texts)
            self._entries[entry.name] = entry
            if entry.place is not None and entry.place >= self._last_key:
                self._last_key = entry.place + 1
        else:
            del self._by_revision[entry.revision]
            for choice in self._choices.values():
                choice.drop(entry)
            entry.take(mark)
        (self._live.add if entry.live else self._live.discard)(entry.name)
        self._by_revision[mark.number] = entry
        self.revision = mark.number
        for choice in self._choices.values():
            choice.put(entry, self._evaluated)

    def _all_barred(self, choice: EligibleEntries, row: int, barred: set[str]) -> bool:
        return all(entry.name in barred for entry in choice.by_row[row])

    def nearest(
        self,
        vector: Vectors,
        penalty: npt.NDArray[np.float32],
        closed: Sequence[int],
        k: int,
        *,
        most_threaded: int = _CACHED_NUMBERS,
    ) -> list[tuple[int, float]]:
        """Return the rows of the k greatest products, greatest first; ties by row number.

        The scan is in single precision. Products near the border are computed again in double precision, row by row, so
        that equal vectors have equal products at any position. Without threads the scan is slower on an idle machine,
        and does not wait on a busy one.
        """
        matrix = self._matrix
        products = matrix @ vector if matrix.size <= most_threaded else np.vecdot(matrix, vector)
        products += penalty
        products[closed] = -np.inf
        if k == 1:
            candidates = np.flatnonzero(products >= products.max() - _ROUNDING)
        elif k < len(products):
            border = np.partition(products, len(products) - k)[len(products) - k]
            candidates = np.flatnonzero(products >= border - _ROUNDING)
        else:
            candidates = np.arange(len(products))
        candidates = candidates[products[candidates] > -np.inf]
        exact = (matrix[candidates].astype(np.float64) * vector.astype(np.float64)).sum(axis=1).round(9)
        order = np.lexsort((candidates, -exact))[:k]
        return [(int(candidates[place]), float(exact[place])) for place in order]

    def key_of(self, entry: Entry) -> Key | None:
        """Return the key of an entry; None if it has none."""
        if entry.place is None or self.encoder is None:
            return None
        return Key(encoder=self.encoder, vector=self._keys.some([entry.place])[0].copy())

    def known(self, name: str) -> Entry | None:
        """Return the entry of an experience, live or retired."""
        return self._entries.get(name)

    def is_live(self, name: str) -> bool:
        """Return whether an experience exists and is not retired."""
        return name in self._live

    @property
    def live_names(self) -> Set[str]:
        """The ids of the live experiences."""
        return self._live

    def standing(self, revision: int) -> Entry | None:
        """Return the entry at a revision; None if the entry has another revision since."""
        return self._by_revision.get(revision)

    def without_duplicates(self, found: Iterable[Experience], subject: Subject) -> tuple[Experience, ...]:
        """Return each experience once for all its duplicates. Its facts contain the number of duplicates (``cases``)
        that may be served to a subject."""
        once: dict[str, Experience] = {}
        for experience in found:
            once.setdefault(experience.duplicate_key, experience)
        own = subject.hashed(self.subject_key)
        return tuple(self._with_cases(experience, own) for experience in once.values())

    def _with_cases(self, experience: Experience, own: str) -> Experience:
        entries = self.choice(experience.kind, None, None, SERVABLE_SPLITS).entries.values()
        if len(entries) > _MOST_COMPARED:
            return experience
        if self._duplicates_revision != self.revision:
            self._duplicates_revision, self._by_duplicate_key = self.revision, {}
        if experience.kind not in self._by_duplicate_key:
            self.read(entries)
            by_key = self._by_duplicate_key[experience.kind] = {}
            for entry in entries:
                by_key.setdefault(entry.experience.duplicate_key, []).append(entry)
        others = [
            entry
            for entry in self._by_duplicate_key[experience.kind].get(experience.duplicate_key, ())
            if own not in entry.subjects
        ]
        cases = len({entry.experience.provenance.sample for entry in others})
        return experience if cases < 2 else replace(experience, facts={**experience.facts, "cases": cases})

    @property
    def size(self) -> int:
        """How many experiences it knows, retired ones too."""
        return len(self._entries)

    @property
    def rows(self) -> int:
        """How many places for keys it has."""
        return self._last_key

    @property
    def evaluates(self) -> bool:
        """Return whether experiences of some evaluated subjects are served to no one."""
        return bool(self._evaluated)

    def similarities(self, vector: Vectors, places: Sequence[int]) -> dict[int, float]:
        """Return the similarity of the keys at some positions."""
        if not places:
            return {}
        products = (self._keys.some(places).astype(np.float64) @ vector.astype(np.float64)).round(9)
        return {place: float(product) for place, product in zip(places, products, strict=True)}

    def choice(self, kind: str, task: str | None, tool: str | None, allowed_splits: Sequence[str]) -> EligibleEntries:
        """Return the entries of a kind, task and tool out of some splits that may be served, kept up to date from then
        on."""
        splits = tuple(sorted(set(allowed_splits)))
        if not set(splits) <= set(SERVABLE_SPLITS):
            raise LeakError(f"experiences are served from {SERVABLE_SPLITS} only, not from {splits}")
        name = (kind, task, tool, splits)
        choice = self._choices.get(name)
        if choice is None:
            choice = self._choices[name] = EligibleEntries(kind=kind, task=task, tool=tool, splits=frozenset(splits))
            for entry in self._entries.values():
                if entry.kind == kind:
                    choice.put(entry, self._evaluated)
        return choice

    def check_key(self, key: Key) -> None:
        """Raise UserError if a question's vector cannot be compared with the bank's keys."""
        if key.encoder != self.encoder or len(key.vector) != self.dimensions:
            raise UserError(
                f"this bank's keys were made by encoder {self.encoder!r}, the question's by {key.encoder!r}; "
                "open the run with the bank's encoder"
            )


# Bringing a state in memory up to the file, as of a revision, in one view of it.


def follow(file: BankFile, state: BankState, *, upto: int | None = None) -> None:
    """Read the revisions a state does not have yet, up to ``upto``; None: all."""
    with BANK_FORMAT.errors(file.path), file.view():
        last = file.last_number
        until = last if upto is None else min(last, upto)
        state.encoder = file.setting("encoder")
        with no_cycle_collection():
            nature_of = natures(file.connection, every=not state.size)
            for mark in marks_since(file.connection, state.revision, until):
                state.put_revision(mark, nature_of)
        state.revision = max(state.revision, until)


def state_at(file: BankFile, revision: int, subject_key: bytes) -> BankState:
    """Return the state as of a revision, built from the beginning."""
    state = BankState(file=file, subject_key=subject_key)
    follow(file, state, upto=revision)
    return state
