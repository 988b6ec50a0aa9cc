"""Memories that a package of others writes: a case is given as a conversation, what the package changes becomes notes.

The bank stays the only store: the package is shown the nearest facts in it. Without a model, lines drawn by rules are
added as they are.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any

from wardround.core import FormatError, Message, WardroundError, import_extra
from wardround.memory.construction.drafts import Case, draw_by_rules
from wardround.memory.experience import Experience
from wardround.memory.peer import (
    NewNote,
    NoteChanges,
    Peer,
    PeerAsking,
    PeerCase,
    PeerMemory,
    PeerSettings,
    RecallNotes,
    Remembered,
    beginning,
    case_document,
    note_of,
    without_identifiers,
)
from wardround.memory.peers.rag import recall_documents
from wardround.models import read_value
from wardround.models.schema import object_schema

BY_A_MODEL = "filling this memory by a model (--rules does without)"
_TITLE_TOKENS = 12


@dataclass(slots=True, kw_only=True)
class FactChanges:
    """What a package wants: texts of new facts with what is known of each, new texts of old ones by id, and ids that go
    with the reason."""

    added: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    updated: dict[str, str] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)


PackageWriter = Callable[[str, PeerMemory, PeerAsking], Awaitable[FactChanges]]
"""Let a package read a conversation. Raises what the endpoint raises, FormatError where the package cannot read a
reply, UserError without the package."""


def recall_facts(case: PeerCase) -> Sequence[Remembered]:
    """Return the nearest facts by vector."""
    return case.by_meaning()


def fact_text(note: Experience) -> str:
    """Return the text whose vector finds a fact: the fact alone."""
    return note.content


def package_peer(
    name: str,
    write: PackageWriter,
    *,
    title: str,
    differences: tuple[str, ...],
    recall: RecallNotes = recall_facts,
    tables: tuple[int, ...] = (),
    prompts: tuple[str, ...] = (),
) -> Peer:
    """Return the peer whose writer is a package. ``tables``: the tables of the GSEM paper that have it; ``prompts``:
    template files of ours."""

    async def draw(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
        if asking is not None:
            content = case_document(case, max_tokens=settings.document_tokens)
            return [note_of(case, name, title="a conversation", content=content, model=asking.model)]
        lines = dict.fromkeys(draw_by_rule.content for draw_by_rule in draw_by_rules(case))
        return [note_of(case, name, title=_title(line), content=line) for line in lines]

    async def settle(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
        if asking is None:
            return NoteChanges(new=(NewNote(note=note),))
        changes = await write(note.content, memory, asking)
        new = [NewNote(note=_fact(note, text, facts)) for text, facts in changes.added.items()]
        new += [NewNote(note=_fact(note, text, {}), replaces=old) for old, text in changes.updated.items()]
        return NoteChanges(new=tuple(new), dropped=changes.deleted)

    return Peer(
        name=name,
        title=title,
        draw=draw,
        settle=settle,
        recall=recall,
        keyed_by=fact_text,
        differences=differences,
        prompts=prompts,
        tables=tables,
    )


def _fact(conversation: Experience, text: str, facts: Mapping[str, Any]) -> Experience:
    text = without_identifiers(text)
    return replace(conversation, title=_title(text), content=text, facts={"extracted": True, **facts}, id="")


def _title(text: str) -> str:
    return beginning(text, _TITLE_TOKENS)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# LangMem's memory manager by its own package: a model adds, patches and removes memories in one reply.


_NEAREST_MEMORIES = 10
_TEXT = {"type": "string"}
_CALL = object_schema({"name": _TEXT, "args": _TEXT})
_CALLS = {"type": "array", "items": _CALL, "maxItems": 20}
_SILENT_LANGMEM = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


async def _written_by_langmem(conversation: str, memory: PeerMemory, asking: PeerAsking) -> FactChanges:
    near = {note.id: note.content for note, _ in memory.nearest(conversation, limit=_NEAREST_MEMORIES)}
    with environment(_SILENT_LANGMEM):
        package = _imported("langmem")
        failed: list[WardroundError] = []
        manager = package.create_memory_manager(_model(asking, failed), enable_deletes=True)
        existing = [(name, "Memory", {"content": text}) for name, text in near.items()]
        found = await manager.ainvoke({"messages": [("user", conversation)], "existing": existing})
    if failed:
        raise failed[0]
    changes = FactChanges()
    for name, memory_or_removal in found:
        text = _content(memory_or_removal)
        if text is None:
            changes.deleted[name] = "removed by LangMem"
        elif name not in near:
            changes.added[text] = {}
        elif text != near[name]:
            changes.updated[name] = text
    return changes


def _content(value: Any) -> str | None:
    """Return a memory's text; None for a removal."""
    found = value.get("content") if isinstance(value, dict) else getattr(value, "content", None)
    return None if found is None else str(found)


