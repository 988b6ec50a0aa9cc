"""A peer: another published memory as a composition. What it stores (its writer) and how it looks (its reader) are its
own; store, guards, budget, k, training cases and prompt room are everybody's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from wardround.core import Registry
from wardround.memory.construction.attempts import Case
from wardround.memory.experience import Experience
from wardround.memory.peers.asking import PeerAsking
from wardround.memory.peers.changes import NewNote, NoteChanges
from wardround.memory.peers.documents import searched_text
from wardround.memory.peers.peer_case import PeerCase, Remembered
from wardround.memory.peers.peer_memory import PeerMemory
from wardround.memory.peers.settings import PeerSettings

Draw = Callable[[Case, PeerAsking | None, PeerSettings], Awaitable[Sequence[Experience]]]
"""What a case gives, looked at alone; without anybody to ask, by rules. Raises FormatError."""
Settle = Callable[[Experience, PeerMemory, PeerAsking | None], Awaitable[NoteChanges]]
"""What becomes of one new note beside what the memory holds, in the order of cases."""
Close = Callable[[PeerMemory, PeerAsking | None], Awaitable[NoteChanges]]
"""What is done once all cases are in; doing it again changes nothing."""
RecallNotes = Callable[[PeerCase], Sequence[Remembered]]
"""What is remembered for a case, best first; the first k are shown."""


async def simply_added(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Every note stands beside the others."""
    return NoteChanges(new=(NewNote(note=note),))


async def nothing_more(memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Nothing is left to do."""
    return NoteChanges()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One peer. ``title`` says after whom it is; ``differences`` what is not as there, one sentence each. ``keyed_by``
    is the text whose vector finds a note; ``adapted``: a model may rewrite what was recalled; ``prompts``: files."""

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


PEERS: Registry[Peer] = Registry("peers", one="peer", of=Peer, title=lambda peer: peer.title)
"""The memories that GSEM is compared with, by name, in the order of its Table 1."""
