"""A bank's state as of one revision: what it serves, searched under the guards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from wardround.core import LeakError, UserError
from wardround.memory.bank_file import BANK_FORMAT, BankFile
from wardround.memory.entries import EligibleEntries, Entry, EntryReader, forgotten
from wardround.memory.experience import Experience, Kind, Subject
from wardround.memory.keys import Key, KeyVectors
from wardround.memory.words import WordScores
from wardround.tools.retrieval import Vectors

# The guards are here, in ``choice`` and in ``candidates``. An experience is eligible if every sample that contributed
# to it is of an allowed split. It is withheld from every subject that contributed to it. What is withheld is counted.


SERVABLE_SPLITS = ("train",)
_ROUNDING = 1e-5
_MOST_COMPARED = 10_000
"""Duplicates are not counted for a kind with more experiences than this."""
_MOST_FOLLOWED = 5_000
"""A state that is more revisions behind than this begins anew: nothing has to be read for that."""
_SIZE = "SELECT (SELECT count(*) FROM experience) - (SELECT count(*) FROM entry WHERE number > ? AND number = age)"
_LAST_KEY = "SELECT coalesce(max(key), 0) FROM entry WHERE key IS NOT NULL AND number <= ?"
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
    """The experiences of a bank as of one revision. ``Bank`` keeps one up to date, ``Bank.at`` makes past ones.

    ``size``: how many experiences it knows, retired ones too. ``rows``: how many places for keys it has.
    """

    file: BankFile
    subject_key: bytes
    encoder: str | None = None
    size: int = 0
    rows: int = 0
    words: WordScores = field(init=False)
    entries: EntryReader = field(init=False)
    _keys: KeyVectors = field(init=False)
    _live: int = 0
    _retired: set[str] | None = None
    _choices: dict[tuple[str, str | None, str | None, tuple[str, ...]], EligibleEntries] = field(default_factory=dict)
    _evaluated: frozenset[str] = frozenset()
    _by_duplicate_key: dict[str, dict[str, list[Entry]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._keys, self.entries = KeyVectors(self.file), EntryReader(self.file)
        self.words = WordScores(self.file.connection)

    @property
    def revision(self) -> int:
        """The revision as of which it answers."""
        return self.entries.revision

    def go_to(self, revision: int) -> None:
        """Answer as of a later revision."""
        if revision <= self.revision:
            return
        self._by_duplicate_key.clear()
        if not self.revision or revision - self.revision > _MOST_FOLLOWED:
            self.entries.begin(revision)
            self._choices.clear()
            self._retired = None
            self.size = int(self.file.rows(_SIZE, (revision,))[0][0])
            self._live = self.size - self.entries.count("NOT live")
            self.rows = int(self.file.rows(_LAST_KEY, (revision,))[0][0])
            return
        for before, entry in self.entries.follow(revision):
            self.size += before is None
            self._live += entry.live - (before is not None and before.live)
            if self._retired is not None:
                (self._retired.discard if entry.live else self._retired.add)(entry.name)
            self.rows = max(self.rows, 0 if entry.place is None else entry.place + 1)
            for choice in self._choices.values():
                if before is not None:
                    choice.drop(before)
                choice.put(entry)

    def evaluate_on(self, subjects: Iterable[Subject]) -> int:
        """Stop serving experiences that one of these subjects contributed to; return their number.

        A bank's own ``train`` is that of the benchmark it was evolved on: another benchmark may test on its patients.
        """
        self._evaluated |= {subject.hashed(self.subject_key) for subject in subjects}
        self._choices.clear()
        self._by_duplicate_key.clear()
        return len(self.entries.of_subjects(self._evaluated))

    @property
    def dimensions(self) -> int:
        """How many numbers its keys have; 0 while it has none."""
        return self._keys.dimensions if self.rows else 0

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """Every live experience, oldest first."""
        return self.read(entry for entry in self._every_entry() if entry.live)

    @property
    def every_experience(self) -> tuple[Experience, ...]:
        """Every experience it knows, retired ones too, oldest first."""
        return self.read(self._every_entry())

    def _every_entry(self) -> list[Entry]:
        entries = self.entries.select("1", (), "ORDER BY age")
        if len(entries) != self.size:
            raise forgotten(self.file)
        return entries

    def read(self, entries: Iterable[Entry]) -> tuple[Experience, ...]:
        """Return the experiences of entries. Those not read yet are read from the file together."""
        wanted = list(entries)
        self.entries.texts.read(wanted)
        return tuple(entry.experience for entry in wanted)

    def __len__(self) -> int:
        return self._live

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
        subject = for_subject.hashed(self.subject_key)
        own = choice.of_subject(subject)
        withheld = choice.withheld(len(own))
        if not choice.has_keys or k < 1:
            return Recall(matches=(), withheld=withheld, revision=self.revision)
        self.check_key(key)
        nearest = self.nearest(key.vector, choice.penalty(self.rows), choice.only(own), k)
        least = -np.inf if least_similarity is None else least_similarity
        near = {row: similarity for row, similarity in nearest if similarity >= least}
        entries = self.entries.at_places(near)
        shown = [
            (entry, similarity)
            for row, similarity in near.items()
            for entry in entries.get(row, ())
            if choice.serves(entry) and subject not in entry.subjects
        ]
        self.read(entry for entry, _ in shown)
        matches = tuple(
            Match(experience=entry.experience, similarity=similarity, revision=entry.revision)
            for entry, similarity in shown
        )
        return Recall(matches=matches, withheld=withheld, revision=self.revision)

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
        subject = for_subject.hashed(self.subject_key)
        own = choice.of_subject(subject)
        others = [entry for entry in choice.best(limit + len(own)) if subject not in entry.subjects]
        best = others[: max(0, limit)]
        self.read(best)
        matches = tuple(Match(experience=entry.experience, similarity=None, revision=entry.revision) for entry in best)
        withheld = choice.withheld(len(own))
        return Recall(matches=matches, withheld=withheld, revision=self.revision)

    @property
    def longest_key(self) -> float:
        """The length of its longest key: 1, but for rounding. No similarity is greater than it times the question's."""
        return self._keys.longest(self.rows)

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
        matrix = self._keys.upto(self.rows)
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
        return self.entries.named((name,)).get(name)

    def is_live(self, name: str) -> bool:
        """Return whether an experience exists and is not retired."""
        entry = self.known(name)
        return entry is not None and entry.live

    @property
    def retired(self) -> Set[str]:
        """The ids of the experiences that it knows and that are not live."""
        if self._retired is None:
            self._retired = set(self.entries.names("NOT live"))
        return self._retired

    def without_duplicates(self, found: Iterable[Experience], subject: Subject) -> tuple[Experience, ...]:
        """Return each experience once for all its duplicates. Its facts contain the number of duplicates (``cases``)
        that may be served to a subject."""
        once: dict[str, Experience] = {}
        for experience in found:
            once.setdefault(experience.duplicate_key, experience)
        own = subject.hashed(self.subject_key)
        return tuple(self._with_cases(experience, own) for experience in once.values())

    def _with_cases(self, experience: Experience, own: str) -> Experience:
        choice = self.choice(experience.kind, None, None, SERVABLE_SPLITS)
        if choice.served > _MOST_COMPARED:
            return experience
        if experience.kind not in self._by_duplicate_key:
            entries = choice.best(choice.served)
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
            choice = self._choices[name] = EligibleEntries(
                source=self.entries,
                kind=kind,
                task=task,
                tool=tool,
                splits=splits,
                evaluated_subjects=self._evaluated,
            )
        return choice

    def check_key(self, key: Key) -> None:
        """Raise UserError if a question's vector cannot be compared with the bank's keys."""
        if key.encoder != self.encoder or len(key.vector) != self.dimensions:
            raise UserError(
                f"this bank's keys were made by encoder {self.encoder!r}, the question's by {key.encoder!r}; "
                "open the run with the bank's encoder"
            )


def follow(file: BankFile, state: BankState, *, upto: int | None = None) -> None:
    """Bring a state up to the file, or to a revision, in one view of it."""
    with BANK_FORMAT.errors(file.path), file.view():
        last = file.last_number
        state.encoder = file.setting("encoder")
        state.go_to(last if upto is None else min(last, upto))


def state_at(file: BankFile, revision: int, subject_key: bytes) -> BankState:
    """Return the state as of a revision."""
    state = BankState(file=file, subject_key=subject_key)
    follow(file, state, upto=revision)
    return state
