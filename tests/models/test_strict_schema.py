"""Every schema that a model is sent, held against the subset that strict endpoints document; and an endpoint that asks
for the strict form."""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import wardround
from fake_server import Answer, FakeServer, error, text
from wardround.core import Message, ToolSchema
from wardround.models import DataUseGuard, ModelConfig, Request, open_model
from wardround.models.schema import complete_structured, from_strict_form, in_strict_form, refuses_form, strict_form
from wardround.tools import TOOLS

TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
STRICT_KEYWORDS = {
    *("type", "description", "enum", "anyOf", "properties", "required", "additionalProperties", "items"),
    *("minimum", "maximum", "minItems", "maxItems", "pattern", "format", "multipleOf"),
}
MOST_DEPTH, MOST_FIELDS = 10, 5000


def problems(schema: Mapping[str, Any], *, strict: bool, where: str = "schema", depth: int = 0) -> list[str]:
    """What the public documentation of structured outputs does not allow; the plain form: what any endpoint may ask."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    found = [f"{where}: type {kind}" for kind in kinds if kind not in TYPES]
    if not kinds and not {"enum", "anyOf", "const"} & set(schema):
        found.append(f"{where}: no type")
    if "array" in kinds and "items" not in schema:
        found.append(f"{where}: array schema missing items")
    if "object" in kinds and "properties" not in schema:
        found.append(f"{where}: object schema missing properties")
    if strict:
        found += [f"{where}: {key} is not permitted" for key in set(schema) - STRICT_KEYWORDS]
        found += [f"{where}: nested too deep"] * (depth > MOST_DEPTH)
        if "object" in kinds and schema.get("additionalProperties") is not False:
            found.append(f"{where}: additionalProperties must be false")
        if "object" in kinds and set(schema.get("required", ())) != set(schema.get("properties", ())):
            found.append(f"{where}: required must name every property")
    members = [(f"{where}.{name}", part) for name, part in schema.get("properties", {}).items()]
    members += [(f"{where}[]", schema["items"])] if "items" in schema else []
    members += [(f"{where}|", part) for part in schema.get("anyOf", ())]
    for name, part in members:
        found += problems(part, strict=strict, where=name, depth=depth + 1)
    return found


def reply_schemas() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema that stands in a module of the package under a name."""
    for module in pkgutil.walk_packages(wardround.__path__, "wardround."):
        if module.name.startswith(("wardround.learning.adapters", "wardround.records", "wardround.__main__")):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            sent = name != "_OBJECTS"  # of memory/extract.py: what a reply is read by, never sent
            if sent and isinstance(value, dict) and value.get("type") in ("object", "array") and len(value) > 1:
                yield f"{module.name}.{name}", value


@pytest.mark.parametrize("tool", TOOLS.registered, ids=lambda tool: tool.name)
def test_every_tool_can_be_sent_in_both_forms(tool: Any) -> None:
    assert problems(tool.parameters, strict=False) == []
    (strict,) = in_strict_form(Request(messages=(), tools=(tool.schema,), episode="e")).tools
    assert problems(strict.parameters, strict=True) == []
    assert strict.to_wire()["function"]["strict"] is True


def test_every_reply_schema_can_be_sent_in_both_forms() -> None:
    schemas = dict(reply_schemas())
    assert len(schemas) > 20
    for name, schema in schemas.items():
        assert problems(schema, strict=False) == [], name
        bound = in_strict_form(Request(messages=(), episode="e", response_schema=schema)).response_schema
        assert bound is not None
        assert bound["type"] == "object", name
        assert problems(bound, strict=True) == [], name


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"type": ["object", "array"]},
            ["schema: array schema missing items", "schema: object schema missing properties"],
        ),
        ({"type": "array", "items": {}}, ["schema[]: no type"]),
        ({"type": "strnig"}, ["schema: type strnig"]),
    ],
)
def test_the_validator_sees(schema: dict[str, Any], said: list[str]) -> None:
    assert problems(schema, strict=False) == said


def test_strict_form_allows_the_same_values() -> None:
    schema = {
        "type": "object",
        "properties": {
            "why": {"type": "string", "maxLength": 9},
            "limit": {"type": "integer", "minimum": 1, "default": 5, "description": "Rows."},
            "kind": {"const": "a"},
        },
        "required": ["kind"],
    }
    assert strict_form(schema) == {
        "type": "object",
        "properties": {
            "why": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "limit": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                "description": "Rows. Null: 5.",
            },
            "kind": {"enum": ["a"]},
        },
        "required": ["why", "limit", "kind"],
        "additionalProperties": False,
    }
    assert from_strict_form({"why": None, "limit": 3, "kind": None}, schema) == {"limit": 3, "kind": None}
    listed = {"type": "array", "items": schema}
    assert from_strict_form({"value": [{"why": None, "kind": "a"}]}, listed) == [{"kind": "a"}]
    nullable = {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}
    assert from_strict_form({"x": None}, nullable) == {"x": None}, "a null of its own"


@pytest.mark.parametrize(
    ("message", "strict"),
    [
        (
            "Invalid schema for function 'finish': In context=('properties', 'evidence'), array schema missing items.",
            True,
        ),
        ("Invalid schema for response_format 'answer': schema must be a JSON Schema of 'type: \"object\"'", True),
        ("response_format is not supported", False),
        ("unknown model", False),
    ],
)
def test_which_errors_ask_for_the_strict_form(message: str, strict: bool) -> None:
    assert refuses_form(400, message) is strict
    assert not refuses_form(500, message)


def test_an_endpoint_that_is_strict_is_asked_strictly_from_then_on() -> None:
    schema = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["a"],
        },
    }
    tool = ToolSchema(
        name="look",
        description="Look.",
        parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": []},
    )

    def answer(body: Any) -> Answer:
        sent = [one["function"]["parameters"] for one in body.get("tools", ())]
        sent += [body["response_format"]["json_schema"]["schema"]] if "response_format" in body else []
        wrong = [one for part in sent for one in problems(part, strict=True)]
        wrong += [] if all(part["type"] == "object" for part in sent) else ["schema must be of type object"]
        return (
            error(400, f"Invalid schema: {wrong[0]}") if wrong else text(json.dumps({"value": [{"a": "x", "b": None}]}))
        )

    async def ask_twice(url: str) -> list[Any]:
        model = open_model(ModelConfig(name="openai/m", base_url=url, guard=DataUseGuard()))
        request = Request(messages=(Message(role="user", content="hello"),), tools=(tool,), episode="e")
        found = [(await complete_structured(model, request, schema)).value for _ in range(2)]
        await model.close()
        return found

    with FakeServer(answer, models=("m",)) as server:
        assert asyncio.run(ask_twice(server.url)) == [[{"a": "x"}]] * 2
    assert len(server.requests) == 3, "refused once"
