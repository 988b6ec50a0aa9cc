"""The chat-completions format: requests to bytes, bytes to replies, images, tool names, refusals."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from wardround.core import (
    Message,
    Picture,
    PromptTooLong,
    ProviderError,
    ToolCall,
    ToolSchema,
    Usage,
    UserError,
    data_url,
)
from wardround.models.endpoint import MalformedReply, error_text, read_json
from wardround.models.protocol import FinishReason, ModelSettings, Request

# Images in requests: messages only name them; here their bytes are put where an endpoint accepts them.
#
# Chat-completions servers accept images in user messages; most refuse them in tool results. So images of results are
# sent in a user message after the results of their turn, each under its title. A model without image input gets a
# line that lists the images.


ShowPictures = Literal["user", "tool", "none"]
_OF_RESULTS = "Pictures that belong to the results above:"
_NOT_SHOWN = "(not shown, because this model takes no images: {titles})"


def placed(messages: Sequence[Message], show: ShowPictures) -> Iterator[Message]:
    """Yield the messages with their images where ``show`` puts them.

    ``user``: in a user message after a turn's results; ``tool``: in the tool messages themselves; ``none``: nowhere.
    """
    waiting: list[Picture] = []
    for message in messages:
        if waiting and message.role != "tool":
            yield _image_message(waiting)
            waiting = []
        if message.pictures and show == "none":
            yield _without_images(message)
        elif message.pictures and message.role == "tool" and show == "user":
            waiting += message.pictures
            yield replace(message, pictures=())
        else:
            yield message
    if waiting:
        yield _image_message(waiting)


def _image_message(pictures: Sequence[Picture]) -> Message:
    return Message(role="user", content=_OF_RESULTS, pictures=tuple(pictures))


def _without_images(message: Message) -> Message:
    notice = _NOT_SHOWN.format(titles="; ".join(picture.title for picture in message.pictures))
    content = f"{message.content}\n{notice}" if message.content else notice
    return replace(message, content=content, pictures=())


def with_parts(message: Message) -> bytes:
    """Return a message with images as an endpoint accepts it.

    The content is in parts, each image after its title.
    """
    body = message.to_wire()
    del body["pictures"]
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
    for picture in message.pictures:
        parts.append({"type": "text", "text": picture.title})
        parts.append({"type": "image_url", "image_url": {"url": data_url(picture)}})
    body["content"] = parts
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


# The chat-completions format: a request to bytes, bytes to a reply, without any network access.
#
# Messages are encoded once and sent as these bytes; consecutive user messages are joined, because some chat templates
# refuse two. Replies are parsed as endpoints really send them: null or multi-part content, arguments as objects, the
# old ``function_call``, missing ids and usage.


MOST_CALLS = 64
"""Limit on the tool calls of one reply; one more is kept to represent the rest, and is refused."""
MOST_CHARACTERS = 2_000_000
"""Limit on the characters of text, reasoning and arguments in one reply together."""
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
    """A parsed reply body; the client adds time, attempts and cost."""

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
    """Return the body of a request.

    ``extra`` fields are added last; a None value removes a standard field. ``strict``: the request's schemas are in
    strict form. ``pictures``: which messages carry the images of tool results.
    """
    sent = joined(placed(request.messages, pictures))
    parts = [b'{"model":', _json(model), b',"messages":[', b",".join(map(sendable, sent)), b"]"]
    if request.tools:
        parts += [b',"tools":[', b",".join(tool.wire for tool in request.tools), b"]"]
        if request.tool_choice != "auto":
            parts += [b',"tool_choice":', _json(request.tool_choice)]
    if with_schema and request.response_schema is not None:
        schema = {"name": "answer", "schema": request.response_schema, **({"strict": True} if strict else {})}
        extra = {"response_format": {"type": "json_schema", "json_schema": schema}, **(extra or {})}
    values = _settings_values(request.settings)
    if extra:
        fields = dict(zip(_SETTINGS, values, strict=True))
        if "max_completion_tokens" in extra:
            del fields["max_tokens"]
        parts += [_fields_json({**fields, **extra}), b"}"]
    else:
        parts += [_settings_json(*values), b"}"]
    return b"".join(parts)


_SETTINGS = ("max_tokens", "temperature", "top_p", "presence_penalty", "seed", "logprobs")


def _settings_values(settings: ModelSettings) -> tuple[Any, ...]:
    penalty, logprobs = settings.presence_penalty, True if settings.token_logprobs else None
    return settings.max_output_tokens, settings.temperature, settings.top_p, penalty, settings.seed, logprobs


@lru_cache(maxsize=64, typed=True)
def _settings_json(*values: Any) -> bytes:
    """Return settings as the fields of a body: they are the same in most requests of a run. 1 and 1.0 are two."""
    return _fields_json(dict(zip(_SETTINGS, values, strict=True)))


def _fields_json(fields: Mapping[str, Any]) -> bytes:
    """Return fields as a body has them, each behind a comma, but for those without a value."""
    return b"".join(b",%b:%b" % (_json(name), _json(value)) for name, value in fields.items() if value is not None)


def joined(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages with consecutive user messages joined by a blank line."""
    run: list[Message] = []
    for message in messages:
        if message.role == "user":
            run.append(message)
            continue
        if run:
            yield _joined(run)
            run = []
        yield message
    if run:
        yield _joined(run)


