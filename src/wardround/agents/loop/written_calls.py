"""Tool calls that a model wrote into its text, because a server's template did not lift them out, as calls.

Read are ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` (also without its end), the function and parameter
tags of some coders' templates inside it, and a reply that is one such JSON object and nothing else. A call must name a
tool that is offered; nothing else in a text is ever taken for a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from wardround.core import Message, ToolCall, without_thinking

MOST_CALLS = 16
_LONGEST = 100_000
_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"\s*<function=([\w.-]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json|tool_call)?\s*\n(.*?)\n?```\Z", re.DOTALL)


def with_written_calls(message: Message, offered: Collection[str]) -> Message:
    """Return the message with the calls that stand in its text; as it is where there are none."""
    if message.tool_calls or not message.content:
        return message
    text = without_thinking(message.content)[-_LONGEST:].strip()
    blocks = list(_BLOCK.finditer(text))
    bodies = [block.group(1) for block in blocks] or [_FENCE.sub(r"\1", text)]
    found = [call for body in bodies[:MOST_CALLS] for call in _calls(body.strip()) if call[0] in offered]
    if not found:
        return message
    spoken = text[: blocks[0].start()].strip() if blocks else ""
    calls = tuple(
        ToolCall(id=f"written_{number}", name=name, arguments=json.dumps(given, ensure_ascii=False))
        for number, (name, given) in enumerate(found, start=1)
    )
    return replace(message, content=spoken or None, tool_calls=calls)


def _calls(body: str) -> Iterator[tuple[str, dict[str, Any]]]:
    function = _FUNCTION.match(body)
    if function:
        yield function.group(1), {name: _value(text) for name, text in _PARAMETER.findall(function.group(2))}
        return
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(body)
    except (ValueError, RecursionError):
        return
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            given = one.get("arguments", one.get("parameters", {}))
            if isinstance(given, str):
                given = _value(given)
            if isinstance(given, dict):
                yield one["name"], given


def _value(text: str) -> Any:
    """A value as JSON where it is, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
