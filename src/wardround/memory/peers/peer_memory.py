"""A peer's memory while it is written: the bank's notes, what is near, and one way to change them.

Nothing here is served to anybody. A note that says something of several cases carries all their hands, so that the
bank withholds it from each of them and withdraws it with any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from wardround.memory.bank import Bank
from wardround.memory.edges import Edge
from wardround.memory.experience import Experience, Provenance
from wardround.memory.key import Key, text_key
from wardround.memory.peers.changes import NewNote, NoteChanges
from wardround.memory.peers.documents import searched_text
from wardround.memory.peers.settings import PeerSettings
from wardround.retrieval import Encoder

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
        """Every live note, oldest first."""
        return tuple(one for one in self.bank.experiences() if (one.kind, one.tool) == ("note", self.peer))

    def nearest(self, text: str, *, limit: int) -> tuple[tuple[Experience, float], ...]:
        """Live notes by the similarity of their vectors to a text's."""
        if self.bank.encoder is None:
            return ()
        return self.bank.nearest(self.key(text), kind="note", tool=self.peer, limit=limit)

    def links(self, note: str) -> tuple[Edge, ...]:
        """The links that lead from a note."""
        return self.bank.graph().edges(note)

    def hands(self, note: str) -> tuple[Provenance, ...]:
        """Every case that had a hand in a note."""
        return self.bank.hands(note)

    def key(self, text: str) -> Key:
        """The vector of a text."""
        return text_key(self.encoder, text)

    def apply(self, changes: NoteChanges, *, mark: str = "", sample: str = "") -> bool:
        """Write changes in one transaction, once under a mark; returns whether it was done now."""
        with self.bank.batch():
            if mark and self.bank.learnt_at(mark) is not None:
                return False
            stands_for = {one.replaces: one.note.id for one in changes.new if self._add(one) and one.replaces}
            for name, reason in changes.dropped.items():
                self.bank.retire(name, reason=reason)
                self.counts["dropped"] += 1
            edges = {(edge.source, edge.target): edge for edge in (*self._moved(stands_for), *changes.links)}
            if mark or edges:
                self.bank.set_graph(edges=edges.values(), reason=f"{self.peer} wrote", sample=sample, episode=mark)
            self.counts["linked"] += len(changes.links) // 2
        return True

    def _add(self, one: NewNote) -> bool:
        """Add a note with its hands; False where the bank has it already, or one of its cases was taken out."""
        note = one.note
        hands = (*one.hands, *(self.hands(one.replaces) if one.replaces else ()))
        if self.bank.is_taken_out(*(hand.sample for hand in hands)):
            return False
        if not self.bank.add([note], key=self.key(self.keyed_by(note)), reason=f"{self.peer} noted"):
            return False
        for hand in dict.fromkeys((hand.sample, hand.subject, hand.split) for hand in hands):
            if hand != (note.provenance.sample, note.provenance.subject, note.provenance.split):
                by = Provenance(sample=hand[0], subject=hand[1], split=hand[2])
                self.bank.revise(note.id, by=by, reason="says something of this case too")
        if one.replaces:
            self.bank.retire(one.replaces, reason=f"replaced by {note.id}")
        self.counts["replaced" if one.replaces else "added"] += 1
        return True

    def _moved(self, stands_for: dict[str, str]) -> list[Edge]:
        """The links of notes that were replaced, as those of what replaces them."""
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
