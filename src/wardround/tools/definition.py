"""Define a tool: its schema from a function's signature, and a call's arguments read and checked by it."""

from __future__ import annotations

import inspect
import json
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from wardround.core import ToolFailure, ToolSchema, UserError
from wardround.core.errors import nearest, unknown
from wardround.tools.session import Page, Session, ToolResult

Category = Literal["inner", "record", "table", "candidate", "knowledge", "web", "image", "retrieval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool; ``tool`` makes it of a typed function.

    ``function`` takes the session, the page and the validated arguments as keywords and returns a ToolResult. It raises
    ToolFailure with a message that helps the model to correct its call. ``reads_only`` calls may run in parallel; calls
    of a tool with a state or a model of its own may not. ``other_names`` are accepted aliases of arguments. ``needs``
    is a required ability (of image tools): without it, the tool is listed and not offered.
    """

    name: str
    category: Category
    description: str
    parameters: Mapping[str, Any]
    function: Callable[..., ToolResult]
    reads_only: bool = True
    other_names: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""

    @property
    def schema(self) -> ToolSchema:
        """The schema that the model reads."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters)


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
        parts = [schema_of(part) for part in get_args(hint)]
        is_plain = all(set(part) == {"type"} for part in parts)
        return {"type": [part["type"] for part in parts]} if is_plain else {"anyOf": parts}
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
_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")


def read_arguments(
    tool: Tool, arguments: str | Mapping[str, Any], *, subject_id: int
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the validated arguments of one call, and a note for each optional one that could not be read.

    ``subject_id`` is the session's: any other value is refused (ToolFailure).
    """
    given, broken = _members(tool, arguments)
    if _characters(given) > MOST_CHARACTERS:
        raise ToolFailure(f"{tool.name}: the arguments are longer than {MOST_CHARACTERS:,} characters; send fewer.")
    properties, required = tool.parameters["properties"], tool.parameters.get("required", ())
    if "subject_id" in given and "subject_id" not in properties and tool.category in _BOUND_CATEGORIES:
        _check_subject(given.pop("subject_id"), subject_id)
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
            if name in required:
                raise ToolFailure(f"{tool.name} needs the argument {name!r} ({_wanted(schema)}).")
        else:
            try:
                values[name] = _coerce(value, schema, f"{tool.name}: {name!r}")
                continue
            except ToolFailure as failure:
                if name in required:
                    raise
                notes.append(f"{failure} The call was made without it.")
        if "default" in schema:
            values[name] = schema["default"]
    return values, tuple(notes)


def _members(tool: Tool, arguments: str | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
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
    kinds = {name: (*_types(schema), "string")[0] for name, schema in tool.parameters["properties"].items()}
    values = {"string": "...", "array": ["..."], "integer": 1, "number": 1.0, "boolean": True}
    return json.dumps({name: values.get(kind, {}) for name, kind in kinds.items() if name in required})


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
    names = list(tool.parameters["properties"])
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
    if isinstance(value, float) and not math.isfinite(value):
        return "no finite number"
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _coerce(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    """Return a value as its schema has it, mended where the slip is harmless; else ToolFailure."""
    if "anyOf" in schema:
        return _any_of(value, schema["anyOf"], where)
    if isinstance(value, str) and not value.isascii():
        value = clean_text(value)
    types = _types(schema)
    if not types:
        return value
    readings = (read(value, kind, schema) for read in (_as_it_is, _mend) for kind in types)
    found = next((one for one in readings if one is not _MISSING), _MISSING)
    if found is _MISSING:
        text = repr(value)
        short = text if len(text) <= 80 else text[:77] + "..."
        raise ToolFailure(f"{where} must be {_wanted(schema)}, got {_kind(value)}: {short}.")
    if "items" in schema and isinstance(found, list | tuple):
        found = [_coerce(item, schema["items"], f"{where} item {index}") for index, item in enumerate(found)]
    if "enum" in schema:
        return _from_enum(found, schema, where)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and found < low:
        raise ToolFailure(f"{where} must be at least {low}, got {found}.")
    if high is not None and found > high:
        raise ToolFailure(f"{where} must be at most {high}, got {found}.")
    return found


_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}


def _as_it_is(value: Any, kind: str, schema: Mapping[str, Any]) -> Any:
    """Return a value of a kind, or the list or object that a text is in JSON; ``_MISSING`` if it is neither."""
    if isinstance(value, str) and kind in ("array", "object"):
        value = _json_or_none(value)
    same = isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if isinstance(value, float) and not math.isfinite(value):  # Python's JSON reads NaN and Infinity
        return _MISSING
    return value if same else _MISSING


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

    def is_another(option: Mapping[str, Any]) -> bool:
        return all(_as_it_is(value, kind, option) is _MISSING for kind in _types(option))

    for option in sorted(options, key=is_another):
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
        if kind == "integer" and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
            return int(value)  # a float holds no more than 15 digits
        try:
            number = float(value)
        except ValueError:
            return _MISSING
        if not math.isfinite(number):
            return _MISSING
        if kind == "number":
            return number
        return int(number) if number.is_integer() else _MISSING
    return _MISSING


def _as_entries(value: Mapping[str, Any], fields: Sequence[str]) -> Any:
    """Return a list of entries from one entry, or from an object of pairs if an entry has two fields."""
    if fields and set(fields) <= set(value):
        return [dict(value)]
    if len(fields) != 2:
        return _MISSING
    return [dict(zip(fields, pair, strict=True)) for pair in value.items()]


def _from_enum(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    folded = {str(choice).casefold(): choice for choice in schema["enum"]}
    choice = folded.get(str(value).strip().casefold(), _MISSING)
    if choice is _MISSING:
        raise ToolFailure(f"{where}: " + unknown("value", str(value), map(str, schema["enum"])))
    return choice
