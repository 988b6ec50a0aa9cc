"""What GSEM is compared with (its Table 1): the same loop without memory and with each peer's; ``<agent>+a-mem``."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.agents.method import Addition, Method
from wardround.agents.methods.react import REACT
from wardround.memory.peers import PEERS

VANILLA = Method(
    name="vanilla",
    title="vanilla: the loop of all rows without a memory; where there is no record to read, one direct answer",
    make=lambda settings: REACT,
    tables=(1,),
    paper="gsem",
)
PEER_METHODS = (
    VANILLA,
    *(
        Method(
            name=peer.name,
            title=peer.title,
            make=lambda settings: REACT,
            memory=("note",),
            tables=(1,),
            paper="gsem",
            peer=peer.name,
        )
        for peer in PEERS.registered
    ),
)
PEER_ADDITIONS: Mapping[str, Addition] = {
    peer.name: Addition(title=f"with notes of {peer.title}", peer=peer.name) for peer in PEERS.registered
}
