"""The memories that GSEM is compared with, each after its paper: what it stores and how it looks; the bank, its guards
and everything else is shared. See docs/methods/peers.md for what differs from the papers.
"""

from wardround.memory.peers.a_mem import A_MEM
from wardround.memory.peers.flex import FLEX
from wardround.memory.peers.graphrag import GRAPHRAG
from wardround.memory.peers.mem0 import MEM0, MEM0_GRAPH
from wardround.memory.peers.naive_rag import NAIVE_RAG
from wardround.memory.peers.peer import (
    PEERS,
    USED,
    NewNote,
    NoteChanges,
    Peer,
    PeerAsking,
    PeerCase,
    PeerMemory,
    PeerSettings,
    Remembered,
    case_document,
    fused,
    linked,
    note_of,
)
from wardround.memory.peers.reme import REME

for _peer in (NAIVE_RAG, GRAPHRAG, MEM0, MEM0_GRAPH, A_MEM, REME, FLEX):
    PEERS.add(_peer.name, _peer)

PEER_PROMPTS = tuple(dict.fromkeys(name for peer in PEERS.registered for name in peer.prompts))

__all__ = [
    "PEERS",
    "PEER_PROMPTS",
    "USED",
    "NewNote",
    "NoteChanges",
    "Peer",
    "PeerAsking",
    "PeerCase",
    "PeerMemory",
    "PeerSettings",
    "Remembered",
    "case_document",
    "fused",
    "linked",
    "note_of",
]
