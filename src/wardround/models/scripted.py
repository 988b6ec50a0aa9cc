"""A model that says what it was told to: the double for tests, demonstrations and measurements. It sends nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from wardround.core import Message, ToolCall, Usage
from wardround.models.protocol import USAGE_FIELDS, FinishReason, Reply, Request

Line = Reply | Message | str | Exception
"""What a script may hold: a reply, a message, the text of one, or an error to raise."""


def say(text: str) -> Reply:
    """A reply that is text."""
    return _reply(Message(role="assistant", content=text))


def call(name: str, arguments: str | None = None, **named: Any) -> Reply:
    """A reply that calls one tool, with arguments by name or as the text a model would write."""
    return calls((name, json.dumps(named) if arguments is None else arguments))


def calls(*wanted: tuple[str, str]) -> Reply:
    """A reply that calls several tools at once: (name, arguments as text)."""
    made = tuple(ToolCall(id=f"call_{n}", name=name, arguments=text) for n, (name, text) in enumerate(wanted))
    return _reply(Message(role="assistant", content=None, tool_calls=made))


class ScriptedModel:
    """Replies in order from a list, or from a function of the request. ``requests`` keeps what it was asked.

    ``seconds`` makes every reply take that long, for measurements. A list that runs out is a mistake in the script and
    raises RuntimeError.
    """

    def __init__(
        self, script: Sequence[Line] | Callable[[Request], Line], *, name: str = "scripted", seconds: float = 0.0
    ) -> None:
        self.name = name
        self.identity = name
        self.requests: list[Request] = []
        self._script = script
        self._seconds = seconds

    async def check(self) -> None:
        """Nothing to reach."""

    async def complete(self, request: Request) -> Reply:
        """Give the next line; ids of tool calls are made unique by the request's ordinal."""
        position = len(self.requests)
        self.requests.append(request)
        if self._seconds:
            await asyncio.sleep(self._seconds)
        if callable(self._script):
            line = self._script(request)
        elif position < len(self._script):
            line = self._script[position]
        else:
            raise RuntimeError(f"the script holds {len(self._script)} replies and was asked for one more")
        return self._spoken(line, request)

    async def close(self) -> None:
        """Nothing to release."""

    def _spoken(self, line: Line, request: Request) -> Reply:
        if isinstance(line, Exception):
            raise line
        if isinstance(line, str):
            line = say(line)
        if isinstance(line, Message):
            line = _reply(line)
        message = line.message
        if message.tool_calls:
            renamed = tuple(replace(one, id=f"{one.id}_{request.ordinal}") for one in message.tool_calls)
            message = Message(role=message.role, content=message.content, tool_calls=renamed)
        return replace(line, message=message, model=line.model or self.name, identity=self.identity)


def _reply(message: Message) -> Reply:
    reason: FinishReason = "tool_calls" if message.tool_calls else "stop"
    return Reply(message=message, usage=Usage(), finish_reason=reason, model="", unreported=USAGE_FIELDS)
