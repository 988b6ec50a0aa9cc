"""Replies that are data: a JSON schema where the endpoint takes one, else tolerant reading and one repair turn."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wardround.core import FormatError, Message, load_prompt, without_thinking
from wardround.models.protocol import Model, Reply, Request
from wardround.models.schema import violation
from wardround.models.strict_schema import from_strict_form

_FENCE = re.compile(r"```[a-zA-Z]*\s*\n?(.*?)```", re.DOTALL)
_MOST_OPENINGS = 500
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


ReadReplyText = Callable[[str, Mapping[str, Any]], tuple[Any, str | None]]
"""Reads a reply: its value by the schema, or None and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structured:
    """A value that follows its schema, and the calls it took (one, or two with the repair), to be recorded."""

    value: Any
    exchanges: tuple[tuple[Request, Reply], ...]


async def complete_structured(
    model: Model,
    request: Request,
    schema: Mapping[str, Any],
    *,
    record: Callable[[Request, Reply], None] = lambda request, reply: None,
    read: ReadReplyText | None = None,
) -> Structured:
    """Ask for a value of a JSON schema. A repair turn takes the ordinal after the request's.

    ``read`` reads a reply's text, where not only JSON will do. ``record`` is told of each call as it is answered.
    Raises FormatError when the second reply is no such value either.
    """
    exchanges: list[tuple[Request, Reply]] = []

    async def ask(messages: Sequence[Message]) -> Reply:
        ordinal = request.ordinal + len(exchanges)
        asked = replace(request, messages=tuple(messages), response_schema=schema, ordinal=ordinal)
        reply = await model.complete(asked)
        record(asked, reply)
        exchanges.append((asked, reply))
        return reply

    value = await ask_for_value(ask, request.messages, schema, read=read)
    return Structured(value=value, exchanges=tuple(exchanges))


async def ask_for_value(
    ask: Callable[[Sequence[Message]], Awaitable[Reply]],
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    *,
    read: ReadReplyText | None = None,
) -> Any:
    """Ask for a value of a JSON schema; where the reply is none, once more with what is wrong.

    Raises FormatError where the second is none either.
    """
    for _ in range(2):
        reply = await ask(messages)
        value, problem = (read or read_value)(reply.message.content or "", schema)
        if problem is None:
            return value
        correction = _correction(problem, schema)
        messages = (*messages, _spoken(reply), Message(role="user", content=correction))
    raise FormatError(f"no usable value after one repair: {problem}", correction=correction)


def read_value(text: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Find a value of the schema in a reply; return it, or None and what is wrong with the best candidate.

    Thinking, prose around, code fences and trailing commas are forgiven; a value that breaks the schema is not.
    """
    problem: str | None = None
    for candidate in _candidates(without_thinking(text).strip()):
        value, found = _load(candidate)
        if not found:
            continue
        value = from_strict_form(value, schema)
        broken = violation(value, schema)
        if broken is None:
            return value, None
        problem = problem or broken
    return None, problem or "there is no JSON value in it"


def _candidates(text: str) -> Iterator[str]:
    yield text
    for match in _FENCE.finditer(text):
        yield match.group(1).strip()
    decoder = json.JSONDecoder()
    cleaned = _TRAILING_COMMA.sub(r"\1", text)
    position = 0
    for _ in range(_MOST_OPENINGS):
        start = _opening(cleaned, position)
        if start < 0:
            return
        try:
            _, end = decoder.raw_decode(cleaned, start)
        except (ValueError, RecursionError):
            position = start + 1
        else:
            yield cleaned[start:end]
            position = end


def _opening(text: str, start: int) -> int:
    found = [place for place in (text.find("{", start), text.find("[", start)) if place >= 0]
    return min(found, default=-1)


def _load(text: str) -> tuple[Any, bool]:
    for attempt in (text, _TRAILING_COMMA.sub(r"\1", text)):
        try:
            return json.loads(attempt), True
        except (ValueError, RecursionError):
            continue
    return None, False


def _correction(problem: str, schema: Mapping[str, Any]) -> str:
    shown = json.dumps(schema, ensure_ascii=False)
    return load_prompt("wardround.models", "repair").render(problem=problem, schema=shown)


def _spoken(reply: Reply) -> Message:
    """The reply as plain text: calls nobody answered may not stay in a prompt."""
    return Message(role="assistant", content=reply.message.content or "")
