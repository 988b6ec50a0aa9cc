"""Settings: each section declares its settings once, with default, unit and source, and is read strictly.

A section is a frozen dataclass whose fields are made by :func:`setting`. The name of a field is its name everywhere:
in a TOML file, in Python, and after ``--set`` on the command line.
"""

from __future__ import annotations

import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from wardround.core.errors import UserError

_KEY = "setting"
kinds_of: Callable[[type], Mapping[str, Any]] = cache(typing.get_type_hints)
"""The types of a dataclass's fields by name, resolved once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The declaration of one setting.

    ``unit`` and ``source`` (paper, equation) may be empty. A number must be between ``least`` and ``most`` and greater
    than ``above``. ``flag`` is its own command-line option, for common settings.
    """

    help: str
    unit: str = ""
    source: str = ""
    flag: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """One setting of a section: dotted name, type, default and declaration."""

    name: str
    kind: Any
    default: Any
    setting: Setting


_UNDECLARED = Setting(help="")


def setting(default: Any, help: str, **options: Any) -> Any:
    """Declare a field of a section; ``options`` are fields of :class:`Setting`.

    ``dict`` as default gives an empty table.
    """
    defaults: dict[str, Any] = {"default_factory": dict} if default is dict else {"default": default}
    return field(**defaults, metadata={_KEY: Setting(help=help, **options)})


def check_settings(section: Any) -> None:
    """Raise UserError where a setting is out of range or not a valid choice; for ``__post_init__``."""
    kinds = kinds_of(type(section))
    for section_field in fields(section):
        declared, value = section_field.metadata.get(_KEY), getattr(section, section_field.name)
        if declared is None or value is None:
            continue
        _check_range(section_field.name, value, declared)
        choices = choices_of(kinds[section_field.name])
        invalid = [part for part in (value if isinstance(value, tuple) else (value,)) if part not in choices]
        if choices and invalid:
            raise UserError(f"{section_field.name} must be one of {', '.join(map(str, choices))}, not {invalid[0]!r}")


def _check_range(name: str, value: Any, declared: Setting) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise UserError(f"{name} must be a number, not {value!r}")
    if declared.least is not None and not value >= declared.least:
        raise UserError(f"{name} must be at least {declared.least:g}, not {value!r}")
    if declared.above is not None and not value > declared.above:
        raise UserError(f"{name} must be above {declared.above:g}, not {value!r}")
    if declared.most is not None and not value <= declared.most:
        raise UserError(f"{name} must be at most {declared.most:g}, not {value!r}")


def leaves(section: Any, prefix: str = "") -> Iterator[SettingField]:
    """Yield the settings of a section, given as object or class, and of its nested sections."""
    kinds = kinds_of(section if isinstance(section, type) else type(section))
    for section_field in fields(section):
        name, value = f"{prefix}{section_field.name}", _value(section, section_field)
        if is_dataclass(value):
            yield from leaves(value, f"{name}.")
        else:
            yield SettingField(
                name=name,
                kind=kinds[section_field.name],
                default=value,
                setting=section_field.metadata.get(_KEY, _UNDECLARED),
            )


def _value(section: Any, section_field: Field[Any]) -> Any:
    """Return a field of an object; of a class its default."""
    if not isinstance(section, type):
        return getattr(section, section_field.name)
    made = section_field.default_factory
    return section_field.default if made is MISSING else made()


@cache
def choices_of(kind: Any) -> tuple[Any, ...]:
    """Return the values of a ``Literal`` (or an optional one); empty for any other type."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((choices for part in get_args(kind) if (choices := choices_of(part))), ())


# TOML files and command-line values read into dataclasses, strictly: an unknown name is an error with the nearest known
# one; a value of another type is an error with its place.


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


# Nested tables of settings, and their dotted names.


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables with what the second says put over the first."""
    both = dict(below)
    for name, value in above.items():
        held = both.get(name)
        both[name] = merged(held, value) if isinstance(held, Mapping) and isinstance(value, Mapping) else value
    return both


def nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables of dotted names: ``{"budget.turns": 3}`` is ``{"budget": {"turns": 3}}``."""
    body: dict[str, Any] = {}
    for name, value in dotted.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        body = merged(body, value)
    return body


def flat(body: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Inverse of :func:`nested`; an empty table is left out."""
    found: dict[str, Any] = {}
    for name, value in body.items():
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
        found |= inner
    return found