def _joined(run: Sequence[Message]) -> Message:
    if len(run) == 1:
        return run[0]
    pictures = tuple(picture for message in run for picture in message.pictures)
    return Message(role="user", content="\n\n".join(message.content or "" for message in run), pictures=pictures)


def sendable(message: Message) -> bytes:
    """Return the bytes to send for a message: its own, unless servers would refuse them.

    Servers parse the arguments of earlier calls; after one broken JSON text of a model they answer 400 to every later
    request (vLLM issue 43995), so such arguments are sent inside an object. The log keeps what the model wrote.
    Images, which a message only names, are sent with their bytes.
    """
    if message.pictures:
        return with_parts(message)
    if not message.tool_calls or all(_is_object(call.arguments) for call in message.tool_calls):
        return message.wire
    calls = tuple(
        call
        if _is_object(call.arguments)
        else ToolCall(id=call.id, name=call.name, arguments=_valid_arguments(call.arguments))
        for call in message.tool_calls
    )
    return Message(role=message.role, content=message.content, tool_calls=calls).wire


def decode_reply(body: bytes, *, call_prefix: str) -> ReadReply:
    """Parse a chat completion. ``call_prefix`` makes ids for calls without one. Raises MalformedReply."""
    return read_reply(read_json(body, None), call_prefix=call_prefix)


def read_reply(data: Any, *, call_prefix: str) -> ReadReply:
    """Parse a decoded chat completion; see ``decode_reply``."""
    try:
        return _read_reply(data, call_prefix)
    except RecursionError:
        raise MalformedReply("the reply is nested too deep") from None


def _read_reply(data: Any, call_prefix: str) -> ReadReply:
    if not isinstance(data, dict):
        raise MalformedReply("the reply is not a JSON object")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        server_message = error_text(data)
        raise MalformedReply(f"the reply has no choices{': ' + server_message if server_message else ''}")
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
    """Raise MalformedReply where a reply is longer than any prompt could hold."""
    size = len(message.content or "") + len(reasoning or "")
    size += sum(len(call.arguments) + len(call.name) + len(call.id) for call in message.tool_calls)
    if size > MOST_CHARACTERS:
        raise MalformedReply(f"the reply holds {size:,} characters of text, more than {MOST_CHARACTERS:,}")


