"""A small JSON-schema check: the keywords our own schemas use. An unknown keyword is a ValueError, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def violation(value: Any, schema: Mapping[str, Any], where: str = "the value") -> str | None:
    """Return what breaks the schema, in words for the model, or None when nothing does."""
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
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else list(wanted or ())
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
