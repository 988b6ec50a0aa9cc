"""LangMem's memory manager by its own package: a model adds, patches and removes memories in one reply."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wardround.core import FormatError, WardroundError, import_extra
from wardround.memory.peer import PeerAsking, PeerMemory
from wardround.memory.peers.packages import BY_A_MODEL, FactChanges, environment, package_peer
from wardround.models.schema import object_schema

_NEAR = 10
_TEXT = {"type": "string"}
_CALL = object_schema({"name": _TEXT, "args": _TEXT})
_CALLS = {"type": "array", "items": _CALL, "maxItems": 20}
_SILENT = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


async def _written(conversation: str, memory: PeerMemory, asking: PeerAsking) -> FactChanges:
    near = {note.id: note.content for note, _ in memory.nearest(conversation, limit=_NEAR)}
    with environment(_SILENT):
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
    _written,
    prompts=("langmem_calls",),
    title="LangMem: memories that a model adds, patches and removes (LangChain, 2025; package langmem)",
    differences=(
        "the package's memory manager with its own prompts, over our model, encoder and bank; nothing is traced",
        "tools are described in the prompt and called by JSON, so that any endpoint can answer",
        "the package sees the ten nearest memories of the bank; a conversation is one training case",
        "a patch replaces a memory by a new one, which carries the hands of both cases",
    ),
)
