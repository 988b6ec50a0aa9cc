"""A peer memory: what it stores, how it searches, its cases, changes and settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.core import Registry, check_settings, estimate_tokens, load_prompt, setting
from wardround.memory.bank import Bank
from wardround.memory.construction.drafts import Attempt, Case, ask_value, evidence_of, names_answer
from wardround.memory.experience import Experience, Kind, Provenance, Subject
from wardround.memory.extract import Asker
from wardround.memory.keys import Key, text_key
from wardround.memory.material import reduced_trajectory
from wardround.memory.reading import BankReader
from wardround.memory.recall import RecallQuestion, SeedSettings
from wardround.memory.rows import Edge
from wardround.tools.retrieval import Encoder
from wardround.tools.retrieval.encoder import is_lexical_identity

# What a peer does to its memory: notes that are new, notes that replace others, notes that are dropped, links.


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote:
    """A note to add. ``hands``: the other cases that contributed to it; ``replaces``: the id of the note it replaces.

    The new note keeps the contributors and links of the replaced one.
    """

    note: Experience
    hands: tuple[Provenance, ...] = ()
    replaces: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteChanges:
    """One step of a peer's writer, applied all or nothing. ``dropped`` says why of each id."""

    new: tuple[NewNote, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    links: tuple[Edge, ...] = ()


def linked(first: str, second: str, weight: float) -> tuple[Edge, Edge]:
    """Return a link between two notes, in both directions."""
    value = min(1.0, max(0.0, weight))
    return Edge(source=first, target=second, weight=value), Edge(source=second, target=first, weight=value)


# How a peer asks a model: one template, one value of a schema, every call recorded and its template remembered.


@dataclass(slots=True, kw_only=True)
class PeerAsking:
    """The model calls for one case; ``model`` and ``used`` (template to hash) are recorded in the resulting notes."""

    asker: Asker
    model: str
    used: dict[str, str] = field(default_factory=dict)

    async def value(self, template: str, schema: Mapping[str, Any], **values: Any) -> Any:
        """Ask for a value of a schema. Raises FormatError if two replies are none."""
        prompt = load_prompt("wardround.memory", template)
        self.used[prompt.name] = prompt.sha256
        return await ask_value(self.asker, prompt.render(**values), schema, purpose=template)

    @property
    def origin(self) -> dict[str, Any]:
        """What a note says of how it was written."""
        return {"model": self.model, "prompts": dict(self.used)}


# A training case as text, and a note that remembers whose it is. What peers store begins here.


PEER_RULES = "peer-rules-1"
"""The model that notes name which no language model wrote."""
_LONG_NUMBER = re.compile(r"\d{5,}")
_SHARES = {"question": 0.25, "patient": 0.25, "trajectory": 0.4}
"""The shares of a document's room; the correct answer and the headings get the rest."""


def without_identifiers(text: str) -> str:
    """Return a text without long numbers, which name a patient, an encounter or a row."""
    return _LONG_NUMBER.sub("#", text)


def beginning(text: str, max_tokens: int) -> str:
    """Return the beginning of a text, cut at a word's end, within a token limit."""
    if estimate_tokens(text) <= max_tokens:
        return text
    kept = text[: 4 * max_tokens]
    while kept and estimate_tokens(kept) > max_tokens - 1:
        kept = kept[: len(kept) * 7 // 8]
    return f"{kept.rpartition(' ')[0] or kept} ..."


def best_attempt(case: Case) -> Attempt:
    """Return the attempt with the best score; the earliest wins a tie."""
    return max(case.attempts, key=lambda attempt: (attempt.success, attempt.material.score or 0.0))


def case_document(case: Case, *, max_tokens: int) -> str:
    """Return a training case as one text: the question, the patient, the best attempt, and the correct answer."""
    best = best_attempt(case)
    rooms = {name: int(share * max_tokens) for name, share in _SHARES.items()}
    patient = case.description or "; ".join(case.setting)
    ended = f"{len(case.successes)} of {len(case.attempts)} attempts succeeded"
    parts = {
        "Question": beginning(best.material.question, rooms["question"]),
        "Patient": beginning(patient, rooms["patient"]),
        f"The best attempt ({ended})": reduced_trajectory(best.material.messages, rooms["trajectory"]).text,
        "Right answer": beginning(" | ".join(best.material.target or ()), max_tokens // 10),
    }
    return without_identifiers("\n".join(f"{name}: {text}" for name, text in parts.items() if text))


def note_of(
    case: Case,
    peer: str,
    *,
    title: str,
    content: str,
    description: str = "",
    model: str = PEER_RULES,
    prompts: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Experience:
    """Return a note that a peer draws from a case. It rests on every row that the case's attempts showed."""
    target = best_attempt(case).material.target
    texts = [without_identifiers(text) for text in (title, description, content)]
    hashes = {**case.provenance.prompts, **(prompts or {})}
    return Experience(
        kind="note",
        tool=peer,
        title=texts[0],
        description=texts[1],
        content=texts[2],
        task=case.attempts[0].material.task,
        provenance=replace(case.provenance, model=model, prompts=hashes),
        evidence=evidence_of(case.attempts),
        facts={**(facts or {}), "names_answer": names_answer(" ".join(texts), target)},
    )


def searched_text(note: Experience) -> str:
    """Return the whole text of a note. It is what is encoded unless a peer encodes another text."""
    return "\n".join(part for part in (note.title, note.description, note.content) if part)


def listed(names: Sequence[str]) -> str:
    """Names as one line."""
    return ", ".join(dict.fromkeys(name for name in names if name))


# What a person may set of the memories that GSEM is compared with: the same for all of them.


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """How much every peer stores of a case and gives an episode."""

    k: int = setting(
        50,
        "most texts that a peer's memory gives an episode, within memory.served_tokens; 5 as published",
        source="GSEM, section 5.1",
        least=1,
    )
    document_tokens: int = setting(
        600, "longest text of a training case that is stored or read as a whole", unit="tokens", source="ours", least=64
    )
    same_task: bool = setting(False, "only what was learnt from the same task (the paper's memory crosses tasks)")
    adapt: bool = setting(
        True, "ReMe: a model ranks and rewrites what was recalled, in one call; the offline policy does not"
    )

    def __post_init__(self) -> None:
        check_settings(self)


# One case before a peer's memory: the ways to look for notes, all under the bank's guards.


POOL = 50
"""How many notes each way of looking gives."""
_RANK_CONSTANT = 60
_WORDS = SeedSettings(k=POOL, pool=POOL, lexical=1.0, dense=0.0, entity=0.0)
_STAND_IN = SeedSettings(k=POOL, pool=POOL, entity=0.0)
_VECTOR = SeedSettings(k=POOL, pool=POOL, lexical=0.0, dense=1.0, entity=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A note for one case, and how it came."""

    note: Experience
    score: float
    why: str

    def facts(self) -> dict[str, Any]:
        """Return what the log of an episode notes about this recall."""
        return {"id": self.note.id, "score": round(self.score, 6), "why": self.why}


@dataclass(slots=True, kw_only=True)
class PeerCase:
    """A question for a subject to a peer's notes; ``task``: only those of that task. What comes has passed guards."""

    peer: str
    bank: BankReader
    subject: Subject
    question: RecallQuestion
    settings: PeerSettings
    task: str | None = None
    withheld: Mapping[str, int] = field(default_factory=dict, init=False)
    revision: int = field(default=0, init=False)
    _fetch: Callable[[str], Experience | None] = field(init=False)

    def __post_init__(self) -> None:
        self._fetch = self.bank.served_to(self.subject, kinds=("note",), task=self.task, tool=self.peer)

    def by_words(self) -> list[Remembered]:
        """Notes by BM25, best first."""
        return self._found(replace(self.question, key=None, entities=()), _WORDS, "words")

    def by_meaning(self) -> list[Remembered]:
        """Return notes by the similarity of their vectors, best first; none if the bank has no vectors.

        If the vectors are only hashed words, ranking by words comes first and vectors second, as in the recall of a
        graph (nDCG@10 on MedQuAD: 0.54 by such vectors alone, 0.89 so).
        """
        if self.question.key is None:
            return []
        if is_lexical_identity(self.question.key.encoder):
            return self._found(replace(self.question, entities=()), _STAND_IN, "words and vector")
        return self._found(replace(self.question, text="", entities=()), _VECTOR, "vector")

    def note(self, name: str) -> Experience | None:
        """Return a note by its id; None if it may not be served for this case."""
        return self._fetch(name)

    def linked(self, name: str) -> list[tuple[Experience, float]]:
        """Return the linked notes that may be served, strongest link first."""
        edges = sorted(self.bank.graph().edges(name), key=lambda edge: (-edge.weight, edge.target))
        found = [(self._fetch(edge.target), edge.weight) for edge in edges]
        return [(note, weight) for note, weight in found if note is not None]

    def _found(self, question: RecallQuestion, settings: SeedSettings, way: str) -> list[Remembered]:
        kinds: tuple[Kind, ...] = ("note",)
        recall = self.bank.seeds(
            question, for_subject=self.subject, kinds=kinds, task=self.task, tool=self.peer, settings=settings
        )
        self.withheld, self.revision = recall.withheld, recall.revision
        return [
            Remembered(note=seed.experience, score=seed.score, why=f"{way} {seed.score:.2f}")
            for seed in recall.seeds
            if seed.score > 0
        ]


def fused(rankings: Sequence[Sequence[Remembered]]) -> list[Remembered]:
    """Rankings as one by reciprocal ranks (Cormack et al., 2009): the sum of 1 / (60 + rank), equals by id."""
    scores: dict[str, float] = {}
    ways: dict[str, list[str]] = {}
    notes: dict[str, Experience] = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, start=1):
            name = one.note.id
            notes[name] = one.note
            scores[name] = scores.get(name, 0.0) + 1 / (_RANK_CONSTANT + rank)
            ways.setdefault(name, []).append(f"{one.why} (rank {rank})")
    order = sorted(scores, key=lambda name: (-round(scores[name], 12), name))
    return [Remembered(note=notes[name], score=scores[name], why=", ".join(ways[name])) for name in order]


# A peer's memory while it is written: the bank's notes, the nearest ones, and one method to change them.
#
# Nothing here is served to anybody. A note that says something of several cases carries all their hands, so that the
# bank withholds it from each of them and withdraws it with any.


USED = "used"
"""The feedback that says that an episode was shown a note; its value, whether the episode succeeded."""


@dataclass(slots=True, kw_only=True)
class PeerMemory:
    """The notes of one peer in a bank; of what else is in it, nothing is seen."""

    peer: str
    bank: Bank
    encoder: Encoder
    settings: PeerSettings = field(default_factory=PeerSettings)
    keyed_by: Callable[[Experience], str] = searched_text
    counts: Counter[str] = field(default_factory=Counter)

    def notes(self) -> tuple[Experience, ...]:
        """Return every live note, oldest first."""
        return tuple(
            experience
            for experience in self.bank.experiences()
            if (experience.kind, experience.tool) == ("note", self.peer)
        )

    def nearest(self, text: str, *, limit: int) -> tuple[tuple[Experience, float], ...]:
        """Live notes by the similarity of their vectors to a text's."""
        if self.bank.encoder is None:
            return ()
        return self.bank.nearest(self.key(text), kind="note", tool=self.peer, limit=limit)

    def links(self, note: str) -> tuple[Edge, ...]:
        """Return the links from a note."""
        return self.bank.graph().edges(note)

    def hands(self, note: str) -> tuple[Provenance, ...]:
        """Return every case that contributed to a note."""
        return self.bank.hands(note)

    def key(self, text: str) -> Key:
        """Return the vector of a text."""
        return text_key(self.encoder, text)

    def apply(self, changes: NoteChanges, *, mark: str = "", sample: str = "") -> bool:
        """Write changes in one transaction, once under a mark; returns whether it was done now."""
        with self.bank.batch():
            if mark and self.bank.learnt_at(mark) is not None:
                return False
            stands_for = {
                new_note.replaces: new_note.note.id
                for new_note in changes.new
                if self._add(new_note) and new_note.replaces
            }
            for name, reason in changes.dropped.items():
                self.bank.retire(name, reason=reason)
                self.counts["dropped"] += 1
            edges = {(edge.source, edge.target): edge for edge in (*self._moved(stands_for), *changes.links)}
            if mark or edges:
                self.bank.set_graph(edges=edges.values(), reason=f"{self.peer} wrote", sample=sample, episode=mark)
            self.counts["linked"] += len(changes.links) // 2
        return True

    def _add(self, new_note: NewNote) -> bool:
        """Add a note with its contributors; return False if it exists already, or if one of its cases was withdrawn."""
        note = new_note.note
        hands = (*new_note.hands, *(self.hands(new_note.replaces) if new_note.replaces else ()))
        if self.bank.is_withdrawn(*(hand.sample for hand in hands)):
            return False
        if not self.bank.add([note], key=self.key(self.keyed_by(note)), reason=f"{self.peer} noted"):
            return False
        for hand in dict.fromkeys((hand.sample, hand.subject, hand.split) for hand in hands):
            if hand != (note.provenance.sample, note.provenance.subject, note.provenance.split):
                by = Provenance(sample=hand[0], subject=hand[1], split=hand[2])
                self.bank.revise(note.id, by=by, reason="says something of this case too")
        if new_note.replaces:
            self.bank.retire(new_note.replaces, reason=f"replaced by {note.id}")
        self.counts["replaced" if new_note.replaces else "added"] += 1
        return True

    def _moved(self, stands_for: dict[str, str]) -> list[Edge]:
        """Return the links of replaced notes as links of the notes that replace them."""
        graph = self.bank.graph()
        leading = [edge for old in stands_for for edge in graph.edges(old)]
        both = [*leading, *(replace(edge, source=edge.target, target=edge.source) for edge in leading)]
        ends = [(stands_for.get(edge.source, edge.source), stands_for.get(edge.target, edge.target)) for edge in both]
        moved = [
            replace(edge, source=source, target=target)
            for edge, (source, target) in zip(both, ends, strict=True)
            if source != target
        ]
        return [*(replace(edge, live=False) for edge in both), *moved]


# A peer: another published memory as a composition. What it stores (its writer) and how it looks (its reader) are its
# own; store, guards, budget, k, training cases and prompt room are everybody's.


Draw = Callable[[Case, PeerAsking | None, PeerSettings], Awaitable[Sequence[Experience]]]
"""What a case gives, looked at alone; without anybody to ask, by rules. Raises FormatError."""
Settle = Callable[[Experience, PeerMemory, PeerAsking | None], Awaitable[NoteChanges]]
"""What becomes of one new note beside what the memory holds, in the order of cases."""
Close = Callable[[PeerMemory, PeerAsking | None], Awaitable[NoteChanges]]
"""Finish the memory once all cases are added; a second call changes nothing."""
RecallNotes = Callable[[PeerCase], Sequence[Remembered]]
"""Return the notes for a case, best first; the first k are shown."""


async def simply_added(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Add every note beside the others, without comparing them."""
    return NoteChanges(new=(NewNote(note=note),))


async def nothing_more(memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Nothing is left to do."""
    return NoteChanges()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One peer. ``title`` names the published method; ``differences`` lists the differences to it, one sentence each.

    ``keyed_by`` is the text whose vector finds a note. ``adapted``: a model may rewrite recalled notes. ``prompts``:
    the template files. ``tables``: the tables of the GSEM paper that have it.
    """

    name: str
    title: str
    draw: Draw
    recall: RecallNotes
    differences: tuple[str, ...]
    settle: Settle = simply_added
    close: Close = nothing_more
    keyed_by: Callable[[Experience], str] = searched_text
    adapted: bool = False
    prompts: tuple[str, ...] = ()
    tables: tuple[int, ...] = (1,)


PEERS: Registry[Peer] = Registry(
    "peers", one="peer", of=Peer, title=lambda peer: peer.title, part="wardround.memory.peers"
)
"""The memories that GSEM is compared with, by name, in the order of its Table 1."""
