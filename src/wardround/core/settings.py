"""Settings: each section declares its settings once, with default, unit and source.

A section is a frozen dataclass whose fields are made by :func:`setting`. The name of a field is its name everywhere:
in a TOML file, in Python, and after ``--set`` on the command line.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from math import isfinite
from typing import Any, Literal, get_args, get_origin

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
