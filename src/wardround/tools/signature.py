"""Tools from typed functions: schema from the signature, arguments read and checked."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from wardround.core import ToolFailure, UserError
from wardround.core.errors import nearest, unknown
from wardround.tools.definition import Category, Tool, ToolResult
from wardround.tools.page import Page
from wardround.tools.session import Session

# A tool from a typed function: its signature is the schema, its docstring the description, each written once.
#
#     @tool("record")
#     def get_latest_records(session: Session, page: Page, *, table_name: str) -> ToolResult:
#         """Rows at the latest time of a table."""
#
# What stands before the ``*`` is handed in by its type (the session, the page, or neither). What stands behind it is
# what the model gives: the annotation says the type, ``Annotated[str, "..."]`` what it means, ``Range`` its bounds.


_TYPES: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
SideReply = Callable[..., ToolResult | str]


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of a number argument, both included."""

    least: float | None = None
    most: float | None = None


def tool(
    category: Category,
    *,
    name: str = "",
    reads_only: bool = True,
    other_names: Mapping[str, str] | None = None,
    needs: str = "",
) -> Callable[[SideReply], Tool]:
    """Make a tool of the typed function that follows. A text that it returns is the whole result.

    ``name``: what the model calls it, by default the function's name. ``other_names``: names that an argument is also
    taken under. ``needs``: what has to be at hand for it. Raises UserError, at import, where a signature has no schema.
    """

    def made(function: SideReply) -> Tool:
        described = " ".join((inspect.getdoc(function) or "").split())
        if not described:
            raise UserError(f"tool {function.__qualname__} needs a docstring: it is what the model is told")
        handed, parameters = _read(function)
        return Tool(
            name=name or function.__name__,
            category=category,
            description=described,
            parameters=parameters,
            function=_callable(function, handed),
            reads_only=reads_only,
            other_names=other_names or {},
            needs=needs,
        )

    return made


def _callable(function: SideReply, handed: Sequence[type]) -> Callable[..., ToolResult]:
    places = [(Session, Page).index(kind) for kind in handed]

    def call(session: Session, page: Page, **arguments: Any) -> ToolResult:
        given = (session, page)
        result = function(*[given[place] for place in places], **arguments)
        return ToolResult(text=result) if isinstance(result, str) else result

    return call


def _read(function: SideReply) -> tuple[list[type], dict[str, Any]]:
    """Return what is handed in, in order, and the JSON schema of the arguments."""
    hints = get_type_hints(function, include_extras=True)
    handed: list[type] = []
    properties: dict[str, dict[str, Any]] = {}
    required: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            if hint not in (Session, Page):
                raise _no_schema(function, parameter.name, "write the model's arguments behind a '*'")
            handed.append(hint)
            continue
        properties[parameter.name] = _property(function, parameter, hint)
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    return handed, {"type": "object", "properties": properties, "required": required}


def _property(function: SideReply, parameter: inspect.Parameter, hint: Any) -> dict[str, Any]:
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    try:
        schema = schema_of(_given(hint) if parameter.default is None else hint)
    except TypeError as error:
        raise _no_schema(function, parameter.name, str(error)) from error
    for extra in extras:
        if isinstance(extra, Range):
            bounds = {"minimum": extra.least, "maximum": extra.most}
            schema |= {key: value for key, value in bounds.items() if value is not None}
    if parameter.default not in (inspect.Parameter.empty, None):
        schema["default"] = parameter.default
    descriptions = [extra for extra in extras if isinstance(extra, str)]
    return schema | ({"description": " ".join(descriptions)} if descriptions else {})


def _given(hint: Any) -> Any:
    """Return the type of an optional argument, without the None that marks it as optional."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    kept = tuple(part for part in get_args(bare) if part is not type(None))
    return Union[kept] if get_origin(bare) in (Union, types.UnionType) else bare  # noqa: UP007 - made at run time


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a type; TypeError where it has none here.

    Every list says what it holds and every object which fields it has, as strict endpoints ask.

    >>> schema_of(list[str])
    {'type': 'array', 'items': {'type': 'string'}}
    """
    origin = get_origin(hint)
    if origin is Annotated:
        return schema_of(get_args(hint)[0])
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if origin in (Union, types.UnionType):
        return _either([schema_of(part) for part in get_args(hint)])
    if is_typeddict(hint):
        members = get_type_hints(hint, include_extras=True)
        fields = {name: schema_of(member) for name, member in members.items()}
        return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    if origin in (list, Sequence) and get_args(hint) != (Any,):
        return {"type": "array", "items": schema_of(get_args(hint)[0])}
    kind = _TYPES.get(hint)
    if kind is None:
        raise TypeError(f"{hint!r} is none of str, int, float, bool, list[...], a TypedDict, Literal and their unions")
    return {"type": kind}


