"""Schemas in the strict form that some hosted endpoints ask for: closed objects, every field required, no defaults.

What may be left out is required and may be null there, and a reply that is no object is the field ``value`` of one;
both are undone when the reply is read. An endpoint that refuses a schema for its form is asked in the strict form from
then on (`models/client.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wardround.core import ToolSchema
from wardround.models.protocol import Request

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
