"""Mem0 (Chhikara et al., 2025): facts extracted from a case, each added to the memory, merged into an older one, or in
place of it. The writer is the released package itself; where nobody can be asked, lines drawn by rules are added as
they are, as the package does when it is told not to infer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wardround.memory.construction.attempts import Case
from wardround.memory.construction.rules import draw_by_rules
from wardround.memory.experience import Experience
from wardround.memory.peers.asking import PeerAsking
from wardround.memory.peers.changes import NewNote, NoteChanges
from wardround.memory.peers.documents import beginning, case_document, note_of
from wardround.memory.peers.mem0_package import package_changes
from wardround.memory.peers.peer import Peer
from wardround.memory.peers.peer_case import PeerCase, Remembered
from wardround.memory.peers.peer_memory import PeerMemory
from wardround.memory.peers.settings import PeerSettings

_TITLE_TOKENS = 12


async def draw_conversation(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """The case as what the package is told; by rules, the lines that are to be remembered."""
    if asking is not None:
        content = case_document(case, max_tokens=settings.document_tokens)
        return [note_of(case, "mem0", title="a conversation", content=content, model=asking.model)]
    lines = dict.fromkeys(one.content for one in draw_by_rules(case))
    return [note_of(case, "mem0", title=_title(line), content=line) for line in lines]


async def settle_facts(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """What the package makes of a conversation beside what is remembered."""
    if asking is None:
        return NoteChanges(new=(NewNote(note=note),))
    changes = await package_changes(note.content, memory, asking)
    new = [NewNote(note=_fact(note, text)) for text in changes.added]
    new += [NewNote(note=_fact(note, text), replaces=old) for old, text in changes.updated.items()]
    return NoteChanges(new=tuple(new), dropped=dict.fromkeys(changes.deleted, "deleted by Mem0"))


def recall_facts(case: PeerCase) -> Sequence[Remembered]:
    """The nearest facts by vector."""
    return case.by_meaning()


def fact_text(note: Experience) -> str:
    """The text whose vector finds a fact: the fact alone."""
    return note.content


def _fact(conversation: Experience, text: str) -> Experience:
    return replace(conversation, title=_title(text), content=text, facts={"extracted": True}, id="")


def _title(text: str) -> str:
    return beginning(text, _TITLE_TOKENS)


MEM0 = Peer(
    name="mem0",
    title="Mem0: extracted facts, added, updated, deleted (Chhikara et al., 2025; package mem0ai)",
    draw=draw_conversation,
    settle=settle_facts,
    recall=recall_facts,
    keyed_by=fact_text,
    differences=(
        "the package's writer with its own prompts, over our model, our encoder and our bank; its telemetry is off",
        "version 0.1.115, which adds, updates and deletes as the paper says; later versions only add",
        "a conversation is one training case, told as one message",
        "an update replaces a fact by a new one, which carries the hands of both cases",
    ),
)