def _either(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if all(set(part) == {"type"} for part in parts):
        return {"type": [part["type"] for part in parts]}
    return {"anyOf": list(parts)}


def _no_schema(function: SideReply, name: str, why: str) -> UserError:
    return UserError(f"tool {function.__qualname__}: argument {name!r} has no schema: {why}")


# Reading a tool call's arguments: the text a model wrote becomes checked keyword arguments, or a clear error.
#
# A small subset of JSON schema is enough (type, anyOf, items, enum, default, minimum, maximum). Harmless slips are
# mended (``"5"`` for 5, one string for a list of one, JSON inside a string). An optional argument that cannot be read
# is left out with a note; everything else is a ToolFailure that names the argument, what was wrong and what would be
# right.


MOST_CHARACTERS = 100_000
"""Of all that one call says: four times what a whole reply usually has. Likeness to a longer name takes seconds."""
_BOUND_CATEGORIES = frozenset({"record", "table", "candidate"})
_MISSING = object()


def read_arguments(
    tool: Tool, arguments: str | Mapping[str, Any], *, subject_id: int
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the validated arguments of one call, and a note for each optional one that could not be read.

    ``subject_id`` is the session's: any other value is refused (ToolFailure).
    """
    given, broken = _as_mapping(tool, arguments)
    if _characters(given) > MOST_CHARACTERS:
        raise ToolFailure(f"{tool.name}: the arguments are longer than {MOST_CHARACTERS:,} characters; send fewer.")
    if tool.category in _BOUND_CATEGORIES and "subject_id" not in _properties(tool):
        _check_subject(given.pop("subject_id", None), subject_id)
    properties = _properties(tool)
    for other, name in tool.other_names.items():
        if other in given and name not in given:
            given[name] = given.pop(other)
    for name in given:
        if name not in properties:
            raise ToolFailure(_unknown_argument(tool, name))
    values: dict[str, Any] = {}
    notes = [broken] if broken else []
    for name, schema in properties.items():
        value = given.get(name, _MISSING)
        if value is _MISSING or (value is None and "null" not in _types(schema)):
            if name in tool.parameters.get("required", ()):
                raise ToolFailure(f"{tool.name} needs the argument {name!r} ({_wanted(schema)}).")
            if "default" in schema:
                values[name] = schema["default"]
            continue
        try:
            values[name] = _coerce(value, schema, f"{tool.name}: {name!r}")
        except ToolFailure as failure:
            if name in tool.parameters.get("required", ()):
                raise
            values |= {name: schema["default"]} if "default" in schema else {}
            notes.append(f"{failure} The call was made without it.")
    return values, tuple(notes)


def _properties(tool: Tool) -> Mapping[str, Mapping[str, Any]]:
    properties: Mapping[str, Mapping[str, Any]] = tool.parameters.get("properties", {})
    return properties


def _as_mapping(tool: Tool, arguments: str | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the members of the arguments, and a note where only those before a mistake could be read."""
    value: Any = arguments
    note = ""
    for _ in range(2):  # some models encode the object twice
        if isinstance(value, str):
            value, note = _parse(tool, value)
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise ToolFailure(f"{tool.name}: arguments must be a JSON object, got {_kind(value)}. Example: {example(tool)}")
    return {str(name): item for name, item in value.items()}, note


def _parse(tool: Tool, text: str) -> tuple[Any, str]:
    """Read JSON. Where it breaks behind every required argument, those that are whole are taken, with a note."""
    if not text.strip():
        return {}, ""
    try:
        return json.loads(text, strict=False), ""
    except (ValueError, RecursionError) as error:
        whole, required = _whole_members(text), tool.parameters.get("required", ())
        if required and all(name in whole for name in required):
            last = list(whole)[-1]
            return whole, f"{tool.name}: not valid JSON behind {last!r} ({error}); that part was left out."
        raise ToolFailure(
            f"{tool.name}: the arguments are not valid JSON ({error}). "
            f"Send one JSON object, for example {example(tool)}"
        ) from error


def _whole_members(text: str) -> dict[str, Any]:
    """Return the members of an object that stand whole before its first mistake."""
    decoder, found = json.JSONDecoder(strict=False), {}
    place = _behind_space(text, 0)
    opening = "{"
    try:
        while text[place] == opening:
            name, place = decoder.raw_decode(text, _behind_space(text, place + 1))
            place = _behind_space(text, place)
            if not isinstance(name, str) or text[place] != ":":
                break
            value, place = decoder.raw_decode(text, _behind_space(text, place + 1))
            place = _behind_space(text, place)
            if text[place] not in ",}":
                break
            found[name], opening = value, ","
    except (ValueError, IndexError, RecursionError):
        return found
    return found


def _behind_space(text: str, place: int) -> int:
    while text[place].isspace():
        place += 1
    return place


def _characters(value: Any) -> int:
    """Return the number of characters in a value; a value without text counts as one."""
    if isinstance(value, Mapping):
        return sum(len(name) + _characters(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str) else 1


def example(tool: Tool) -> str:
    """Return a made-up arguments object of the right shape."""
    required = tool.parameters.get("required", ())
    shown = {name: _example_value(schema) for name, schema in _properties(tool).items() if name in required}
    return json.dumps(shown)


def _example_value(schema: Mapping[str, Any]) -> Any:
    first = _types(schema)[0] if _types(schema) else "string"
    return {"string": "...", "array": ["..."], "integer": 1, "number": 1.0, "boolean": True}.get(first, {})


def _check_subject(value: Any, subject_id: int) -> None:
    if value is None or str(value).strip() in ("", str(subject_id)):
        return
    if isinstance(value, float) and value == subject_id:
        return
    raise ToolFailure(
        f"this session is bound to subject {subject_id}; records of subject {value!r} cannot be opened. "
        "Leave out 'subject_id'."
    )


def _unknown_argument(tool: Tool, name: str) -> str:
    names = list(_properties(tool))
    if not names:
        return f"{tool.name} takes no argument {name!r}; it takes none at all."
    close = nearest(name, names, limit=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{tool.name} takes no argument {name!r}.{hint} It takes: {', '.join(names)}."


def clean_text(text: str) -> str:
    """Replace half surrogate pairs, which JSON can carry and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = schema.get("type", ())
    return (wanted,) if isinstance(wanted, str) else tuple(wanted)


def _wanted(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(repr, schema["enum"]))
    return " or ".join(_types(schema)) or "any value"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _coerce(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    if "anyOf" in schema:
        return _any_of(value, schema["anyOf"], where)
    types = _types(schema)
    if isinstance(value, str) and not value.isascii():
        value = clean_text(value)
    for kind in types:
        if _is(value, kind):
            return _checked(value, kind, schema, where)
    for kind in types:
        mended = _mend(value, kind, schema)
        if mended is not _MISSING:
            return _checked(mended, kind, schema, where)
    if not types:
        return value
    raise ToolFailure(f"{where} must be {_wanted(schema)}, got {_kind(value)}: {_short(value)}.")


def _is(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "array":
        return isinstance(value, list | tuple) or (isinstance(value, str) and isinstance(_json_or_none(value), list))
    if kind == "object":
        return isinstance(value, Mapping) or (isinstance(value, str) and isinstance(_json_or_none(value), dict))
    return value is None


def _json_or_none(text: str) -> Any:
    if text.strip()[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _any_of(value: Any, options: Sequence[Mapping[str, Any]], where: str) -> Any:
    """Return the value by the option of its type, else by the first option that can repair it. Raises ToolFailure if
    none can."""
    failures = []
    for option in sorted(options, key=lambda option: not any(_is(value, kind) for kind in _types(option))):
        try:
            return _coerce(value, option, where)
        except ToolFailure as failure:
            failures.append(failure)
    raise failures[0]


def _mend(value: Any, kind: str, schema: Mapping[str, Any]) -> Any:
    if kind == "string" and isinstance(value, int | float):
        return json.dumps(value)
    if kind == "array" and isinstance(value, Mapping):
        return _as_entries(value, list(schema.get("items", {}).get("properties", ())))
    if kind == "array" and isinstance(value, str | int | float):
        return [value]
    if kind == "boolean" and str(value).strip().casefold() in ("true", "false"):
        return str(value).strip().casefold() == "true"
    if kind in ("integer", "number") and isinstance(value, str | float):
        return _number(value, kind)
    return _MISSING


def _as_entries(value: Mapping[str, Any], fields: Sequence[str]) -> Any:
    """Return a list of entries from one entry, or from an object of pairs if an entry has two fields."""
    if fields and set(fields) <= set(value):
        return [dict(value)]
    if len(fields) != 2:
        return _MISSING
    return [dict(zip(fields, pair, strict=True)) for pair in value.items()]


def _number(value: str | float, kind: str) -> Any:
    try:
        number = float(value)
    except ValueError:
        return _MISSING
    if kind == "number":
        return number
    return int(number) if number.is_integer() else _MISSING


def _checked(value: Any, kind: str, schema: Mapping[str, Any], where: str) -> Any:
    if kind in ("array", "object") and isinstance(value, str):
        value = _json_or_none(value)
    if kind == "array" and "items" in schema:
        value = [_coerce(item, schema["items"], f"{where} item {index}") for index, item in enumerate(value)]
    if "enum" in schema:
        return _from_enum(value, schema, where)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and value < low:
        raise ToolFailure(f"{where} must be at least {low}, got {value}.")
    if high is not None and value > high:
        raise ToolFailure(f"{where} must be at most {high}, got {value}.")
    return value


def _from_enum(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    folded = {str(choice).casefold(): choice for choice in schema["enum"]}
    choice = folded.get(str(value).strip().casefold(), _MISSING)
    if choice is _MISSING:
        raise ToolFailure(f"{where}: " + unknown("value", str(value), map(str, schema["enum"])))
    return choice


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
