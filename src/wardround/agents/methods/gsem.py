"""The methods that read a bank's graph, and any agent with what was walked to: ``<agent>+gsem``, ``+gsem-walk``."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.agents.method import Addition, Method
from wardround.agents.methods.react import REACT
from wardround.memory import POLARITIES

GRAPH_METHODS = (
    Method(
        name="gsem",
        title="GSEM: experiences of a graph that the model walks, with polarity, scope and boundaries",
        make=lambda settings: REACT,
        memory=POLARITIES,
        tables=(1,),
        paper="gsem",
        walker="model",
    ),
    Method(
        name="gsem-walk",
        title="GSEM without asking: the same graph walked by rule",
        make=lambda settings: REACT,
        memory=POLARITIES,
        tables=(1,),
        paper="gsem",
        walker="beam",
    ),
)
GRAPH_ADDITIONS: Mapping[str, Addition] = {
    "gsem": Addition(title="with experiences that the model walked to", walker="model"),
    "gsem-walk": Addition(title="with experiences that were walked to by rule", walker="beam"),
}
