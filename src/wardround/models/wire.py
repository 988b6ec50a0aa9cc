"""The chat-completions wire: a request to bytes, bytes to a reply. No network here.

Messages go out as the bytes they were encoded to once; user messages in a row go out as one, because some chat
templates refuse two. Replies are read as endpoints really send them: null or part-wise content, arguments as objects,
the old ``function_call``, missing ids and usage.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from wardround.core import Message, ToolCall, Usage
from wardround.models.endpoint import MalformedReply, error_text, read_json
from wardround.models.protocol import FinishReason, Request
from wardround.models.shown_pictures import ShowPictures, placed, with_parts

MOST_CALLS = 64
"""Tool calls of one reply that are taken in; the next one stands for all that came after it, and is refused."""
MOST_CHARACTERS = 2_000_000
"""Of text, reasoning and arguments in one reply together."""
_NAME_CHARACTERS = 200
_REMEMBERED_CHARACTERS = 2_000
_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReply:
    """A reply's body as read; the client adds time, attempts and cost."""

    message: Message
    finish_reason: FinishReason
    usage: Usage
    unreported: tuple[str, ...]
    model: str
    token_logprobs: tuple[float, ...] | None
    reasoning: str | None
    calls_left_out: int = 0


def encode_request(
    request: Request,
    model: str,
    *,
    extra: Mapping[str, Any] | None = None,
    with_schema: bool = True,
    strict: bool = False,
    pictures: ShowPictures = "user",
) -> bytes:
    """Return the request's body. ``extra`` fields are added last; an extra that is None removes a standard field.

    ``strict``: the request's schemas are in strict form. ``pictures``: in which messages those of tool results go out.
    """
    settings = request.settings
    fields: dict[str, Any] = {
        "max_tokens": settings.max_output_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "presence_penalty": settings.presence_penalty,
        "seed": settings.seed,
        "logprobs": True if settings.token_logprobs else None,
    }
    if with_schema and request.response_schema is not None:
        schema = {"name": "answer", "schema": request.response_schema, **({"strict": True} if strict else {})}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    extra = dict(extra or {})
    if "max_completion_tokens" in extra:
        del fields["max_tokens"]
    fields |= extra
    sent = tuple(placed(request.messages, pictures))
    parts = [b'{"model":', _json(model), b',"messages":[', b",".join(map(sendable, joined(sent))), b"]"]
    if request.tools:
        parts += [b',"tools":[', b",".join(tool.wire for tool in request.tools), b"]"]
        if request.tool_choice != "auto":
            parts += [b',"tool_choice":', _json(request.tool_choice)]
    for name, value in fields.items():
        if value is not None:
            parts += [b",", _json(name), b":", _json(value)]
    parts.append(b"}")
    return b"".join(parts)


