"""Zep by its own package graphiti-core: facts as edges of a temporal graph, which later cases end. The package reads
each case into a graph that holds the nearest facts of our bank.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any

from wardround.core import FormatError, Message, import_extra
from wardround.memory.peer import PeerAsking, PeerMemory
from wardround.memory.peers.naive_rag import recall_documents
from wardround.memory.peers.packages import BY_A_MODEL, FactChanges, environment, package_peer
from wardround.models import read_value

_NEAR = 20
_GROUP = "wardround"
_SILENT = {"GRAPHITI_TELEMETRY_ENABLED": "false"}
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
"""The package orders cases by time. Ours have an order and no dates: one a minute."""
_MODULES = "driver.kuzu_driver driver.driver graph_queries nodes edges llm_client.client embedder.client graphiti"


async def _written(conversation: str, memory: PeerMemory, asking: PeerAsking) -> FactChanges:
    graphiti = await _graph(memory, asking)
    near = {note.id: note for note, _ in memory.nearest(conversation, limit=_NEAR) if "relation" in note.facts}
    for name, note in near.items():
        await _put(graphiti, name, note.content, note.facts)
    now = _BEGINNING + timedelta(minutes=memory.bank.revision)
    found = await graphiti.add_episode("a case", conversation, "a training case", now, group_id=_GROUP)
    names = {node.uuid: node.name for node in found.nodes}
    changes = FactChanges()
    for edge in found.edges:
        if edge.uuid in near:
            if edge.invalid_at or edge.expired_at:
                changes.deleted[edge.uuid] = "ended by a later case, after Zep"
        elif not edge.expired_at:
            source, target = (names.get(end, end) for end in (edge.source_node_uuid, edge.target_node_uuid))
            changes.added[edge.fact] = {"source": source, "relation": edge.name, "target": target}
    return changes


async def _graph(memory: PeerMemory, asking: PeerAsking) -> Any:
    """Return the package's graph, empty, over our model and our encoder."""
    package = _package()

    async def reply(_: Any, messages: Any, response_model: Any = None, *__: Any, **___: Any) -> Any:
        request = [Message(role=message.role, content=message.content) for message in messages]
        answer = await asking.asker.ask(request, purpose="zep")
        value, problem = read_value(answer.message.content or "", {"type": "object"})
        try:
            return response_model.model_validate(value).model_dump()
        except ValueError as error:
            raise FormatError(f"zep: {problem or error}", correction=str(problem or error)) from error

    async def keys(_: Any, input_data_list: Sequence[str]) -> list[list[float]]:
        return [[float(number) for number in memory.key(text).vector] for text in input_data_list]

    async def key(_: Any, input_data: Any) -> list[float]:
        return (await keys(_, [input_data] if isinstance(input_data, str) else input_data))[0]

    with warnings.catch_warnings(action="ignore"):  # it prefers databases that are servers
        driver = package.KuzuDriver()
    driver._database = _GROUP
    for query in package.get_fulltext_indices(package.GraphProvider.KUZU):
        await driver.execute_query(query)
    model = type("Asked", (package.LLMClient,), {"_generate_response": reply})(None)
    encoder = type("Keys", (package.EmbedderClient,), {"create": key, "create_batch": keys})()
    ranker = type("Unranked", (package.CrossEncoderClient,), {"rank": None})()
    with environment(_SILENT):
        return package.Graphiti(graph_driver=driver, llm_client=model, embedder=encoder, cross_encoder=ranker)


async def _put(graphiti: Any, name: str, fact: str, facts: Any) -> None:
    """Put a fact of the bank into the graph: its two entities by their names, its edge by the note's id."""
    package, begun = _package(), {"group_id": _GROUP, "created_at": _BEGINNING}
    for end in (facts["source"], facts["target"]):
        node = package.EntityNode(uuid=end, name=end, labels=[], summary="", **begun)
        await node.generate_name_embedding(graphiti.embedder)
        await node.save(graphiti.driver)
    ends = {f"{end}_node_uuid": facts[end] for end in ("source", "target")}
    edge = package.EntityEdge(uuid=name, name=facts["relation"], fact=fact, valid_at=_BEGINNING, **ends, **begun)
    await edge.generate_embedding(graphiti.embedder)
    await edge.save(graphiti.driver)


@cache
def _package() -> Any:
    """Return what is used of the package, which sends nothing. Raises UserError if it is not installed."""
    names: dict[str, Any] = {}
    with environment(_SILENT):
        for module in _MODULES.split():
            names |= vars(import_extra(f"graphiti_core.{module}", "zep", what=BY_A_MODEL))
    return SimpleNamespace(**names)


ZEP = package_peer(
    "zep",
    _written,
    recall=recall_documents,
    title="Zep: facts of a temporal graph, ended by later ones (Rasmussen et al., 2025; package graphiti-core)",
    differences=(
        "the package's writer with its own prompts, over our model, encoder and bank; its telemetry is off",
        "it sees the twenty nearest facts of the bank, in a graph in memory; cases have an order and no dates",
        "facts are searched by words and by vector as the package does; summaries of entities are not kept",
    ),
)
