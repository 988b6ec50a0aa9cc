"""Read TOML files and command-line values into dataclasses, strictly.

An unknown name is an error with the nearest known one; a value of another type is an error with its place.
"""

from __future__ import annotations

import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from wardround.core.errors import UserError
from wardround.core.settings import choices_of, kinds_of

T = TypeVar("T")
_NO_PARSERS: Mapping[type, Callable[[str], Any]] = types.MappingProxyType({})

_WHERE = re.compile(r" - at `\$?(?P<where>[^`]*)`$")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. UserError names the file and the place in it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{str(path)!r} is not valid TOML: {error}") from error


def strict(kind: type[T], body: Any, where: str, parsers: Mapping[type, Callable[[str], Any]] = _NO_PARSERS) -> T:
    """Convert a parsed body to a dataclass.

    ``where`` names the place in errors, for example ``my.toml [budget]``; ``parsers`` read fields of further types
    from text.
    """
    _refuse_unknown(kind, body, where, parsers)
    try:
        return msgspec.convert(body, kind, dec_hook=lambda part, text: parsers[part](text))
    except msgspec.ValidationError as error:
        raise UserError(_readable(str(error), where)) from None
    except UserError as error:  # a section's own check
        raise UserError(f"{where}: {error}") from None


def refuse_unknown(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise UserError for the first unknown name, with the nearest known one."""
    known_names = list(known)
    for name in names:
        if name not in known_names:
            near = get_close_matches(name, known_names, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UserError(f"{where}: there is no {name!r}.{hint} There are: {', '.join(known_names)}")


def _refuse_unknown(kind: Any, body: Any, where: str, parsers: Mapping[type, Callable[[str], Any]]) -> None:
    """Check nested sections, lists and tables.

    msgspec ignores unknown fields and does not name the place of a text that cannot be parsed.
    """
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(body, Mapping):
        kinds = kinds_of(kind)
        refuse_unknown(body, (field_.name for field_ in fields(kind) if field_.init), where)
        for name, value in body.items():
            _refuse_unknown(kinds[name], value, f"{where} {name}", parsers)
            choices = choices_of(kinds[name])
            if choices and isinstance(value, str) and value not in choices:
                raise UserError(f"{where} {name} must be one of {', '.join(map(str, choices))}, not {value!r}")
        return
    if get_origin(kind) is Literal and isinstance(body, str):
        refuse_unknown([body], get_args(kind), where)
        return
    inner = [part for part in get_args(kind) if part is not types.NoneType]
    for part in (kind, *inner):
        if isinstance(body, str) and part in parsers:
            try:
                parsers[part](body)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
    if isinstance(body, Mapping) and inner and isinstance(get_origin(kind), type) and len(inner) == 2:
        for name, value in body.items():
            _refuse_unknown(inner[0], name, where, parsers)
            _refuse_unknown(inner[1], value, f"{where} {name}", parsers)
        return
    for value in body if isinstance(body, (list, tuple)) else ():
        for part in inner:
            _refuse_unknown(part, value, where, parsers)
    if isinstance(body, Mapping) and get_origin(kind) in (typing.Union, types.UnionType):
        for part in inner:
            _refuse_unknown(part, body, where, parsers)


def _readable(message: str, where: str) -> str:
    """Turn ``Expected `int`, got `str` - at `$.window``` into ``<where> window: expected int, got str``."""
    match = _WHERE.search(message)
    place = f" {match['where'].lstrip('.')}" if match and match["where"] else ""
    text = _WHERE.sub("", message).replace("`", "")
    return f"{where}{place}: {text[:1].lower()}{text[1:]}"
