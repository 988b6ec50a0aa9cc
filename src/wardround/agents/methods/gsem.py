"""GSEM and the memories it is compared with, as additions to any agent."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.agents.catalogue import Addition, Method
from wardround.agents.methods.react import make_react
from wardround.memory import POLARITIES
from wardround.memory.peer import PEERS

# The methods that read a bank's graph, what GSEM is compared with (its Table 1: the same loop without memory and with
# each peer's), and any agent with what either remembers: ``<agent>+gsem``, ``+gsem-walk``, ``<agent>+a-mem``.


METHODS = (
    Method(
        name="gsem",
        title="GSEM: experiences of a graph that the model walks, with polarity, scope and boundaries",
        make=make_react,
        memory=POLARITIES,
        tables=(1,),
        paper="gsem",
        walker="model",
    ),
    Method(
        name="gsem-walk",
        title="GSEM without asking: the same graph walked by rule",
        make=make_react,
        memory=POLARITIES,
        tables=(1,),
        paper="gsem",
        walker="beam",
    ),
    Method(
        name="vanilla",
        title="vanilla: the loop of all rows without a memory; without a record to read, one direct answer",
        make=make_react,
        tables=(1,),
        paper="gsem",
    ),
    *(
        Method(
            name=peer.name,
            title=peer.title,
            make=make_react,
            memory=("note",),
            tables=peer.tables,
            paper="gsem",
            peer=peer.name,
        )
        for peer in PEERS.registered
    ),
)
ADDITIONS: Mapping[str, Addition] = {
    "gsem": Addition(title="with experiences that the model walked to", walker="model"),
    "gsem-walk": Addition(title="with experiences that were walked to by rule", walker="beam"),
    **{peer.name: Addition(title=f"with notes of {peer.title}", peer=peer.name) for peer in PEERS.registered},
}
