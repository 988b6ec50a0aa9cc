"""A tool from a typed function: its signature is the schema, its docstring the description, each written once.

    @tool("record")
    def get_latest_records(session: Session, page: Page, *, table_name: RecordTable) -> ToolResult:
        \"\"\"Rows at the latest time of a table.\"\"\"

What stands before the ``*`` is handed in by its type (the session, the page, or neither). What stands behind it is
what the model gives: the annotation says the type, ``Annotated[str, "..."]`` what it means, ``Range`` its bounds.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from wardround.core import UserError
from wardround.tools.definition import Category, Tool
from wardround.tools.page import Page
from wardround.tools.result import ToolResult
from wardround.tools.session import Session

_TYPES: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
Written = Callable[..., ToolResult | str]


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
) -> Callable[[Written], Tool]:
    """Make a tool of the typed function that follows. A text that it returns is the whole result.

    ``name``: what the model calls it, by default the function's name. ``other_names``: names that an argument is also
    taken under. ``needs``: what has to be at hand for it. Raises UserError, at import, where a signature has no schema.
    """

    def made(function: Written) -> Tool:
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


def _callable(function: Written, handed: Sequence[type]) -> Callable[..., ToolResult]:
    places = [(Session, Page).index(kind) for kind in handed]

    def call(session: Session, page: Page, **arguments: Any) -> ToolResult:
        given = (session, page)
        result = function(*[given[place] for place in places], **arguments)
        return ToolResult(text=result) if isinstance(result, str) else result

    return call


def _read(function: Written) -> tuple[list[type], dict[str, Any]]:
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


def _property(function: Written, parameter: inspect.Parameter, hint: Any) -> dict[str, Any]:
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
    said = [extra for extra in extras if isinstance(extra, str)]
    return schema | ({"description": " ".join(said)} if said else {})


def _given(hint: Any) -> Any:
    """The type of an argument that may be left out, without the None that stands for that."""
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


def _no_schema(function: Written, name: str, why: str) -> UserError:
    return UserError(f"tool {function.__qualname__}: argument {name!r} has no schema: {why}")
