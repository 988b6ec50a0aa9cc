"""Tool names on the wire: where an endpoint refuses dots, names go out with two underscores for each and come back as
they were. Which name a plain form stands for is read off the tools that are offered, so no two of these may share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from wardround.core import Message, ToolCall, ToolSchema, UserError
from wardround.models.protocol import Request

_REFUSING = re.compile(r"pattern|invalid|alphanumeric|characters|must match", re.IGNORECASE)


def plain_name(name: str) -> str:
    """Return a name without dots.

    >>> plain_name("browser.search")
    'browser__search'
    """
    return name.replace(".", "__")


def own_name(plain: str, names: Iterable[str]) -> str:
    """Return the name that is meant by a plain form, among those offered; what is none of them stays as it is."""
    return next((name for name in names if plain in (name, plain_name(name))), plain)


def has_dots(request: Request) -> bool:
    """Whether a request's tools, or the calls in its history, have dots in their names."""
    calls = (call.name for message in request.messages for call in message.tool_calls)
    return any("." in name for name in (*(tool.name for tool in request.tools), *calls))


def refuses_dots(status: int | None, message: str) -> bool:
    """Whether an endpoint's error says that it does not take a tool's name."""
    return status in (400, 422) and "name" in message.lower() and _REFUSING.search(message) is not None


def without_dots(request: Request) -> Request:
    """Return the request with every tool under its plain name, in the history too. UserError: two would share one."""
    plain = [plain_name(tool.name) for tool in request.tools]
    shared = next((name for name in plain if plain.count(name) > 1), None)
    if shared is not None:
        raise UserError(f"two tools are called {shared!r} where an endpoint takes no dots; leave one of them out")
    return replace(
        request,
        tools=tuple(_plain_schema(tool) for tool in request.tools),
        messages=tuple(_plain_message(message) for message in request.messages),
    )


def with_own_names(message: Message, request: Request) -> Message:
    """Return a reply's message with its calls under the names that the request's tools have."""
    names = [tool.name for tool in request.tools]
    calls = tuple(_named(call, own_name(call.name, names)) for call in message.tool_calls)
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def _plain_schema(tool: ToolSchema) -> ToolSchema:
    return replace(tool, name=plain_name(tool.name)) if "." in tool.name else tool


def _plain_message(message: Message) -> Message:
    calls = tuple(_named(call, plain_name(call.name)) for call in message.tool_calls)
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def _named(call: ToolCall, name: str) -> ToolCall:
    return call if call.name == name else replace(call, name=name)
