"""JSON schemas: a small validator, the strict form, and replies that must be data."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wardround.core import FormatError, Message, ToolSchema, load_prompt, without_thinking
from wardround.models.protocol import Model, Reply, Request

# A small JSON-schema check: the keywords our own schemas use. An unknown keyword is a ValueError, never ignored.


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_SIZES = {"minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"}
_NOTES = {"title", "description", "default"}
_KNOWN = _SIZES | _NOTES | {"type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items"}


def object_schema(properties: Mapping[str, Any], optional: Collection[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of an object; all properties are required except the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def violation(value: Any, schema: Mapping[str, Any], where: str = "the value") -> str | None:
    """Return how the value breaks the schema, in words for the model; None if it is valid."""
    unknown = set(schema) - _KNOWN
    if unknown:
        raise ValueError(f"schema keywords not supported: {', '.join(sorted(unknown))}")
    return (
        _wrong_type(value, schema, where)
        or _wrong_choice(value, schema, where)
        or _wrong_size(value, schema, where)
        or _wrong_members(value, schema, where)
    )


def _wrong_type(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    types = schema.get("type")
    names = [types] if isinstance(types, str) else list(types or ())
    if not names or any(_is(value, name) for name in names):
        return None
    return f"{where} should be of type {' or '.join(names)}"


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name]) or (name == "integer" and isinstance(value, float) and value.is_integer())


def _wrong_choice(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} should be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        return f"{where} should be {schema['const']!r}"
    if "anyOf" in schema and all(violation(value, option, where) for option in schema["anyOf"]):
        return violation(value, schema["anyOf"][0], where)
    return None


def _wrong_size(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    if isinstance(value, str | list):
        low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        size: float = len(value)
        unit = " long" if isinstance(value, str) else " items"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high, size, unit = "minimum", "maximum", value, ""
    else:
        return None
    if size < schema.get(low, size):
        return f"{where} should be at least {schema[low]}{unit}"
    if size > schema.get(high, size):
        return f"{where} should be at most {schema[high]}{unit}"
    return None


def _wrong_members(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    if isinstance(value, list) and "items" in schema:
        broken = (violation(item, schema["items"], f"item {index} of {where}") for index, item in enumerate(value))
        return next(filter(None, broken), None)
    if not isinstance(value, dict):
        return None
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{where} lacks {', '.join(map(repr, missing))}"
    rest = schema.get("additionalProperties", True)
    extra = [name for name in value if name not in properties]
    if rest is False and extra:
        return f"{where} has unknown fields {', '.join(map(repr, extra))}"
    members = {name: properties.get(name, rest if isinstance(rest, Mapping) else {}) for name in value}
    broken = (violation(value[name], members[name], f"{name!r}") for name in value)
    return next(filter(None, broken), None)


# Schemas in the strict form that some hosted endpoints ask for: closed objects, every field required, no defaults.
#
# What may be left out is required and may be null there, and a reply that is no object is the field ``value`` of one;
# both are undone when the reply is read. An endpoint that refuses a schema for its form gets the strict form
# from then on (`models/client.py`).


_ABOUT_FORM = re.compile(
    r"missing items|additionalproperties|'required' is required|invalid schema|schema must|not permitted|strict",
    re.IGNORECASE,
)
_DROPPED = ("default", "title", "minLength", "maxLength")
_NULL = {"type": "null"}
_VALUE = "value"


def refuses_form(status: int | None, message: str) -> bool:
    """Whether an endpoint's error says that a schema is not in the form that it takes."""
    return status in (400, 422) and _ABOUT_FORM.search(message) is not None


def in_strict_form(request: Request) -> Request:
    """Return the request with every schema in strict form."""
    schema = request.response_schema
    if schema is not None and schema.get("type") != "object":
        schema = {"type": "object", "properties": {_VALUE: schema}, "required": [_VALUE]}
    return replace(
        request,
        tools=tuple(
            ToolSchema(
                name=tool.name, description=tool.description, parameters=strict_form(tool.parameters), strict=True
            )
            for tool in request.tools
        ),
        response_schema=strict_form(schema) if schema is not None else None,
    )


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in strict form: it allows the same values, with null for what is left out.

    >>> strict_form({"type": "object", "properties": {"why": {"type": "string"}}, "required": []})["required"]
    ['why']
    """
    strict = {key: value for key, value in schema.items() if key not in _DROPPED}
    if "const" in strict:
        strict["enum"] = [strict.pop("const")]
    if "items" in strict:
        strict["items"] = strict_form(strict["items"])
    if "anyOf" in strict:
        strict["anyOf"] = [strict_form(option) for option in strict["anyOf"]]
    if strict.get("type") == "object":
        required = schema.get("required", ())
        members = schema.get("properties", {})
        strict["properties"] = {
            name: strict_form(member) if name in required else _or_null(member) for name, member in members.items()
        }
        strict["required"] = list(members)
        strict["additionalProperties"] = False
    return strict


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    strict = strict_form(schema)
    about = strict.pop("description", "")
    if "default" in schema:
        about = f"{about} Null: {schema['default']!r}.".strip()
    options = [*strict["anyOf"], _NULL] if "anyOf" in strict else [strict, _NULL]
    return {"anyOf": options} | ({"description": about} if about else {})


def from_strict_form(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the value of a schema that a reply in the schema's strict form holds; any other reply stays as it is."""
    if schema.get("type") != "object" and isinstance(value, dict) and set(value) == {_VALUE}:
        value = value[_VALUE]
    return _without_nulls(value, schema)


