"""Settings: how a room declares what a person may set, each once, with its default, its unit and where it comes from.

A section is a frozen dataclass whose fields are made by :func:`setting`. The name of a field is its name everywhere: in
a TOML file, in Python, and after ``--set`` on the command line.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from math import isfinite
from typing import Any, Literal, get_args, get_origin

from wardround.core.errors import UserError

_KEY = "setting"
kinds_of: Callable[[type], Mapping[str, Any]] = cache(typing.get_type_hints)
"""The types of a dataclass's fields by name, resolved once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is said of one setting. ``unit`` and ``source`` (paper, equation) may be empty; a number lies from ``least``
    to ``most``, and above ``above``. ``flag`` is its option on the command line where it is a common one."""

    help: str
    unit: str = ""
    source: str = ""
    flag: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """One setting of a section: its dotted name, its type, its default and what is said of it."""

    name: str
    kind: Any
    default: Any
    said: Setting


_UNSAID = Setting(help="")


def setting(default: Any, help: str, **said: Any) -> Any:
    """Declare a field of a section; ``said`` are fields of :class:`Setting`. ``dict`` for a table that begins empty."""
    first: dict[str, Any] = {"default_factory": dict} if default is dict else {"default": default}
    return field(**first, metadata={_KEY: Setting(help=help, **said)})


def check_settings(section: Any) -> None:
    """Raise UserError where a setting of a section is out of range or none of its choices; for ``__post_init__``."""
    kinds = kinds_of(type(section))
    for one in fields(section):
        said, value = one.metadata.get(_KEY), getattr(section, one.name)
        if said is None or value is None:
            continue
        _check_range(one.name, value, said)
        choices = choices_of(kinds[one.name])
        wrong = [part for part in (value if isinstance(value, tuple) else (value,)) if part not in choices]
        if choices and wrong:
            raise UserError(f"{one.name} must be one of {', '.join(map(str, choices))}, not {wrong[0]!r}")


def _check_range(name: str, value: Any, said: Setting) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise UserError(f"{name} must be a number, not {value!r}")
    if said.least is not None and not value >= said.least:
        raise UserError(f"{name} must be at least {said.least:g}, not {value!r}")
    if said.above is not None and not value > said.above:
        raise UserError(f"{name} must be above {said.above:g}, not {value!r}")
    if said.most is not None and not value <= said.most:
        raise UserError(f"{name} must be at most {said.most:g}, not {value!r}")


def leaves(section: Any, prefix: str = "") -> Iterator[SettingField]:
    """List the settings of a section and of the sections in it; ``section`` is one of them, or a class of them."""
    kinds = kinds_of(section if isinstance(section, type) else type(section))
    values = section() if isinstance(section, type) else section
    for one in fields(section):
        name, value = f"{prefix}{one.name}", getattr(values, one.name)
        if is_dataclass(value):
            yield from leaves(value, f"{name}.")
        else:
            yield SettingField(name=name, kind=kinds[one.name], default=value, said=one.metadata.get(_KEY, _UNSAID))


@cache
def choices_of(kind: Any) -> tuple[Any, ...]:
    """Return the values that a ``Literal`` (or an optional one) names; none of any other type."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((choices for part in get_args(kind) if (choices := choices_of(part))), ())