def joined(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with user messages in a row made one, a blank line between them."""
    for role, group in groupby(messages, key=lambda message: message.role):
        run = list(group)
        if role != "user" or len(run) == 1:
            yield from run
        else:
            pictures = tuple(picture for message in run for picture in message.pictures)
            yield Message(role="user", content="\n\n".join(message.content or "" for message in run), pictures=pictures)


def sendable(message: Message) -> bytes:
    """The bytes to send for a message: its own, unless servers would refuse them.

    Servers parse the arguments of earlier calls, and once a model has written broken JSON they answer 400 to all that
    follows (vLLM issue 43995), so such arguments go out inside an object. The log keeps what the model wrote.
    Pictures, which a message only names, go out with their bytes.
    """
    if message.pictures:
        return with_parts(message)
    if not message.tool_calls or all(_is_object(call.arguments) for call in message.tool_calls):
        return message.wire
    calls = tuple(
        call if _is_object(call.arguments) else ToolCall(id=call.id, name=call.name, arguments=_mended(call.arguments))
        for call in message.tool_calls
    )
    return Message(role=message.role, content=message.content, tool_calls=calls).wire


def decode_reply(body: bytes, *, call_prefix: str) -> ReadReply:
    """Read a chat completion. ``call_prefix`` makes ids for calls that come without one. Raises MalformedReply."""
    return read_reply(read_json(body, None), call_prefix=call_prefix)


def read_reply(data: Any, *, call_prefix: str) -> ReadReply:
    """Read a decoded chat completion; see ``decode_reply``."""
    try:
        return _read_reply(data, call_prefix)
    except RecursionError:
        raise MalformedReply("the reply is nested too deep") from None


def _read_reply(data: Any, call_prefix: str) -> ReadReply:
    if not isinstance(data, dict):
        raise MalformedReply("the reply is not a JSON object")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        said = error_text(data)
        raise MalformedReply(f"the reply has no choices{': ' + said if said else ''}")
    choice = choices[0]
    raw = choice.get("message")
    if not isinstance(raw, dict):
        raise MalformedReply("the reply's first choice has no message")
    message = read_message(raw, call_prefix=call_prefix)
    reasoning = _reasoning(raw)
    _must_be_short(message, reasoning)
    usage, unreported = read_usage(data.get("usage"))
    calls = raw.get("tool_calls")
    return ReadReply(
        message=message,
        finish_reason=_finish(choice.get("finish_reason"), message),
        usage=usage,
        unreported=unreported,
        model=data["model"][:_NAME_CHARACTERS] if isinstance(data.get("model"), str) else "",
        token_logprobs=_logprobs(choice.get("logprobs")),
        reasoning=reasoning,
        calls_left_out=max(0, len(calls) - MOST_CALLS) if isinstance(calls, list) else 0,
    )


def _must_be_short(message: Message, reasoning: str | None) -> None:
    """Raise MalformedReply where a reply holds more text than any prompt could take in."""
    size = len(message.content or "") + len(reasoning or "")
    size += sum(len(call.arguments) + len(call.name) + len(call.id) for call in message.tool_calls)
    if size > MOST_CHARACTERS:
        raise MalformedReply(f"the reply holds {size:,} characters of text, more than {MOST_CHARACTERS:,}")


def read_message(raw: Mapping[str, Any], *, call_prefix: str) -> Message:
    """Read an assistant message; every call gets an id that is unique within it. Of calls without end the first ones
    are read, and one more that whoever runs them refuses."""
    calls = raw.get("tool_calls") or ()
    if not calls and isinstance(raw.get("function_call"), dict):
        calls = ({"function": raw["function_call"]},)
    if not isinstance(calls, list | tuple):
        raise MalformedReply("tool_calls is not a list")
    read: list[ToolCall] = []
    for index, call in enumerate(calls[: MOST_CALLS + 1]):
        if not isinstance(call, dict):
            raise MalformedReply(f"tool call {index} is not an object")
        read.append(_call(call, f"{call_prefix}_{index}", {earlier.id for earlier in read}))
    content = _text(raw.get("content"))
    if content is None and isinstance(raw.get("refusal"), str):
        content = raw["refusal"]
    if content is None and not read:
        content = ""
    return Message(role="assistant", content=content, tool_calls=tuple(read))


def read_usage(raw: Any) -> tuple[Usage, tuple[str, ...]]:
    """Return the usage and the names of the fields the endpoint did not report."""
    raw = raw if isinstance(raw, dict) else {}
    prompt = raw.get("prompt_tokens_details") or {}
    completion = raw.get("completion_tokens_details") or {}
    found = {
        "input_tokens": raw.get("prompt_tokens"),
        "output_tokens": raw.get("completion_tokens"),
        "cached_tokens": prompt.get("cached_tokens") if isinstance(prompt, dict) else None,
        "reasoning_tokens": completion.get("reasoning_tokens") if isinstance(completion, dict) else None,
    }
    if found["cached_tokens"] is None:
        found["cached_tokens"] = raw.get("prompt_cache_hit_tokens")
    counted = {name: value for name, value in found.items() if type(value) is int and 0 <= value < 2**53}
    return Usage(**counted), tuple(name for name in found if name not in counted)


def _call(raw: Mapping[str, Any], fallback: str, taken: set[str]) -> ToolCall:
    function = raw.get("function")
    source: Mapping[str, Any] = function if isinstance(function, dict) else raw
    arguments = source.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    identifier = raw.get("id")
    if not isinstance(identifier, str) or not identifier or identifier in taken:
        identifier = fallback
        while identifier in taken:
            identifier += "_"
    return ToolCall(id=identifier, name=str(source.get("name") or ""), arguments=arguments)


def _text(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    raise MalformedReply(f"content is a {type(content).__name__}, not text")


def _finish(reason: Any, message: Message) -> FinishReason:
    mapped = _FINISH.get(reason) if isinstance(reason, str) else None
    if message.tool_calls and mapped in (None, "stop"):
        return "tool_calls"
    return mapped or "other"


def _logprobs(raw: Any) -> tuple[float, ...] | None:
    tokens = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(tokens, list):
        return None
    values = [token.get("logprob") for token in tokens if isinstance(token, dict)]
    try:
        numbers = tuple(float(value) for value in values if isinstance(value, int | float))
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _reasoning(raw: Mapping[str, Any]) -> str | None:
    for name in ("reasoning_content", "reasoning"):
        if isinstance(raw.get(name), str) and raw[name]:
            return str(raw[name])
    return None


def _is_object(arguments: str) -> bool:
    """Long arguments are read again every time: remembered ones would stay in memory."""
    return _is_short_object(arguments) if len(arguments) <= _REMEMBERED_CHARACTERS else _reads_as_object(arguments)


@lru_cache(maxsize=8192)
def _is_short_object(arguments: str) -> bool:
    return _reads_as_object(arguments)


def _reads_as_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _mended(arguments: str) -> str:
    return json.dumps({"malformed_arguments": arguments} if arguments.strip() else {}, ensure_ascii=False)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
