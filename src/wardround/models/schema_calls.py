"""Tool calls for servers whose chat template ignores ``tools``: they are described in the prompt, the reply is bound to
the union of their schemas, and read back as a call. Whoever asks sees tool calls either way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from wardround.core import Message, ProviderError, ToolCall, ToolSchema, UserError, load_prompt
from wardround.models.protocol import Model, ModelSettings, Reply, Request
from wardround.models.schema import read_value

ToolCalls = Literal["native", "schema", "auto"]
TOOL_CALLS: tuple[ToolCalls, ...] = get_args(ToolCalls)

_REFUSED = (400, 404, 422, 501)
_MOST_ITEMS = 20
_PROBE = (Message(role="user", content="Hello"),)


def with_tool_calls(model: Model, way: str) -> Model:
    """Return the model with its tool calls made in the given way: ``native`` leaves it as it is."""
    if way not in TOOL_CALLS:
        raise UserError(f"tool calls are made {', '.join(TOOL_CALLS)}, not {way!r}")
    return model if way == "native" else SchemaCalls(model, probing=way == "auto")


class SchemaCalls:
    """A model that calls tools through a response schema. ``probing``: only if its server turns out to ignore tools.

    The probe is two calls of one token at the first request that offers tools: the same prompt with and without them.
    A template that shows them makes the first one longer.
    """

    def __init__(self, model: Model, *, probing: bool) -> None:
        self._model = model
        self._by_schema: bool | None = None if probing else True
        self._deciding = asyncio.Lock()
        way = "auto" if probing else "schema"
        self.name = model.name
        self.identity = (
            f"{model.identity}#tool-calls-{way}-{load_prompt('wardround.models', 'schema_calls').sha256[:12]}"
        )

    async def check(self) -> None:
        """Check the model behind it."""
        await self._model.check()

    async def close(self) -> None:
        """Close the model behind it."""
        await self._model.close()

    async def complete(self, request: Request) -> Reply:
        """Ask in the way that this server understands; calls come back as calls."""
        by_schema = await self._decided(request) if request.tools else bool(self._by_schema)
        if not by_schema:
            return replace(await self._model.complete(request), identity=self.identity)
        reply = await self._model.complete(_in_words(request))
        message = reply.message
        if request.tools and request.tool_choice != "none" and reply.finish_reason != "content_filter":
            message = _with_call(message, request)
        finish = "tool_calls" if message.tool_calls else reply.finish_reason
        return replace(reply, message=message, finish_reason=finish, identity=self.identity)

    async def _decided(self, request: Request) -> bool:
        async with self._deciding:
            if self._by_schema is None:
                self._by_schema = await self._ignores(request.tools)
            return self._by_schema

    async def _ignores(self, tools: Sequence[ToolSchema]) -> bool:
        """Whether a prompt is no longer with tools than without, or they are refused."""
        settings = ModelSettings(temperature=None, top_p=None, max_output_tokens=1)
        bare = await self._model.complete(Request(messages=_PROBE, settings=settings, episode="probe"))
        try:
            full = await self._model.complete(Request(messages=_PROBE, settings=settings, episode="probe", tools=tools))
        except ProviderError as error:
            if error.status in _REFUSED or (error.status is not None and "tool" in str(error)):
                return True
            raise
        if not (bare.usage_known and full.usage_known):
            return False
        return full.usage.input_tokens <= bare.usage.input_tokens


def union_schema(tools: Sequence[ToolSchema]) -> dict[str, Any]:
    """Return the schema of one call of any of the tools: closed objects and short lists, so that every reply ends."""
    return {"anyOf": [_call_schema(tool) for tool in tools]}


def _call_schema(tool: ToolSchema) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, "arguments": _closed(tool.parameters)},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    closed = {name: value for name, value in schema.items() if name not in ("description", "default", "title")}
    if "properties" in closed:
        closed["properties"] = {name: _closed(value) for name, value in closed["properties"].items()}
        closed.setdefault("additionalProperties", False)
    if isinstance(closed.get("items"), Mapping):
        closed["items"] = _closed(closed["items"])
        closed.setdefault("maxItems", _MOST_ITEMS)
    return closed


def _in_words(request: Request) -> Request:
    """The request without tools: described in the system message, calls and results of the history as text."""
    messages = list(_spoken(request.messages))
    if request.tools:
        described = load_prompt("wardround.models", "schema_calls").render(tools=[_described(t) for t in request.tools])
        head = messages.pop(0).content if messages and messages[0].role == "system" else None
        system = "\n\n".join(part for part in (head, described) if part)
        messages.insert(0, Message(role="system", content=system))
    bound = request.tools and request.tool_choice != "none"
    schema = union_schema(request.tools) if bound else request.response_schema
    return replace(request, messages=tuple(messages), tools=(), tool_choice="auto", response_schema=schema)


def _spoken(messages: Sequence[Message]) -> Iterator[Message]:
    names: dict[str, str] = {}
    for message in messages:
        if message.tool_calls:
            names |= {call.id: call.name for call in message.tool_calls}
            lines = [message.content or "", *map(_written, message.tool_calls)]
            yield Message(role="assistant", content="\n".join(line for line in lines if line))
        elif message.role == "tool":
            name = names.get(message.tool_call_id or "", "a call")
            result_text = f"Result of {name}:\n{message.content or ''}"
            yield Message(role="user", content=result_text, pictures=message.pictures)
        else:
            yield message


def _written(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = {"unreadable": call.arguments}
    return json.dumps({"tool": call.name, "arguments": arguments}, ensure_ascii=False)


def _described(tool: ToolSchema) -> dict[str, Any]:
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    parts = [f"{name}{'' if name in required else '?'}: {_type(schema)}" for name, schema in properties.items()]
    arguments = [{"name": name, "description": schema.get("description", "")} for name, schema in properties.items()]
    return {
        "name": tool.name,
        "description": tool.description,
        "signature": ", ".join(parts),
        "arguments": arguments,
    }


def _type(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type", "any")
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    inner = schema.get("items")
    inside = f" of {_type(inner)}" if isinstance(inner, Mapping) else ""
    return " or ".join(f"array{inside}" if name == "array" else str(name) for name in names)


def _with_call(message: Message, request: Request) -> Message:
    """The reply's message with the call that it writes; as it is where it writes none."""
    if message.tool_calls or not message.content:
        return message
    shape = {
        "type": "object",
        "properties": {"tool": {"enum": [tool.name for tool in request.tools]}, "arguments": {"type": "object"}},
        "required": ["tool", "arguments"],
    }
    value, problem = read_value(message.content, shape)
    if problem is not None:
        return message
    arguments = json.dumps(value["arguments"], ensure_ascii=False)
    call = ToolCall(id=f"schema_{request.ordinal}", name=value["tool"], arguments=arguments)
    return Message(role="assistant", content=None, tool_calls=(call,))