def read_message(raw: Mapping[str, Any], *, call_prefix: str) -> Message:
    """Parse an assistant message; every call gets an id that is unique within it.

    Beyond the limit only one more call is read, which is later refused.
    """
    calls = raw.get("tool_calls") or ()
    if not calls and isinstance(raw.get("function_call"), dict):
        calls = ({"function": raw["function_call"]},)
    if not isinstance(calls, list | tuple):
        raise MalformedReply("tool_calls is not a list")
    parsed_calls: list[ToolCall] = []
    for index, call in enumerate(calls[: MOST_CALLS + 1]):
        if not isinstance(call, dict):
            raise MalformedReply(f"tool call {index} is not an object")
        parsed_calls.append(_tool_call(call, f"{call_prefix}_{index}", {earlier.id for earlier in parsed_calls}))
    content = _text(raw.get("content"))
    if content is None and isinstance(raw.get("refusal"), str):
        content = raw["refusal"]
    if content is None and not parsed_calls:
        content = ""
    return Message(role="assistant", content=content, tool_calls=tuple(parsed_calls))


def read_usage(raw: Any) -> tuple[Usage, tuple[str, ...]]:
    """Return the usage and the names of the fields that the endpoint did not report."""
    raw = raw if isinstance(raw, dict) else {}
    prompt = raw.get("prompt_tokens_details") or {}
    completion = raw.get("completion_tokens_details") or {}
    reported = {
        "input_tokens": raw.get("prompt_tokens"),
        "output_tokens": raw.get("completion_tokens"),
        "cached_tokens": prompt.get("cached_tokens") if isinstance(prompt, dict) else None,
        "reasoning_tokens": completion.get("reasoning_tokens") if isinstance(completion, dict) else None,
    }
    if reported["cached_tokens"] is None:
        reported["cached_tokens"] = raw.get("prompt_cache_hit_tokens")
    valid = {name: value for name, value in reported.items() if type(value) is int and 0 <= value < 2**53}
    return Usage(**valid), tuple(name for name in reported if name not in valid)


def _tool_call(raw: Mapping[str, Any], fallback: str, used_ids: set[str]) -> ToolCall:
    function = raw.get("function")
    source: Mapping[str, Any] = function if isinstance(function, dict) else raw
    arguments = source.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    identifier = raw.get("id")
    if not isinstance(identifier, str) or not identifier or identifier in used_ids:
        identifier = fallback
        while identifier in used_ids:
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
    """Return whether arguments are a JSON object; only short ones are cached, to save memory."""
    return _is_short_object(arguments) if len(arguments) <= _REMEMBERED_CHARACTERS else _reads_as_object(arguments)


@lru_cache(maxsize=8192)
def _is_short_object(arguments: str) -> bool:
    return _reads_as_object(arguments)


def _reads_as_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _valid_arguments(arguments: str) -> str:
    return json.dumps({"malformed_arguments": arguments} if arguments.strip() else {}, ensure_ascii=False)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


# Tool names on the wire: where an endpoint refuses dots, names go out with two underscores for each and come back as
# they were. Which name a plain form stands for is read off the tools that are offered, so no two of these may share
# one.


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


# Endpoints that refuse a prompt for its length, each in its own words: read, so that the prompt can be made to fit.


_STATUSES = (400, 413, 422)
_ABOUT = re.compile(r"context (?:length|size|window)|(?:prompt|input) is (?:too long|longer)", re.IGNORECASE)
_WINDOW = re.compile(r"context (?:length|size|window)\D{0,40}?(\d[\d,]*)|> (\d[\d,]*) maximum", re.IGNORECASE)
_PROMPT = re.compile(
    r"(?:request|input) \((\d[\d,]*) tokens|(\d[\d,]*) in the messages|has (\d[\d,]*) input tokens"
    r"|resulted in (\d[\d,]*) tokens|too long: (\d[\d,]*)",
    re.IGNORECASE,
)


def as_too_long(error: ProviderError) -> ProviderError:
    """Return the error as a PromptTooLong with the figures it names where it is one; else itself."""
    text = str(error)
    if error.status not in _STATUSES or not _ABOUT.search(text):
        return error
    return PromptTooLong(
        text,
        status=error.status,
        attempts=error.attempts,
        prompt_tokens=_figure(_PROMPT, text),
        window_tokens=_figure(_WINDOW, text),
    )


def _figure(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    digits = next((group for group in found.groups() if group), "") if found else ""
    number = int(digits.replace(",", "")[:12]) if digits else 0
    return number or None
