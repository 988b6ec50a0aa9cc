"""The memories that GSEM is compared with, each after its paper: what it stores and how it looks; the bank, its guards
and everything else is shared. See docs/methods/peers.md for what differs from the papers.
"""

from wardround.memory.peer import PEERS
from wardround.memory.peers.a_mem import A_MEM
from wardround.memory.peers.flex import FLEX
from wardround.memory.peers.mem0 import MEM0, MEM0_GRAPH
from wardround.memory.peers.packages import LANGMEM, ZEP
from wardround.memory.peers.rag import GRAPHRAG, NAIVE_RAG
from wardround.memory.peers.reme import REME

_OURS = (NAIVE_RAG, GRAPHRAG, MEM0, MEM0_GRAPH, A_MEM, REME, FLEX, ZEP, LANGMEM)
for _peer in _OURS:
    PEERS.add(_peer.name, _peer)

PEER_PROMPTS = tuple(dict.fromkeys(name for peer in _OURS for name in peer.prompts))

__all__ = ["PEER_PROMPTS"]