def _without_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value without the nulls that stand for optional fields which were left out."""
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [_without_nulls(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    members, required = schema.get("properties", {}), schema.get("required", ())
    left_out = {name for name in value if value[name] is None and name in members and name not in required} - {
        name for name, member in members.items() if _takes_null(member)
    }
    return {name: _without_nulls(item, members.get(name, {})) for name, item in value.items() if name not in left_out}


def _takes_null(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", ())
    return "null" in ((kinds,) if isinstance(kinds, str) else kinds) or any(map(_takes_null, schema.get("anyOf", ())))


# Replies that are data: a JSON schema where the endpoint takes one, else tolerant reading and one repair turn.


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

    ``read`` reads a reply's text, where not only JSON will do. ``record`` is called with each answered call.
    Raises FormatError when the second reply is no such value either.
    """
    exchanges: list[tuple[Request, Reply]] = []

    async def ask(messages: Sequence[Message]) -> Reply:
        ordinal = request.ordinal + len(exchanges)
        numbered_request = replace(request, messages=tuple(messages), response_schema=schema, ordinal=ordinal)
        reply = await model.complete(numbered_request)
        record(numbered_request, reply)
        exchanges.append((numbered_request, reply))
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


# The probability of each label, from replies that are bound to the label by a schema.
#
# Each label is requested in turn. An endpoint that binds replies by a grammar and reports log-probabilities from before
# the grammar gives the probability of each token of a forced label. Their sum is the label's log-probability (the text
# before the label is the same in all replies), so the probabilities over all labels follow exactly, up to the
# tokenization of a label. It costs one call per label; all share one prompt, which servers cache.


_ROOM = 0.01
"""Tolerance: probabilities of different replies may sum to more than one through rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScores:
    """The probability of each label, summing to one; None with the reason where unavailable.

    ``exchanges``: the calls made, to be recorded.
    """

    probabilities: Mapping[str, float] | None
    unavailable: str = ""
    exchanges: tuple[tuple[Request, Reply], ...] = ()


async def score_labels(model: Model, request: Request, labels: Sequence[str]) -> LabelScores:
    """Score every label as the answer to a request; its ordinal is the first of ``len(labels)`` used ones.

    Raises ProviderError when an endpoint gives no reply.
    """
    requests = [_bound(request, label, index) for index, label in enumerate(labels)]
    first = await model.complete(requests[0])
    problem = _problem(first, labels[0])
    if problem:  # the other labels would fail in the same way
        return LabelScores(probabilities=None, unavailable=problem, exchanges=((requests[0], first),))
    replies = [first, *await asyncio.gather(*map(model.complete, requests[1:]))]
    exchanges = tuple(zip(requests, replies, strict=True))
    problems = [_problem(reply, label) for reply, label in zip(replies, labels, strict=True)]
    problem = next(filter(None, problems), "")
    if problem:
        return LabelScores(probabilities=None, unavailable=problem, exchanges=exchanges)
    return _normalised(labels, [math.fsum(reply.token_logprobs or ()) for reply in replies], exchanges)


def _bound(request: Request, label: str, index: int) -> Request:
    """Return the request whose only possible reply is ``label``.

    Sampling is greedy, so the text before the label is the same in all replies.
    """
    settings = replace(request.settings, temperature=0.0, top_p=None, token_logprobs=True)
    schema = {"type": "string", "enum": [label]}
    return replace(request, settings=settings, response_schema=schema, ordinal=request.ordinal + index, tools=())


def _problem(reply: Reply, label: str) -> str:
    """Return why a reply does not give the probability of its label; empty if it does."""
    value, _ = read_value(reply.message.content or "", {"type": "string"})
    if value != label:
        return "the endpoint does not bind a reply to a schema"
    return "" if reply.token_logprobs else "the endpoint reports no log-probabilities of tokens"


def _normalised(
    labels: Sequence[str], logarithms: Sequence[float], exchanges: tuple[tuple[Request, Reply], ...]
) -> LabelScores:
    """Turn the log-probabilities of whole replies into probabilities over the labels."""
    highest = max(logarithms)
    weights = [math.exp(value - highest) for value in logarithms]
    total = math.fsum(weights)
    if len(labels) > 1 and math.exp(highest) * total > 1 + _ROOM:
        # Different replies exclude each other, so these are the probabilities that the grammar left them: all one.
        reason = "the endpoint reports log-probabilities from after the schema was applied"
        return LabelScores(probabilities=None, unavailable=reason, exchanges=exchanges)
    shares = {label: weight / total for label, weight in zip(labels, weights, strict=True)}
    return LabelScores(probabilities=shares, exchanges=exchanges)