def _model(asking: PeerAsking, failed: list[WardroundError]) -> Any:
    """Return what the package takes for a chat model with tools: ours, asked for its calls as JSON.

    A call that fails is noted in ``failed`` and answered with no calls: the package would try again without end.
    """
    models, messages = (_imported(f"langchain_core.{name}") for name in ("language_models", "messages"))
    outputs, tools = (_imported(f"langchain_core.{name}") for name in ("outputs", "utils.function_calling"))

    def bound(self: Any, given: Sequence[Any], **_: Any) -> Any:
        return self.bind(tools=[json.dumps(tools.convert_to_openai_tool(one)["function"]) for one in given])

    async def reply(_: Any, said: Sequence[Any], *__: Any, tools: Sequence[str] = (), **___: Any) -> Any:
        lines = [f"{one.type}: {one.text}" for one in said]
        made: list[dict[str, Any]] = []
        try:
            calls = [] if failed else await asking.value("langmem_calls", _CALLS, messages=lines, tools=tools)
            made = [{"id": str(place), "type": "tool_call", **_read(call)} for place, call in enumerate(calls)]
        except WardroundError as error:
            failed.append(error)
        message = messages.AIMessage(content="", tool_calls=made)
        return outputs.ChatResult(generations=[outputs.ChatGeneration(message=message)])

    def asked_without_waiting(*_: Any, **__: Any) -> Any:
        raise FormatError("langmem: a call that does not wait", correction="none")

    methods = {"bind_tools": bound, "_agenerate": reply, "_generate": asked_without_waiting, "_llm_type": "wardround"}
    return type("AskedChatModel", (models.BaseChatModel,), methods)()


def _read(call: Mapping[str, str]) -> dict[str, Any]:
    """Return a call with its arguments read. Raises FormatError if they are no JSON object."""
    try:
        arguments = json.loads(call["args"])
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise FormatError("langmem: arguments that are no JSON object", correction="none")
    return {"name": call["name"], "args": arguments}


def _imported(module: str) -> Any:
    return import_extra(module, "langmem", what=BY_A_MODEL)


LANGMEM = package_peer(
    "langmem",
    _written_by_langmem,
    prompts=("langmem_calls",),
    title="LangMem: memories that a model adds, patches and removes (LangChain, 2025; package langmem)",
    differences=(
        "the package's memory manager with its own prompts, over our model, encoder and bank; nothing is traced",
        "tools are described in the prompt and called by JSON, so that any endpoint can answer",
        "the package sees the ten nearest memories of the bank; a conversation is one training case",
        "a patch replaces a memory by a new one, which carries the hands of both cases",
    ),
)


# Zep by its own package graphiti-core: facts as edges of a temporal graph, which later cases end. The package reads
# each case into a graph that holds the nearest facts of our bank.


_NEAREST_FACTS = 20
_GROUP = "wardround"
_SILENT_ZEP = {"GRAPHITI_TELEMETRY_ENABLED": "false"}
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
"""The package orders cases by time. Ours have an order and no dates: one a minute."""
_MODULES = "driver.kuzu_driver driver.driver graph_queries nodes edges llm_client.client embedder.client graphiti"


async def _written_by_zep(conversation: str, memory: PeerMemory, asking: PeerAsking) -> FactChanges:
    graphiti = await _graph(memory, asking)
    near = {note.id: note for note, _ in memory.nearest(conversation, limit=_NEAREST_FACTS) if "relation" in note.facts}
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
    with environment(_SILENT_ZEP):
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
    with environment(_SILENT_ZEP):
        for module in _MODULES.split():
            names |= vars(import_extra(f"graphiti_core.{module}", "zep", what=BY_A_MODEL))
    return SimpleNamespace(**names)


ZEP = package_peer(
    "zep",
    _written_by_zep,
    recall=recall_documents,
    title="Zep: facts of a temporal graph, ended by later ones (Rasmussen et al., 2025; package graphiti-core)",
    differences=(
        "the package's writer with its own prompts, over our model, encoder and bank; its telemetry is off",
        "it sees the twenty nearest facts of the bank, in a graph in memory; cases have an order and no dates",
        "facts are searched by words and by vector as the package does; summaries of entities are not kept",
    ),
)
